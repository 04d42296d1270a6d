//! The sink for mail.

use idempotent_runtime::Error;
use idempotent_runtime::outbox::{Delivery, Sink, SinkError, SinkExt, SmtpSink};
use lettre::{AsyncSmtpTransport, Message, Tokio1Executor};

use crate::server::{silent, smtp};
use crate::{Running, settled, with_message};

fn compose(delivery: &Delivery) -> Result<Message, SinkError> {
    let subject: String = delivery.json()?;
    Message::builder()
        .from("shop@shop.example".parse().map_err(SinkError::dead)?)
        .to("ada@example.org".parse().map_err(SinkError::dead)?)
        .subject(subject)
        .body("Thank you.".to_owned())
        .map_err(SinkError::dead)
}

fn server(port: u16) -> AsyncSmtpTransport<Tokio1Executor> {
    AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous("127.0.0.1").port(port).build()
}

fn sink(port: u16) -> impl Sink {
    SmtpSink::new(server(port), "shop.example", compose).unwrap()
}

/// The `Message-ID`s of mails.
fn ids(mails: &[String]) -> Vec<&str> {
    let id = |mail: &String| mail.lines().position(|line| line.starts_with("Message-ID: "));
    let of = |mail| -> &str { String::as_str(mail).lines().nth(id(mail).unwrap()).unwrap() };
    mails.iter().map(of).collect()
}

#[tokio::test]
async fn a_mail_has_the_same_message_id_on_every_try() {
    let (port, seen) = smtp(&["451 later", "", "250 taken"]).await;
    let runtime = with_message("order 7").await;
    let running = Running::start(&runtime, sink(port));
    assert_eq!(settled(&runtime).await, (0, 0));
    running.stop().await;
    let mails = seen.lock().unwrap().clone();
    let ids = ids(&mails);
    assert_eq!(ids.len(), 3);
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert!(ids[0].ends_with("@shop.example>"), "{ids:?}");
    assert!(mails[0].contains("Subject: order 7\r\n") && mails[0].contains("Thank you."));
}

#[tokio::test]
async fn a_mail_that_is_refused_for_good_is_dead() {
    let (port, seen) = smtp(&["554 spam"]).await;
    let runtime = with_message("order 8").await;
    let running = Running::start(&runtime, sink(port));
    assert_eq!(settled(&runtime).await, (1, 0));
    running.stop().await;
    assert_eq!(seen.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_mail_is_tried_again_where_the_login_was_refused() {
    let (port, seen) = smtp(&["535 authentication failed", "250 taken"]).await;
    let runtime = with_message("order 11").await;
    let running = Running::start(&runtime, sink(port).at_most_once());
    assert_eq!(settled(&runtime).await, (0, 0));
    running.stop().await;
    assert_eq!(seen.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn at_most_once_sends_again_what_was_refused_and_not_what_was_cut_off() {
    let (port, seen) = smtp(&["451 later", ""]).await;
    let runtime = with_message("order 9").await;
    let running = Running::start(&runtime, sink(port).at_most_once());
    assert_eq!(settled(&runtime).await, (0, 1));
    running.stop().await;
    assert_eq!(seen.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn a_server_that_is_not_there_has_no_mail() {
    let nobody = silent();
    let runtime = with_message("order 10").await;
    let port = nobody.local_addr().unwrap().port();
    let running = Running::start(&runtime, sink(port).at_most_once().max_attempts(3));
    // Tried until it is dead: with any doubt it would be in review after the first try.
    assert_eq!(settled(&runtime).await, (1, 0));
    running.stop().await;
    assert_eq!(runtime.outbox().dead(None, 1).await.unwrap()[0].attempts, 3);
}

#[tokio::test]
async fn a_wrong_domain_is_refused() {
    for domain in ["", "shop example", "shop.example>\r\nBcc: x"] {
        let wrong = SmtpSink::new(server(25), domain, compose);
        assert!(matches!(wrong, Err(Error::Config { setting: "domain", .. })), "{domain:?}");
    }
}
