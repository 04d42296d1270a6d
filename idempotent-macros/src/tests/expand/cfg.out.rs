async fn charge(
    payment: Payment,
    #[cfg(feature = "notes")]
    note: &str,
    #[cfg(feature = "shops")]
    __idempotent_argument_3: Shop,
    #[cfg(feature = "banks")]
    bank: &Bank,
) -> Result<Receipt, ChargeError> {
    static __IDEMPOTENT_HANDLER: ::idempotent_runtime::__private::Handler = ::idempotent_runtime::__private::Handler::new(
            "charge",
            ::core::module_path!(),
            "charge:{payment.order_id}",
        )
        .fingerprint(
            &[
                "payment",
                #[cfg(feature = "notes")]
                "note",
                #[cfg(feature = "shops")]
                "shop",
            ],
        );
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
        #[cfg(feature = "notes")] __idempotent_operation.fingerprint("note", &note);
        #[cfg(feature = "shops")]
        __idempotent_operation.fingerprint("shop", &__idempotent_argument_3);
    }
    #[cfg(feature = "notes")]
    let __idempotent_owned_note = ::idempotent_runtime::__private::into_task(note);
    #[cfg(feature = "banks")]
    let __idempotent_owned_bank = ::idempotent_runtime::__private::into_task(bank);
    ::idempotent_runtime::__private::call_plain::<
        Result<Receipt, ChargeError>,
    >(__idempotent_operation)
        .finish(async move {
            #[cfg(feature = "notes")]
            let note: &str = ::core::borrow::Borrow::borrow(&__idempotent_owned_note);
            #[cfg(feature = "notes")]
            let _ = &note;
            #[cfg(feature = "shops")]
            let Shop { id } = __idempotent_argument_3;
            #[cfg(feature = "banks")]
            let bank: &Bank = ::core::borrow::Borrow::borrow(&__idempotent_owned_bank);
            if false {
                return ::idempotent_runtime::__private::returned::<
                    Result<Receipt, ChargeError>,
                >();
            }
            #[allow(clippy::diverging_sub_expression)]
            let __idempotent_outcome: Result<Receipt, ChargeError> = {
                Ok(payment.receipt())
            };
            #[allow(unreachable_code)] __idempotent_outcome
        })
        .await
}
