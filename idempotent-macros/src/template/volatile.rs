//! Placeholders that are a new value on a later attempt of the same operation.
//!
//! A lint by name, so it is short: only words that hardly name anything else. What a date means
//! (`{report.business_date}` is part of the operation, `{day}` may be) cannot be told by its name.

use super::{Placeholder, Root, Step};

/// Names of the time at which an attempt runs, of chance, and of the attempt itself.
const NAMES: [&str; 27] = [
    "now",
    "today",
    "timestamp",
    "current_time",
    "current_date",
    "received_at",
    "elapsed",
    "random",
    "rand",
    "nonce",
    "new_v4",
    "new_v7",
    "now_v7",
    "attempt",
    "attempts",
    "attempt_count",
    "attempt_number",
    "delivery_attempt",
    "delivery_count",
    "receive_count",
    "retry",
    "retries",
    "retry_count",
    "retry_number",
    "receipt_handle",
    "trace_id",
    "span_id",
];

/// Why the placeholder cannot name an operation.
pub(super) fn reason(placeholder: &Placeholder) -> Option<String> {
    let text = &placeholder.text;
    let name = last_name(placeholder);
    if name.split('_').any(|word| word == "bucket") {
        return Some(format!(
            "`{{{text}}}` in the key is a bucket of time: two tries on the two sides of its edge are \
             two operations, and two operations inside it are one; write an id that the producer \
             makes once, as in `{{payment.order_id}}`"
        ));
    }
    NAMES.contains(&name).then(|| {
        format!(
            "`{{{text}}}` in the key changes from one attempt to the next, so every retry would be a \
             new operation; write an id that the producer makes once, as in `{{payment.order_id}}`"
        )
    })
}

fn last_name(placeholder: &Placeholder) -> &str {
    let named = placeholder.steps.iter().rev().find_map(|step| match step {
        Step::Field(name) | Step::Call(name) => Some(name.as_str()),
        Step::Index(_) => None,
    });
    match (&placeholder.root, named) {
        (_, Some(name)) => name,
        (Root::Name(name), None) => name,
        (Root::SelfValue, None) => "self",
    }
}
