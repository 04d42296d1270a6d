//! Servers that answer from a script and keep what they were told.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// A request: its head, and its body.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Request {
    /// The values of a header.
    pub(crate) fn header(&self, name: &str) -> Vec<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(it, _)| it.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect()
    }
}

/// What came, in the order in which it came.
pub(crate) type Seen<T> = Arc<Mutex<Vec<T>>>;

/// Answers one request after the other, each on its own connection, by the script and then with 200. An empty answer
/// closes the connection instead.
pub(crate) async fn http(script: &'static [&'static str]) -> (String, Seen<Request>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook?token=s3cret", listener.local_addr().unwrap());
    let seen = Seen::default();
    let requests = Arc::clone(&seen);
    tokio::spawn(async move {
        let mut script = script.iter();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let mut stream = BufReader::new(stream);
            let request = read(&mut stream).await;
            requests.lock().unwrap().push(request);
            let answer = script.next().copied().unwrap_or("200 OK\r\n");
            if !answer.is_empty() {
                let answer =
                    format!("HTTP/1.1 {answer}connection: close\r\ncontent-length: 0\r\n\r\n");
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        }
    });
    (url, seen)
}

pub(crate) async fn read(stream: &mut BufReader<TcpStream>) -> Request {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(stream.read_line(&mut head).await.unwrap() > 0, "the head ends");
    }
    let mut request = Request { head, body: Vec::new() };
    let length = request.header("content-length")[0].parse().unwrap();
    request.body = vec![0; length];
    stream.read_exact(&mut request.body).await.unwrap();
    request
}

/// Takes mails; the answers to DATA's end come from the script, and then are 250. An empty answer closes the
/// connection instead.
pub(crate) async fn smtp(script: &'static [&'static str]) -> (u16, Seen<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let seen = Seen::default();
    let mails = Arc::clone(&seen);
    tokio::spawn(async move {
        let mut script = script.iter();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let mut stream = BufReader::new(stream);
            stream.write_all(b"220 test\r\n").await.unwrap();
            let mut line = String::new();
            while stream.read_line(&mut line).await.unwrap_or(0) > 0 {
                let answer = match line.get(..4) {
                    Some("EHLO") => "250 test",
                    Some("DATA") => {
                        stream.write_all(b"354 go on\r\n").await.unwrap();
                        let mail = mail(&mut stream).await;
                        mails.lock().unwrap().push(mail);
                        script.next().copied().unwrap_or("250 taken")
                    }
                    Some("QUIT") => "221 bye",
                    _ => "250 ok",
                };
                if answer.is_empty() {
                    break;
                }
                stream.write_all(format!("{answer}\r\n").as_bytes()).await.unwrap();
                line.clear();
            }
        }
    });
    (port, seen)
}

pub(crate) async fn mail(stream: &mut BufReader<TcpStream>) -> String {
    let mut mail = String::new();
    while !mail.ends_with("\r\n.\r\n") {
        assert!(stream.read_line(&mut mail).await.unwrap() > 0, "the mail ends");
    }
    mail
}

/// A port that nobody listens on, and that nobody else gets as long as this is there.
pub(crate) fn silent() -> TcpSocket {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    socket
}
