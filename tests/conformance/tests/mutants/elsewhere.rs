//! Completions past the store whose every rule can be broken.

use async_trait::async_trait;
use idempotent_runtime::protocol::{Completion, Record};
use idempotent_runtime::store::{Parameter, Statement};
use idempotent_runtime::testing::conformance::Elsewhere;
use tokio::sync::OwnedMutexGuard;

use crate::reference::Reference;

/// A transaction past the store. Its statements say which of the completions that were asked for they are.
pub(super) struct Own {
    store: Reference,
    turn: Option<OwnedMutexGuard<()>>,
    written: Option<(Completion, Record)>,
}

impl Reference {
    /// The statement of a completion.
    pub(super) fn ask(&self, completion: &Completion) -> Statement {
        let mut asked = self.asked.lock().expect("no rule panics");
        asked.push(completion.clone());
        let number = i64::try_from(asked.len() - 1).expect("they are few");
        Statement::new("complete", vec![Parameter::Integer(number)])
    }

    fn asked(&self, statement: &Statement) -> Completion {
        let [Parameter::Integer(number)] = statement.parameters() else {
            panic!("no statement of this store");
        };
        let number = usize::try_from(*number).expect("a place");
        self.asked.lock().expect("no rule panics")[number].clone()
    }

    fn write(&self, completion: &Completion, record: Record) {
        let mut rows = self.rows().expect("it is open");
        let Some(row) = rows.get_mut(&completion.id) else { return };
        row.1 = record;
        for message in (self.rules.sent_elsewhere)(completion) {
            self.send(message, completion.id, &row.0.namespace, self.now());
        }
    }
}

impl Own {
    pub(super) fn begin(store: &Reference) -> Self {
        Self { store: store.clone(), turn: None, written: None }
    }
}

#[async_trait]
impl Elsewhere for Own {
    async fn run(&mut self, statement: &Statement) -> u64 {
        let store = &self.store;
        let turn = match self.turn.take() {
            Some(turn) => turn,
            None => std::sync::Arc::clone(&store.turn).lock_owned().await,
        };
        let completion = store.asked(statement);
        let found =
            store.rows().expect("it is open").get(&completion.id).map(|(_, record)| record.clone());
        let written = (store.rules.elsewhere)(found.as_ref(), &completion, store.now());
        if store.rules.locks_elsewhere {
            self.turn = Some(turn);
        }
        let Some(record) = written else { return 0 };
        if store.rules.writes_elsewhere_at_once {
            store.write(&completion, record);
        } else {
            self.written = Some((completion, record));
        }
        1
    }

    async fn commit(self: Box<Self>) {
        if let Some((completion, record)) = self.written {
            self.store.write(&completion, record);
        }
    }

    async fn rollback(self: Box<Self>) {}
}
