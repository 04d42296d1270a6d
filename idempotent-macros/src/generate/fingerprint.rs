//! What is compared when the key comes again.

use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;

use super::operation_ident;
use crate::spec::Spec;

pub(super) fn values(spec: &Spec) -> TokenStream {
    let values = spec.fingerprint.iter().map(|it| {
        // A value that is not `Serialize` is reported at the argument.
        let span = Span::mixed_site().located_at(it.span);
        let operation = operation_ident(span);
        let (cfg, path, value) = (&it.cfg, &it.path, &it.value);
        quote_spanned!(span=> #(#cfg)* #operation.fingerprint(#path, &#value);)
    });
    values.collect()
}
