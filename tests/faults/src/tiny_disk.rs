//! A disk that is soon full: a small tmpfs, in a mount namespace of the test's own, which goes with the test.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Says to the test that runs inside where the disk is.
const VARIABLE: &str = "IDEMPOTENT_TINY_DISK";
/// What a test that fails exits with.
const FAILED: i32 = 101;

const MOUNT: &str =
    r#"mount -t tmpfs -o size="$1",mode=1777 tiny "$2" || exit 3; shift 2; exec "$@""#;
const MOUNT_AND_LEAVE_ROOT: &str = r#"mount -t tmpfs -o size="$1",mode=1777 tiny "$2" || exit 3; uid=$3 gid=$4; shift 4
exec unshare --user --map-user="$uid" --map-group="$gid" "$@""#;

/// Where the disk is, for the test that runs on it. Outside of it runs `test`, by its name, again, and returns nothing:
/// that was the test.
///
/// # Panics
///
/// If that test fails, or no disk can be mounted, with what to do about it.
#[must_use]
pub fn mounted(test: &str, size: &str) -> Option<PathBuf> {
    mount(test, size, MOUNT_AND_LEAVE_ROOT)
}

/// The same for a test that mounts it anew, and does not start what refuses to run as root.
///
/// # Panics
///
/// As [`mounted`].
#[must_use]
pub fn mounted_by_root(test: &str, size: &str) -> Option<PathBuf> {
    mount(test, size, MOUNT)
}

/// Whether the disk may be written from now on; nobody may have a file open to write.
///
/// # Panics
///
/// If it cannot be mounted anew.
pub fn set_writable(disk: &Path, writable: bool) {
    let option = if writable { "remount,bind,rw" } else { "remount,bind,ro" };
    let mounted = Command::new("mount").args(["-o", option]).arg(disk).status();
    let mounted = mounted.expect("`mount` runs");
    assert!(mounted.success(), "mount -o {option}: {mounted}");
}

fn mount(test: &str, size: &str, by_others: &str) -> Option<PathBuf> {
    if let Some(disk) = std::env::var_os(VARIABLE) {
        return Some(PathBuf::from(disk));
    }
    let disk = std::env::temp_dir().join(format!("idempotent-tiny-{test}-{}", std::process::id()));
    std::fs::create_dir_all(&disk).expect("a directory can be made");
    let own = std::fs::metadata(&disk).expect("it is there");
    let mut unshare = Command::new("unshare");
    if own.uid() == 0 {
        unshare.args(["--mount", "sh", "-c", MOUNT, "sh", size]).arg(&disk);
    } else {
        unshare.args(["--map-root-user", "--mount", "sh", "-c", by_others, "sh", size]).arg(&disk);
        if by_others == MOUNT_AND_LEAVE_ROOT {
            unshare.args([own.uid().to_string(), own.gid().to_string()]);
        }
    }
    unshare.arg(std::env::current_exe().expect("this process has a file"));
    unshare.args([test, "--exact", "--nocapture"]).env(VARIABLE, &disk);
    let ended = unshare.status();
    // It is empty: the mount is gone with the namespace.
    let _ = std::fs::remove_dir(&disk);
    match ended.as_ref().map(|status| status.code()) {
        Ok(Some(0)) => None,
        Ok(Some(FAILED)) => panic!("{test} failed on the small disk"),
        _ => panic!(
            "no small disk can be mounted to fill ({ended:?}): run the tests as root of a machine or a container with \
             CAP_SYS_ADMIN, or allow others user namespaces: sysctl kernel.unprivileged_userns_clone=1 \
             kernel.apparmor_restrict_unprivileged_userns=0"
        ),
    }
}
