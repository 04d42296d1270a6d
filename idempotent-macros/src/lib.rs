//! The macros of `idempotent-runtime`. Depend on that crate alone: it re-exports them, and their
//! expansions name it.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "of syn's many kinds of tokens only a few mean something here, and more may come"
)]

mod args;
mod derive;
mod errors;
mod expand;
mod fallback;
mod generate;
mod handler;
mod key;
mod spec;
mod template;

use proc_macro::TokenStream;

/// Makes an `async fn` a handler: one key, one effect.
///
/// The first call with a key runs the body. A later call with the same key is answered with the
/// stored result and runs nothing; a call while the first still runs is told to come back
/// ([`Error::InFlight`]), or waits. When the process dies in between, a retry takes the operation
/// over as soon as the lease has lapsed, and what the dead attempt still tries to record is
/// refused.
///
/// ```
/// use idempotent_runtime::idempotent;
/// # use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize)]
/// struct Payment {
///     order_id: u64,
///     amount: u64,
/// }
///
/// #[derive(Debug, PartialEq, Serialize, Deserialize)]
/// struct Receipt {
///     number: u64,
/// }
///
/// #[derive(Debug, thiserror::Error)]
/// enum ChargeError {
///     #[error("declined")]
///     Declined,
///     #[error(transparent)]
///     Idempotent(#[from] idempotent_runtime::Error),
/// }
/// # struct Bank;
/// # impl Bank {
/// #     async fn charge(&self, payment: &Payment) -> Result<u64, ChargeError> {
/// #         if payment.amount == 0 { Err(ChargeError::Declined) } else { Ok(7) }
/// #     }
/// # }
///
/// #[idempotent(key = "charge:{payment.order_id}")]
/// async fn charge(payment: Payment, #[context] bank: Bank) -> Result<Receipt, ChargeError> {
///     let number = bank.charge(&payment).await?;
///     Ok(Receipt { number })
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let runtime = idempotent_runtime::Runtime::builder("docs").url("memory:").connect().await?;
/// # runtime.scope(async {
///
/// let payment = |amount| Payment { order_id: 1, amount };
/// assert_eq!(charge(payment(500), Bank).await?, Receipt { number: 7 });
/// assert_eq!(charge(payment(500), Bank).await?, Receipt { number: 7 }); // from the store
/// assert!(charge(payment(900), Bank).await.is_err()); // another payload under the key
/// # Ok::<(), ChargeError>(()) }).await?; Ok(()) }
/// ```
///
/// The function stays a function: its name, visibility, generics, documentation and attributes are kept.
///
/// # Arguments
///
/// | argument | value | default |
/// |---|---|---|
/// | `key` | a [template](#the-key) that names the operation | required |
/// | `singleton` | flag: the key has no placeholder on purpose | a key without one is an error |
/// | `name` | the handler's identity in the store, `"charge"` | the function's name |
/// | `version` | a number from 1 up; raise it when the body changes what a stored journal means | `1` |
/// | `accepts` | older versions whose journals this code goes on with, `1..=2` | none but `version` |
/// | `fingerprint` | `none`, or a list of arguments and field paths, `[payment.amount]` | every argument but `self`, `#[context]` and `#[transaction]` ones |
/// | `lease` | how long a dead attempt holds its key, `"30s"`; from 100 ms to 1 h | `"30s"`, renewed every third of it |
/// | `max_runtime` | the body is cancelled when it runs longer, `"15m"`; up to 7 d | `"15m"` |
/// | `max_crashes` | attempts that may end without an outcome before a person must look | `8` |
/// | `wait` | how long a duplicate in flight waits for the result, `"5s"`; up to 1 h | not at all |
/// | `retain` | how long a finished operation answers, `"30d"`; from 1 s to ten years | `"30d"` |
/// | `issued_at` | when the producer made the operation, `payment.created_at`: past `retain` it is refused ([`Error::TooOld`]) | not checked |
/// | `terminal` | `fn(&E) -> bool`, a path or a closure: errors that end the operation; stored and replayed | no error is |
/// | `backoff` | the first and the longest wait after a retryable error, `"1s..5m"` | none |
/// | `on_drop` | `finish` or `abandon`: what becomes of the body when [the caller is dropped](#when-the-caller-is-dropped) | `finish` |
/// | `runtime` | an expression, `self.runtime` | the innermost `scope`, else the installed one |
/// | `tenant` | an expression that is a [`KeyPart`], `payment.merchant` | none |
///
/// Durations are whole numbers with the units `ms`, `s`, `m`, `h` and `d`, the larger first: `"1h30m"`.
///
/// # The key
///
/// A key is text with placeholders: `"charge:{payment.order_id}"`. A placeholder is an argument, a
/// field (`{payment.order_id}`), a tuple index (`{line.0}`), a call without arguments (`{order.id()}`), or a
/// field of `self` (`{self.tenant}`). A name that a pattern binds works too. Braces are written `{{` and `}}`.
///
/// What a placeholder names is a [`KeyPart`]: an integer, `bool`, `char`, a string, a `Uuid`, a
/// calendar date, an [`OperationKey`], or a type of yours that derives it. Floats, options, lists
/// and instants are refused when the code compiles. Values are escaped, so none can forge the text
/// around it, and the text between two placeholders must hold a character that no value can (`:`
/// does); so two different operations never share a key. An empty value, a NUL and a key of more
/// than 512 bytes are errors of the call.
///
/// The name of the handler and the tenant are part of the identity; the namespace of the runtime
/// is, too. Type parameters are not: `import::<Csv>(1)` and `import::<Json>(1)` are one operation,
/// unless the key tells them apart. So a parameter of the function cannot be in the return type.
/// Those of an `impl` block, and the `Self` of a provided method, are not seen here; where one of
/// them decides what is returned, put it into the key (`{self.kind()}`), or one type is answered
/// with what was stored for another.
///
/// ## Which key to write
///
/// Write the id that whoever asks for the operation made once: of the order, the invoice, the
/// webhook event, the request. Every retry and every redelivery carries it, and two operations
/// never do.
///
/// The key of the usual blog post is `charge:{customer}:{amount}:{day_bucket}`. It fails both ways.
/// A try at 23:59 and its retry at 00:01 are in two buckets, so the customer is charged twice; and
/// his second coffee of the day, at the same price, is a duplicate of the first and is never
/// charged. Nothing in that key says which purchase it is. Hence `day_bucket` does not compile
/// here, nor do `now`, `timestamp`, `nonce`, `attempt`, `retry_count`, `trace_id` and their like:
/// what changes from one attempt to the next makes every retry a new operation. (They are known by
/// name only; `{report.business_date}` is part of an operation, and so can be a `timestamp` that
/// the payload carries: name it for what it is, `{reading.taken_at_ms}`.) An amount in a key is no
/// help either: leave it to the fingerprint, which refuses the same order with another amount
/// instead of charging it again.
///
/// If the operation has no id, let the producer make an [`OperationKey`] when it creates the job.
///
/// # Arguments of the function
///
/// Every argument is part of the operation: it is fingerprinted, so that the same key with another
/// payload is refused ([`Error::PayloadMismatch`]) instead of answered wrongly. So it is
/// `Serialize`. What is no part of it, such as a client, a pool or configuration, is marked
/// `#[context]`.
///
/// Patterns work: `Payment { order_id, amount, .. }: Payment` is compared whole. What comes below
/// this attribute sees such an argument under one name of ours; so `#[tracing::instrument]` goes
/// above it.
///
/// # The return type
///
/// `Result<T, E>`, or an alias of it. `T` is stored as JSON: `Serialize` and `DeserializeOwned`,
/// without borrows. `E` is `From<idempotent_runtime::Error>`.
///
/// With `terminal`, errors are stored too, so `E` is `Serialize` and `DeserializeOwned`. Our own
/// error is neither; skip the variant that holds it, which is never stored:
///
/// ```
/// #[derive(Debug, thiserror::Error, serde::Serialize, serde::Deserialize)]
/// enum ChargeError {
///     #[error("declined")]
///     Declined,
///     #[serde(skip)]
///     #[error(transparent)]
///     Idempotent(#[from] idempotent_runtime::Error),
/// }
/// # use idempotent_runtime::idempotent;
///
/// #[idempotent(key = "charge:{order_id}", terminal = |error| matches!(error, ChargeError::Declined))]
/// async fn charge(order_id: u64) -> Result<(), ChargeError> {
/// #   drop(order_id);
///     Err(ChargeError::Declined)
/// }
/// # drop(charge(1));
/// ```
///
/// # When the caller is dropped
///
/// A timeout, a `select!` or a closed connection drops a future half-way, when the customer may be
/// charged already. So the body runs in a task of its own and finishes there (`on_drop = finish`);
/// the outcome is stored for the retry.
///
/// What the body uses therefore moves into that task. Borrowed arguments, `&self` included, are
/// cloned into it and the body still sees the borrow: they are `Clone`, and what cannot be cloned
/// is taken by value or as an `Arc`. The body is `Send`.
///
/// With `on_drop = abandon` the body is part of the caller's future and dropped with it; the
/// operation can be claimed again at once. Then nothing is cloned, and nothing needs to be `Send`.
///
/// # In a transaction
///
/// A parameter that is marked `#[transaction]` is a connection of the store's database inside of a transaction. It is
/// not part of the signature that callers see: the runtime begins the transaction when the operation is claimed, and
/// commits it together with the outcome, so that what the body writes there happens exactly once.
///
/// ```no_run
/// # /*
/// use sqlx::PgConnection; // or SqliteConnection
/// # */
/// # struct PgConnection;
/// # impl idempotent_runtime::store::TransactionConnection for PgConnection { const DATABASE: &'static str = ""; }
/// # async fn insert(_: &mut PgConnection, order: &Order) -> Result<u64, Error> { Ok(order.id) }
/// # use idempotent_runtime::{Error, idempotent};
/// # #[derive(Clone, serde::Serialize)] struct Order { id: u64 }
///
/// #[idempotent(key = "invoice:{order.id}")]
/// async fn create_invoice(
///     order: Order,
///     #[transaction] tx: &mut PgConnection,
/// ) -> Result<u64, Error> {
///     insert(tx, &order).await
/// }
///
/// # async fn caller(order: Order) -> Result<(), Error> {
/// create_invoice(order).await?; // no connection here
/// # Ok(()) }
/// ```
///
/// An error that is not terminal rolls everything back and releases the operation; a terminal one rolls back and is
/// stored. A body whose transaction loses to another one (a serialization failure, a deadlock) runs again, so what
/// it mentions of its arguments is `Clone`. It must not end the transaction itself: that is found, and a person
/// decides ([`Error::NeedsReview`]). On SQLite it holds the file's write lock, for a third of the `lease` at most, and can
/// call no other handler.
///
/// The type is sqlx's connection itself, without a lifetime, and says which database the handler is of; on another
/// store it gets [`Error::Unsupported`]. There is one such parameter, not together with `on_drop = abandon`, and not in
/// `#[async_trait]` impls.
///
/// # Methods and traits
///
/// Methods, associated functions and `async fn`s in trait impls are annotated where their bodies
/// are. With `#[async_trait]` the attribute goes on the method inside the annotated impl, and an
/// argument that the key uses has a name rather than a pattern (`#[async_trait]` moves patterns
/// into the body):
///
/// ```
/// # use async_trait::async_trait;
/// # use idempotent_runtime::{Error, idempotent};
/// # #[derive(serde::Serialize)] struct Payment { order_id: u64 }
/// # #[async_trait] trait Charge { async fn charge(&self, payment: Payment) -> Result<u64, Error>; }
/// #[derive(Clone)]
/// struct Service {
///     tenant: String,
/// }
///
/// #[async_trait]
/// impl Charge for Service {
///     #[idempotent(key = "{payment.order_id}", tenant = self.tenant)]
///     async fn charge(&self, payment: Payment) -> Result<u64, Error> {
///         Ok(payment.order_id)
///     }
/// }
/// # drop(Service { tenant: String::new() }.charge(Payment { order_id: 1 }));
/// ```
///
/// A provided method of a trait is one handler for all who implement the trait: put into the key
/// which of them it is. With `&self` it is cloned like any other, so the trait asks for
/// `Clone + Send + Sync + 'static`; or it takes `self: Arc<Self>`, or writes `on_drop = abandon`.
///
/// # Recursion
///
/// A handler that calls itself (with another key, else it gets [`Error::Reentrant`]) does so
/// through a function that names the boxed future; rustc cannot find out that a future is `Send`
/// which contains itself:
///
/// ```
/// # use std::pin::Pin;
/// # use idempotent_runtime::{Error, idempotent};
/// #[idempotent(key = "folder:{id}")]
/// async fn delete(id: u64) -> Result<(), Error> {
///     for child in children(id) {
///         delete_boxed(child).await?;
///     }
///     Ok(())
/// }
///
/// fn delete_boxed(id: u64) -> Pin<Box<dyn Future<Output = Result<(), Error>> + Send>> {
///     Box::pin(delete(id))
/// }
/// # fn children(id: u64) -> Option<u64> { id.checked_sub(1) }
/// # drop(delete(1));
/// ```
///
/// # What is asked at three in the morning
///
/// **It does not run, and says `InFlight`.** Another attempt holds the key. If its process died,
/// the key is free when the lease has lapsed: at most `lease` after the death.
///
/// **It does not run, and says `NeedsReview`.** `max_crashes` attempts ended without an outcome:
/// they lapsed, panicked, or ran past `max_runtime`. Nobody can know whether the effect happened,
/// so a person decides with `runtime.review()`. Returned errors do not count.
///
/// **It fails again and again.** An error that is not `terminal` is not stored: the next call runs
/// the body. Write `backoff` to space the attempts out, and `terminal` for errors that no retry
/// will cure.
///
/// **It was charged twice.** The key differs: compare the two keys in the store. Or `retain` ended
/// between the two: it must be longer than the queue's redelivery horizon, and `issued_at` refuses
/// what is older. Or the provider was called twice in two attempts of one operation, the first of
/// which died after the call: send `provider_key(name)` to it as its idempotency key.
///
/// **`PayloadMismatch` after a deploy.** An argument changed its type or its meaning. A field that
/// was added is tolerated, except under `#[serde(flatten)]`. What is not part of the operation (a
/// trace id, the time of delivery) is left out with `fingerprint = [..]` or marked `#[context]`.
///
/// **Nothing is found any more after a rename.** The function's name is the handler's identity:
/// write `name = "old_name"`.
///
/// # Errors
///
/// What the call itself can fail with, and what a queue consumer does about it, is the table at
/// [`Error`].
///
/// [`Error`]: https://docs.rs/idempotent-runtime/latest/idempotent_runtime/enum.Error.html
/// [`Error::InFlight`]: https://docs.rs/idempotent-runtime/latest/idempotent_runtime/enum.Error.html#variant.InFlight
/// [`Error::TooOld`]: https://docs.rs/idempotent-runtime/latest/idempotent_runtime/enum.Error.html#variant.TooOld
/// [`Error::PayloadMismatch`]: https://docs.rs/idempotent-runtime/latest/idempotent_runtime/enum.Error.html#variant.PayloadMismatch
/// [`Error::NeedsReview`]: https://docs.rs/idempotent-runtime/latest/idempotent_runtime/enum.Error.html#variant.NeedsReview
/// [`Error::Unsupported`]: https://docs.rs/idempotent-runtime/latest/idempotent_runtime/enum.Error.html#variant.Unsupported
/// [`Error::Reentrant`]: https://docs.rs/idempotent-runtime/latest/idempotent_runtime/enum.Error.html#variant.Reentrant
/// [`KeyPart`]: https://docs.rs/idempotent-runtime/latest/idempotent_runtime/trait.KeyPart.html
/// [`OperationKey`]: https://docs.rs/idempotent-runtime/latest/idempotent_runtime/struct.OperationKey.html
#[proc_macro_attribute]
pub fn idempotent(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::idempotent(attribute.into(), &item.into()).into()
}

