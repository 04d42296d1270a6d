//! HTTP on loopback in front of a fake provider.

mod wire;

use std::io;

use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::FakeProvider;
use super::message::{Answer, HungUp};
use wire::Refused;

/// A [`FakeProvider`] that listens on loopback, until this is closed or dropped.
///
/// # Examples
///
/// ```
/// use idempotent_runtime::testing::provider::FakeProvider;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let provider = FakeProvider::new();
/// let listening = provider.listen().await?;
/// assert!(listening.url().starts_with("http://127.0.0.1:"));
/// // … the code under test talks to `listening.url()` …
/// listening.close().await;
/// assert_eq!(provider.effects_total(), 0);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Listening {
    url: String,
    provider: FakeProvider,
    stop: watch::Sender<bool>,
    serving: JoinHandle<()>,
}

impl Listening {
    pub(super) async fn start(provider: FakeProvider) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let stop = watch::Sender::new(false);
        let serving = tokio::spawn(serve(listener, provider.clone(), stop.subscribe()));
        Ok(Self { url, provider, stop, serving })
    }

    /// Where it listens: `http://127.0.0.1:` and a port.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Stops, and waits until every request that has arrived is answered and its execution is over.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops it too; what is being executed goes on.
    pub async fn close(mut self) {
        self.stop.send_replace(true);
        // An error would be a panic of this file; then there is nothing left to wait for.
        let _ = (&mut self.serving).await;
        self.provider.until_idle().await;
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Accepts connections until told to stop, then lets the open ones finish their request.
async fn serve(listener: TcpListener, provider: FakeProvider, mut stop: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = stopped(&mut stop) => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => {
                // A client that is gone already, or no file descriptor is left: the next one may fare better.
                if let Ok((stream, _)) = accepted {
                    connections.spawn(converse(stream, provider.clone(), stop.clone()));
                }
            }
        }
    }
    while connections.join_next().await.is_some() {}
}

/// Answers one request after the other; a client that breaks off ends it.
async fn converse(
    stream: TcpStream,
    provider: FakeProvider,
    mut stop: watch::Receiver<bool>,
) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let read = tokio::select! {
            biased;
            read = wire::read(&mut stream, &provider.shared.kind.key_header) => read?,
            () = stopped(&mut stop) => return Ok(()),
        };
        match read {
            Ok(None) => return Ok(()),
            Ok(Some((request, keep_alive))) => match provider.send(request).await {
                Ok(answer) => {
                    write(&mut stream, &answer, keep_alive).await?;
                    if !keep_alive {
                        return Ok(());
                    }
                }
                Err(HungUp) => return Ok(()),
            },
            Err(Refused { status, message }) => {
                write(&mut stream, &Answer::error(status, message), false).await?;
                return Ok(());
            }
        }
    }
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    // An error says that the front was dropped, which stops it too.
    let _ = stop.wait_for(|stop| *stop).await;
}

async fn write(
    stream: &mut BufReader<TcpStream>,
    answer: &Answer,
    keep_alive: bool,
) -> io::Result<()> {
    stream.write_all(wire::render(answer, keep_alive).as_bytes()).await?;
    stream.flush().await
}

#[cfg(test)]
mod tests;
