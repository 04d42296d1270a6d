//! Rust without what is not code.

use std::iter::Peekable;
use std::str::Chars;

/// The same text with comments and the insides of literals blanked out; lines stay where they are.
#[must_use]
pub fn code(text: &str) -> String {
    let mut reader = Reader { rest: text.chars().peekable(), code: String::new() };
    while let Some(&next) = reader.rest.peek() {
        match next {
            '/' => reader.slash(),
            '"' => reader.quoted(),
            '\'' => reader.tick(),
            c if c.is_alphabetic() || c == '_' => reader.word(),
            _ => reader.keep(),
        }
    }
    reader.code
}

struct Reader<'t> {
    rest: Peekable<Chars<'t>>,
    code: String,
}

impl Reader<'_> {
    fn keep(&mut self) {
        self.code.extend(self.rest.next());
    }

    fn blank(&mut self) -> Option<char> {
        let c = self.rest.next()?;
        self.code.push(if c == '\n' { '\n' } else { ' ' });
        Some(c)
    }

    fn next_is(&mut self, c: char) -> bool {
        self.rest.peek() == Some(&c)
    }

    fn slash(&mut self) {
        let mut ahead = self.rest.clone();
        ahead.next();
        match ahead.next() {
            Some('/') => while !self.next_is('\n') && self.blank().is_some() {},
            Some('*') => self.block_comment(),
            _ => self.keep(),
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0_u32;
        let mut last = ' ';
        while let Some(c) = self.blank() {
            match (last, c) {
                ('/', '*') => depth += 1,
                ('*', '/') => depth -= 1,
                _ => {
                    last = c;
                    continue;
                }
            }
            last = ' ';
            if depth == 0 {
                return;
            }
        }
    }

    /// A literal with escapes.
    fn quoted(&mut self) {
        self.keep();
        while !self.next_is('"') {
            match self.blank() {
                Some('\\') => drop(self.blank()),
                Some(_) => {}
                None => return,
            }
        }
        self.keep();
    }

    /// A character, or a lifetime.
    fn tick(&mut self) {
        self.keep();
        let mut ahead = self.rest.clone();
        let escaped = ahead.next() == Some('\\');
        if escaped {
            self.blank();
            self.blank();
            while !self.next_is('\'') && self.blank().is_some() {}
            self.keep();
        } else if ahead.next() == Some('\'') {
            self.blank();
            self.keep();
        }
    }

    /// A word, which may open a raw literal.
    fn word(&mut self) {
        let mut word = String::new();
        while let Some(&c) = self.rest.peek().filter(|c| c.is_alphanumeric() || **c == '_') {
            word.push(c);
            self.keep();
        }
        if matches!(word.as_str(), "r" | "br" | "cr") {
            self.raw();
        }
    }

    fn raw(&mut self) {
        let mut ahead = self.rest.clone();
        let mut hashes = 0;
        while ahead.next_if_eq(&'#').is_some() {
            hashes += 1;
        }
        if ahead.next() != Some('"') {
            return;
        }
        for _ in 0..=hashes {
            self.keep();
        }
        while let Some(c) = self.blank() {
            let mut ahead = self.rest.clone();
            if c == '"' && (0..hashes).all(|_| ahead.next() == Some('#')) {
                return;
            }
        }
    }
}

/// The lines of a text, from 1.
pub fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, line))
}

/// The paths of a line of code, each as its segments: `crate::store::Store` gives three.
#[must_use]
pub fn paths(line: &str) -> Vec<Vec<&str>> {
    let mut paths: Vec<Vec<&str>> = Vec::new();
    let mut joined = false;
    let mut rest = line;
    while let Some(start) = rest.find(|c: char| c.is_alphabetic() || c == '_' || c == ':') {
        rest = &rest[start..];
        if let Some(after) = rest.strip_prefix("::") {
            joined = true;
            rest = after;
            continue;
        }
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let (word, after) = rest.split_at(end.max(1));
        match paths.last_mut().filter(|_| joined && end > 0) {
            Some(path) => path.push(word),
            None if end > 0 => paths.push(vec![word]),
            None => {}
        }
        joined = false;
        rest = after;
    }
    paths
}

#[cfg(test)]
mod tests;
