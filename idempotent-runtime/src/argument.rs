//! What the arguments of a handler must be able to do, said in the words of the attribute.
//!
//! These traits only give a bound of another crate a message of ours: whatever meets the bound
//! implements them.

use serde::Serialize;

/// An argument, or a part of one, that is compared when its key comes again.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not `Serialize`, and every argument that is not marked `#[context]` is part of the operation",
    label = "derive `Serialize` for it, or write `#[context]` in front of an argument such as a client or a pool"
)]
pub trait Payload: Serialize {}

#[diagnostic::do_not_recommend]
impl<T: Serialize + ?Sized> Payload for T {}

/// A borrowed argument that is cloned into the task in which the handler finishes.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be cloned into the task that finishes the handler when its caller is dropped",
    label = "derive `Clone` for it, take it by value or as an `Arc`, or write `on_drop = abandon`"
)]
pub trait IntoTask<O> {
    /// Clones it.
    fn to_task(&self) -> O;
}

#[diagnostic::do_not_recommend]
impl<T: ToOwned<Owned = O> + ?Sized, O> IntoTask<O> for T {
    fn to_task(&self) -> O {
        self.to_owned()
    }
}

/// Clones a borrowed argument into the task.
///
/// What it becomes is a parameter: an associated type would be asked for first, and rustc would
/// tell about that.
pub fn into_task<T: IntoTask<O> + ?Sized, O>(argument: &T) -> O {
    argument.to_task()
}

/// An argument of a handler whose body runs in a transaction, and so may run more than once.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not `Clone`, and the body of a transaction runs again when it lost to another one",
    label = "derive `Clone` for it, or take it as an `Arc`"
)]
pub trait Again: Sized {
    /// Clones it.
    fn again(&self) -> Self;
}

#[diagnostic::do_not_recommend]
impl<T: Clone> Again for T {
    fn again(&self) -> Self {
        self.clone()
    }
}

/// Clones an argument for one run of the body.
#[must_use]
pub fn again<T: Again>(argument: &T) -> T {
    argument.again()
}

/// What a block returns, for rustc to know it before it reads the block. Never called.
#[must_use]
pub fn returned<R>() -> R {
    unreachable!("the expansion asks for the type only")
}
