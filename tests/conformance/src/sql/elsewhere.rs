//! Statements that a store gives away, on a connection that is not the store's.

use async_trait::async_trait;
use idempotent_runtime::store::{Parameter, Statement};
use idempotent_runtime::testing::conformance::Elsewhere;
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Database, Encode, Executor, IntoArguments, Type};

/// A statement with its parameters.
pub fn query<'q, DB>(statement: &Statement) -> Query<'q, DB, DB::Arguments>
where
    DB: Database,
    i64: Encode<'q, DB> + Type<DB>,
    Option<String>: Encode<'q, DB> + Type<DB>,
    Option<Vec<u8>>: Encode<'q, DB> + Type<DB>,
{
    let query = sqlx::query(AssertSqlSafe(statement.sql().to_owned()));
    statement.parameters().iter().fold(query, |query, parameter| match parameter {
        Parameter::Integer(integer) => query.bind(*integer),
        Parameter::Text(text) => query.bind(text.clone()),
        Parameter::Bytes(bytes) => query.bind(bytes.clone()),
    })
}

/// A transaction on a connection past the store.
pub(crate) struct Own<DB: Database> {
    pub(crate) connection: DB::Connection,
    /// How many rows a statement affected.
    pub(crate) rows: fn(&DB::QueryResult) -> u64,
}

#[async_trait]
impl<DB> Elsewhere for Own<DB>
where
    DB: Database,
    DB::Arguments: IntoArguments<DB>,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    for<'q> i64: Encode<'q, DB> + Type<DB>,
    for<'q> Option<String>: Encode<'q, DB> + Type<DB>,
    for<'q> Option<Vec<u8>>: Encode<'q, DB> + Type<DB>,
{
    async fn run(&mut self, statement: &Statement) -> u64 {
        let done = query(statement).execute(&mut self.connection).await;
        (self.rows)(&done.expect("the statement runs"))
    }

    async fn commit(mut self: Box<Self>) {
        self.connection.execute("COMMIT").await.expect("it commits");
    }

    async fn rollback(mut self: Box<Self>) {
        self.connection.execute("ROLLBACK").await.expect("it rolls back");
    }
}
