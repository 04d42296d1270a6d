//! The predicates of a statement, and the statement without each of them.

use std::ops::Range;

use super::fragment::{fragments, places};
use super::token::{Node, Span, span, tree};

/// A statement with one predicate taken out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutant {
    /// The predicate, and what became of it; unique in the statement.
    pub name: String,
    /// Where the predicate stands; the first place, if it is spliced in several times.
    pub at: Range<usize>,
    /// The statement.
    pub sql: String,
}

/// The statement without each of its predicates and clauses.
///
/// - A condition of WHERE, ON, HAVING or FILTER, or of a chain of ANDs, becomes true; an arm of a chain of ORs false.
/// - A condition of a CASE, and one that is a value, becomes true, and false.
/// - A row that is compared is compared without each of its columns; a list behind IN lacks each of its elements.
/// - ORDER BY is turned around. DISTINCT, LIMIT, OFFSET, DO NOTHING, the lock of rows and SKIP LOCKED fall away.
///
/// What falls away stays in the text, so that the statement has its parameters: `(condition OR TRUE)`.
///
/// A condition in brackets that is spliced into the statement several times loses what is inside of it at all its places
/// at once.
///
/// # Panics
///
/// If it has clauses that are not known here.
#[must_use]
pub fn mutants(sql: &str) -> Vec<Mutant> {
    let tree = tree(sql);
    let mut found = Found { sql, edits: Vec::new() };
    found.clauses(&tree);
    let fragments = fragments(sql, &tree, CLAUSES);
    let mut mutants = Vec::new();
    for Edit { name, at, text } in found.edits {
        let places = places(&fragments, &at);
        if places[0] != at {
            continue;
        }
        let mut sql = sql.to_owned();
        for place in places.iter().rev() {
            sql.replace_range(place.clone(), &text);
        }
        mutants.push(Mutant { name, at, sql });
    }
    number(&mut mutants);
    mutants
}

/// What becomes of a predicate.
struct Edit {
    name: String,
    at: Span,
    text: String,
}

/// Tells those of one name apart.
fn number(mutants: &mut [Mutant]) {
    let names: Vec<String> = mutants.iter().map(|mutant| mutant.name.clone()).collect();
    for (n, mutant) in mutants.iter_mut().enumerate() {
        let before = names[..n].iter().filter(|name| **name == mutant.name).count();
        if before > 0 {
            mutant.name = format!("{} #{}", mutant.name, before + 1);
        }
    }
}

/// Where a list of expressions ends, or a condition begins.
const CLAUSES: &[&str] = &[
    "WITH",
    "AS",
    "SELECT",
    "FROM",
    "WHERE",
    "ON",
    "HAVING",
    "GROUP",
    "ORDER",
    "BY",
    "LIMIT",
    "OFFSET",
    "RETURNING",
    "UNION",
    "ALL",
    "FOR",
    "SET",
    "UPDATE",
    "INSERT",
    "INTO",
    "DELETE",
    "VALUES",
    "DO",
    "NOTHING",
    "LEFT",
    "CROSS",
    "JOIN",
    "LATERAL",
    "DISTINCT",
    "WHEN",
    "THEN",
    "ELSE",
    ",",
];
/// What makes an expression a condition.
const CONDITION: &[&str] =
    &["=", "<>", "<", "<=", ">", ">=", "AND", "OR", "NOT", "IN", "IS", "EXISTS", "LIKE"];
/// What would be a predicate, and is not understood.
const UNKNOWN: &[&str] = &["USING", "BETWEEN", "WINDOW", "INTERSECT", "EXCEPT", "NATURAL"];

struct Found<'a> {
    sql: &'a str,
    edits: Vec<Edit>,
}

