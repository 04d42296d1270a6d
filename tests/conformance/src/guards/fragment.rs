//! Conditions that are spliced into a statement more than once.

use super::token::{Node, Span, span};

/// A condition in brackets that is there several times, by where it stands; without its brackets.
#[derive(Debug)]
pub(super) struct Fragment(Vec<Span>);

impl Fragment {
    /// Where the same stands as `at`, which is inside of one of the fragment's places but not all of it.
    fn around(&self, at: &Span) -> Option<Vec<Span>> {
        let holds = |place: &&Span| place.start <= at.start && at.end <= place.end && *place != at;
        let place = self.0.iter().find(holds)?;
        let (from, length) = (at.start - place.start, at.len());
        let starts = self.0.iter().map(|place| place.start + from);
        Some(starts.map(|start| start..start + length).collect())
    }

    fn length(&self) -> usize {
        self.0[0].len()
    }
}

/// The fragments of a statement, the shortest first.
///
/// A mistake in one would be made once, in what is spliced, so what is inside of it is one predicate at all its places;
/// the whole of it is one at each place, since each decides something else. What has clauses of its own is no fragment,
/// and neither is what is written out without brackets.
pub(super) fn fragments(sql: &str, nodes: &[Node], clauses: &[&str]) -> Vec<Fragment> {
    let mut fragments: Vec<Fragment> = Vec::new();
    collect(sql, nodes, clauses, &mut fragments);
    fragments.retain(|fragment| fragment.0.len() > 1);
    fragments.sort_by_key(Fragment::length);
    fragments
}

fn collect(sql: &str, nodes: &[Node], clauses: &[&str], fragments: &mut Vec<Fragment>) {
    for node in nodes {
        let (Node::Group(_, inner) | Node::Case(_, inner)) = node else { continue };
        let is_condition = inner.iter().any(|node| node.is_any(sql, &["AND", "OR"]));
        let is_plain = !inner.iter().any(|node| node.is_any(sql, clauses));
        if matches!(node, Node::Group(..)) && is_condition && is_plain {
            let place = span(inner);
            let same = |fragment: &&mut Fragment| sql[fragment.0[0].clone()] == sql[place.clone()];
            match fragments.iter_mut().find(same) {
                Some(fragment) => fragment.0.push(place),
                None => fragments.push(Fragment(vec![place])),
            }
        }
        collect(sql, inner, clauses, fragments);
    }
}

/// Where all that stands which is one predicate with what stands at `at`, from left to right.
pub(super) fn places(fragments: &[Fragment], at: &Span) -> Vec<Span> {
    let around = fragments.iter().find_map(|fragment| fragment.around(at));
    around.unwrap_or_else(|| vec![at.clone()])
}
