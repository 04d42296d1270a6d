//! The mutants, by names that stay when lines move.

use std::collections::HashMap;

/// One change of one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mutant {
    /// Its place in the list of cargo-mutants.
    pub(crate) place: usize,
    pub(crate) file: String,
    /// The file and the change, without line and column; the second of a name is `.. #2`.
    pub(crate) name: String,
}

/// What is examined first.
const ORDER: [&str; 4] = ["/protocol", "/key", "/fingerprint", "/execute"];

/// Reads `cargo mutants --list`; `protocol` comes first.
pub(crate) fn parse(list: &str) -> Vec<Mutant> {
    let mut times: HashMap<String, u32> = HashMap::new();
    let lines = list.lines().enumerate().filter_map(|(place, line)| {
        let (file, rest) = line.split_once(':')?;
        let (_, change) = rest.split_once(": ")?;
        let name = format!("{file}: {change}");
        let time = times.entry(name.clone()).or_default();
        *time += 1;
        let name = if *time == 1 { name } else { format!("{name} #{time}") };
        Some(Mutant { place, file: file.to_owned(), name })
    });
    let mut mutants: Vec<Mutant> = lines.collect();
    let rank = |mutant: &Mutant| {
        let of = |part: &str| mutant.file.contains(&format!("src{part}"));
        ORDER.iter().position(|part| of(part)).unwrap_or(ORDER.len())
    };
    mutants.sort_by_key(|mutant| (rank(mutant), mutant.place));
    mutants
}

#[cfg(test)]
mod tests;
