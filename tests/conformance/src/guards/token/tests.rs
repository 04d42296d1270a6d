use super::{Node, tokens, tree};

/// The tree in brackets of one kind each.
fn shape(sql: &str, nodes: &[Node]) -> String {
    let shape = |node: &Node| match node {
        Node::Leaf(span) => sql[span.clone()].to_owned(),
        Node::Group(_, inner) => format!("({})", shape(sql, inner)),
        Node::Case(_, inner) => format!("[{}]", shape(sql, inner)),
    };
    nodes.iter().map(shape).collect::<Vec<_>>().join(" ")
}

fn of(sql: &str) -> String {
    shape(sql, &tree(sql))
}

#[test]
fn words_and_operators_are_apart() {
    assert_eq!(of("a.b<>$1::text AND c<=?2"), "a . b <> $1 :: text AND c <= ?2");
    assert_eq!(of("a||b>=-1"), "a || b >= - 1");
}

#[test]
fn literals_are_whole() {
    assert_eq!(of("x = 'a (b' AND \"order by\" = 1"), "x = 'a (b' AND \"order by\" = 1");
    // Every byte of it, beyond ASCII, too.
    let sql = "x = 'schlüssel' AND y";
    let literal = tokens(sql).into_iter().nth(2).expect("it is the third");
    assert_eq!(&sql[literal], "'schlüssel'");
}

#[test]
fn brackets_and_cases_nest() {
    assert_eq!(
        of("SELECT (CASE WHEN (a) THEN f(b, CASE c END) end)"),
        "SELECT ([WHEN (a) THEN f (b , [c])])"
    );
}

#[test]
fn a_group_spans_its_brackets() {
    let sql = "a (b c) d";
    let spans: Vec<&str> = tree(sql).iter().map(|node| &sql[node.span()]).collect();
    assert_eq!(spans, ["a", "(b c)", "d"]);
}

#[test]
#[should_panic(expected = "is not closed")]
fn what_is_not_closed_is_no_statement() {
    tree("SELECT (a");
}

#[test]
#[should_panic(expected = "closed that was not opened")]
fn what_was_not_opened_is_no_statement() {
    tree("SELECT a) FROM b");
}
