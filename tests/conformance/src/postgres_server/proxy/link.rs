//! One connection through the proxy: two threads, one for each way.

use std::io::{self, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::message::{Message, Statements};
use super::{Cut, Fate, Passing, Shared, Way, locked};

/// What both threads know.
pub(super) struct Link {
    number: u32,
    shared: Arc<Shared>,
    client: TcpStream,
    server: TcpStream,
    statements: Mutex<Statements>,
    /// The next answer is cut.
    is_cut: AtomicBool,
    /// The client's end is not told to the server, nor the server's to the client.
    is_mute: AtomicBool,
    is_late: AtomicBool,
}

impl Link {
    /// Connects the two until one of them ends.
    pub(super) fn connect(client: TcpStream, server: TcpStream, shared: &Arc<Shared>) {
        // A message goes out when it comes in: half of one is to be seen. A connection that is gone says so later.
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let link = Arc::new(Self {
            number: shared.connections.fetch_add(1, Ordering::SeqCst),
            shared: Arc::clone(shared),
            client,
            server,
            statements: Mutex::default(),
            is_cut: AtomicBool::new(false),
            is_mute: AtomicBool::new(false),
            is_late: AtomicBool::new(false),
        });
        let mut open = locked(&shared.open);
        open.retain(|link| link.strong_count() > 0);
        open.push(Arc::downgrade(&link));
        drop(open);
        let answers = Arc::clone(&link);
        thread::spawn(move || link.closed_after(link.forward_requests()));
        thread::spawn(move || {
            answers.closed_after(answers.forward_answers());
            if answers.is_late.load(Ordering::SeqCst) {
                answers.shared.late.fetch_sub(1, Ordering::SeqCst);
            }
        });
    }

    /// Closes both ends.
    pub(super) fn close(&self) {
        // They may be gone already.
        let _ = (self.client.shutdown(Shutdown::Both), self.server.shutdown(Shutdown::Both));
    }

    /// Closes both; who went first, and why, is of no interest.
    fn closed_after(&self, _ended: io::Result<()>) {
        if !self.is_mute.load(Ordering::SeqCst) {
            self.close();
        }
    }

    fn forward_requests(self: &Arc<Self>) -> io::Result<()> {
        let (mut from, mut to) = (&self.client, &self.server);
        // The first one has no kind.
        let mut message = Message::read(&mut from, None)?;
        loop {
            match self.fate_of_request(&message) {
                Fate::Passes => to.write_all(&message.bytes)?,
                Fate::Cut => return Ok(()),
                Fate::Torn => return to.write_all(&message.bytes[..message.bytes.len() / 2]),
                Fate::Swallowed => return self.swallow(&self.client),
                Fate::Delayed(by) => {
                    thread::sleep(by);
                    to.write_all(&message.bytes)?;
                }
                Fate::Late(by) => return self.forward_late(&message, by),
            }
            message = Message::read_any(&mut from)?;
        }
    }

    fn fate_of_request(&self, message: &Message) -> Fate {
        let mut statements = locked(&self.statements);
        let runs = statements.sent(message);
        let cut_at = runs.then(|| self.shared.cut_at(statements.named())).flatten();
        match cut_at {
            Some(Cut::BeforeTheRequest) => return Fate::Cut,
            Some(Cut::BeforeTheAnswer) => self.is_cut.store(true, Ordering::SeqCst),
            None => {}
        }
        self.shared.fate(&self.passing(Way::ToServer, message, statements.named()))
    }

    fn passing<'a>(&self, way: Way, message: &Message, statement: &'a str) -> Passing<'a> {
        Passing { connection: self.number, way, kind: message.kind, statement }
    }

    /// Reads what comes until it ends, and hands none of it on; not even the end.
    fn swallow(self: &Arc<Self>, mut from: &TcpStream) -> io::Result<()> {
        self.is_mute.store(true, Ordering::SeqCst);
        locked(&self.shared.mute).push(Arc::clone(self));
        io::copy(&mut from, &mut io::sink()).map(drop)
    }

    /// Ends the client's connection, and hands on what he had sent before so much later.
    fn forward_late(&self, first: &Message, by: Duration) -> io::Result<()> {
        let (mut from, mut to) = (&self.client, &self.server);
        self.shared.late.fetch_add(1, Ordering::SeqCst);
        self.is_late.store(true, Ordering::SeqCst);
        self.is_cut.store(true, Ordering::SeqCst);
        self.client.shutdown(Shutdown::Write)?;
        let mut all = first.bytes.clone();
        while let Ok(message) = Message::read_any(&mut from) {
            // He says farewell, which the server is not to hear before what was said earlier is done.
            if message.kind != Some(b'X') {
                all.extend(message.bytes);
            }
        }
        thread::sleep(by);
        to.write_all(&all)?;
        // The thread of the answers ends when the server has done it all.
        self.is_mute.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// Hands messages on. Once the connection is cut, waits until the server is ready for the next statement.
    fn forward_answers(self: &Arc<Self>) -> io::Result<()> {
        let (mut from, mut to) = (&self.server, &self.client);
        loop {
            let message = Message::read_any(&mut from)?;
            let fate = if self.is_cut.load(Ordering::SeqCst) {
                Fate::Cut
            } else {
                let statements = locked(&self.statements);
                self.shared.fate(&self.passing(Way::ToClient, &message, statements.named()))
            };
            match fate {
                Fate::Passes | Fate::Late(_) => to.write_all(&message.bytes)?,
                Fate::Cut => return self.until_ready(&message),
                Fate::Torn => {
                    to.write_all(&message.bytes[..message.bytes.len() / 2])?;
                    return self.until_ready(&message);
                }
                Fate::Swallowed => return self.swallow(&self.server),
                Fate::Delayed(by) => {
                    thread::sleep(by);
                    to.write_all(&message.bytes)?;
                }
            }
        }
    }

    /// Waits until the server has done what it was asked for, and closes both ends.
    fn until_ready(&self, last: &Message) -> io::Result<()> {
        let mut kind = last.kind;
        while kind != Some(b'Z') {
            kind = Message::read_any(&mut &self.server)?.kind;
        }
        self.is_mute.store(false, Ordering::SeqCst);
        Ok(())
    }
}
