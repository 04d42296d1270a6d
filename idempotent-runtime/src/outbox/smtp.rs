//! Delivers by mail.

use std::error::Error as _;
use std::time::Duration;
use std::{fmt, io};

use async_trait::async_trait;
use lettre::message::header::MessageId;
use lettre::{AsyncSmtpTransport, AsyncTransport as _, Message, Tokio1Executor};
use tokio::time::timeout;

use super::sink::{Delivery, Sink, SinkError};
use crate::error::Error;

/// A server may look through a mail for minutes before it answers (RFC 5321, §4.5.3.2).
const TIMEOUT_DEFAULT: Duration = Duration::from_mins(10);

/// A sink that sends each message as a mail.
///
/// Its `Message-ID` is `<id@domain>`, the same on every delivery. That lets people and mail programs see that two mails
/// are one, but no mail server drops the second: SMTP knows no idempotency key. A relay that dies between the server's
/// "250" and the acknowledgement sends the mail again. Where that is worse than no mail at all, deliver
/// [at most once](super::SinkExt::at_most_once).
///
/// A mail that the server refuses for good (5xx) is dead; what it refuses for now (4xx), or where it refuses the
/// connection or your credentials (53x), is tried again, also at most once; where the connection breaks, or the server says
/// nothing for too long, the mail may have gone.
///
/// # Examples
///
/// ```
/// # use idempotent_runtime::{Error, Runtime, outbox::{Delivery, Relay, SinkError, SmtpSink}};
/// use lettre::{AsyncSmtpTransport, Message, Tokio1Executor};
///
/// # async fn serve(runtime: &Runtime) -> Result<(), Error> {
/// let server = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous("127.0.0.1").build();
/// let sink = SmtpSink::new(server, "shop.example", |delivery: &Delivery| {
///     let order: String = delivery.json()?;
///     Message::builder()
///         .from("Shop <shop@shop.example>".parse().map_err(SinkError::dead)?)
///         .to("ada@example.org".parse().map_err(SinkError::dead)?)
///         .subject(format!("Your order {order}"))
///         .body("Thank you.".to_owned())
///         .map_err(SinkError::dead)
/// })?;
/// Relay::new(runtime).sink("receipt-email", sink).run().await
/// # }
/// ```
#[derive(Clone)]
pub struct SmtpSink<F> {
    server: AsyncSmtpTransport<Tokio1Executor>,
    domain: String,
    timeout: Duration,
    compose: F,
}

impl<F> fmt::Debug for SmtpSink<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SmtpSink")
            .field("domain", &self.domain)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

impl<F> SmtpSink<F>
where
    F: Fn(&Delivery) -> Result<Message, SinkError> + Send + Sync + 'static,
{
    /// A sink that has `compose` write the mail, and `server` send it. `domain` is the sender's: the right-hand side
    /// of each `Message-ID`, which replaces one that `compose` may have set.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] if the domain is not letters, digits, dots and hyphens.
    pub fn new(
        server: AsyncSmtpTransport<Tokio1Executor>,
        domain: impl Into<String>,
        compose: F,
    ) -> Result<Self, Error> {
        let domain = domain.into();
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-".contains(&byte);
        if domain.is_empty() || domain.len() > 253 || !domain.bytes().all(plain) {
            let reason = format!("{domain:?} is not a domain; write one like `shop.example`");
            return Err(Error::Config { setting: "domain", reason });
        }
        Ok(Self { server, domain, timeout: TIMEOUT_DEFAULT, compose })
    }

    /// How long the server may take over a mail, from the connection to its "250"; 10 minutes unless set. The timeout of
    /// `server` is about opening the connection only.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

#[async_trait]
impl<F> Sink for SmtpSink<F>
where
    F: Fn(&Delivery) -> Result<Message, SinkError> + Send + Sync + 'static,
{
    async fn deliver(&self, delivery: &Delivery) -> Result<(), SinkError> {
        let mut mail = (self.compose)(delivery)?;
        let id = format!("<{}@{}>", delivery.id(), self.domain);
        mail.headers_mut().set(MessageId::from(id));
        let Ok(answer) = timeout(self.timeout, self.server.send(mail)).await else {
            let text = format!("the server gave no answer in {:?}", self.timeout);
            return Err(SinkError::retry(text));
        };
        match answer {
            Ok(_) => Ok(()),
            Err(error) if is_about_us(&error) => Err(SinkError::not_delivered(error)),
            Err(error) if error.is_permanent() => Err(SinkError::dead(error)),
            Err(error) if error.is_transient() || is_refused(&error) => {
                Err(SinkError::not_delivered(error))
            }
            Err(error) => Err(SinkError::retry(error)),
        }
    }
}

/// Whether it was the login that was refused (RFC 4954, §6). A password that changed is put right, and no mail is less wanted
/// for it.
fn is_about_us(error: &lettre::transport::smtp::Error) -> bool {
    error.status().is_some_and(|code| matches!(u16::from(code), 530..=539))
}

/// Whether nobody listened. Every other failure of a connection may have come after the mail was taken.
fn is_refused(error: &lettre::transport::smtp::Error) -> bool {
    let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    source.is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}
