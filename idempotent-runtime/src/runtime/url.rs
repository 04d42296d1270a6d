//! Which store a URL names.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use super::Builder;
use crate::clock::Clock;
use crate::error::Error;
use crate::store::{Memory, Store};

type Opening = Pin<Box<dyn Future<Output = Result<Arc<dyn Store>, Error>> + Send>>;

/// Opens the store of this URL's scheme.
pub(super) fn open(
    builder: &Builder,
    url: String,
    clock: Arc<dyn Clock>,
) -> Result<Opening, Error> {
    let scheme = url.split_once(':').map(|(scheme, _)| scheme);
    match scheme {
        Some("memory") => {
            Ok(Box::pin(async move { Ok(Arc::new(Memory::new(clock)) as Arc<dyn Store>) }))
        }
        Some("sqlite") => sqlite(builder, url, clock),
        Some("postgres" | "postgresql") => postgres(builder, url, clock),
        _ => Err(Error::Config {
            setting: "url",
            reason: format!(
                "{} names no store; write `sqlite://file.db`, `postgres://user@host/db` or `memory:`",
                match scheme {
                    // The rest of a URL may hold a password.
                    Some(scheme) => format!("the scheme `{scheme}:`"),
                    None => "a URL without a scheme".to_owned(),
                }
            ),
        }),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the same form for every store")]
fn sqlite(builder: &Builder, url: String, clock: Arc<dyn Clock>) -> Result<Opening, Error> {
    let _ = (builder, url, clock);
    Err(feature_off("sqlite"))
}

#[expect(clippy::needless_pass_by_value, reason = "the same form for every store")]
fn postgres(builder: &Builder, url: String, clock: Arc<dyn Clock>) -> Result<Opening, Error> {
    let _ = (builder, url, clock);
    Err(feature_off("postgres"))
}

fn feature_off(feature: &str) -> Error {
    Error::Unsupported {
        reason: format!(
            "this binary was built without the feature `{feature}`; write \
             `idempotent-runtime = {{ version = \"..\", features = [\"{feature}\"] }}` in Cargo.toml"
        ),
    }
}
