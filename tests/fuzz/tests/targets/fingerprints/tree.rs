//! Payloads: trees of everything that serde knows, and what makes two of them the same.

use std::fmt::Write as _;

use proptest::prelude::any;
use proptest::strategy::{BoxedStrategy, Just, Strategy as _, Union};
use serde::ser::{SerializeMap as _, SerializeStruct as _};
use serde::{Serialize, Serializer};

/// How deep trees are cut. The depth at which the stored form folds is passed by far.
const DEPTH_MAX: u8 = 5;
/// How many elements a node has at most.
const ELEMENTS_MAX: usize = 4;

const TEXTS: [&str; 8] = ["", "1", "true", "null", "a", "b", "é", "[]"];

/// A value and how it is written.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    Nothing,
    Unit,
    Bool(bool),
    /// Of some width.
    Integer(i8, u8),
    Big(u64),
    Float(u8),
    Text(u8),
    Character(bool),
    Some(Box<Self>),
    Sequence(Vec<Self>),
    /// Its keys are numbered, so none comes twice.
    Map(Vec<Self>),
    Struct(Box<Self>, Box<Self>),
    Newtype(Box<Self>),
    UnitVariant(bool),
    Variant(bool, Box<Self>),
}

/// What becomes of a tree.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Nothing,
    /// Another one altogether.
    Other(Node),
    /// The node that is met after so many, counted from the root, is another one.
    At(u8, Node),
    /// The same numbers in other widths.
    Widths(u8),
}

impl Change {
    pub(crate) fn any() -> BoxedStrategy<Self> {
        Union::new([
            Just(Self::Nothing).boxed(),
            Node::any().prop_map(Self::Other).boxed(),
            (0..20_u8, Node::any()).prop_map(|(place, node)| Self::At(place, node)).boxed(),
            any::<u8>().prop_map(Self::Widths).boxed(),
        ])
        .boxed()
    }

    pub(crate) fn of(&self, node: &Node) -> Node {
        let mut changed = node.clone();
        match self {
            Self::Nothing => {}
            Self::Other(other) => changed = other.clone(),
            Self::At(place, other) => {
                let mut left = usize::from(*place);
                changed.visit(&mut |node| {
                    if left == 0 {
                        node.clone_from(other);
                    }
                    left = left.wrapping_sub(1);
                });
            }
            Self::Widths(width) => changed.visit(&mut |node| {
                if let Node::Integer(_, own) = node {
                    *own = *width;
                }
            }),
        }
        changed
    }
}

impl Node {
    pub(crate) fn any() -> BoxedStrategy<Self> {
        let flat = Union::new([
            Just(Self::Nothing).boxed(),
            Just(Self::Unit).boxed(),
            any::<bool>().prop_map(Self::Bool).boxed(),
            (-2..3_i8, any::<u8>()).prop_map(|(value, width)| Self::Integer(value, width)).boxed(),
            Union::new([any::<u64>().boxed(), (0..3_u64).boxed()]).prop_map(Self::Big).boxed(),
            any::<u8>().prop_map(Self::Float).boxed(),
            any::<u8>().prop_map(Self::Text).boxed(),
            any::<bool>().prop_map(Self::Character).boxed(),
            any::<bool>().prop_map(Self::UnitVariant).boxed(),
        ]);
        let deep = flat.prop_recursive(u32::from(DEPTH_MAX), 48, 4, |inner| {
            let boxed = || inner.clone().prop_map(Box::new);
            let all = proptest::collection::vec(inner.clone(), 0..=ELEMENTS_MAX);
            Union::new([
                boxed().prop_map(Self::Some).boxed(),
                all.clone().prop_map(Self::Sequence).boxed(),
                all.prop_map(Self::Map).boxed(),
                (boxed(), boxed()).prop_map(|(one, two)| Self::Struct(one, two)).boxed(),
                boxed().prop_map(Self::Newtype).boxed(),
                (any::<bool>(), boxed())
                    .prop_map(|(first, node)| Self::Variant(first, node))
                    .boxed(),
            ])
        });
        deep.boxed()
    }

    /// Shows every node, an outer one first.
    fn visit(&mut self, see: &mut impl FnMut(&mut Self)) {
        see(self);
        match self {
            Self::Some(inner) | Self::Newtype(inner) | Self::Variant(_, inner) => inner.visit(see),
            Self::Struct(one, two) => {
                one.visit(see);
                two.visit(see);
            }
            Self::Sequence(elements) | Self::Map(elements) => {
                elements.iter_mut().take(ELEMENTS_MAX).for_each(|element| element.visit(see));
            }
            Self::Nothing
            | Self::Unit
            | Self::Bool(_)
            | Self::Integer(..)
            | Self::Big(_)
            | Self::Float(_)
            | Self::Text(_)
            | Self::Character(_)
            | Self::UnitVariant(_) => {}
        }
    }

