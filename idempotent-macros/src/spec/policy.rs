//! The limits, and what they mean together.

use crate::args::Args;
use crate::args::duration::{Millis, show};
use crate::errors::Errors;

/// What the attribute asks for; the rest is the runtime's default.
pub(crate) struct Policy {
    pub(crate) version: u32,
    pub(crate) accepts: (u32, u32),
    pub(crate) lease: Option<Millis>,
    pub(crate) max_runtime: Option<Millis>,
    pub(crate) max_crashes: Option<u32>,
    pub(crate) wait: Option<Millis>,
    pub(crate) retain: Option<Millis>,
    pub(crate) backoff: Option<(Millis, Millis)>,
}

impl Policy {
    pub(super) fn check(args: &Args, errors: &mut Errors) -> Self {
        check_accepts(args, errors);
        check_max_runtime(args, errors);
        check_retain(args, errors);
        let version = args.version.get().copied().unwrap_or(1);
        Self {
            version,
            accepts: args.accepts.get().copied().unwrap_or((version, version)),
            lease: args.lease.get().copied(),
            max_runtime: args.max_runtime.get().copied(),
            max_crashes: args.max_crashes.get().copied(),
            wait: args.wait.get().copied(),
            retain: args.retain.get().copied(),
            backoff: args.backoff.get().copied(),
        }
    }
}

fn check_accepts(args: &Args, errors: &mut Errors) {
    let version = args.version.get().copied().unwrap_or(1);
    if let (Some(key), Some((_, last))) = (args.accepts.key(), args.accepts.get())
        && *last > version
    {
        let message = format!(
            "`accepts` reaches version {last}, which is newer than `version = {version}`; write \
                 `version = {last}`, or a range that ends at {version}"
        );
        errors.at(key, message);
    }
}

fn check_max_runtime(args: &Args, errors: &mut Errors) {
    let (Some(key), Some(max_runtime), Some(lease)) =
        (args.max_runtime.key(), args.max_runtime.get(), args.lease.get())
    else {
        return;
    };
    if max_runtime < lease {
        let message = format!(
            "`max_runtime` ({}) is shorter than `lease` ({}), so the lease would never be renewed; \
             write a shorter `lease`, or a longer `max_runtime`",
            show(*max_runtime),
            show(*lease),
        );
        errors.at(key, message);
    }
}

/// What is purged before it is tried again would be forgotten.
fn check_retain(args: &Args, errors: &mut Errors) {
    let (Some(key), Some(retain)) = (args.retain.key(), args.retain.get()) else {
        return;
    };
    let longer = [
        ("max_runtime", args.max_runtime.get().copied()),
        ("backoff", args.backoff.get().map(|(_, last)| *last)),
    ];
    for (name, other) in longer {
        if other.is_some_and(|other| other > *retain) {
            let message = format!(
                "`retain` ({}) is shorter than `{name}`, so an operation could be forgotten before it \
                 is tried again; write a longer `retain`",
                show(*retain),
            );
            errors.at(key, message);
        }
    }
}
