//! The pipeline: parse → check → generate, or fall back to the function as it was written.

use proc_macro2::TokenStream;

use crate::args::Args;
use crate::errors::Errors;
use crate::fallback;
use crate::generate;
use crate::handler::Function;
use crate::spec::Spec;

pub(crate) fn idempotent(attribute: TokenStream, item: &TokenStream) -> TokenStream {
    let function = match syn::parse2::<Function>(item.clone()) {
        Ok(function) => function,
        Err(error) => return fallback::item(item, &error),
    };
    let mut errors = Errors::new();
    let args = Args::parse(attribute, &mut errors);
    let spec = Spec::check(args, &function, &mut errors);
    match (errors.finish(), spec) {
        (Ok(()), Some(spec)) => generate::function(&spec),
        (Err(error), _) => fallback::function(function, &error),
        (Ok(()), None) => unreachable!("what is not checked was reported"),
    }
}
