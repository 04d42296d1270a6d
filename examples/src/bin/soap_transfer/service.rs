//! The bank: a SOAP service that books each transfer it is sent, whether it has booked it before or not.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use idempotent_runtime::testing::provider::{
    Answer, FakeProvider, Hold, Listening, Request, Script,
};

use crate::soap::{self, Content};

/// A bank that listens on loopback.
pub(crate) struct Service {
    provider: FakeProvider,
    listening: Listening,
    statement: Statement,
    hold: Hold,
}

/// The references of what is booked, and whether anybody may ask for one.
#[derive(Clone)]
struct Statement {
    references: Arc<Mutex<Vec<String>>>,
    is_open: bool,
}

impl Service {
    /// A bank with nothing booked. One that is not `open` does not know the query.
    pub(crate) async fn start(is_open: bool) -> std::io::Result<Self> {
        let statement = Statement { references: Arc::default(), is_open };
        let answering = statement.clone();
        let provider = FakeProvider::builder()
            .ignore_keys()
            .operation(|request| match read(request) {
                Ok(Content::Transfer { .. }) => "transfer".to_owned(),
                _ => "query".to_owned(),
            })
            .respond(move |request, _| answering.answer(request))
            .build();
        let listening = provider.listen().await?;
        Ok(Self { provider, listening, statement, hold: Hold::new() })
    }

    pub(crate) fn url(&self) -> &str {
        self.listening.url()
    }

    /// Takes its time over the n-th request, until [`go_on`](Self::go_on).
    pub(crate) fn dawdle(&self, number: usize) {
        self.provider.nth(number, Script::usual().hold(&self.hold));
    }

    /// Completes once it is at work on a request.
    pub(crate) async fn until_at_work(&self) {
        self.provider.until_executing(1).await;
    }

    /// Completes once everything that has arrived is done.
    pub(crate) async fn go_on(&self) {
        self.hold.release();
        self.provider.until_idle().await;
    }

    /// How many transfers it was sent.
    pub(crate) fn calls(&self) -> usize {
        self.provider.effects("transfer")
    }

    /// How many questions it was asked.
    pub(crate) fn queries(&self) -> usize {
        self.provider.effects("query")
    }

    /// The references of what is booked, as they stand on the statement.
    pub(crate) fn booked(&self) -> Vec<String> {
        self.statement.lock().clone()
    }
}

impl Statement {
    fn answer(&self, request: &Request) -> Answer {
        let content = match read(request) {
            Ok(Content::Transfer { reference, .. }) => {
                let mut references = self.lock();
                references.push(reference);
                Content::TransferResponse { booking: references.len() }
            }
            Ok(Content::FindTransfer { reference }) if self.is_open => {
                let booked = self.lock().contains(&reference);
                let status = if booked { "BOOKED" } else { "UNKNOWN" };
                Content::FindTransferResponse { status: status.to_owned() }
            }
            Ok(_) => fault("there is no such operation"),
            Err(error) => fault(&error.to_string()),
        };
        let status = if matches!(content, Content::Fault { .. }) { 500 } else { 200 };
        Answer::new(status, soap::write(content).unwrap_or_default())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<String>> {
        self.references.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(request: &Request) -> Result<Content, quick_xml::DeError> {
    soap::read(request.body())
}

fn fault(text: &str) -> Content {
    Content::Fault { faultcode: "soap:Client".to_owned(), faultstring: text.to_owned() }
}
