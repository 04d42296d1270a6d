async fn book(
    order: Order,
    lines: Vec<Line>,
    bank: Bank,
    __idempotent_argument_4: u8,
) -> Result<u64, BookError> {
    static __IDEMPOTENT_HANDLER: ::idempotent_runtime::__private::Handler = ::idempotent_runtime::__private::Handler::new(
            "book",
            ::core::module_path!(),
            "book:{order.id}",
        )
        .fingerprint(&["order", "lines", "_note"])
        .transaction(::idempotent_runtime::__private::database::<PgConnection>());
    ::idempotent_runtime::__private::inventory::submit! {
        ::idempotent_runtime::__private::Registration(& __IDEMPOTENT_HANDLER)
    }
    let mut __idempotent_operation = ::idempotent_runtime::__private::Operation::new(
        &__IDEMPOTENT_HANDLER,
    );
    {
        let __idempotent_operation = &mut __idempotent_operation;
        __idempotent_operation.key_literal("book:");
        __idempotent_operation.key_part("order.id", &order.id);
        __idempotent_operation.fingerprint("order", &order);
        __idempotent_operation.fingerprint("lines", &lines);
        __idempotent_operation.fingerprint("_note", &__idempotent_argument_4);
    }
    ::idempotent_runtime::__private::call_plain::<
        Result<u64, BookError>,
    >(__idempotent_operation)
        .transaction(
            move |
                mut __idempotent_held: ::idempotent_runtime::__private::Held<
                    PgConnection,
                >|
            {
                #[allow(unused_variables)]
                let order = ::idempotent_runtime::__private::again(&order);
                #[allow(unused_variables)]
                let mut lines = ::idempotent_runtime::__private::again(&lines);
                async move {
                    let tx: &mut PgConnection = __idempotent_held.connection();
                    if false {
                        return ::idempotent_runtime::__private::returned::<
                            Result<u64, BookError>,
                        >();
                    }
                    #[allow(clippy::diverging_sub_expression)]
                    let __idempotent_outcome: Result<u64, BookError> = {
                        lines.sort();
                        insert(tx, &order, lines).await
                    };
                    #[allow(unreachable_code)] __idempotent_outcome
                }
            },
            |outcome| {
                use ::idempotent_runtime::__private::{
                    CauseOfAny as _, CauseOfBox as _, CauseOfError as _,
                };
                (&&&::idempotent_runtime::__private::Cause(outcome)).gave_way()
            },
        )
        .await
}
