//! What the runtime reports, and where that is explained.

use crate::code::code;
use crate::{File, Violation};

/// Every metric and every traced message of a file is in the page that says what they mean.
#[must_use]
pub fn reports_are_explained(file: &File, page: &File) -> Vec<Violation> {
    let explained = page.text();
    reports(file.text())
        .into_iter()
        .filter(|report| !explained.contains(report.as_str()))
        .map(|report| page.violation(0, format!("it lacks `{report}`, from `{}`", file.path)))
        .collect()
}

/// The names of metrics, and the messages of events up to the first `` ` ``.
#[must_use]
pub fn reports(text: &str) -> Vec<String> {
    let literals: Vec<char> = text.chars().collect();
    let code: Vec<char> = code(text).chars().collect();
    let mut reports = Vec::new();
    let mut at = 0;
    while at < code.len() {
        if starts_with(&code[at..], "tracing::") {
            let end = end_of_call(&code, at);
            reports.extend(last_literal(&code[at..end], &literals[at..end]));
            at = end;
        } else if starts_with(&code[at..], "const ") {
            let end = at + code[at..].iter().position(|&c| c == ';').unwrap_or(0) + 1;
            let name = last_literal(&code[at..end], &literals[at..end]);
            reports.extend(name.filter(|name| name.starts_with("idempotent_")));
            at = end;
        } else {
            at += 1;
        }
    }
    reports
}

fn starts_with(code: &[char], word: &str) -> bool {
    word.chars().zip(code).filter(|(a, b)| a == *b).count() == word.len()
}

/// Behind the parenthesis that closes the call of an event's macro; of anything else, behind its name.
fn end_of_call(code: &[char], at: usize) -> usize {
    let name =
        code[at..].iter().position(|&c| c == '!' || c == '\n').map_or(code.len(), |i| at + i);
    let event: String = code[at..name].iter().collect();
    if !["error", "warn", "info", "debug", "trace"].contains(&&event["tracing::".len()..]) {
        return at + "tracing::".len();
    }
    let mut depth = 0_u32;
    for (index, c) in code.iter().enumerate().skip(name) {
        match c {
            '(' => depth += 1,
            ')' if depth == 1 => return index,
            ')' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

/// The last string of a stretch of code, lines joined.
fn last_literal(code: &[char], literals: &[char]) -> Option<String> {
    let end = code.iter().rposition(|&c| c == '"')?;
    let start = code[..end].iter().rposition(|&c| c == '"')? + 1;
    let literal: String = literals[start..end].iter().collect();
    let mut lines = literal.split("\\\n");
    let mut text = lines.next()?.to_owned();
    lines.for_each(|line| text.push_str(line.trim_start()));
    Some(text.split('`').next()?.trim_end().to_owned())
}

#[cfg(test)]
mod tests;
