use tokio::io::AsyncReadExt;

use super::super::message::Request;
use super::super::script::{Hold, Script};
use super::*;

const CHARGE: &str = "POST /charges HTTP/1.1\r\nidempotency-key: k\r\ncontent-length: 2\r\n\r\n{}";

async fn connect(listening: &Listening) -> TcpStream {
    TcpStream::connect(listening.url().trim_start_matches("http://")).await.unwrap()
}

/// What the provider says until it closes the connection.
async fn rest(mut stream: TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

#[tokio::test]
async fn requests_on_one_connection_are_answered_in_turn() {
    let provider = FakeProvider::new();
    let listening = provider.listen().await.unwrap();
    let mut stream = connect(&listening).await;
    let last = CHARGE.replace("\r\nidem", "\r\nconnection: close\r\nidem");
    stream.write_all(format!("{CHARGE}{last}").as_bytes()).await.unwrap();
    let text = rest(stream).await;
    let answers: Vec<&str> = text.split("HTTP/1.1 ").skip(1).collect();
    let [first, second] = answers[..] else { panic!("{text}") };
    assert!(first.starts_with("200") && !first.contains("idempotent-replayed"), "{first}");
    assert!(second.contains("idempotent-replayed: true\r\n"), "{second}");
    assert!(first.ends_with("\r\n\r\n{\"id\":\"fake_1\"}"), "{first}");
    let wanted = Request::post("/charges").with_key("k").with_body("{}");
    assert_eq!(provider.requests()[1].request, wanted);
}

#[tokio::test]
async fn a_provider_that_hangs_up_says_nothing_and_what_is_no_http_is_told_so() {
    let provider = FakeProvider::new();
    provider.next(Script::hang_up());
    let listening = provider.listen().await.unwrap();
    for (text, says) in [(CHARGE, ""), ("hello\r\n\r\n", "HTTP/1.1 400 ")] {
        let mut stream = connect(&listening).await;
        stream.write_all(text.as_bytes()).await.unwrap();
        let said = rest(stream).await;
        assert!(said.starts_with(says) && said.is_empty() == says.is_empty(), "{said}");
    }
    assert_eq!((provider.effects_total(), provider.requests().len()), (1, 1));
}

#[tokio::test]
async fn closing_waits_for_what_is_being_executed_and_not_for_idle_connections() {
    let provider = FakeProvider::new();
    let hold = Hold::new();
    provider.next(Script::usual().hold(&hold));
    let listening = provider.listen().await.unwrap();
    let idle = connect(&listening).await;
    let mut busy = connect(&listening).await;
    busy.write_all(CHARGE.as_bytes()).await.unwrap();
    provider.until_executing(1).await;
    let mut closing = tokio::spawn(listening.close());
    assert_eq!(rest(idle).await, "");
    assert!(!closing.is_finished());
    hold.release();
    (&mut closing).await.unwrap();
    assert!(rest(busy).await.starts_with("HTTP/1.1 200 "));
    assert_eq!(provider.effects_total(), 1);
}
