//! Messages of PostgreSQL's protocol, and the statements that they name.

use std::collections::HashMap;
use std::io::{self, Read};

/// A message with its head.
pub(super) struct Message {
    pub(super) kind: Option<u8>,
    pub(super) bytes: Vec<u8>,
}

impl Message {
    pub(super) fn read_any(from: &mut impl Read) -> io::Result<Self> {
        let mut kind = [0];
        from.read_exact(&mut kind)?;
        Self::read(from, Some(kind[0]))
    }

    pub(super) fn read(from: &mut impl Read, kind: Option<u8>) -> io::Result<Self> {
        let mut length = [0; 4];
        from.read_exact(&mut length)?;
        let body = usize::try_from(i32::from_be_bytes(length)).map_err(io::Error::other)?;
        let mut bytes: Vec<u8> = kind.into_iter().chain(length).collect();
        let head = bytes.len();
        bytes.resize(head + body.saturating_sub(4), 0);
        from.read_exact(&mut bytes[head..])?;
        Ok(Self { kind, bytes })
    }

    /// The texts at the beginning of its body, each of which ends with a NUL.
    fn texts(&self) -> impl Iterator<Item = String> {
        let body = self.bytes.get(5..).unwrap_or_default();
        body.split(|byte| *byte == 0).map(|text| String::from_utf8_lossy(text).into_owned())
    }
}

/// The statements of one connection.
#[derive(Default)]
pub(super) struct Statements {
    prepared: HashMap<String, String>,
    /// The one that was named last.
    named: String,
}

impl Statements {
    /// Takes in a message of the client. True if it has the server run the statement that was named.
    pub(super) fn sent(&mut self, message: &Message) -> bool {
        let mut texts = message.texts();
        match message.kind {
            Some(b'P') => {
                let (Some(name), Some(text)) = (texts.next(), texts.next()) else { return false };
                self.named = text.replace('"', "");
                self.prepared.insert(name, self.named.clone());
                false
            }
            Some(b'B') => {
                let bound = texts.nth(1).and_then(|name| self.prepared.get(&name));
                self.named = bound.cloned().unwrap_or_default();
                false
            }
            Some(b'Q') => {
                self.named = texts.next().unwrap_or_default().replace('"', "");
                true
            }
            Some(b'E') => true,
            _ => false,
        }
    }

    /// The statement that was named last.
    pub(super) fn named(&self) -> &str {
        &self.named
    }
}
