//! The handlers whose effects are writes of a SQLite file.

use idempotent_runtime::{idempotent, step};
use sqlx::SqliteConnection;

use super::{Desk, Failed, INSERT};
use crate::Spot;

async fn write(operation: &str, desk: &Desk, tx: &mut SqliteConnection) -> Result<u64, Failed> {
    desk.comes_to(operation, Spot::BeforeEffect).await;
    let number = desk.outside.number();
    let stored = i64::try_from(number).unwrap_or(i64::MAX);
    sqlx::query(INSERT).bind(operation).bind(stored).execute(tx).await?;
    desk.comes_to(operation, Spot::AfterEffect).await;
    Ok(number)
}

#[idempotent(key = "errand:{operation}", name = "faults-sqlite-whole")]
pub(super) async fn whole(
    operation: String,
    #[context] desk: Desk,
    #[transaction] tx: &mut SqliteConnection,
) -> Result<u64, Failed> {
    write(&operation, &desk, tx).await
}

#[idempotent(key = "errand:{operation}", name = "faults-sqlite-part")]
pub(super) async fn part(operation: String, #[context] desk: Desk) -> Result<u64, Failed> {
    let effect = step("effect");
    let wrote = async |tx: &mut SqliteConnection| write(&operation, &desk, tx).await;
    let number = effect.transaction(wrote).await?;
    desk.ends(&operation).await?;
    Ok(number)
}
