use super::*;

async fn parse(text: &str) -> Result<Option<(Request, bool)>, Refused> {
    read(&mut text.as_bytes(), "idempotency-key").await.unwrap()
}

#[tokio::test]
async fn reads_one_request_after_the_other() {
    let text = "POST /a?b=c HTTP/1.1\r\nHost: x\r\nIDEMPOTENCY-KEY:  k1 \r\nAuthorization: Bearer t\r\n\
                Content-Length: 3\r\n\r\nonePOST /d HTTP/1.1\r\nConnection: close\r\n\r\n";
    let mut stream = text.as_bytes();
    let first = read(&mut stream, "Idempotency-Key").await.unwrap().unwrap().unwrap();
    let wanted = Request::post("/a?b=c").with_key("k1").with_account("Bearer t").with_body("one");
    assert_eq!(first, (wanted, true));
    let second = read(&mut stream, "Idempotency-Key").await.unwrap().unwrap().unwrap();
    assert_eq!(second, (Request::post("/d"), false));
    assert_eq!(read(&mut stream, "Idempotency-Key").await.unwrap(), Ok(None));
}

#[tokio::test]
async fn reads_a_body_in_chunks() {
    let text = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n\
                3;x=y\r\none\r\nA\r\n and 2 and\r\n0\r\ntrailer: t\r\n\r\n";
    let (request, _) = parse(text).await.unwrap().unwrap();
    assert_eq!(request.body(), b"one and 2 and");
}

#[tokio::test]
async fn refuses_what_is_no_http_and_what_is_too_long() {
    assert_eq!(parse("hello\r\n\r\n").await, Err(MALFORMED));
    assert_eq!(parse("GET / HTTP/2\r\n\r\n").await, Err(MALFORMED));
    assert_eq!(parse("GET / HTTP/1.1\r\nno colon\r\n\r\n").await, Err(MALFORMED));
    assert_eq!(parse("POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n").await, Err(MALFORMED));
    let long = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(65_536));
    assert_eq!(parse(&long).await, Err(HEAD_TOO_LONG));
    let body = "POST / HTTP/1.1\r\nContent-Length: 16777217\r\n\r\n";
    assert_eq!(parse(body).await, Err(BODY_TOO_LONG));
    let chunk = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n";
    assert_eq!(parse(chunk).await, Err(BODY_TOO_LONG));
}

#[tokio::test]
async fn a_body_that_breaks_off_is_an_error() {
    let mut stream = "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\non".as_bytes();
    let error = read(&mut stream, "k").await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
}

#[test]
fn an_answer_has_its_headers() {
    let answer = Answer::new(503, "{}").with_retry_after(std::time::Duration::from_secs(7));
    assert_eq!(
        render(&answer, false),
        "HTTP/1.1 503 \r\ncontent-type: application/json\r\ncontent-length: 2\r\n\
         connection: close\r\nretry-after: 7\r\n\r\n{}"
    );
}
