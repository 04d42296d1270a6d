//! What goes over the wire, and the worker's end of it.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use idempotent_runtime::Disposition;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Mutex;

use crate::worker::Delivery;

/// A message's number.
pub(crate) type Tag = usize;

/// From the broker: a delivery to handle.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Handed {
    pub(crate) tag: Tag,
    pub(crate) delivery: Delivery,
}

/// From a worker: what to do with it now.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Settled {
    pub(super) tag: Tag,
    pub(super) verdict: Verdict,
}

/// [`Disposition`], for the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Verdict {
    Ack,
    RetryAfter { ms: u64 },
    DeadLetter,
}

impl From<Disposition> for Verdict {
    fn from(disposition: Disposition) -> Self {
        match disposition {
            Disposition::Ack => Self::Ack,
            Disposition::RetryAfter(delay) => {
                Self::RetryAfter { ms: u64::try_from(delay.as_millis()).unwrap_or(u64::MAX) }
            }
            Disposition::DeadLetter => Self::DeadLetter,
        }
    }
}

/// A message as a line.
pub(super) fn line(message: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// A worker's connection to the broker.
#[derive(Debug)]
pub(crate) struct Subscription {
    lines: Lines<BufReader<OwnedReadHalf>>,
    answers: Answers,
}

/// Where a worker answers; clones share the connection.
#[derive(Clone, Debug)]
pub(crate) struct Answers {
    writer: Arc<Mutex<OwnedWriteHalf>>,
}

impl Subscription {
    /// Connects; deliveries come at once.
    pub(crate) async fn open(broker: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(broker).await?;
        stream.set_nodelay(true)?;
        let (reader, writer) = stream.into_split();
        let answers = Answers { writer: Arc::new(Mutex::new(writer)) };
        Ok(Self { lines: BufReader::new(reader).lines(), answers })
    }

    /// The next delivery; none when the broker has closed the connection.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Handed>> {
        let Some(line) = self.lines.next_line().await? else { return Ok(None) };
        Ok(Some(serde_json::from_str(&line)?))
    }

    /// Where to answer.
    pub(crate) fn answers(&self) -> Answers {
        self.answers.clone()
    }
}

impl Answers {
    /// The delivery is done.
    pub(crate) async fn ack(&self, tag: Tag) -> io::Result<()> {
        self.settle(tag, Disposition::Ack).await
    }

    /// The delivery is done, to be delivered again, or given up.
    pub(crate) async fn settle(&self, tag: Tag, disposition: Disposition) -> io::Result<()> {
        let line = line(&Settled { tag, verdict: disposition.into() })?;
        self.writer.lock().await.write_all(&line).await
    }
}
