async fn nightly(date: Date) -> Result<(), Error> {
    static __IDEMPOTENT_HANDLER: ::idempotent_runtime::__private::Handler = ::idempotent_runtime::__private::Handler::new(
        "nightly",
        ::core::module_path!(),
        "nightly",
    );
    ::idempotent_runtime::__private::inventory::submit! {
        ::idempotent_runtime::__private::Registration(& __IDEMPOTENT_HANDLER)
    }
    let mut __idempotent_operation = ::idempotent_runtime::__private::Operation::new(
        &__IDEMPOTENT_HANDLER,
    );
    {
        let __idempotent_operation = &mut __idempotent_operation;
        __idempotent_operation.key_literal("nightly");
    }
    ::idempotent_runtime::__private::call_plain::<
        Result<(), Error>,
    >(__idempotent_operation)
        .finish(async move {
            if false {
                return ::idempotent_runtime::__private::returned::<Result<(), Error>>();
            }
            #[allow(clippy::diverging_sub_expression)]
            let __idempotent_outcome: Result<(), Error> = { run(date).await };
            #[allow(unreachable_code)] __idempotent_outcome
        })
        .await
}
