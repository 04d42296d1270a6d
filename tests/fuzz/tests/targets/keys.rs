//! Keys: two tuples of values of one template render alike only if they are the same.

use idempotent_runtime::{KeyPart, key};
use proptest::prelude::any;
use proptest::strategy::{BoxedStrategy, Just, Strategy as _, Union};

use crate::{in_tests, soak, thousand};

/// A text of what separates and escapes, and of what stands around it.
#[derive(Clone, Debug, PartialEq)]
struct Text(Vec<u8>);

impl Text {
    fn any() -> BoxedStrategy<Self> {
        proptest::collection::vec(0..16_u8, 0..6).prop_map(Self).boxed()
    }

    fn text(&self) -> String {
        const CHARS: [&str; 16] = [
            ":", "%", "/", "{", "3", "A", "a", "-", "_", ".", "é", "e\u{301}", " ", "\0", "%3A",
            "::",
        ];
        self.0.iter().take(6).map(|byte| CHARS[usize::from(byte % 16)]).collect()
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Values {
    one: Text,
    two: Text,
    number: i64,
    yes: bool,
}

/// The second is another, or the first with its texts cut at another place.
#[derive(Clone, Debug)]
enum Second {
    Another(Values),
    CutAt(u8),
    Swapped,
    Same,
}

#[derive(KeyPart)]
struct Order {
    #[key]
    shop: String,
    #[key]
    id: String,
}

#[derive(KeyPart)]
struct Nested {
    #[key]
    order: Order,
    #[key]
    line: i64,
}

impl Values {
    fn any() -> BoxedStrategy<Self> {
        let parts = (Text::any(), Text::any(), -2..3_i64, any::<bool>());
        parts.prop_map(|(one, two, number, yes)| Self { one, two, number, yes }).boxed()
    }
}

impl Second {
    fn any() -> BoxedStrategy<Self> {
        Union::new([
            Values::any().prop_map(Self::Another).boxed(),
            any::<u8>().prop_map(Self::CutAt).boxed(),
            Just(Self::Swapped).boxed(),
            Just(Self::Same).boxed(),
        ])
        .boxed()
    }

    fn of(&self, first: &Values) -> Values {
        let values = first.clone();
        match self {
            Self::Another(values) => values.clone(),
            Self::CutAt(at) => {
                let mut all = [values.one.0.as_slice(), values.two.0.as_slice()].concat();
                let two = all.split_off(usize::from(*at) % (all.len() + 1));
                Values { one: Text(all), two: Text(two), ..values }
            }
            Self::Swapped => Values { one: values.two, two: values.one, ..values },
            Self::Same => values,
        }
    }
}

/// The template, and what it renders.
type Template = (&'static str, fn(&Values) -> Result<String, String>);

macro_rules! template {
    ($template:literal, |$values:ident| $($name:ident = $value:expr),*) => {
        ($template, |$values| {
            $(let $name = $value;)*
            key!($template).map_err(|error| error.to_string())
        })
    };
}

const TEMPLATES: [Template; 6] = [
    template!("{a}:{b}", |v| a = v.one.text(), b = v.two.text()),
    template!("x/{a}/{b}", |v| a = v.one.text(), b = v.two.text()),
    template!("{a}%3A:{b}:{n}", |v| a = v.one.text(), b = v.two.text(), n = v.number),
    template!("{o}", |v| o = Order { shop: v.one.text(), id: v.two.text() }),
    template!(
        "{o}:{yes}",
        |v| o = Nested { order: Order { shop: v.one.text(), id: v.two.text() }, line: v.number },
        yes = v.yes
    ),
    template!("{o}", |v| o =
        Nested { order: Order { shop: v.one.text(), id: v.two.text() }, line: v.number }),
];

/// What each template names of the values, to tell them apart.
fn named(template: usize, values: &Values) -> (String, String, Option<i64>, Option<bool>) {
    let number = [2, 4, 5].contains(&template).then_some(values.number);
    (values.one.text(), values.two.text(), number, (template == 4).then_some(values.yes))
}

fn run_with(seed: u64, templates: &'static [Template]) {
    let inputs = (0..templates.len(), Values::any(), Second::any());
    thousand(seed, &inputs, |(place, first, second)| {
        let second = second.of(&first);
        let (template, render) = templates[place];
        if let (Ok(one), Ok(two)) = (render(&first), render(&second)) {
            let is_same = named(place, &first) == named(place, &second);
            assert_eq!(
                one == two,
                is_same,
                "{template}: {first:?} and {second:?} render `{one}` and `{two}`"
            );
        }
    });
}

fn run(seed: u64) {
    run_with(seed, &TEMPLATES);
}

#[test]
fn differ_where_their_values_do() {
    in_tests("keys", run);
}

#[test]
#[ignore = "soak: a million inputs"]
fn a_million() {
    soak("fuzz-keys", run);
}

/// A rendering that forgets to escape.
const NAIVE: [Template; 1] =
    [("{a}:{b}", |values| Ok(format!("{}:{}", values.one.text(), values.two.text())))];

#[test]
#[should_panic(expected = "render `")]
fn a_planted_collision_is_found() {
    (0..100).for_each(|seed| run_with(seed, &NAIVE));
}
