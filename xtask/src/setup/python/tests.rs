//! What is said twice.

use super::{AIOSMTPD, AIOSMTPD_FOLDER, AIOSMTPD_VERSION};

#[test]
fn the_example_looks_where_the_server_is_installed_and_names_its_version() {
    let example = include_str!("../../../../examples/src/bin/newsletter.rs");
    assert!(example.contains(&format!("{AIOSMTPD_FOLDER}/bin/python")));
    assert!(example.contains(&format!("{AIOSMTPD}=={AIOSMTPD_VERSION}")));
}
