impl Charge for Service {
    #[idempotent(key = "charge:{self.tenant}:{payment.order_id}")]
    fn charge<'life0, 'life1, 'async_trait>(
        &'life0 self,
        payment: &'life1 Payment,
        __arg1: Line,
    ) -> ::core::pin::Pin<
        Box<
            dyn ::core::future::Future<Output = Result<Receipt, ChargeError>>
                + ::core::marker::Send
                + 'async_trait,
        >,
    >
    where
        'life0: 'async_trait,
        'life1: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(async move {
            let __self = self;
            let payment = payment;
            let Line { id, .. } = __arg1;
            let __ret: Result<Receipt, ChargeError> = { __self.bank.charge(payment, id).await };
            __ret
        })
    }
}
