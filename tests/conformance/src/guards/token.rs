//! SQL as a tree of words and brackets; as much of its grammar as it takes to find predicates.

use std::ops::Range;

/// Where something stands in the text.
pub(super) type Span = Range<usize>;

#[derive(Clone, Debug)]
pub(super) enum Node {
    /// A word, a number, a parameter, a literal, an operator or a comma.
    Leaf(Span),
    /// What stands between brackets.
    Group(Span, Vec<Self>),
    /// What stands between CASE and END.
    Case(Span, Vec<Self>),
}

impl Node {
    pub(super) fn span(&self) -> Span {
        match self {
            Self::Leaf(span) | Self::Group(span, _) | Self::Case(span, _) => span.clone(),
        }
    }

    pub(super) fn is(&self, sql: &str, word: &str) -> bool {
        matches!(self, Self::Leaf(span) if sql[span.clone()].eq_ignore_ascii_case(word))
    }

    pub(super) fn is_any(&self, sql: &str, words: &[&str]) -> bool {
        words.iter().any(|word| self.is(sql, word))
    }
}

/// The text of some nodes that stand side by side.
pub(super) fn span(nodes: &[Node]) -> Span {
    let (first, last) = (nodes.first().expect("there are some"), nodes.last().expect("as above"));
    first.span().start..last.span().end
}

/// Reads a statement.
pub(super) fn tree(sql: &str) -> Vec<Node> {
    let mut tokens = tokens(sql).into_iter();
    let (nodes, end) = level(sql, &mut tokens);
    assert!(end.is_none(), "a bracket is closed that was not opened: {sql}");
    nodes
}

/// The nodes up to a closing bracket or END, and that.
fn level(sql: &str, tokens: &mut impl Iterator<Item = Span>) -> (Vec<Node>, Option<Span>) {
    let mut nodes = Vec::new();
    while let Some(token) = tokens.next() {
        let text = &sql[token.clone()];
        if text == ")" || text.eq_ignore_ascii_case("END") {
            return (nodes, Some(token));
        }
        let is_case = text.eq_ignore_ascii_case("CASE");
        if text != "(" && !is_case {
            nodes.push(Node::Leaf(token));
            continue;
        }
        let (inner, end) = level(sql, tokens);
        let end = end.unwrap_or_else(|| panic!("{text} is not closed: {sql}"));
        let whole = token.start..end.end;
        nodes.push(if is_case { Node::Case(whole, inner) } else { Node::Group(whole, inner) });
    }
    (nodes, None)
}

fn tokens(sql: &str) -> Vec<Span> {
    let mut tokens = Vec::new();
    let mut rest = 0;
    while let Some(first) = sql[rest..].chars().next() {
        let length = match first {
            _ if first.is_whitespace() => {
                rest += first.len_utf8();
                continue;
            }
            '\'' | '"' => sql[rest + 1..].find(first).expect("it is closed") + 2,
            _ if is_word(first) => {
                sql[rest..].find(|next| !is_word(next)).unwrap_or(sql.len() - rest)
            }
            _ => ["<>", "<=", ">=", "::", "||"]
                .iter()
                .find(|operator| sql[rest..].starts_with(**operator))
                .map_or(first.len_utf8(), |operator| operator.len()),
        };
        tokens.push(rest..rest + length);
        rest += length;
    }
    tokens
}

/// Of a name, a number, or a parameter in either dialect.
fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$' | '?')
}

#[cfg(test)]
mod tests;
