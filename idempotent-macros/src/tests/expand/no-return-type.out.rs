async fn charge(id: u64) {
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
    ::idempotent_runtime::__private::call_plain::<()>(__idempotent_operation)
        .finish(async move {
            if false {
                return ::idempotent_runtime::__private::returned::<()>();
            }
            #[allow(clippy::diverging_sub_expression)]
            let __idempotent_outcome: () = {};
            #[allow(unreachable_code)] __idempotent_outcome
        })
        .await
}
