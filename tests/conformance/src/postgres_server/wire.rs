//! As much of PostgreSQL's protocol as it takes to see that a server is ready and to run a statement on it.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

const PROTOCOL_3_0: i32 = 196_608;

/// A session of the user `postgres`, let in without a password.
pub(super) struct Session(TcpStream);

impl Session {
    pub(super) fn connect(port: u16, database: &str) -> io::Result<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        let mut session = Self(stream);
        let parameters = format!("user\0postgres\0database\0{database}\0\0");
        let mut body = PROTOCOL_3_0.to_be_bytes().to_vec();
        body.extend(parameters.as_bytes());
        session.send(None, &body)?;
        session.until_ready()?;
        Ok(session)
    }

    pub(super) fn execute(&mut self, sql: &str) -> io::Result<()> {
        self.send(Some(b'Q'), format!("{sql}\0").as_bytes())?;
        self.until_ready()
    }

    fn send(&mut self, kind: Option<u8>, body: &[u8]) -> io::Result<()> {
        let length = i32::try_from(body.len() + 4).map_err(io::Error::other)?;
        let mut message = Vec::from_iter(kind);
        message.extend(length.to_be_bytes());
        message.extend(body);
        self.0.write_all(&message)
    }

    /// Reads messages up to the one that says that the server waits for the next statement.
    fn until_ready(&mut self) -> io::Result<()> {
        let mut refused = None;
        loop {
            let mut head = [0; 5];
            match self.0.read_exact(&mut head) {
                Ok(()) => {}
                // After a refusal of the session the server hangs up.
                Err(error) => return Err(refused.unwrap_or(error)),
            }
            let [kind, length @ ..] = head;
            let length = usize::try_from(i32::from_be_bytes(length)).map_err(io::Error::other)?;
            let mut body = vec![0; length.saturating_sub(4)];
            self.0.read_exact(&mut body)?;
            match kind {
                b'E' => refused = Some(io::Error::other(message_of(&body))),
                b'Z' => return refused.map_or(Ok(()), Err),
                _ => {}
            }
        }
    }
}

/// The text of an error message: the field `M` of its NUL-terminated fields.
fn message_of(body: &[u8]) -> String {
    let mut fields = body.split(|byte| *byte == 0);
    let message = fields.find_map(|field| field.strip_prefix(b"M"));
    String::from_utf8_lossy(message.unwrap_or(b"an error without a message")).into_owned()
}
