//! What must not stand in a file, planted. The planted texts are put together, or this file would hold them.

use super::{lines_are_clean, no_machine_paths, no_registry_hosts, nothing_is_left_open};
use crate::{File, Violation};

fn broken(rule: fn(&File) -> Vec<Violation>, path: &str, text: &str) -> Vec<usize> {
    rule(&File::new(path, text)).into_iter().map(|it| it.line).collect()
}

#[test]
fn a_path_of_one_machine_is_found() {
    for folder in ["home", "root", "work", "Users"] {
        assert_eq!(broken(no_machine_paths, "a.md", &format!("x\n/{folder}/me/x")), [2]);
        assert_eq!(broken(no_machine_paths, "a.rs", &format!("open(\"/{folder}/x\")")), [1]);
    }
}

#[test]
fn other_paths_are_none_of_one_machine() {
    let text = format!("https://x.org/{0}/a\nsrc/{0}/a\n./{0}/b\n/usr/lib/x\n$HOME/{0}/\n", "work");
    assert_eq!(broken(no_machine_paths, "a.md", &text), [0; 0]);
}

#[test]
fn a_registry_is_found() {
    assert_eq!(
        broken(no_registry_hosts, ".cargo/config.toml", &format!("\nreplace-{} = \"x\"", "with")),
        [2]
    );
    assert_eq!(broken(no_registry_hosts, "README.md", "https://crates.io/crates/x"), [0; 0]);
}

#[test]
fn what_is_left_open_is_found_in_code_only() {
    let text = format!("// {0}!()\nlet s = \"{0}!()\";\n{0}!()\n#[{1}]\n", "todo", "ignore");
    assert_eq!(broken(nothing_is_left_open, "a.rs", &text), [3, 4]);
    assert_eq!(broken(nothing_is_left_open, "a.md", &text), [0; 0]);
}

#[test]
fn a_test_of_the_soak_may_be_ignored() {
    let text = format!("#[{0} = \"soak: an hour\"]\n    #[{0} = \"slow\"]\n", "ignore");
    assert_eq!(broken(nothing_is_left_open, "a.rs", &text), [2]);
}

#[test]
fn spaces_at_the_end_are_found() {
    assert_eq!(broken(lines_are_clean, "a.rs", "a\nb \n"), [2]);
    assert_eq!(broken(lines_are_clean, "a.rs", "a\n"), [0; 0]);
    assert_eq!(broken(lines_are_clean, "a.rs", "a"), [0]);
    assert_eq!(broken(lines_are_clean, "a.rs", "a\n\n"), [0]);
    assert_eq!(broken(lines_are_clean, "a.json", "a "), [0; 0]);
}
