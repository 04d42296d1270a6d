//! What stands behind `cargo xtask soak`.

use crate::failure::Failure;

/// All chosen parts together.
const MINUTES_USUAL: u64 = 120;
const MINUTES_MAX: u64 = 7 * 24 * 60;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Arguments {
    /// Parts, or the beginnings of their names; none stands for all.
    pub(crate) names: Vec<String>,
    pub(crate) minutes: u64,
    pub(crate) list: bool,
}

impl Arguments {
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, Failure> {
        let mut arguments = Self { names: Vec::new(), minutes: MINUTES_USUAL, list: false };
        while let Some(word) = words.next() {
            match word.as_str() {
                "--list" => arguments.list = true,
                "--minutes" => {
                    let text = words.next().unwrap_or_default();
                    let minutes = text.parse().ok().filter(|it| (1..=MINUTES_MAX).contains(it));
                    arguments.minutes = minutes.ok_or_else(|| {
                        Failure::new(format!("`--minutes {text}` is not from 1 to {MINUTES_MAX}"))
                    })?;
                }
                option if option.starts_with('-') => {
                    return Err(Failure::new(format!(
                        "there is no option `{option}`; expected `--minutes M` or `--list`"
                    )));
                }
                _ => arguments.names.push(word),
            }
        }
        Ok(arguments)
    }
}

#[cfg(test)]
mod tests;
