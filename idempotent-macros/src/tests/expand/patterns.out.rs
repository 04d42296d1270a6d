async fn charge(
    __idempotent_argument_1: Payment,
    __idempotent_argument_2: (&'static u64, u64),
    __idempotent_argument_3: &Line,
    r#type: u8,
    __idempotent_argument_5: u8,
    __idempotent_argument_6: u8,
) -> Result<u64, ChargeError> {
    static __IDEMPOTENT_HANDLER: ::idempotent_runtime::__private::Handler = ::idempotent_runtime::__private::Handler::new(
            "charge",
            ::core::module_path!(),
            "{order_id}:{first}:{r#type}",
        )
        .fingerprint(
            &["payment", "argument_2", "line", "type", "argument_5", "_unused"],
        );
    ::idempotent_runtime::__private::inventory::submit! {
        ::idempotent_runtime::__private::Registration(& __IDEMPOTENT_HANDLER)
    }
    let mut __idempotent_operation = ::idempotent_runtime::__private::Operation::new(
        &__IDEMPOTENT_HANDLER,
    );
    {
        let __idempotent_operation = &mut __idempotent_operation;
        let Payment { order_id, amount: _, customer, .. } = &__idempotent_argument_1;
        let (&ref first, _) = __idempotent_argument_2;
        __idempotent_operation.tenant(&customer);
        __idempotent_operation.key_part("order_id", &order_id);
        __idempotent_operation.key_literal(":");
        __idempotent_operation.key_part("first", &first);
        __idempotent_operation.key_literal(":");
        __idempotent_operation.key_part("r#type", &r#type);
        __idempotent_operation.fingerprint("payment", &__idempotent_argument_1);
        __idempotent_operation.fingerprint("argument_2", &__idempotent_argument_2);
        __idempotent_operation.fingerprint("line", &__idempotent_argument_3);
        __idempotent_operation.fingerprint("type", &r#type);
        __idempotent_operation.fingerprint("argument_5", &__idempotent_argument_5);
        __idempotent_operation.fingerprint("_unused", &__idempotent_argument_6);
    }
    let __idempotent_owned_argument_3 = ::idempotent_runtime::__private::into_task(
        __idempotent_argument_3,
    );
    ::idempotent_runtime::__private::call_plain::<
        Result<u64, ChargeError>,
    >(__idempotent_operation)
        .finish(async move {
            let Payment { order_id, mut amount, ref customer, .. } = __idempotent_argument_1;
            let _ = &order_id;
            let _ = &customer;
            let (&first, second) = __idempotent_argument_2;
            let _ = &first;
            let Line { id, .. }: &Line = ::core::borrow::Borrow::borrow(
                &__idempotent_owned_argument_3,
            );
            if false {
                return ::idempotent_runtime::__private::returned::<
                    Result<u64, ChargeError>,
                >();
            }
            #[allow(clippy::diverging_sub_expression)]
            let __idempotent_outcome: Result<u64, ChargeError> = {
                amount += second + id;
                Ok(amount)
            };
            #[allow(unreachable_code)] __idempotent_outcome
        })
        .await
}
