async fn charge(payment: Payment) -> Charged {
    static __IDEMPOTENT_HANDLER: ::idempotent_runtime::__private::Handler = ::idempotent_runtime::__private::Handler::new(
            "take the money",
            ::core::module_path!(),
            "charge:{payment.order_id}:{payment.lines.0}:{payment.part()}",
        )
        .fingerprint(&["payment.amount", "payment.customer"])
        .version(3u32, (1u32, 2u32))
        .lease_ms(10000u64)
        .max_runtime_ms(5400000u64)
        .retain_ms(7776000000u64)
        .wait_ms(500u64)
        .max_crashes(3u32)
        .backoff_ms(1000u64, 300000u64);
    ::idempotent_runtime::__private::inventory::submit! {
        ::idempotent_runtime::__private::Registration(& __IDEMPOTENT_HANDLER)
    }
    let mut __idempotent_operation = ::idempotent_runtime::__private::Operation::new(
        &__IDEMPOTENT_HANDLER,
    );
    {
        let __idempotent_operation = &mut __idempotent_operation;
        __idempotent_operation.runtime(&RUNTIME.get());
        __idempotent_operation.tenant(&(if payment.test { "test" } else { "live" }));
        __idempotent_operation.issued_at(&payment.created_at);
        __idempotent_operation.key_literal("charge:");
        __idempotent_operation.key_part("payment.order_id", &payment.order_id);
        __idempotent_operation.key_literal(":");
        __idempotent_operation.key_part("payment.lines.0", &payment.lines.0);
        __idempotent_operation.key_literal(":");
        __idempotent_operation.key_part("payment.part()", &payment.part());
        __idempotent_operation.fingerprint("payment.amount", &payment.amount);
        __idempotent_operation.fingerprint("payment.customer", &payment.customer);
    }
    ::idempotent_runtime::__private::call::<
        Charged,
    >(
            __idempotent_operation,
            ::core::option::Option::Some(
                ::idempotent_runtime::__private::terminal(ChargeError::is_final),
            ),
        )
        .finish(async move {
            if false {
                return ::idempotent_runtime::__private::returned::<Charged>();
            }
            #[allow(clippy::diverging_sub_expression)]
            let __idempotent_outcome: Charged = { Ok(payment.receipt()) };
            #[allow(unreachable_code)] __idempotent_outcome
        })
        .await
}
