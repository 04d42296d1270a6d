impl Service {
    async fn book(
        &self,
        __idempotent_argument_1: Order,
        note: &str,
    ) -> Result<u64, BookError> {
        static __IDEMPOTENT_HANDLER: ::idempotent_runtime::__private::Handler = ::idempotent_runtime::__private::Handler::new(
                "book",
                ::core::module_path!(),
                "book:{self.tenant}:{id}",
            )
            .fingerprint(&["order", "note"])
            .transaction(
                ::idempotent_runtime::__private::database::<SqliteConnection>(),
            );
        ::idempotent_runtime::__private::inventory::submit! {
            ::idempotent_runtime::__private::Registration(& __IDEMPOTENT_HANDLER)
        }
        let mut __idempotent_operation = ::idempotent_runtime::__private::Operation::new(
            &__IDEMPOTENT_HANDLER,
        );
        {
            let __idempotent_operation = &mut __idempotent_operation;
            let Order { id, .. } = &__idempotent_argument_1;
            __idempotent_operation.key_literal("book:");
            __idempotent_operation.key_part("self.tenant", &self.tenant);
            __idempotent_operation.key_literal(":");
            __idempotent_operation.key_part("id", &id);
            __idempotent_operation.fingerprint("order", &__idempotent_argument_1);
            __idempotent_operation.fingerprint("note", &note);
        }
        let __idempotent_owned_self = ::idempotent_runtime::__private::into_task(self);
        let __idempotent_owned_note = ::idempotent_runtime::__private::into_task(note);
        ::idempotent_runtime::__private::call::<
            Result<u64, BookError>,
        >(
                __idempotent_operation,
                ::core::option::Option::Some(
                    ::idempotent_runtime::__private::terminal(BookError::is_final),
                ),
            )
            .transaction(
                move |
                    mut __idempotent_held: ::idempotent_runtime::__private::Held<
                        SqliteConnection,
                    >|
                {
                    let __idempotent_owned_self = ::idempotent_runtime::__private::into_task(
                        &__idempotent_owned_self,
                    );
                    let __idempotent_argument_1 = ::idempotent_runtime::__private::again(
                        &__idempotent_argument_1,
                    );
                    let __idempotent_owned_note = ::idempotent_runtime::__private::into_task::<
                        str,
                        _,
                    >(::core::borrow::Borrow::borrow(&__idempotent_owned_note));
                    async move {
                        #[allow(unused_mut)]
                        let mut tx: &mut SqliteConnection = __idempotent_held
                            .connection();
                        let __idempotent_self = &__idempotent_owned_self;
                        let Order { id, .. } = __idempotent_argument_1;
                        let _ = &id;
                        let note: &str = ::core::borrow::Borrow::borrow(
                            &__idempotent_owned_note,
                        );
                        let _ = &note;
                        if false {
                            return ::idempotent_runtime::__private::returned::<
                                Result<u64, BookError>,
                            >();
                        }
                        #[allow(clippy::diverging_sub_expression)]
                        let __idempotent_outcome: Result<u64, BookError> = {
                            __idempotent_self.insert(tx, id, note).await
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
    async fn shared(
        self: Arc<Self>,
        id: u64,
        #[cfg(feature = "rates")]
        rate: u64,
    ) -> Result<u64, BookError> {
        static __IDEMPOTENT_HANDLER: ::idempotent_runtime::__private::Handler = ::idempotent_runtime::__private::Handler::new(
                "shared",
                ::core::module_path!(),
                "book:{id}",
            )
            .fingerprint(&["id", #[cfg(feature = "rates")] "rate"])
            .transaction(
                ::idempotent_runtime::__private::database::<SqliteConnection>(),
            );
        ::idempotent_runtime::__private::inventory::submit! {
            ::idempotent_runtime::__private::Registration(& __IDEMPOTENT_HANDLER)
        }
        let mut __idempotent_operation = ::idempotent_runtime::__private::Operation::new(
            &__IDEMPOTENT_HANDLER,
        );
        {
            let __idempotent_operation = &mut __idempotent_operation;
            __idempotent_operation.key_literal("book:");
            __idempotent_operation.key_part("id", &id);
            __idempotent_operation.fingerprint("id", &id);
            #[cfg(feature = "rates")] __idempotent_operation.fingerprint("rate", &rate);
        }
        ::idempotent_runtime::__private::call_plain::<
            Result<u64, BookError>,
        >(__idempotent_operation)
            .transaction(
                move |
                    mut __idempotent_held: ::idempotent_runtime::__private::Held<
                        SqliteConnection,
                    >|
                {
                    let mut __idempotent_self = ::idempotent_runtime::__private::again(
                        &self,
                    );
                    #[allow(unused_variables)]
                    let id = ::idempotent_runtime::__private::again(&id);
                    #[cfg(feature = "rates")]
                    #[allow(unused_variables)]
                    let rate = ::idempotent_runtime::__private::again(&rate);
                    async move {
                        let tx: &mut SqliteConnection = __idempotent_held.connection();
                        if false {
                            return ::idempotent_runtime::__private::returned::<
                                Result<u64, BookError>,
                            >();
                        }
                        #[allow(clippy::diverging_sub_expression)]
                        let __idempotent_outcome: Result<u64, BookError> = {
                            __idempotent_self.insert(tx, id, rate).await
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
}
