//! Reading a manifest.

use super::features;

#[test]
fn every_feature_is_read_and_nothing_else() {
    let manifest = "[package]\nname = \"x\"\n\n[features]\n# The default.\ndefault = [\"a\"]\n\
                    # A.\na = [\n  \"dep:b\",\n]\nc-d = []\n\n[dependencies]\nserde = \"1\"\n";
    assert_eq!(features(manifest), ["default", "a", "c-d"]);
}

#[test]
fn the_manifest_of_the_runtime_has_features() {
    let found = features(include_str!("../../../idempotent-runtime/Cargo.toml"));
    for feature in ["default", "sqlite", "postgres", "rustls", "testing"] {
        assert!(found.iter().any(|it| it == feature), "{feature} is not among {found:?}");
    }
}
