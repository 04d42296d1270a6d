//! Documentation that does not keep up, planted.

use super::{arguments_are_explained, errors_are_explained, links_resolve};
use crate::File;

#[test]
fn a_link_to_nowhere_is_found() {
    let files = [File::new("docs/src/a.md", ""), File::new("LICENSE-MIT", "")];
    let of = |path: &str, text: &str| {
        links_resolve(&File::new(path, text), &files).iter().map(|it| it.line).collect::<Vec<_>>()
    };
    let fine = "[a](docs/src/a.md) [b](docs) [c](https://x.org/y) [d](#e) [l](./LICENSE-MIT#top)\n";
    assert_eq!(of("README.md", fine), [0; 0]);
    assert_eq!(of("README.md", "\n[a](docs/b.md)"), [2]);
    assert_eq!(of("docs/src/b.md", "[a](a.md) [r](../../LICENSE-MIT)"), [0; 0]);
    assert_eq!(of("docs/src/b.md", "[r](LICENSE-MIT)"), [1]);
    assert_eq!(of("README.md", "```\n[a](x.md)\n```\n[a](x.md)"), [4]);
}

#[test]
fn a_variant_without_its_row_is_found() {
    let error = File::new(
        "error.rs",
        "/// [`Gone`]\npub enum Error {\n    /// A.\n    #[error(\"Not a Variant\")]\n    InFlight {\n        after: u8,\n    },\n    TooOld,\n}\n\npub enum Other {\n    Fine,\n}\n",
    );
    let of = |table: &str| {
        errors_are_explained(&error, &File::new("t.md", table))
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    assert_eq!(of("| `Error::InFlight { after }` | x |\n| `TooOld` | y |\n"), [""; 0]);
    assert_eq!(
        of("| `Error::InFlight` | TooOld |\n"),
        ["t.md: it lacks a row for `Error::TooOld`"]
    );
    assert_eq!(errors_are_explained(&File::new("e.rs", ""), &File::new("t.md", "")).len(), 1);
}

#[test]
fn an_argument_that_is_not_explained_is_found() {
    let args = File::new(
        "args.rs",
        "pub(crate) const ARGUMENTS: &[Argument] = &[\n    row(\"key\", \"x\"),\n    Argument { name: \"singleton\", y },\n    row(\"lease\", r#\"\"30s\"\"#, |a| {\n        b\n    }),\n];\nrow(\"not\")",
    );
    let of = |page: &str| arguments_are_explained(&args, &File::new("p.md", page)).len();
    assert_eq!(of("`key = \"x\"`, `singleton` and `lease`"), 0);
    assert_eq!(of("`key` and singleton, `releases`"), 2);
    assert_eq!(arguments_are_explained(&File::new("a.rs", ""), &File::new("p.md", "")).len(), 1);
}
