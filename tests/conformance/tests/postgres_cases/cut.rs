//! A proxy that can swallow an answer: the server has done what it was asked, and nobody hears of it.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

/// Stands between a client and the server on a port of 127.0.0.1. Its threads end with the connections.
pub(crate) struct Proxy {
    port: u16,
    state: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    cuts: AtomicU32,
    armed: AtomicBool,
}

/// How the server says that a claim, which selects what it inserted, or a completion has run.
const DONE: [&[u8]; 2] = [b"SELECT 1\0", b"UPDATE 1\0"];

impl Shared {
    fn lets_pass(&self, answer: &[u8]) -> bool {
        let contains = |tag: &&[u8]| answer.windows(tag.len()).any(|bytes| bytes == *tag);
        let cut = DONE.iter().any(contains) && self.armed.swap(false, Ordering::SeqCst);
        self.cuts.fetch_add(u32::from(cut), Ordering::SeqCst);
        !cut
    }
}

impl Proxy {
    pub(crate) fn before(server_port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(Shared::default());
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming() {
                let server = TcpStream::connect((Ipv4Addr::LOCALHOST, server_port));
                let (Ok(client), Ok(server)) = (client, server) else { return };
                let shared = Arc::clone(&shared);
                let (client_in, server_in) =
                    (client.try_clone().unwrap(), server.try_clone().unwrap());
                thread::spawn(move || forward(client_in, server_in, |_| true));
                thread::spawn(move || forward(server, client, |answer| shared.lets_pass(answer)));
            }
        });
        Self { port, state }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The next time that the server says it has written, that is dropped, and the connection with it.
    pub(crate) fn cut_after_the_next_statement(&self) {
        self.state.armed.store(true, Ordering::SeqCst);
    }

    /// How many answers were swallowed.
    pub(crate) fn cuts(&self) -> u32 {
        self.state.cuts.load(Ordering::SeqCst)
    }
}

/// Hands bytes on for as long as they may pass, then cuts both ways.
fn forward(mut from: TcpStream, mut to: TcpStream, passes: impl Fn(&[u8]) -> bool) {
    let mut buffer = [0; 65_536];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        if !passes(&buffer[..read]) || to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    // The other side may have gone first.
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
