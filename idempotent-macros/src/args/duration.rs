//! `"30s"`, `"1h30m"`, `"1s..5m"`.

/// Milliseconds, written as a duration.
pub(crate) type Millis = u64;

const UNITS: [(&str, Millis); 5] =
    [("d", 24 * 60 * 60 * 1000), ("h", 60 * 60 * 1000), ("m", 60 * 1000), ("s", 1000), ("ms", 1)];

/// The longest and the shortest that an argument takes.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) least: Millis,
    pub(crate) most: Millis,
}

/// Reads whole numbers with units, the larger unit first.
pub(crate) fn parse(text: &str) -> Result<Millis, String> {
    let mut rest = text;
    let mut total: Millis = 0;
    let mut smaller_than = Millis::MAX;
    if rest.is_empty() {
        return Err("the duration is empty".to_owned());
    }
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, after) = rest.split_at(digits);
        let letters = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        if number.is_empty() {
            return Err(format!("`{text}` is not a duration"));
        }
        if unit.is_empty() {
            return Err(if after.starts_with('.') {
                format!("`{text}` has a fraction; write a smaller unit, as in `1500ms`")
            } else if after.starts_with(' ') {
                format!("`{text}` has a space in it; write it without")
            } else {
                format!("`{text}` has no unit; write `ms`, `s`, `m`, `h` or `d` behind the number")
            });
        }
        let Some((_, scale)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(format!("`{unit}` is not a unit; write `ms`, `s`, `m`, `h` or `d`"));
        };
        if *scale >= smaller_than {
            return Err(format!("`{text}` repeats a unit, or puts the smaller first"));
        }
        smaller_than = *scale;
        total = number
            .parse::<Millis>()
            .ok()
            .and_then(|number| number.checked_mul(*scale))
            .and_then(|part| total.checked_add(part))
            .ok_or_else(|| format!("`{text}` is too long"))?;
        rest = after;
    }
    Ok(total)
}

/// The duration as its author would write it.
pub(crate) fn show(duration: Millis) -> String {
    let mut rest = duration;
    let mut text = String::new();
    for (unit, scale) in UNITS {
        if rest >= scale {
            text.push_str(&format!("{}{unit}", rest / scale));
            rest %= scale;
        }
    }
    if text.is_empty() {
        text.push_str("0s");
    }
    text
}

impl Limits {
    /// Refuses what no handler can mean.
    pub(crate) fn check(self, name: &str, duration: Millis) -> Result<Millis, String> {
        if duration == 0 {
            return Err(format!("`{name}` is zero; write at least `{}`", show(self.least)));
        }
        if duration < self.least {
            return Err(format!("`{name}` is too short; write at least `{}`", show(self.least)));
        }
        if duration > self.most {
            return Err(format!("`{name}` is too long; write at most `{}`", show(self.most)));
        }
        Ok(duration)
    }
}

#[cfg(test)]
mod tests;
