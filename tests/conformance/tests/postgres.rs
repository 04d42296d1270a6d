//! The PostgreSQL store holds the contract, behind a transaction-pooling proxy too.
#![cfg(feature = "postgres")]

mod direct {
    use idempotent_conformance::postgres::PostgresFactory;

    idempotent_runtime::store_conformance!(async { PostgresFactory::fresh() });
}

mod pooled {
    use idempotent_conformance::postgres::PostgresFactory;

    idempotent_runtime::store_conformance!(async {
        PostgresFactory::fresh().behind_a_transaction_pooler()
    });
}

mod in_a_crowd {
    use idempotent_conformance::postgres::PostgresFactory;

    idempotent_runtime::store_conformance!(async { PostgresFactory::fresh().in_a_crowd() });
}

mod pooled_in_a_crowd {
    use idempotent_conformance::postgres::PostgresFactory;

    idempotent_runtime::store_conformance!(async {
        PostgresFactory::fresh().behind_a_transaction_pooler().in_a_crowd()
    });
}
