#[idempotent(key = "charge:{id}")]
async fn charge<'a, T, const N: usize>(
    id: T,
    #[context] note: &'a (impl AsRef<str> + Clone + Sync + Send + 'static),
) -> Result<u64, ChargeError>
where
    T: KeyPart + Serialize + Send + 'static,
{
    Ok(note.as_ref().len())
}
