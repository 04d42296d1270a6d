//! As much of HTTP/1.1 as clients on loopback speak.

use std::fmt::Write;
use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};

use super::super::message::{Answer, Request};

/// Longest request line and headers together, and longest body.
const HEAD_BYTES_MAX: u64 = 64 * 1024;
const BODY_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// A request that cannot be read; the connection ends after the answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) status: u16,
    pub(super) message: &'static str,
}

const MALFORMED: Refused = Refused { status: 400, message: "this is not HTTP/1.1" };
const HEAD_TOO_LONG: Refused = Refused { status: 431, message: "the headers are too long" };
const BODY_TOO_LONG: Refused = Refused { status: 413, message: "the body is too long" };

/// Where a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Length {
    Known(u64),
    Chunked,
}

/// What stands before a body.
#[derive(Debug)]
struct Head {
    request: Request,
    length: Length,
    keep_alive: bool,
}

/// Reads a request, and whether the connection stays open behind it; nothing if the client has closed it.
pub(super) async fn read<R: AsyncBufRead + Unpin>(
    stream: &mut R,
    key_header: &str,
) -> io::Result<Result<Option<(Request, bool)>, Refused>> {
    let lines = match read_head(stream).await? {
        Ok(lines) if lines.is_empty() => return Ok(Ok(None)),
        Ok(lines) => lines,
        Err(refused) => return Ok(Err(refused)),
    };
    let Some(head) = parse_head(&lines, key_header) else { return Ok(Err(MALFORMED)) };
    let Head { request, length, keep_alive } = head;
    let body = match length {
        Length::Known(bytes) if bytes > BODY_BYTES_MAX => Err(BODY_TOO_LONG),
        Length::Known(bytes) => read_exactly(stream, bytes).await.map(Ok)?,
        Length::Chunked => read_chunks(stream).await?,
    };
    Ok(body.map(|body| Some((request.with_body(body), keep_alive))))
}

/// The lines before the empty one; none at the end of the connection.
async fn read_head<R: AsyncBufRead + Unpin>(
    stream: &mut R,
) -> io::Result<Result<Vec<String>, Refused>> {
    let mut lines = Vec::new();
    let mut bytes_left = HEAD_BYTES_MAX;
    loop {
        let Some(line) = read_line(stream, bytes_left).await? else {
            return Ok(if lines.is_empty() { Ok(lines) } else { Err(HEAD_TOO_LONG) });
        };
        bytes_left = bytes_left.saturating_sub(line.len() as u64 + 2);
        if line.is_empty() {
            return Ok(Ok(lines));
        }
        lines.push(line);
    }
}

/// A line without its end; nothing if it does not end within `bytes_max`, or the connection does before.
async fn read_line<R: AsyncBufRead + Unpin>(
    stream: &mut R,
    bytes_max: u64,
) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    stream.take(bytes_max).read_until(b'\n', &mut line).await?;
    if line.pop() != Some(b'\n') {
        return Ok(None);
    }
    let line = String::from_utf8_lossy(&line);
    Ok(Some(line.trim_end_matches('\r').to_owned()))
}

/// The request without its body.
fn parse_head(lines: &[String], key_header: &str) -> Option<Head> {
    let (first, headers) = lines.split_first()?;
    let mut words = first.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    if !version.starts_with("HTTP/1.") || words.next().is_some() {
        return None;
    }
    let mut request = Request::new(method, target);
    let mut length = Length::Known(0);
    let mut keep_alive = version != "HTTP/1.0";
    for header in headers {
        let (name, value) = header.split_once(':')?;
        let (name, value) = (name.to_ascii_lowercase(), value.trim());
        match name.as_str() {
            "content-length" => length = Length::Known(value.parse().ok()?),
            "transfer-encoding" => length = Length::Chunked,
            "connection" => keep_alive = !value.eq_ignore_ascii_case("close"),
            "authorization" => request = request.with_account(value),
            _ => {}
        }
        if name.eq_ignore_ascii_case(key_header) {
            request = request.with_key(value);
        }
    }
    Some(Head { request, length, keep_alive })
}

async fn read_exactly<R: AsyncBufRead + Unpin>(stream: &mut R, bytes: u64) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    if stream.take(bytes).read_to_end(&mut body).await? as u64 == bytes {
        Ok(body)
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

async fn read_chunks<R: AsyncBufRead + Unpin>(
    stream: &mut R,
) -> io::Result<Result<Vec<u8>, Refused>> {
    let mut body = Vec::new();
    loop {
        let Some(line) = read_line(stream, HEAD_BYTES_MAX).await? else {
            return Ok(Err(MALFORMED));
        };
        let size = line.split(';').next().unwrap_or_default().trim();
        let Ok(bytes) = u64::from_str_radix(size, 16) else { return Ok(Err(MALFORMED)) };
        if bytes.saturating_add(body.len() as u64) > BODY_BYTES_MAX {
            return Ok(Err(BODY_TOO_LONG));
        }
        if bytes == 0 {
            // Trailers say nothing to us.
            return Ok(read_head(stream).await?.map(|_| body));
        }
        body.append(&mut read_exactly(stream, bytes).await?);
        read_line(stream, HEAD_BYTES_MAX).await?;
    }
}

/// An answer as it goes over the wire.
pub(super) fn render(answer: &Answer, keep_alive: bool) -> String {
    let (status, body) = (answer.status(), answer.body());
    let connection = if keep_alive { "keep-alive" } else { "close" };
    let mut text = format!(
        "HTTP/1.1 {status} \r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: {connection}\r\n",
        body.len()
    );
    for (name, value) in answer.headers() {
        // Writing to a `String` does not fail.
        let _ = write!(text, "{name}: {value}\r\n");
    }
    text.push_str("\r\n");
    text.push_str(body);
    text
}

#[cfg(test)]
mod tests;
