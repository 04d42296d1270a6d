#![deny(warnings, rust_2018_idioms, unused_qualifications)]
#![forbid(unsafe_code)]

use idempotent_runtime::{Error, Execution, idempotent, step};

async fn helper(id: u64) -> Result<u64, std::num::ParseIntError> {
    step("parse").run(async |_effect| id.to_string().parse()).await
}

#[idempotent(key = "tree:{id}", terminal = |error: &Failed| matches!(error, Failed::Number(_)))]
async fn tree(id: u64) -> Result<u64, Failed> {
    let child = tokio::spawn(Execution::current().scope(async move {
        step("child").run(async |effect| Ok::<_, Error>(effect.provider_key().len() as u64)).await
    }));
    let child = child.await.map_err(|_| Failed::Number(String::new()))??;
    let number = helper(id).await.map_err(|error| Failed::Number(error.to_string()))?;
    Ok(child + number)
}

#[derive(serde::Serialize, serde::Deserialize)]
enum Failed {
    Number(String),
    #[serde(skip)]
    Idempotent(Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Idempotent(error)
    }
}

fn main() {
    drop(tree(1));
}
