//! Guard mutation: every predicate of every statement of a SQL store is taken out in turn, and the properties that are
//! listed for it must notice.
//!
//! The predicates are found in the text of the statements ([`mutants`]), so none has to be remembered. What is listed
//! for them is a [`Table`], which has to name each of them.

mod fact;
mod facts;
mod fragment;
mod places;
mod plans;
mod predicate;
mod run;
mod table;
mod token;
mod trial;

#[cfg(feature = "postgres")]
mod batches;
#[cfg(feature = "postgres")]
mod journal;
#[cfg(feature = "postgres")]
pub mod locks;
#[cfg(feature = "postgres")]
mod messages;
#[cfg(feature = "postgres")]
mod purges;
#[cfg(feature = "postgres")]
mod spared;
#[cfg(feature = "sqlite")]
pub(crate) mod undercut;

pub use fact::Fact;
pub(crate) use facts::facts;
pub use places::{Guarded, Mutated};
pub use predicate::{Mutant, mutants};
pub use run::{Report, verify};
pub use table::Table;
