//! What stands outside of the database: a provider, and whoever else hears of an effect.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;

/// Where a body can be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Spot {
    /// The effect is about to happen.
    BeforeEffect,
    /// It has happened.
    AfterEffect,
    /// The body is about to return.
    BeforeReturn,
}

/// The outside of all handlers of a test.
#[derive(Clone, Debug, Default)]
pub struct Outside(Arc<Books>);

#[derive(Debug, Default)]
struct Books {
    requests: Mutex<Vec<Request>>,
    numbers: AtomicU64,
    refusals: Mutex<HashSet<String>>,
    holds: Mutex<HashMap<(String, Spot), Hold>>,
}

#[derive(Debug)]
struct Request {
    operation: String,
    key: String,
    number: u64,
}

/// Requests for one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// All of them.
    pub requests: usize,
    /// The keys that were sent with them.
    pub keys: usize,
}

/// A body that is held, or will be once it comes to the spot.
#[derive(Clone, Debug)]
pub struct Hold {
    came: Arc<Semaphore>,
    go: Arc<Semaphore>,
}

impl Hold {
    /// Waits until a body has come.
    ///
    /// # Panics
    ///
    /// Never: nobody closes the semaphore.
    pub async fn came(&self) {
        self.came.acquire().await.expect("it is not closed").forget();
    }

    /// Lets every body go on, now and later.
    pub fn let_go(&self) {
        self.go.add_permits(Semaphore::MAX_PERMITS / 2);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Outside {
    /// A number that was never given before.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.0.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Does what is asked, as often as it is asked.
    #[must_use]
    pub fn act(&self, operation: &str, key: &str) -> u64 {
        let number = self.number();
        let request = Request { operation: operation.to_owned(), key: key.to_owned(), number };
        locked(&self.0.requests).push(request);
        number
    }

    /// Does what is asked once a key, and answers as it did the first time.
    #[must_use]
    pub fn provide(&self, operation: &str, key: &str) -> u64 {
        let known = self.known(key);
        let number = self.act(operation, key);
        known.unwrap_or(number)
    }

    /// What was answered to the first request with this key.
    #[must_use]
    pub fn known(&self, key: &str) -> Option<u64> {
        locked(&self.0.requests).iter().find(|it| it.key == key).map(|it| it.number)
    }

    /// What was heard of an operation.
    #[must_use]
    pub fn heard(&self, operation: &str) -> Heard {
        let requests = locked(&self.0.requests);
        let of_it = || requests.iter().filter(|it| it.operation == operation);
        let keys: HashSet<&str> = of_it().map(|it| it.key.as_str()).collect();
        Heard { requests: of_it().count(), keys: keys.len() }
    }

    /// The next body of the operation fails at its end, and may be tried again.
    pub fn refuse_once(&self, operation: &str) {
        locked(&self.0.refusals).insert(operation.to_owned());
    }

    pub(crate) fn refuses(&self, operation: &str) -> bool {
        locked(&self.0.refusals).remove(operation)
    }

    /// Holds bodies of the operation that come to a spot.
    #[must_use]
    pub fn hold(&self, operation: &str, spot: Spot) -> Hold {
        let (came, go) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let hold = Hold { came, go };
        locked(&self.0.holds).insert((operation.to_owned(), spot), hold.clone());
        hold
    }

    pub(crate) async fn comes_to(&self, operation: &str, spot: Spot) {
        let hold = locked(&self.0.holds).get(&(operation.to_owned(), spot)).cloned();
        if let Some(hold) = hold {
            hold.came.add_permits(1);
            hold.go.acquire().await.expect("it is not closed").forget();
        }
    }
}
