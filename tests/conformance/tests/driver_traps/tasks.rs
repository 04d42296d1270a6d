//! tokio.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::trap::DETACHED_TASK;

#[tokio::test(start_paused = true)]
async fn a_heartbeat_outlives_the_handler_that_started_it() {
    let beats = Arc::new(AtomicU32::new(0));
    let beating = tokio::spawn({
        let beats = Arc::clone(&beats);
        async move {
            loop {
                tokio::time::sleep(Duration::from_millis(100)).await;
                beats.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    drop(beating);
    tokio::time::sleep(Duration::from_millis(550)).await;
    DETACHED_TASK.is_there(beats.load(Ordering::Relaxed) == 5);
}
