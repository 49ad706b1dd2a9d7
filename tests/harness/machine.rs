//! This machine: where the built program lies, scratch directories, signals, open files and the wall clock.
use ledger::{Clock, Minute, SystemClock};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, id};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, sleep};

/// A point for measuring durations.
#[must_use]
pub fn now() -> Instant {
    SystemClock.instant()
}

/// The top of the source tree.
#[must_use]
pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the tests are a member of the workspace")
        .to_owned()
}

/// The built gateway. It lies beside this test's own program, so both are of one profile.
pub(crate) fn binary() -> PathBuf {
    let test = std::env::current_exe().expect("a process knows its program");
    let path = test.parent().and_then(Path::parent).expect("a profile's directory").join("onegate");
    assert!(path.exists(), "{} is missing: ./test builds it first (cargo build --release)", path.display());
    path
}

/// A directory of one test, removed with its contents at the end.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// A new, empty one.
    #[must_use]
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("onegate-test-{}-{}", id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("the temporary directory can be written");
        Self(path)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file in it and answers where.
    #[must_use]
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).expect("the scratch directory can be written");
        path
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A process that was just killed may still be writing; what stays then lies in the temporary directory.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Sends a signal by its short name (`STOP`, `CONT`, `TERM`). The shell's own `kill` needs no package.
pub fn signal(pid: u32, name: &str) {
    let sent = Command::new("sh").arg("-c").arg(format!("kill -{name} {pid}")).status();
    assert!(sent.is_ok_and(|status| status.success()), "SIG{name} did not reach process {pid}");
}

/// Waits until `done` holds, or fails with `what` after `limit`.
pub async fn until(what: &str, limit: Duration, mut done: impl AsyncFnMut() -> bool) {
    let started = now();
    while !done().await {
        assert!(started.elapsed() < limit, "after {limit:?} still not: {what}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// Held by tests that load or measure this machine, so that they do not disturb each other.
pub async fn alone() -> MutexGuard<'static, ()> {
    static MACHINE: Mutex<()> = Mutex::const_new(());
    MACHINE.lock().await
}

/// Goes on when at least `left` of the current UTC minute is left.
///
/// A wait on the real clock, on purpose: limits are counted in the wall clock's minutes, and Redis and the
/// replicas read it too, so no test can hold it. It waits only where a burst could straddle two minutes.
pub async fn fresh_minute(left: Duration) {
    let unix_ms = SystemClock.unix_ms();
    let left_now = Duration::from_millis(Minute::of(unix_ms).left_ms(unix_ms));
    if left_now < left {
        sleep(left_now + Duration::from_millis(50)).await;
    }
}

/// Lets this process, and those it starts from now on, hold as many sockets as the machine allows.
pub fn many_open_files() {
    let limits = fs::read_to_string("/proc/self/limits").expect("Linux tells a process its limits");
    let line = limits.lines().find(|line| line.starts_with("Max open files")).expect("a limit of open files");
    let hard = line.split_whitespace().nth(4).expect("a hard limit after the soft one");
    let raised =
        Command::new("prlimit").args(["--pid", &id().to_string(), &format!("--nofile={hard}")]).status();
    assert!(raised.is_ok_and(|status| status.success()), "prlimit could not raise the limit of open files");
}
