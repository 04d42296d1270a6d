#[automatically_derived]
#[allow(deprecated)]
impl<T> ::idempotent_runtime::__private::KeyPart for Order<T>
where
    T: ::idempotent_runtime::__private::KeyPart,
{
    fn render(
        &self,
        __idempotent_key: &mut ::idempotent_runtime::__private::KeyWriter<'_>,
    ) {
        ::idempotent_runtime::__private::KeyPart::render(&self.shop, __idempotent_key);
        ::idempotent_runtime::__private::separate(__idempotent_key);
        ::idempotent_runtime::__private::KeyPart::render(&self.number, __idempotent_key);
    }
}