/// Makes a type a part of a key.
///
/// A newtype renders as its value. An enum without fields renders as the name of its variant. A
/// struct marks with `#[key]` the fields that say which operation it is; they are joined by `:`,
/// and escaped so that none can contain it.
///
/// ```
/// use idempotent_runtime::{KeyPart, idempotent};
/// # use idempotent_runtime::Error;
/// # use serde::Serialize;
///
/// #[derive(KeyPart, Serialize)]
/// struct BankCode(String);
///
/// #[derive(KeyPart, Serialize)]
/// enum Direction {
///     In,
///     Out,
/// }
///
/// #[derive(KeyPart, Serialize)]
/// struct Transfer {
///     #[key]
///     bank: BankCode,
///     #[key]
///     direction: Direction,
///     #[key]
///     number: u64,
///     amount: u64,
/// }
///
/// #[idempotent(key = "{transfer}")]
/// async fn book(transfer: Transfer) -> Result<u64, Error> {
///     Ok(transfer.amount)
/// }
/// # drop(book(Transfer {
/// #     bank: BankCode("a".into()), direction: [Direction::In, Direction::Out].into_iter().next().unwrap(), number: 1, amount: 2,
/// # }));
/// ```
///
/// To rename a variant, or to mark another field, makes new keys: operations that ran are run again
/// under them. A type parameter gets the bound where a field that is rendered uses it.
#[proc_macro_derive(KeyPart, attributes(key))]
pub fn derive_key_part(item: TokenStream) -> TokenStream {
    derive::key_part(item.into()).into()
}

/// Renders a key as a handler would: `Result<String, Error>`.
///
/// The template is that of the attribute; a placeholder begins with a variable. Use it to find the
/// execution of an operation:
///
/// ```
/// use idempotent_runtime::{Error, key};
///
/// # fn main() -> Result<(), Error> {
/// let order_id = "A 17";
/// assert_eq!(key!("charge:{order_id}")?, "charge:A%2017");
///
/// let order_id = "";
/// assert!(matches!(key!("charge:{order_id}"), Err(Error::EmptyKeyPart { .. })));
/// # Ok(())
/// # }
/// ```
#[proc_macro]
pub fn key(input: TokenStream) -> TokenStream {
    key::key(input.into()).into()
}

#[cfg(test)]
mod tests;
