impl Service {
    pub async fn charge(
        &self,
        payment: &Payment,
        note: &str,
    ) -> Result<Receipt, ChargeError> {
        static __IDEMPOTENT_HANDLER: ::idempotent_runtime::__private::Handler = ::idempotent_runtime::__private::Handler::new(
                "charge",
                ::core::module_path!(),
                "charge:{self.tenant}:{payment.order_id}",
            )
            .fingerprint(&["payment", "note"]);
        ::idempotent_runtime::__private::inventory::submit! {
            ::idempotent_runtime::__private::Registration(& __IDEMPOTENT_HANDLER)
        }
        let mut __idempotent_operation = ::idempotent_runtime::__private::Operation::new(
            &__IDEMPOTENT_HANDLER,
        );
        {
            let __idempotent_operation = &mut __idempotent_operation;
            __idempotent_operation.runtime(&self.runtime);
            __idempotent_operation.key_literal("charge:");
            __idempotent_operation.key_part("self.tenant", &self.tenant);
            __idempotent_operation.key_literal(":");
            __idempotent_operation.key_part("payment.order_id", &payment.order_id);
            __idempotent_operation.fingerprint("payment", &payment);
            __idempotent_operation.fingerprint("note", &note);
        }
        let __idempotent_owned_self = ::idempotent_runtime::__private::into_task(self);
        let __idempotent_owned_payment = ::idempotent_runtime::__private::into_task(
            payment,
        );
        let __idempotent_owned_note = ::idempotent_runtime::__private::into_task(note);
        ::idempotent_runtime::__private::call_plain::<
            Result<Receipt, ChargeError>,
        >(__idempotent_operation)
            .finish(async move {
                let __idempotent_self = &__idempotent_owned_self;
                let payment: &Payment = ::core::borrow::Borrow::borrow(
                    &__idempotent_owned_payment,
                );
                let _ = &payment;
                let mut note: &str = ::core::borrow::Borrow::borrow(
                    &__idempotent_owned_note,
                );
                let _ = &note;
                if false {
                    return ::idempotent_runtime::__private::returned::<
                        Result<Receipt, ChargeError>,
                    >();
                }
                #[allow(clippy::diverging_sub_expression)]
                let __idempotent_outcome: Result<Receipt, ChargeError> = {
                    note = note.trim();
                    __idempotent_self
                        .bank
                        .charge(payment, format!("{__idempotent_self}: {note}"))
                        .await
                };
                #[allow(unreachable_code)] __idempotent_outcome
            })
            .await
    }
}
