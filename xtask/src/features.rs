//! The features of the runtime, as its manifest lists them.

/// The names, `default` among them, in the order of the manifest.
pub(crate) fn features(manifest: &str) -> Vec<String> {
    manifest
        .lines()
        .map(str::trim)
        .skip_while(|line| *line != "[features]")
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(" = "))
        .map(|(name, _)| name.trim_matches('"').to_owned())
        .collect()
}

#[cfg(test)]
mod tests;