    /// One spelling for what is the same payload.
    pub(crate) fn canonical(&self) -> String {
        let mut text = String::new();
        self.spell(0, &mut text);
        text
    }

    fn spell(&self, depth: u8, text: &mut String) {
        if depth == DEPTH_MAX {
            return text.push_str("unit");
        }
        let mut group = |name: &str, inner: &[&Self]| {
            let _ = write!(text, "{name}{}(", inner.len());
            for node in inner {
                node.spell(depth + 1, text);
                text.push(',');
            }
            text.push(')');
        };
        match self {
            Self::Some(inner) => group("some", &[inner]),
            // Transparent, as serde's own formats have it.
            Self::Newtype(inner) => inner.spell(depth + 1, text),
            Self::Variant(first, inner) => group(if *first { "first" } else { "second" }, &[inner]),
            Self::Struct(one, two) => group("struct", &[one, two]),
            Self::Sequence(all) => {
                group("sequence", &all.iter().take(ELEMENTS_MAX).collect::<Vec<_>>())
            }
            Self::Map(all) => group("map", &all.iter().take(ELEMENTS_MAX).collect::<Vec<_>>()),
            Self::Nothing => text.push_str("null"),
            Self::Unit => text.push_str("unit"),
            Self::Bool(value) => drop(write!(text, "{value}")),
            Self::Integer(value, _) => drop(write!(text, "{value}i")),
            Self::Big(value) => drop(write!(text, "{value}i")),
            Self::Float(place) => drop(write!(text, "{:?}f", float(*place) + 0.0)),
            Self::Text(place) => drop(write!(text, "{:?}", TEXTS[usize::from(place % 8)])),
            Self::Character(first) => drop(write!(text, "{:?}", if *first { "a" } else { "1" })),
            Self::UnitVariant(first) => text.push_str(if *first { "First" } else { "Second" }),
        }
    }
}

fn float(place: u8) -> f64 {
    [0.0, -0.0, 1.0, 0.1, f64::NAN, -f64::NAN, f64::INFINITY, 1e300][usize::from(place % 8)]
}

/// A tree as serde sees it, with the entries of its maps in one of two orders.
#[derive(Clone, Copy)]
pub(crate) struct Written<'n> {
    node: &'n Node,
    depth: u8,
    backwards: bool,
}

impl<'n> Written<'n> {
    pub(crate) fn forwards(node: &'n Node) -> Self {
        Self { node, depth: 0, backwards: false }
    }

    pub(crate) fn backwards(node: &'n Node) -> Self {
        Self { node, depth: 0, backwards: true }
    }

    fn inside(self, node: &'n Node) -> Self {
        Self { node, depth: self.depth + 1, ..self }
    }
}

impl Serialize for Written<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if self.depth == DEPTH_MAX {
            return to.serialize_unit();
        }
        match self.node {
            Node::Nothing => to.serialize_none(),
            Node::Unit => to.serialize_unit(),
            Node::Bool(value) => to.serialize_bool(*value),
            Node::Integer(value, width) => match width % 3 {
                0 => to.serialize_i8(*value),
                1 => to.serialize_i64(i64::from(*value)),
                _ => to.serialize_i128(i128::from(*value)),
            },
            Node::Big(value) => to.serialize_u64(*value),
            Node::Float(place) => to.serialize_f64(float(*place)),
            Node::Text(place) => to.serialize_str(TEXTS[usize::from(place % 8)]),
            Node::Character(first) => to.serialize_char(if *first { 'a' } else { '1' }),
            Node::Some(inner) => to.serialize_some(&self.inside(inner)),
            Node::Newtype(inner) => to.serialize_newtype_struct("Newtype", &self.inside(inner)),
            Node::UnitVariant(true) => to.serialize_unit_variant("Kind", 0, "First"),
            Node::UnitVariant(false) => to.serialize_unit_variant("Kind", 1, "Second"),
            Node::Variant(first, inner) => {
                let (index, name) = if *first { (0, "First") } else { (1, "Second") };
                to.serialize_newtype_variant("Kind", index, name, &self.inside(inner))
            }
            Node::Struct(one, two) => {
                let mut fields = to.serialize_struct("Struct", 2)?;
                fields.serialize_field("one", &self.inside(one))?;
                fields.serialize_field("two", &self.inside(two))?;
                fields.end()
            }
            Node::Sequence(all) => {
                to.collect_seq(all.iter().take(ELEMENTS_MAX).map(|element| self.inside(element)))
            }
            Node::Map(all) => {
                let mut entries: Vec<_> = all.iter().take(ELEMENTS_MAX).enumerate().collect();
                if self.backwards {
                    entries.reverse();
                }
                let mut map = to.serialize_map(Some(entries.len()))?;
                for (key, value) in entries {
                    map.serialize_entry(&key.to_string(), &self.inside(value))?;
                }
                map.end()
            }
        }
    }
}
