//! `serde_json::Number` under `arbitrary_precision`, a feature that any crate of the graph can turn on: the
//! number then comes as a text in a struct of a reserved name. It must be written down as it would be
//! without the feature, unless a float cannot hold it.

use serde::Serializer as _;

use super::Walk;
use crate::fingerprint::Unhashable;
use crate::fingerprint::leaf::tag;

/// The reserved name, of the struct and of its only field.
pub(super) const TOKEN: &str = "$serde_json::private::Number";

/// Writes down a number by its text.
pub(super) fn walk(walk: Walk<'_>, text: &str) -> Result<(), Unhashable> {
    let walk = Walk { decimal: false, ..walk };
    if let Ok(number) = text.parse::<u64>() {
        return walk.serialize_u64(number);
    }
    if let Ok(number) = text.parse::<i64>()
        && number != 0
    {
        return walk.serialize_i64(number);
    }
    let exact = Decimal::parse(text);
    match text.parse::<f64>() {
        Ok(float) if exact == Decimal::parse(&format!("{float:e}")) => walk.serialize_f64(float),
        _ => walk.text(tag::DECIMAL, &exact.map_or_else(|| text.to_owned(), |it| it.to_string())),
    }
}

/// A decimal number in its only spelling: no zero at either end of the digits, which stand behind the point.
#[derive(Debug, PartialEq, Eq)]
struct Decimal {
    negative: bool,
    digits: String,
    exponent: i64,
}

impl Decimal {
    fn parse(text: &str) -> Option<Self> {
        let (negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
            None => (text, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = format!("{whole}{fraction}");
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let significant = digits.trim_start_matches('0');
        let zeros = i64::try_from(digits.len() - significant.len()).ok()?;
        let whole = i64::try_from(whole.len()).ok()?;
        let digits = significant.trim_end_matches('0').to_owned();
        if digits.is_empty() {
            return Some(Self { negative: false, digits, exponent: 0 });
        }
        let exponent = exponent.checked_add(whole)?.checked_sub(zeros)?;
        Some(Self { negative, digits, exponent })
    }
}

impl std::fmt::Display for Decimal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sign = if self.negative { "-" } else { "" };
        write!(f, "{sign}0.{}e{}", self.digits, self.exponent)
    }
}
