//! One writer at a time: an advisory lock, which the system releases however its holder ends.
//!
//! A lock lasts as long as any process has the file open, and a forked child has all files open until it runs another
//! program. So a process that is killed may leave a stale lock. The file identifies the process that locked it. If that
//! process is certainly gone, the file is replaced by a new one, which is locked instead. A process that acquires the
//! lock also locks the directory meanwhile, so that the file never identifies an earlier holder.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process;
use std::thread;
use std::time::{Duration, Instant};

use headgate_core::error::JobError;
use headgate_core::file_name::OWN_DIRECTORY;
use headgate_core::files::{Directory, SHARED};
use headgate_core::message;
use headgate_core::message::OptionName;
use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;

/// How long a writer tries to acquire the lock: a process that only tests the lock holds it for an instant.
const ACQUIRE_TIMEOUT: Duration = Duration::from_millis(200);
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// More than the longest content of the lock file.
const MAX_HOLDER_BYTES: u64 = 256;

/// The lock of a job, held until it is dropped.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
    pid: u32,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing the file is not enough: a child that was forked meanwhile has it open, too. That child must not unlock it.
        if self.pid == process::id() {
            let _ = self.file.unlock();
        }
    }
}

/// Acquires the lock of the job in an output directory.
pub(super) fn acquire(directory: &Directory) -> Result<Lock, JobError> {
    let path = path_in(directory);
    let until = Instant::now() + ACQUIRE_TIMEOUT;
    loop {
        let file = try_acquire(directory, &path).map_err(|error| {
            let refused = JobError::of_file("can't lock", path.display(), &error);
            let has_no_locks =
                error.kind() == io::ErrorKind::Unsupported || error.raw_os_error() == Some(Errno::ENOLCK as i32);
            // Without a lock, each of two writers could mistake the other's files for those of a crashed run.
            let advice = message!("; this file system has no locks: choose an ", OptionName::Output, " on another");
            if has_no_locks { JobError::output(message!(refused.message, advice)) } else { refused }
        })?;
        if let Some(file) = file {
            return Ok(Lock { file, pid: process::id() });
        }
        if Instant::now() >= until {
            break;
        }
        thread::sleep(POLL_INTERVAL);
    }
    let mut file = directory.file(&path).ok();
    let holder = file.as_mut().and_then(Identity::read).map(|holder| holder.pid);
    Err(held_by(holder.or_else(|| holder_of(file.as_ref()?)), directory))
}

/// Checks that no process writes to a job, without a lock: its directory may be on a disk that can't be written to.
///
/// # Errors
/// `Output`: a process writes to it.
pub(super) fn check_free(directory: &Directory) -> Result<(), JobError> {
    match holder(directory) {
        Holder::None => Ok(()),
        Holder::Process(pid) => Err(held_by(pid, directory)),
    }
}

fn held_by(pid: Option<u32>, directory: &Directory) -> JobError {
    let (holder, directory) = (shown(pid), directory.path().display());
    JobError::output(message!(
        "another headgate{holder} is writing to {directory}: wait for it, or choose another ",
        OptionName::Output
    ))
}

fn path_in(directory: &Directory) -> PathBuf {
    directory.path().join(OWN_DIRECTORY).join("lock")
}

pub(super) fn shown(pid: Option<u32>) -> String {
    pid.map_or(String::new(), |pid| format!(" (pid {pid})"))
}

/// Locks a file, where the file system has locks, and waits for another process that has locked it.
///
/// # Errors
/// `TimedOut`: another process, which the message names, has held the lock for `timeout`.
pub(super) fn wait_for(file: &File, timeout: Duration) -> io::Result<()> {
    let until = Instant::now() + timeout;
    while matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
        if Instant::now() >= until {
            let (holder, waited) = (shown(holder_of(file)), timeout.as_secs());
            let text = format!("another process{holder} has held its lock for {waited} s: try again when it ends");
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
        thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}

/// Returns the process that has locked a file, as listed by Linux (`proc_locks(5)`).
fn holder_of(file: &File) -> Option<u32> {
    let found = file.metadata().ok()?;
    let (major, minor) = (rustix::fs::major(found.dev()), rustix::fs::minor(found.dev()));
    let file = format!("{major:02x}:{minor:02x}:{}", found.ino());
    let locks = fs::read_to_string("/proc/locks").ok()?;
    locks.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let is_it = fields.get(1) == Some(&"FLOCK") && fields.get(5) == Some(&file.as_str());
        fields.get(4).filter(|_| is_it)?.parse().ok().filter(|pid| *pid > 0)
    })
}

/// The process that writes to a job now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    None,
    /// A process, with its id if that is known.
    Process(Option<u32>),
}

/// Returns the process that holds the lock of a job.
pub(super) fn holder(directory: &Directory) -> Holder {
    let Ok(mut file) = directory.file(&path_in(directory)) else { return Holder::None };
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => match Identity::read(&mut file) {
            Some(holder) if holder.is_gone() => Holder::None,
            holder => Holder::Process(holder.map(|holder| holder.pid)),
        },
        _ => Holder::None,
    }
}

