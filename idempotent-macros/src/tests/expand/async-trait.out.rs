impl Charge for Service {
    fn charge<'life0, 'life1, 'async_trait>(
        &'life0 self,
        payment: &'life1 Payment,
        __arg1: Line,
    ) -> ::core::pin::Pin<
        Box<
            dyn ::core::future::Future<
                Output = Result<Receipt, ChargeError>,
            > + ::core::marker::Send + 'async_trait,
        >,
    >
    where
        'life0: 'async_trait,
        'life1: 'async_trait,
        Self: 'async_trait,
    {
        ::std::boxed::Box::pin(async move {
            static __IDEMPOTENT_HANDLER: ::idempotent_runtime::__private::Handler = ::idempotent_runtime::__private::Handler::new(
                    "charge",
                    ::core::module_path!(),
                    "charge:{self.tenant}:{payment.order_id}",
                )
                .fingerprint(&["payment", "argument_2"]);
            ::idempotent_runtime::__private::inventory::submit! {
                ::idempotent_runtime::__private::Registration(& __IDEMPOTENT_HANDLER)
            }
            let mut __idempotent_operation = ::idempotent_runtime::__private::Operation::new(
                &__IDEMPOTENT_HANDLER,
            );
            {
                let __idempotent_operation = &mut __idempotent_operation;
                __idempotent_operation.key_literal("charge:");
                __idempotent_operation.key_part("self.tenant", &self.tenant);
                __idempotent_operation.key_literal(":");
                __idempotent_operation.key_part("payment.order_id", &payment.order_id);
                __idempotent_operation.fingerprint("payment", &payment);
                __idempotent_operation.fingerprint("argument_2", &__arg1);
            }
            let __idempotent_owned_self = ::idempotent_runtime::__private::into_task(
                self,
            );
            let __idempotent_owned_payment = ::idempotent_runtime::__private::into_task(
                payment,
            );
            ::idempotent_runtime::__private::call_plain::<
                Result<Receipt, ChargeError>,
            >(__idempotent_operation)
                .finish(async move {
                    let __idempotent_self = &__idempotent_owned_self;
                    let payment: &Payment = ::core::borrow::Borrow::borrow(
                        &__idempotent_owned_payment,
                    );
                    let _ = &payment;
                    let __idempotent_future: ::core::pin::Pin<
                        ::std::boxed::Box<
                            dyn ::core::future::Future<
                                Output = Result<Receipt, ChargeError>,
                            > + ::core::marker::Send + '_,
                        >,
                    > = {
                        Box::pin(async move {
                            let __self = __idempotent_self;
                            let payment = payment;
                            let Line { id, .. } = __arg1;
                            let __ret: Result<Receipt, ChargeError> = {
                                __self.bank.charge(payment, id).await
                            };
                            __ret
                        })
                    };
                    let __idempotent_outcome: Result<Receipt, ChargeError> = __idempotent_future
                        .await;
                    __idempotent_outcome
                })
                .await
        })
    }
}
