#[automatically_derived]
#[allow(deprecated)]
impl ::idempotent_runtime::__private::KeyPart for OrderId {
    fn render(
        &self,
        __idempotent_key: &mut ::idempotent_runtime::__private::KeyWriter<'_>,
    ) {
        ::idempotent_runtime::__private::KeyPart::render(&self.0, __idempotent_key);
    }
}
