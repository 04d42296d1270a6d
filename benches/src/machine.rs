//! What the figures depend on.

use std::fs;
use std::io::{Seek as _, Write as _};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use sqlx::{Connection as _, PgConnection};

/// One line a fact. `lock` is the lock file that the program was built with.
#[must_use]
pub fn facts(directory: &Path, lock: &str) -> Vec<String> {
    let first_of = |path: &str| {
        fs::read_to_string(path).ok().map(|text| text.trim().to_owned()).unwrap_or_default()
    };
    let cpuinfo = first_of("/proc/cpuinfo");
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    vec![
        format!("date      {}", said_by("date", &["-u", "+%Y-%m-%d %H:%M UTC"])),
        format!("machine   {cores} cores, {}", model.trim_start_matches([' ', '\t', ':'])),
        format!("system    Linux {}", first_of("/proc/sys/kernel/osrelease")),
        format!("load      {} (others included)", first_of("/proc/loadavg")),
        format!("disk      one fdatasync of a page takes {:.2?}", fdatasync(directory)),
        format!("toolchain {}, profile `bench`", said_by("rustc", &["--version"])),
        format!("crates    sqlx {}, tokio {}", locked(lock, "sqlx"), locked(lock, "tokio")),
    ]
}

/// What decides how fast a PostgreSQL server can be.
///
/// # Errors
///
/// If it does not answer.
pub async fn server(url: &str) -> Result<String, sqlx::Error> {
    let mut session = PgConnection::connect(url).await?;
    let settings = "SELECT current_setting('server_version'), current_setting('fsync'),
                    current_setting('synchronous_commit'), current_setting('shared_buffers')";
    let (version, fsync, commit, buffers): (String, String, String, String) =
        sqlx::query_as(settings).fetch_one(&mut session).await?;
    session.close().await?;
    Ok(format!(
        "postgres  {version} on this machine, fsync {fsync}, synchronous_commit {commit}, \
         shared_buffers {buffers}"
    ))
}

/// The processor time of this process's threads so far, to the nanosecond. Threads that have ended are not in it.
#[must_use]
pub fn processor_time() -> Duration {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let nanoseconds = threads.filter_map(|thread| {
        let schedstat = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        schedstat.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanoseconds.sum())
}

fn said_by(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map(|said| String::from_utf8_lossy(&said.stdout).trim().to_owned()).unwrap_or_default()
}

/// The version of a package as locked.
fn locked<'l>(lock: &'l str, package: &str) -> &'l str {
    let name = format!("name = \"{package}\"\nversion = \"");
    lock.split_once(&name).and_then(|(_, rest)| rest.split('"').next()).unwrap_or("?")
}

/// The median time of making one page durable in this directory.
pub(crate) fn fdatasync(directory: &Path) -> Duration {
    let page = [7_u8; 4_096];
    let once = |file: &mut fs::File| {
        file.rewind()?;
        file.write_all(&page)?;
        #[expect(clippy::disallowed_methods, reason = "a stopwatch is what this is")]
        let began = Instant::now();
        file.sync_data()?;
        Ok::<_, std::io::Error>(began.elapsed())
    };
    let mut took: Vec<Duration> = tempfile::tempfile_in(directory)
        .map(|mut file| (0..50).filter_map(|_| once(&mut file).ok()).collect())
        .unwrap_or_default();
    took.sort();
    took.get(took.len() / 2).copied().unwrap_or_default()
}
