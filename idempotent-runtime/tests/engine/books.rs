//! Transactions on the memory store: what a body writes is seen once they are committed.

use std::any::Any;
use std::slice;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use idempotent_runtime::protocol::{
    Completion, ExecutionId, State, StepRecord, StepRecorded, Written,
};
use idempotent_runtime::store::{
    Parameter, Statement, Store, StoreError, StoreErrorKind, Transaction, TransactionConnection,
    TransactionError,
};

use crate::support::{Fault, Faulty};

/// What is committed, and how transactions behave.
#[derive(Debug, Default)]
pub(crate) struct Books {
    pub(crate) lines: Vec<String>,
    pub(crate) begun: u32,
    pub(crate) rolled_back: u32,
    pub(crate) body_max: Option<Duration>,
    /// Commits that were sent and have not come through.
    late: Vec<(Completion, Vec<String>)>,
    /// The completions that bodies were given, for transactions of their own.
    asked: Vec<Completion>,
}

/// The connection of a transaction.
#[derive(Debug, Default)]
pub(crate) struct Book {
    pub(crate) pending: Vec<String>,
    /// The server gave the transaction up.
    pub(crate) gave_way: bool,
    /// The body ended the transaction by itself.
    pub(crate) broken: bool,
}

impl TransactionConnection for Book {
    const DATABASE: &'static str = "books";
}

impl Faulty {
    pub(crate) fn books(&self) -> Arc<Mutex<Books>> {
        Arc::clone(&self.books)
    }

    /// The lines that are committed.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.books.lock().unwrap().lines.clone()
    }

    /// Commits that were thought lost come through after all.
    pub(crate) async fn land(&self) {
        let late = std::mem::take(&mut self.books.lock().unwrap().late);
        for (completion, lines) in late {
            self.commit(&completion, lines).await;
        }
    }

    pub(crate) fn begun(&self) -> Box<dyn Transaction> {
        self.books.lock().unwrap().begun += 1;
        Box::new(Open { store: self.clone(), book: Book::default(), completion: None })
    }

    /// The statement of a completion: its number among those that were asked for.
    pub(crate) fn ask(&self, completion: &Completion) -> Statement {
        let mut books = self.books.lock().unwrap();
        books.asked.push(completion.clone());
        let number = i64::try_from(books.asked.len() - 1).unwrap();
        Statement::new("complete", vec![Parameter::Integer(number)])
    }

    /// Runs a statement of [`ask`](Self::ask) in a transaction of its own, and says how many rows it affected.
    pub(crate) async fn commit_own(&self, statement: &Statement) -> u64 {
        let [Parameter::Integer(number)] = statement.parameters() else { panic!("not ours") };
        let completion =
            self.books.lock().unwrap().asked[usize::try_from(*number).unwrap()].clone();
        if !self.owns(&completion).await {
            return 0;
        }
        self.inner.complete(slice::from_ref(&completion)).await.unwrap();
        1
    }

    async fn owns(&self, completion: &Completion) -> bool {
        let found = self.inner.read(&[completion.id]).await.unwrap().remove(0);
        found.is_some_and(|it| {
            let record = it.record;
            (record.owner, record.token, record.state)
                == (completion.owner, completion.token, State::Running)
        })
    }

    async fn commit(&self, completion: &Completion, lines: Vec<String>) {
        if self.owns(completion).await {
            self.inner.complete(slice::from_ref(completion)).await.unwrap();
            self.books.lock().unwrap().lines.extend(lines);
        }
    }

    /// Makes the execution another attempt's.
    pub(crate) async fn steal(&self, id: ExecutionId) {
        use idempotent_runtime::protocol::{Release, ReleaseTo};
        let record = self.inner.read(&[id]).await.unwrap().remove(0).unwrap().record;
        let to = ReleaseTo::Retry { delay_ms: 0 };
        let (owner, token, reason) = (record.owner, record.token, String::new());
        self.inner.release(&[Release { id, owner, token, to, reason }]).await.unwrap();
    }
}

struct Open {
    store: Faulty,
    book: Book,
    completion: Option<Completion>,
}

fn failed(kind: StoreErrorKind) -> StoreError {
    StoreError::new(kind, "planned")
}

#[async_trait]
impl Transaction for Open {
    fn connection(&mut self) -> &mut (dyn Any + Send) {
        &mut self.book
    }

    fn body_max(&self) -> Option<Duration> {
        self.store.books.lock().unwrap().body_max
    }

    async fn gave_way(&mut self) -> bool {
        self.book.gave_way
    }

    async fn complete(&mut self, completion: &Completion) -> Result<Written, TransactionError> {
        if self.book.broken {
            return Err(TransactionError::Broken { reason: "the body tore out a page".to_owned() });
        }
        match self.store.fault("transaction_complete") {
            Some(Fault::Busy) => {
                return Err(TransactionError::GaveWay(failed(StoreErrorKind::Busy)));
            }
            Some(Fault::Away) => return Err(failed(StoreErrorKind::Unavailable).into()),
            Some(_) => return Err(failed(StoreErrorKind::Other).into()),
            None => {}
        }
        if !self.store.owns(completion).await {
            return Ok(Written::Fenced);
        }
        self.completion = Some(completion.clone());
        Ok(Written::Done)
    }

    async fn record(&mut self, _: &StepRecord) -> Result<StepRecorded, TransactionError> {
        Ok(StepRecorded::Fenced)
    }

    async fn commit(self: Box<Self>) -> Result<(), TransactionError> {
        let Self { store, book, completion } = *self;
        let completion = completion.unwrap();
        match store.fault("commit") {
            Some(Fault::AckLost) => {
                store.commit(&completion, book.pending).await;
                Err(failed(StoreErrorKind::Unavailable).into())
            }
            Some(Fault::Away) => {
                store.books.lock().unwrap().late.push((completion, book.pending));
                Err(failed(StoreErrorKind::Unavailable).into())
            }
            Some(Fault::Busy) => Err(TransactionError::GaveWay(failed(StoreErrorKind::Busy))),
            Some(_) => Err(failed(StoreErrorKind::Other).into()),
            None => {
                store.commit(&completion, book.pending).await;
                Ok(())
            }
        }
    }

    async fn rollback(self: Box<Self>) {
        self.store.books.lock().unwrap().rolled_back += 1;
    }
}
