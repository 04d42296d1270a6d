#[automatically_derived]
#[allow(deprecated)]
impl ::idempotent_runtime::__private::KeyPart for Method {
    fn render(
        &self,
        __idempotent_key: &mut ::idempotent_runtime::__private::KeyWriter<'_>,
    ) {
        __idempotent_key
            .text(
                match self {
                    Self::Card => "Card",
                    Self::r#Iban => "Iban",
                },
            );
    }
}
