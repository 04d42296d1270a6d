//! A queue that delivers at least once, over loopback: one line of JSON a message.
//!
//! A delivery that its worker does not settle before the connection breaks is handed out again, and so is one that is
//! to be retried; what is settled is gone. Copies of a delivery are messages like any other: they go out whenever
//! their turn comes, also while another worker handles one of them. When all are settled, connections are closed.

mod queue;
mod wire;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};

use crate::worker::Delivery;
use queue::{Queue, WorkerId};
use wire::{Settled, Tag, Verdict};

pub(crate) use queue::Progress;
pub(crate) use wire::{Handed, Subscription};

/// A broker that listens on loopback.
#[derive(Debug)]
pub(crate) struct Broker {
    address: SocketAddr,
    progress: watch::Receiver<Progress>,
    serving: JoinHandle<()>,
}

impl Broker {
    /// Starts to listen on a free port, and hands `copies` out to whoever connects.
    pub(crate) async fn start(copies: Vec<Delivery>) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let queue = Queue::new(copies);
        let (sender, progress) = watch::channel(queue.progress().clone());
        let serving = tokio::spawn(serve(listener, queue, sender));
        Ok(Self { address, progress, serving })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// How far it is; changes until all is settled.
    pub(crate) fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.clone()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// What happens to the queue.
#[derive(Debug)]
enum Event {
    Settled(WorkerId, Settled),
    /// The connection broke.
    Left(WorkerId),
    /// The wait before a retry is over.
    Due(Tag),
}

/// Owns the queue: everything that happens to it happens here, one after the other.
async fn serve(listener: TcpListener, mut queue: Queue, progress: watch::Sender<Progress>) {
    let (events, mut happened) = mpsc::unbounded_channel();
    let mut outboxes: HashMap<WorkerId, mpsc::UnboundedSender<Handed>> = HashMap::new();
    // Connections and waits, aborted with this task.
    let mut tasks = JoinSet::new();
    let mut workers = 0;
    loop {
        tokio::select! {
            accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                workers += 1;
                let (outbox, outgoing) = mpsc::unbounded_channel();
                outboxes.insert(workers, outbox);
                queue.join(workers);
                tasks.spawn(connection(workers, stream, outgoing, events.clone()));
            },
            Some(event) = happened.recv() => match event {
                Event::Left(worker) => {
                    outboxes.remove(&worker);
                    queue.leave(worker);
                }
                Event::Due(tag) => queue.due(tag),
                Event::Settled(worker, Settled { tag, verdict }) => {
                    if queue.settle(worker, tag, verdict)
                        && let Verdict::RetryAfter { ms } = verdict
                    {
                        tasks.spawn(wait(Duration::from_millis(ms), tag, events.clone()));
                    }
                }
            },
            Some(_) = tasks.join_next() => {}
        }
        for (worker, handed) in queue.hand_out() {
            if let Some(outbox) = outboxes.get(&worker) {
                // A worker that has just left says so by an event, and gets nothing more then.
                let _ = outbox.send(handed);
            }
        }
        if queue.progress().drained() {
            // Closes every connection, so that the workers end.
            outboxes.clear();
        }
        progress.send_replace(queue.progress().clone());
    }
}

async fn wait(delay: Duration, tag: Tag, events: mpsc::UnboundedSender<Event>) {
    tokio::time::sleep(delay).await;
    // Fails only when the broker is closed.
    let _ = events.send(Event::Due(tag));
}

/// One worker's connection, until it breaks.
async fn connection(
    worker: WorkerId,
    stream: TcpStream,
    outgoing: mpsc::UnboundedReceiver<Handed>,
    events: mpsc::UnboundedSender<Event>,
) {
    // However it broke: the worker is gone, and what it did not settle goes to another one.
    let _ = converse(worker, stream, outgoing, &events).await;
    let _ = events.send(Event::Left(worker));
}

async fn converse(
    worker: WorkerId,
    mut stream: TcpStream,
    mut outgoing: mpsc::UnboundedReceiver<Handed>,
    events: &mpsc::UnboundedSender<Event>,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (incoming, mut writer) = stream.split();
    let mut lines = BufReader::new(incoming).lines();
    loop {
        tokio::select! {
            line = lines.next_line() => match line? {
                // The end of a line that the worker was writing when it died is no JSON: broken as well.
                Some(line) => {
                    let settled = serde_json::from_str(&line)?;
                    let _ = events.send(Event::Settled(worker, settled));
                }
                None => return Ok(()),
            },
            handed = outgoing.recv() => match handed {
                Some(handed) => writer.write_all(&wire::line(&handed)?).await?,
                None => return Ok(()),
            },
        }
    }
}

#[cfg(test)]
mod tests;
