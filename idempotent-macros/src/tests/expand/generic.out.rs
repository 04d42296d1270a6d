async fn charge<'a, T, const N: usize>(
    id: T,
    note: &'a (impl AsRef<str> + Clone + Sync + Send + 'static),
) -> Result<u64, ChargeError>
where
    T: KeyPart + Serialize + Send + 'static,
{
    static __IDEMPOTENT_HANDLER: ::idempotent_runtime::__private::Handler = ::idempotent_runtime::__private::Handler::new(
            "charge",
            ::core::module_path!(),
            "charge:{id}",
        )
        .fingerprint(&["id"]);
    ::idempotent_runtime::__private::inventory::submit! {
        ::idempotent_runtime::__private::Registration(& __IDEMPOTENT_HANDLER)
    }
    let mut __idempotent_operation = ::idempotent_runtime::__private::Operation::new(
        &__IDEMPOTENT_HANDLER,
    );
    {
        let __idempotent_operation = &mut __idempotent_operation;
        __idempotent_operation.key_literal("charge:");
        __idempotent_operation.key_part("id", &id);
        __idempotent_operation.fingerprint("id", &id);
    }
    let __idempotent_owned_note = ::idempotent_runtime::__private::into_task(note);
    ::idempotent_runtime::__private::call_plain::<
        Result<u64, ChargeError>,
    >(__idempotent_operation)
        .finish(async move {
            let note = &__idempotent_owned_note;
            if false {
                return ::idempotent_runtime::__private::returned::<
                    Result<u64, ChargeError>,
                >();
            }
            #[allow(clippy::diverging_sub_expression)]
            let __idempotent_outcome: Result<u64, ChargeError> = {
                Ok(note.as_ref().len())
            };
            #[allow(unreachable_code)] __idempotent_outcome
        })
        .await
}
