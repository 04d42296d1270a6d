//! The ready sinks hold the contract.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use idempotent_runtime::outbox::{Delivery, HttpSink, Sink, SinkError, SmtpSink};
use idempotent_runtime::testing::sink_conformance::{Receiver, Reply, Taken};
use lettre::{AsyncSmtpTransport, Message, Tokio1Executor};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;

use crate::server::{mail, read, silent};

/// When the sinks give up.
const TIMEOUT: Duration = Duration::from_secs(12);

mod over_http {
    use super::{Server, post, posts};

    idempotent_runtime::sink_conformance!(Server::start(
        post,
        |port| { std::sync::Arc::new(posts(port)) },
        true
    ));
}

mod signed {
    use super::{Server, post, posts};

    idempotent_runtime::sink_conformance!(Server::start(
        post,
        |port| {
            std::sync::Arc::new(
                posts(port).secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap(),
            )
        },
        true
    ));
}

mod by_mail {
    use super::{Server, mails, sends};

    idempotent_runtime::sink_conformance!(Server::start(mails, sends, false));
}

/// What is to be answered, and what was taken.
#[derive(Debug)]
struct State {
    next: Mutex<Option<Reply>>,
    taken: Mutex<Vec<Taken>>,
    held: Semaphore,
    let_go: Semaphore,
    silent: Mutex<Vec<TcpSocket>>,
}

impl State {
    /// The next answer, held back if it is to be.
    async fn reply(&self) -> Option<Reply> {
        let reply = self.next.lock().unwrap().take();
        if reply == Some(Reply::Hold) {
            self.held.add_permits(1);
            self.let_go.acquire().await.unwrap().forget();
        }
        reply
    }

    fn take(&self, taken: Taken) {
        self.taken.lock().unwrap().push(taken);
    }
}

/// A server on loopback.
struct Server {
    state: Arc<State>,
    port: u16,
    open: fn(u16) -> Arc<dyn Sink>,
    /// Whether it says when to come back; no mail server does.
    says_when: bool,
}

/// How a protocol serves a connection.
trait Speaks {
    fn serve(self, stream: TcpStream, state: Arc<State>);
}

impl<F, S> Speaks for F
where
    F: Fn(BufReader<TcpStream>, Arc<State>) -> S,
    S: Future<Output = ()> + Send + 'static,
{
    fn serve(self, stream: TcpStream, state: Arc<State>) {
        tokio::spawn(self(BufReader::new(stream), state));
    }
}

impl Server {
    async fn start(
        serve: impl Speaks + Copy + Send + 'static,
        open: fn(u16) -> Arc<dyn Sink>,
        says_when: bool,
    ) -> Self {
        let state = Arc::new(State {
            next: Mutex::default(),
            taken: Mutex::default(),
            held: Semaphore::new(0),
            let_go: Semaphore::new(0),
            silent: Mutex::default(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let serving = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                serve.serve(stream, Arc::clone(&serving));
            }
        });
        Self { state, port, open, says_when }
    }
}

#[async_trait]
impl Receiver for Server {
    async fn sink(&self) -> Arc<dyn Sink> {
        (self.open)(self.port)
    }

    async fn nowhere(&self) -> Option<Arc<dyn Sink>> {
        let taken = silent();
        let sink = (self.open)(taken.local_addr().unwrap().port());
        self.state.silent.lock().unwrap().push(taken);
        Some(sink)
    }

    async fn reply(&self, reply: Reply) -> bool {
        let is_known = self.says_when || !matches!(reply, Reply::PostponeFor(_));
        if is_known {
            *self.state.next.lock().unwrap() = Some(reply);
        }
        is_known
    }

    async fn until_held(&self) {
        self.state.held.acquire().await.unwrap().forget();
    }

    async fn let_go(&self) {
        self.state.let_go.add_permits(1);
    }

    async fn taken(&self) -> Vec<Taken> {
        self.state.taken.lock().unwrap().clone()
    }
}

async fn post(mut stream: BufReader<TcpStream>, state: Arc<State>) {
    let request = read(&mut stream).await;
    let id = request.header("idempotency-key")[0].to_owned();
    let taken = Taken { id, body: request.body, topic: None };
    let answer = match state.reply().await {
        Some(Reply::Refuse) => "410 Gone\r\n".to_owned(),
        Some(Reply::Postpone) => "503 Away\r\n".to_owned(),
        Some(Reply::PostponeFor(after)) => {
            format!("429 Slowly\r\nretry-after: {}\r\n", after.as_secs())
        }
        Some(Reply::HangUp) => return state.take(taken),
        Some(_) | None => {
            state.take(taken);
            "200 OK\r\n".to_owned()
        }
    };
    let answer = format!("HTTP/1.1 {answer}connection: close\r\ncontent-length: 0\r\n\r\n");
    // Whoever gave up does not hear it.
    let _ = stream.write_all(answer.as_bytes()).await;
}

fn posts(port: u16) -> HttpSink {
    HttpSink::new(&format!("http://127.0.0.1:{port}/hook")).unwrap().timeout(TIMEOUT)
}

async fn mails(mut stream: BufReader<TcpStream>, state: Arc<State>) {
    stream.write_all(b"220 test\r\n").await.unwrap();
    let mut line = String::new();
    while stream.read_line(&mut line).await.unwrap_or(0) > 0 {
        let answer = match line.get(..4) {
            Some("EHLO") => "250 test",
            Some("DATA") => {
                stream.write_all(b"354 go on\r\n").await.unwrap();
                let taken = unpacked(&mail(&mut stream).await);
                match state.reply().await {
                    Some(Reply::Refuse) => "554 spam",
                    Some(Reply::Postpone) => "451 later",
                    Some(Reply::HangUp) => return state.take(taken),
                    Some(_) | None => {
                        state.take(taken);
                        "250 taken"
                    }
                }
            }
            Some("QUIT") => "221 bye",
            _ => "250 ok",
        };
        // Whoever gave up does not hear it.
        let _ = stream.write_all(format!("{answer}\r\n").as_bytes()).await;
        line.clear();
    }
}

fn sends(port: u16) -> Arc<dyn Sink> {
    let server = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous("127.0.0.1");
    let sink = SmtpSink::new(server.port(port).build(), "shop.example", compose).unwrap();
    Arc::new(sink.timeout(TIMEOUT))
}

/// The body in hexadecimal, in lines that no mail server breaks.
fn compose(delivery: &Delivery) -> Result<Message, SinkError> {
    let mut text = String::new();
    for line in delivery.body().chunks(32) {
        for byte in line {
            let _ = write!(text, "{byte:02x}");
        }
        text.push_str("\r\n");
    }
    Message::builder()
        .from("shop@shop.example".parse().map_err(SinkError::dead)?)
        .to("ada@example.org".parse().map_err(SinkError::dead)?)
        .subject(delivery.topic())
        .body(text)
        .map_err(SinkError::dead)
}

fn unpacked(mail: &str) -> Taken {
    let (head, body) = mail.split_once("\r\n\r\n").expect("a head, and a body");
    let header = |name: &str| {
        let value = head.lines().find_map(|line| line.strip_prefix(name)).expect("it is there");
        value.trim_start_matches(": ").to_owned()
    };
    let id = header("Message-ID").trim_matches(['<', '>']).to_owned();
    let id = id.split('@').next().expect("a part before the domain").to_owned();
    let digits: Vec<u8> = body.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    Taken { id, body: digits.chunks(2).map(byte).collect(), topic: Some(header("Subject")) }
}
