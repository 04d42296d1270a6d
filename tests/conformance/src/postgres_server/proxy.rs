//! Stands between a client and the server, and cuts the connection around a statement: nobody hears whether the server
//! has done it.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::PostgresServer;

/// Where a connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Before the statement arrives at the server.
    BeforeTheRequest,
    /// When the server has done it, and before its answer arrives at the client.
    BeforeTheAnswer,
}

/// A port of 127.0.0.1 that leads to a server. Its threads end with the connections.
///
/// Clients must not ask for TLS.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    server_port: u16,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// What the next statement to cut at says.
    armed: Mutex<Option<(String, Cut)>>,
    cuts: AtomicU32,
}

impl Shared {
    /// Where to cut at this statement; at most one answer says anything.
    fn cut_at(&self, statement: &str) -> Option<Cut> {
        let statement = statement.replace('"', "");
        let mut armed = self.armed.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, cut) = armed.take_if(|(said, _)| statement.contains(said.as_str()))?;
        self.cuts.fetch_add(1, Ordering::SeqCst);
        Some(cut)
    }
}

impl Proxy {
    /// A proxy before a server.
    ///
    /// # Panics
    ///
    /// If there is no free port.
    #[must_use]
    pub fn before(server: &PostgresServer) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a free port");
        let port = listener.local_addr().expect("a listener has an address").port();
        let server_port = server.port();
        let shared = Arc::new(Shared::default());
        let own = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming() {
                let server = TcpStream::connect((Ipv4Addr::LOCALHOST, server_port));
                let (Ok(client), Ok(server)) = (client, server) else { return };
                connect(client, server, &own);
            }
        });
        Self { port, server_port, shared }
    }

    /// The URL of the same database through this proxy.
    #[must_use]
    pub fn url(&self, direct: &str) -> String {
        let (own, server) = (format!(":{}/", self.port), format!(":{}/", self.server_port));
        let sign = if direct.contains('?') { '&' } else { '?' };
        format!("{}{sign}sslmode=disable", direct.replace(&server, &own))
    }

    /// Cuts, once, the connection that next sends a statement in which `said` is found; names are not quoted in it.
    pub fn cut(&self, said: &str, cut: Cut) {
        let mut armed = self.shared.armed.lock().unwrap_or_else(PoisonError::into_inner);
        *armed = Some((said.to_owned(), cut));
    }

    /// How many connections were cut.
    #[must_use]
    pub fn cuts(&self) -> u32 {
        self.shared.cuts.load(Ordering::SeqCst)
    }
}

fn connect(client: TcpStream, server: TcpStream, shared: &Arc<Shared>) {
    // A connection that is gone again needs no threads.
    let (Ok(requests), Ok(to_server)) = (client.try_clone(), server.try_clone()) else { return };
    let is_cut = Arc::new(AtomicBool::new(false));
    let (shared, cut) = (Arc::clone(shared), Arc::clone(&is_cut));
    thread::spawn(move || {
        let mut statements = Statements::default();
        let ended = forward_requests(&requests, &to_server, |message| {
            let cut_at = statements.sent(message).and_then(|statement| shared.cut_at(&statement));
            cut.fetch_or(cut_at == Some(Cut::BeforeTheAnswer), Ordering::SeqCst);
            cut_at != Some(Cut::BeforeTheRequest)
        });
        close(ended, &requests, &to_server);
    });
    thread::spawn(move || {
        let ended = forward_answers(&server, &client, &is_cut);
        close(ended, &server, &client);
    });
}

/// Closes both; who went first, and why, is of no interest.
fn close(_ended: io::Result<()>, one: &TcpStream, other: &TcpStream) {
    let _ = one.shutdown(Shutdown::Both);
    let _ = other.shutdown(Shutdown::Both);
}

/// Hands messages on for as long as they may pass.
fn forward_requests(
    mut from: &TcpStream,
    mut to: &TcpStream,
    mut passes: impl FnMut(&Message) -> bool,
) -> io::Result<()> {
    // The first one has no kind.
    let first = Message::read(&mut from, None)?;
    to.write_all(&first.bytes)?;
    loop {
        let message = Message::read_any(&mut from)?;
        if !passes(&message) {
            return Ok(());
        }
        to.write_all(&message.bytes)?;
    }
}

/// Hands messages on. Once the connection is cut, waits until the server is ready for the next statement.
fn forward_answers(
    mut from: &TcpStream,
    mut to: &TcpStream,
    is_cut: &AtomicBool,
) -> io::Result<()> {
    loop {
        let message = Message::read_any(&mut from)?;
        if !is_cut.load(Ordering::SeqCst) {
            to.write_all(&message.bytes)?;
        } else if message.kind == Some(b'Z') {
            return Ok(());
        }
    }
}

/// A message with its head.
struct Message {
    kind: Option<u8>,
    bytes: Vec<u8>,
}

impl Message {
    fn read_any(from: &mut impl Read) -> io::Result<Self> {
        let mut kind = [0];
        from.read_exact(&mut kind)?;
        Self::read(from, Some(kind[0]))
    }

    fn read(from: &mut impl Read, kind: Option<u8>) -> io::Result<Self> {
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
struct Statements {
    prepared: HashMap<String, String>,
    bound: String,
}

impl Statements {
    /// The statement that a message has the server run, if it is one that does.
    fn sent(&mut self, message: &Message) -> Option<String> {
        let mut texts = message.texts();
        match message.kind {
            Some(b'P') => {
                let (name, statement) = (texts.next()?, texts.next()?);
                self.prepared.insert(name, statement);
                None
            }
            Some(b'B') => {
                self.bound = texts.nth(1)?;
                None
            }
            Some(b'E') => self.prepared.get(&self.bound).cloned(),
            Some(b'Q') => texts.next(),
            _ => None,
        }
    }
}