impl Found<'_> {
    /// Everything at one level of brackets.
    fn clauses(&mut self, nodes: &[Node]) {
        let sql = self.sql;
        let mut at = 0;
        let mut sets = false;
        while at < nodes.len() {
            let node = &nodes[at];
            assert!(!node.is_any(sql, UNKNOWN), "not understood: {}", &sql[node.span().start..]);
            if !node.is_any(sql, CLAUSES) {
                // An item of a list.
                let end = end(sql, nodes, at);
                let is_assigned = sets && nodes.get(at + 1).is_some_and(|next| next.is(sql, "="));
                self.value(&nodes[if is_assigned { at + 2 } else { at }..end]);
                at = end;
                continue;
            }
            let begins = |words: &[&str]| {
                words
                    .iter()
                    .enumerate()
                    .all(|(n, word)| nodes.get(at + n).is_some_and(|node| node.is(sql, word)))
            };
            let is_conflict = begins(&["ON", "CONFLICT"]);
            if node.is(sql, "SET") {
                sets = true;
            } else if node.is_any(sql, &["FROM", "WHERE", "RETURNING"]) {
                sets = false;
            }
            if node.is_any(sql, &["WHERE", "ON", "HAVING"]) && !is_conflict {
                let end = end(sql, nodes, at + 1);
                self.holds(&nodes[at + 1..end], true);
                at = end;
            } else if node.is(sql, "WHEN") {
                let end = end(sql, nodes, at + 1);
                self.case(&nodes[at + 1..end]);
                at = end;
            } else if node.is(sql, "FOR") {
                at = self.lock(nodes, at);
            } else if begins(&["ORDER", "BY"]) {
                at = self.order(nodes, at);
            } else if node.is_any(sql, &["LIMIT", "OFFSET"]) {
                let end = end(sql, nodes, at + 1);
                self.without(&span(&nodes[at..end]));
                self.value(&nodes[at + 1..end]);
                at = end;
            } else if node.is(sql, "DISTINCT") {
                self.without(&node.span());
                at += 1;
            } else if is_conflict {
                // ON CONFLICT (columns) DO NOTHING
                if nodes.get(at + 4).is_some_and(|node| node.is(sql, "NOTHING")) {
                    self.without(&span(&nodes[at..at + 5]));
                }
                at += 3;
            } else {
                at += 1;
            }
        }
    }

    /// FOR [NO KEY] UPDATE [OF name] [SKIP LOCKED]
    fn lock(&mut self, nodes: &[Node], at: usize) -> usize {
        let sql = self.sql;
        let rest = &nodes[at..];
        let word = |word: &str| rest.iter().position(|node| node.is(sql, word));
        let mut last = word("UPDATE").expect("no other lock is used");
        if rest.get(last + 1).is_some_and(|node| node.is(sql, "OF")) {
            last += 2;
        }
        if rest.get(last + 1).is_some_and(|node| node.is(sql, "SKIP")) {
            self.without(&span(&rest[last + 1..last + 3]));
            last += 2;
        }
        self.without(&span(&rest[..=last]));
        at + last + 1
    }

    /// Turns an order around.
    fn order(&mut self, nodes: &[Node], at: usize) -> usize {
        let mut last = at + 2;
        loop {
            last = end(self.sql, nodes, last);
            if !nodes.get(last).is_some_and(|node| node.is(self.sql, ",")) {
                break;
            }
            last += 1;
        }
        let whole = span(&nodes[at..last]);
        let text = self.sql[whole.clone()].replace(',', " DESC,") + " DESC";
        self.push(&whole, &text, "turned around");
        last
    }

    /// An expression that may be a condition.
    fn value(&mut self, nodes: &[Node]) {
        if nodes.iter().any(|node| node.is_any(self.sql, CONDITION)) {
            self.case(nodes);
        } else {
            self.inside(nodes);
        }
    }

    /// A condition that chooses between two values, or is one.
    fn case(&mut self, nodes: &[Node]) {
        self.becomes(nodes, false);
        self.holds(nodes, true);
    }

    /// A condition; `alone` if it has not been taken out as a whole.
    fn holds(&mut self, nodes: &[Node], alone: bool) {
        let sql = self.sql;
        if nodes.iter().all(|node| node.is(sql, "true")) {
            return;
        }
        let arms = split(sql, nodes, "OR");
        if arms.len() > 1 {
            if alone {
                self.becomes(nodes, true);
            }
            for arm in arms {
                self.becomes(arm, false);
                self.all(arm, false);
            }
        } else {
            self.all(nodes, alone);
        }
    }

    /// A chain of ANDs, or one condition.
    fn all(&mut self, nodes: &[Node], alone: bool) {
        let conditions = split(self.sql, nodes, "AND");
        let alone = alone || conditions.len() > 1;
        for condition in conditions {
            if alone {
                self.becomes(condition, true);
            }
            self.one(condition);
        }
    }

    fn one(&mut self, condition: &[Node]) {
        match condition {
            [Node::Group(_, inner)] => self.holds(inner, false),
            [not, rest @ ..] if not.is(self.sql, "NOT") => self.one(rest),
            _ => {
                self.columns(condition);
                self.elements(condition);
                self.inside(condition);
            }
        }
    }

    /// A comparison of rows, without each of the columns.
    fn columns(&mut self, condition: &[Node]) {
        let [Node::Group(_, left), operator, Node::Group(_, right)] = condition else { return };
        let (left, right) = (split(self.sql, left, ","), split(self.sql, right, ","));
        if !operator.is_any(self.sql, &["=", "<", "<=", ">", ">="]) || left.len() != right.len() {
            return;
        }
        for (left, right) in left.into_iter().zip(right) {
            let text = self.sql[span(right)].to_owned();
            let what = format!("compared without, in {}", clean(&self.sql[span(condition)]));
            self.push(&span(left), &text, &what);
        }
    }

    /// A list behind IN, without each of the elements.
    fn elements(&mut self, condition: &[Node]) {
        let [.., is_in, Node::Group(whole, list)] = condition else { return };
        let elements = split(self.sql, list, ",");
        if !is_in.is(self.sql, "IN") || elements.len() < 2 {
            return;
        }
        for (n, element) in elements.iter().enumerate() {
            let others = elements.iter().enumerate().filter(|(other, _)| *other != n);
            let others: Vec<&str> = others.map(|(_, other)| &self.sql[span(other)]).collect();
            let what = format!("without {}", &self.sql[span(element)]);
            let name = &self.sql[span(condition)];
            self.push_named(name, whole, &format!("({})", others.join(", ")), &what);
        }
    }

    /// What stands in brackets and in CASEs.
    fn inside(&mut self, nodes: &[Node]) {
        for node in nodes {
            match node {
                Node::Leaf(_) => {
                    let text = &self.sql[node.span()];
                    assert!(!node.is_any(self.sql, UNKNOWN), "not understood: {text}");
                }
                Node::Group(_, inner) | Node::Case(_, inner) => self.clauses(inner),
            }
        }
    }

    fn becomes(&mut self, nodes: &[Node], truth: bool) {
        let whole = span(nodes);
        let text = &self.sql[whole.clone()];
        let text =
            if truth { format!("(({text}) OR TRUE)") } else { format!("(({text}) AND FALSE)") };
        self.push(&whole, &text, if truth { "true" } else { "false" });
    }

    fn without(&mut self, whole: &Span) {
        self.push(whole, "", "away");
    }

    fn push(&mut self, whole: &Span, text: &str, what: &str) {
        self.push_named(&self.sql[whole.clone()], whole, text, what);
    }

    fn push_named(&mut self, name: &str, whole: &Span, text: &str, what: &str) {
        let name = format!("{} := {what}", clean(name));
        self.edits.push(Edit { name, at: whole.clone(), text: text.to_owned() });
    }
}

/// Where the expression that begins here ends.
fn end(sql: &str, nodes: &[Node], from: usize) -> usize {
    let length = nodes[from..].iter().position(|node| node.is_any(sql, CLAUSES));
    length.map_or(nodes.len(), |length| from + length)
}

fn split<'a>(sql: &str, nodes: &'a [Node], by: &str) -> Vec<&'a [Node]> {
    nodes.split(|node| node.is(sql, by)).collect()
}

/// On one line, and without what surrounds the names of tables.
fn clean(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").replace("\"idempotent_", "").replace('"', "")
}

#[cfg(test)]
mod tests;
