//! Stands between clients and a server, and disturbs what they say to each other: message by message, at a statement, or
//! all of it.

mod link;
mod message;

use std::fmt;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use super::PostgresServer;
use link::Link;

/// Where a connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Before the statement arrives at the server.
    BeforeTheRequest,
    /// When the server has done it, and before its answer arrives at the client.
    BeforeTheAnswer,
}

/// Which way a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Way {
    /// From the client.
    ToServer,
    /// From the server.
    ToClient,
}

/// A message that comes by.
#[derive(Clone, Copy, Debug)]
pub struct Passing<'a> {
    /// The number of its connection.
    pub connection: u32,
    /// Which way it goes.
    pub way: Way,
    /// Its kind, as the protocol writes it; nothing for the first one of a connection.
    pub kind: Option<u8>,
    /// The statement that its connection named last; nothing while the session begins. Names are not quoted in it.
    pub statement: &'a str,
}

/// What becomes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It arrives.
    Passes,
    /// Its connection is cut before it. On the way to the client the server first ends what it was asked for.
    Cut,
    /// Half of it arrives, and its connection is cut.
    Torn,
    /// It and all that follows it the same way is swallowed; nobody hears of an end.
    Swallowed,
    /// It and what follows it the same way waits.
    Delayed(Duration),
    /// On its way to the server: the client sees its connection end at once, and the server hears all that was sent,
    /// so much later.
    Late(Duration),
}

type Rule = Arc<dyn Fn(&Passing<'_>) -> Fate + Send + Sync>;

/// A port of 127.0.0.1 that leads to a server. Its threads end with the connections.
///
/// Clients must not ask for TLS.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    server_port: AtomicU16,
    /// What the next statement to cut at says.
    armed: Mutex<Option<(String, Cut)>>,
    cuts: AtomicU32,
    rule: Mutex<Option<Rule>>,
    connections: AtomicU32,
    /// Requests that are to arrive late, and have not been answered.
    late: AtomicU32,
    open: Mutex<Vec<Weak<Link>>>,
    /// Those of which an end is not to hear that the other one has gone.
    mute: Mutex<Vec<Arc<Link>>>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("server_port", &self.server_port).finish_non_exhaustive()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Where to cut at this statement; at most one answer says anything.
    fn cut_at(&self, statement: &str) -> Option<Cut> {
        let mut armed = locked(&self.armed);
        let (_, cut) = armed.take_if(|(said, _)| statement.contains(said.as_str()))?;
        self.cuts.fetch_add(1, Ordering::SeqCst);
        Some(cut)
    }

    fn fate(&self, passing: &Passing<'_>) -> Fate {
        let rule = locked(&self.rule).clone();
        rule.map_or(Fate::Passes, |rule| rule(passing))
    }

    fn server_port(&self) -> u16 {
        self.server_port.load(Ordering::SeqCst)
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
        let shared = Arc::new(Shared::default());
        shared.server_port.store(server.port(), Ordering::SeqCst);
        let own = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming() {
                let Ok(client) = client else { return };
                // A server that is away refuses, and so do we: the client's end is dropped.
                if let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, own.server_port())) {
                    Link::connect(client, server, &own);
                }
            }
        });
        Self { port, shared }
    }

    /// The URL of the same database through this proxy.
    #[must_use]
    pub fn url(&self, direct: &str) -> String {
        let server = format!(":{}/", self.shared.server_port());
        let sign = if direct.contains('?') { '&' } else { '?' };
        format!("{}{sign}sslmode=disable", direct.replace(&server, &format!(":{}/", self.port)))
    }

    /// Cuts, once, the connection that next sends a statement in which `said` is found; names are not quoted in it.
    pub fn cut(&self, said: &str, cut: Cut) {
        *locked(&self.shared.armed) = Some((said.to_owned(), cut));
    }

    /// How many connections were cut at a statement.
    #[must_use]
    pub fn cuts(&self) -> u32 {
        self.shared.cuts.load(Ordering::SeqCst)
    }

    /// From now on decides what becomes of each message.
    pub fn rule(&self, rule: impl Fn(&Passing<'_>) -> Fate + Send + Sync + 'static) {
        *locked(&self.shared.rule) = Some(Arc::new(rule));
    }

    /// From now on every message arrives, but those behind one that was swallowed.
    pub fn forget_rule(&self) {
        *locked(&self.shared.rule) = None;
    }

    /// How many connections have requests that are late and that the server has yet to answer.
    #[must_use]
    pub fn late(&self) -> u32 {
        self.shared.late.load(Ordering::SeqCst)
    }

    /// Cuts every connection.
    pub fn sever(&self) {
        let open: Vec<_> = locked(&self.shared.open).drain(..).collect();
        open.iter().filter_map(Weak::upgrade).for_each(|link| link.close());
        locked(&self.shared.mute).clear();
    }

    /// Cuts every connection, and leads to another server from now on.
    pub fn lead_to(&self, server: &PostgresServer) {
        self.shared.server_port.store(server.port(), Ordering::SeqCst);
        self.sever();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.sever();
    }
}