/// Returns the locked file, or `None` if another process holds the lock or is acquiring it.
fn try_acquire(directory: &Directory, path: &Path) -> io::Result<Option<File>> {
    let own = directory.open_to_lock(path.parent().unwrap_or(path))?;
    let may_replace = match own.try_lock() {
        Ok(()) => true,
        Err(TryLockError::WouldBlock) => return Ok(None),
        // Network file systems lock only files that are open for writing. There, the lock file is not replaced.
        Err(TryLockError::Error(_)) => false,
    };
    let acquired = lock_file(directory, path, may_replace);
    // As with the lock of a job, closing the file may not be enough.
    let _ = own.unlock();
    acquired
}

/// Locks the file at `path`, and replaces it first if `may_replace` and the process that locked it is gone.
fn lock_file(directory: &Directory, path: &Path, may_replace: bool) -> io::Result<Option<File>> {
    let mut file = directory.open_or_create(path, SHARED)?;
    let mut locked = file.try_lock();
    let is_held = matches!(locked, Err(TryLockError::WouldBlock));
    if is_held && may_replace && Identity::read(&mut file).is_some_and(|holder| holder.is_gone()) {
        directory.remove(path)?;
        file = directory.open_or_create(path, SHARED)?;
        locked = file.try_lock();
    }
    match locked {
        // Another process replaced the file since it was opened, on a system where not every process can lock the directory.
        Ok(()) if !is_at(&file, directory, path) => Ok(None),
        Ok(()) => {
            file.set_len(0)?;
            file.rewind()?;
            Identity::own().write(&mut file)?;
            Ok(Some(file))
        }
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn is_at(file: &File, directory: &Directory, path: &Path) -> bool {
    // Inodes of one file system are compared, since no other is mounted on a file.
    matches!((file.metadata(), directory.stat_of(path)), (Ok(file), Ok(there)) if file.ino() == there.st_ino)
}

/// Identifies a process, and distinguishes it from a later one with the same id.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Identity {
    pid: u32,
    /// When the process began, and in which system: processes of different systems can't see each other. Linux only.
    instance: Option<Instance>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Instance {
    /// The boot of the machine and the name spaces of its processes and of its time.
    system: String,
    /// The start of the process in ticks since the boot; 0 if it has ended.
    started: u64,
}

impl Identity {
    fn own() -> Self {
        let pid = process::id();
        Self { pid, instance: Instance::of(pid) }
    }

    /// Returns whether the process has ended, which can be known only of processes of this system.
    fn is_gone(&self) -> bool {
        let Some(then) = self.instance.as_ref().filter(|then| Some(&then.system) == system().as_ref()) else {
            return false;
        };
        let Ok(pid) = self.pid.try_into() else { return true };
        // Another user's process may be hidden in /proc; `kill` still finds it.
        kill(Pid::from_raw(pid), None) == Err(Errno::ESRCH) || Instance::of(self.pid).is_some_and(|now| now != *then)
    }

    fn write(&self, file: &mut File) -> io::Result<()> {
        let instance = self.instance.as_ref();
        let instance = instance.map(|Instance { system, started }| format!("{started} {system}\n"));
        let text = format!("{}\n{}", self.pid, instance.unwrap_or_default());
        // A flipped bit must not make a living holder look like one that is gone.
        file.write_all(format!("{text}{:08x}\n", crc32fast::hash(text.as_bytes())).as_bytes())
    }

    fn read(file: &mut File) -> Option<Self> {
        let mut text = String::new();
        file.take(MAX_HOLDER_BYTES).read_to_string(&mut text).ok()?;
        let (text, crc32) = text.strip_suffix('\n')?.rsplit_once('\n')?;
        if u32::from_str_radix(crc32, 16).ok()? != crc32fast::hash(format!("{text}\n").as_bytes()) {
            return None;
        }
        let mut lines = text.lines();
        let pid = lines.next()?.parse().ok()?;
        let instance = lines.next().and_then(|line| {
            let (started, system) = line.split_once(' ')?;
            Some(Instance { system: system.to_owned(), started: started.parse().ok()? })
        });
        Some(Self { pid, instance })
    }
}

impl Instance {
    /// Returns `None` if `/proc` does not have it.
    fn of(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name may contain anything. After it come state, parent … (proc_pid_stat(5)).
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let (state, threads, started) = (fields.first()?, fields.get(17)?, fields.get(19)?.parse().ok()?);
        // A process that has ended and that its parent has not waited for. Its files are closed when its last thread ends.
        let is_dead = matches!(*state, "Z" | "X" | "x") && matches!(*threads, "0" | "1");
        Some(Self { system: system()?, started: if is_dead { 0 } else { started } })
    }
}

fn system() -> Option<String> {
    // Otherwise this is the /proc of another process name space.
    if fs::read_link("/proc/self").ok()?.to_str()?.parse() != Ok(process::id()) {
        return None;
    }
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let processes = fs::read_link("/proc/self/ns/pid").ok()?;
    // Older systems have one time for all.
    let time = fs::read_link("/proc/self/ns/time").unwrap_or_default();
    Some(format!("{} {} {}", boot.trim(), processes.to_str()?, time.to_str()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output() -> (tempfile::TempDir, Directory) {
        let root = tempfile::tempdir().expect("a directory");
        fs::create_dir(root.path().join(OWN_DIRECTORY)).expect("a directory");
        let directory = Directory::open(root.path()).expect("a directory");
        (root, directory)
    }

    /// Makes a lock file as a forked child leaves it: locked, and written by a process that is gone.
    fn left_behind(directory: &Directory, holder: &Identity) -> File {
        let mut file = directory.open_or_create(&path_in(directory), SHARED).expect("a file");
        file.try_lock().expect("no other process holds it");
        holder.write(&mut file).expect("a few bytes");
        file
    }

    fn gone() -> Identity {
        let mut child = process::Command::new("true").spawn().expect("a process");
        let instance = Instance { system: system().expect("Linux"), started: 1 };
        child.wait().expect("it ends");
        Identity { pid: child.id(), instance: Some(instance) }
    }

    #[test]
    fn a_stale_lock_has_no_holder_and_is_replaced() {
        let (_root, directory) = output();
        let _left = left_behind(&directory, &gone());
        assert_eq!(Holder::None, holder(&directory));
        let taken = acquire(&directory).expect("it is free");
        assert_eq!(Holder::Process(Some(process::id())), holder(&directory));
        let refused = acquire(&directory).expect_err("it is held");
        assert!(refused.to_string().contains(&format!("another headgate (pid {})", process::id())), "{refused}");
        drop(taken);
        assert_eq!(Holder::None, holder(&directory));
    }

    #[test]
    fn exactly_one_of_several_threads_replaces_a_stale_lock() {
        for _ in 0..50 {
            let (_root, directory) = output();
            let _left = left_behind(&directory, &gone());
            let taken: Vec<_> = thread::scope(|scope| {
                let takers: Vec<_> = (0..4)
                    .map(|_| scope.spawn(|| try_acquire(&directory, &path_in(&directory)).expect("a file system")))
                    .collect();
                takers.into_iter().filter_map(|taker| taker.join().expect("no panic")).collect()
            });
            assert_eq!(1, taken.len());
            assert_eq!(Holder::Process(Some(process::id())), holder(&directory));
        }
    }

    #[test]
    fn a_holder_that_lives_or_may_live_elsewhere_keeps_its_lock() {
        let instance = |of: fn(Instance) -> Instance| gone().instance.map(of);
        let elsewhere = instance(|instance| Instance { system: "another machine".into(), ..instance });
        for identity in
            [Identity::own(), Identity { instance: elsewhere, ..gone() }, Identity { instance: None, ..gone() }]
        {
            let (_root, directory) = output();
            let _left = left_behind(&directory, &identity);
            assert_eq!(Holder::Process(Some(identity.pid)), holder(&directory), "{identity:?}");
            assert!(acquire(&directory).is_err(), "{identity:?}");
        }
    }

    #[test]
    fn a_bit_that_flips_in_the_lock_does_not_make_its_holder_gone() {
        let (_root, directory) = output();
        let _left = left_behind(&directory, &gone());
        let path = path_in(&directory);
        let sound = fs::read(&path).expect("a file");
        for at in 0..sound.len() {
            let mut flipped = sound.clone();
            flipped[at] ^= 1;
            fs::write(&path, flipped).expect("a file");
            assert!(matches!(holder(&directory), Holder::Process(_)), "byte {at}");
        }
    }

    #[test]
    fn waiting_for_a_locked_file_ends_at_the_timeout_and_the_error_names_the_holder() {
        let (_root, directory) = output();
        let open = || directory.open_or_create(&path_in(&directory), SHARED).expect("a file");
        let (held, file) = (open(), open());
        held.try_lock().expect("no other process holds it");
        let error = wait_for(&file, Duration::ZERO).expect_err("it is locked");
        let holder = format!("another process (pid {}) has held its lock for 0 s", process::id());
        assert_eq!((io::ErrorKind::TimedOut, true), (error.kind(), error.to_string().starts_with(&holder)), "{error}");
        drop(held);
        // A process that another test starts has a copy of the file for a moment.
        wait_for(&file, Duration::from_secs(60)).expect("it is free");
    }

    #[test]
    fn a_process_with_the_id_of_an_earlier_one_is_not_that_one() {
        let own = Identity::own();
        let earlier = own.instance.clone().map(|own| Instance { started: own.started - 1, ..own });
        assert!(!own.is_gone());
        assert!(Identity { instance: earlier, ..own }.is_gone());
    }
}
