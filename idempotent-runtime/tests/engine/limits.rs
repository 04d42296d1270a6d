//! Settings that cannot be, each with an error of its own.

use std::time::Duration;

use idempotent_runtime::{Builder, Error, Runtime};

async fn refused(build: impl FnOnce(Builder) -> Builder) -> (String, String) {
    let builder = Runtime::builder("engine").url("memory:");
    match build(builder).connect().await {
        Err(error @ Error::Config { setting, .. }) => (setting.to_owned(), error.to_string()),
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test]
async fn a_lease_of_zero_or_out_of_bounds_is_refused() {
    for lease in [Duration::ZERO, Duration::from_millis(99), Duration::from_millis(3_600_001)] {
        let (setting, message) = refused(|builder| builder.lease(lease)).await;
        assert_eq!(setting, "lease");
        assert!(message.contains("between 100 ms and 1 h"), "{message}");
    }
}

#[tokio::test]
async fn no_crash_at_all_is_refused() {
    let (setting, message) = refused(|builder| builder.max_crashes(0)).await;
    assert_eq!(setting, "max_crashes");
    assert!(message.contains("1 or more"), "{message}");
}

#[tokio::test]
async fn no_runtime_at_all_is_refused() {
    assert_eq!(refused(|builder| builder.max_runtime(Duration::ZERO)).await.0, "max_runtime");
}

#[tokio::test]
async fn no_retention_at_all_is_refused() {
    assert_eq!(refused(|builder| builder.retain(Duration::ZERO)).await.0, "retain");
}

#[tokio::test]
async fn a_namespace_that_is_empty_long_or_holds_a_nul_is_refused() {
    for namespace in [String::new(), "x".repeat(129), "a\0b".to_owned()] {
        let built = Runtime::builder(namespace).url("memory:").connect().await;
        assert!(matches!(built, Err(Error::Config { setting: "namespace", .. })), "{built:?}");
    }
}

#[tokio::test]
async fn too_small_a_pool_is_refused() {
    assert_eq!(refused(|builder| builder.pool_size(1)).await.0, "pool_size");
}

#[tokio::test]
async fn too_large_a_result_limit_is_refused() {
    assert_eq!(
        refused(|builder| builder.max_result_bytes((16 << 20) + 1)).await.0,
        "max_result_bytes"
    );
}

#[tokio::test]
async fn a_reaper_that_never_sleeps_is_refused() {
    let (setting, message) = refused(|builder| builder.reaper_interval(Duration::ZERO)).await;
    assert_eq!(setting, "reaper_interval");
    assert!(message.contains(".reaper(false)"), "{message}");
}

#[tokio::test]
async fn a_url_that_names_no_store_is_refused_and_not_repeated() {
    for url in ["mongodb://user:secret@host/db", "payments.db", ""] {
        let (setting, message) = refused(|builder| builder.url(url)).await;
        assert_eq!(setting, "url");
        assert!(message.contains("sqlite://"), "{message}");
        assert!(!message.contains("secret"), "{message}");
    }
}

#[tokio::test]
async fn a_builder_without_a_database_is_refused() {
    let built = Runtime::builder("engine").connect().await;
    assert!(matches!(built, Err(Error::Config { setting: "url", .. })), "{built:?}");
}

#[test]
fn connecting_outside_a_tokio_runtime_is_refused() {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};
    let mut connecting = pin!(Runtime::connect("engine", "memory:"));
    let mut here = Context::from_waker(Waker::noop());
    let Poll::Ready(built) = connecting.as_mut().poll(&mut here) else { panic!("pending") };
    assert!(matches!(built, Err(Error::Config { setting: "connect", .. })), "{built:?}");
}

#[tokio::test]
async fn a_second_install_is_refused_and_the_first_stays() {
    let first = Runtime::connect("first", "memory:").await.unwrap();
    let second = Runtime::connect("second", "memory:").await.unwrap();
    first.install().unwrap();
    let error = second.install().unwrap_err();
    assert!(matches!(error, Error::Config { setting: "install", .. }), "{error}");
    assert!(error.to_string().contains("`first`"), "{error}");
}

#[test]
fn a_builder_shows_neither_password_nor_secret() {
    let builder = Runtime::builder("engine").url("postgres://user:hunter2@host/db?x=1");
    let shown = format!("{:?}", builder.secret([0xAB, 0xCD, 0xEF]));
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(!shown.contains("171"), "{shown}");
    assert!(shown.contains("engine"), "{shown}");
}
