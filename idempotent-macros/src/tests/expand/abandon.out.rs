async fn charge(payment: &Payment, bank: &mut Bank) -> Result<Receipt, ChargeError> {
    static __IDEMPOTENT_HANDLER: ::idempotent_runtime::__private::Handler = ::idempotent_runtime::__private::Handler::new(
            "charge",
            ::core::module_path!(),
            "charge:{payment.order_id}",
        )
        .fingerprint(&["payment"]);
    ::idempotent_runtime::__private::inventory::submit! {
        ::idempotent_runtime::__private::Registration(& __IDEMPOTENT_HANDLER)
    }
    let mut __idempotent_operation = ::idempotent_runtime::__private::Operation::new(
        &__IDEMPOTENT_HANDLER,
    );
    {
        let __idempotent_operation = &mut __idempotent_operation;
        __idempotent_operation.key_literal("charge:");
        __idempotent_operation.key_part("payment.order_id", &payment.order_id);
        __idempotent_operation.fingerprint("payment", &payment);
    }
    ::idempotent_runtime::__private::call_plain::<
        Result<Receipt, ChargeError>,
    >(__idempotent_operation)
        .abandon(async move {
            if false {
                return ::idempotent_runtime::__private::returned::<
                    Result<Receipt, ChargeError>,
                >();
            }
            #[allow(clippy::diverging_sub_expression)]
            let __idempotent_outcome: Result<Receipt, ChargeError> = {
                bank.charge(payment).await
            };
            #[allow(unreachable_code)] __idempotent_outcome
        })
        .await
}
