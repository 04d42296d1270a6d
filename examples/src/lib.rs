//! The examples of the README and of the book: `cargo test --doc -p idempotent-examples` compiles them.

/// Makes each page's examples documentation tests.
macro_rules! pages {
    ($($name:ident: $path:literal,)+) => { $(
        #[cfg(doctest)]
        #[doc = include_str!($path)]
        pub struct $name;
    )+ };
}

pages! {
    Readme: "../../README.md",
    Cookbook: "../../docs/src/cookbook.md",
    Effects: "../../docs/src/effects.md",
    Outbox: "../../docs/src/outbox.md",
    Providers: "../../docs/src/providers.md",
    Results: "../../docs/src/results.md",
    Review: "../../docs/src/review.md",
    Running: "../../docs/src/running.md",
    Stores: "../../docs/src/stores.md",
    Testing: "../../docs/src/testing.md",
    Transactions: "../../docs/src/transactions.md",
}
