#[idempotent(key = "nightly", singleton, fingerprint = none)]
async fn nightly(date: Date) -> Result<(), Error> {
    run(date).await
}
