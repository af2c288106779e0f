//! One writer at a time: an advisory lock, which the system releases however its holder ends.
//!
//! What a process has locked stays locked as long as any process has that file open, and a child that is forked has all
//! of them open until it runs another program. So a process that is killed may leave a lock behind that nobody holds. The
//! file says who has locked it; if that process is certainly gone, the file is replaced by a new one, which is locked
//! instead. Whoever takes the lock holds one on the directory meanwhile, so that what the file says is never that of an
//! earlier holder.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process;
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;

use crate::message;
use crate::model::error::{JobError, cause};
use crate::model::message::OptionName;

/// Somebody who only looks whether the lock is held, holds it for an instant; a writer asks again.
const LOOKS: u32 = 20;
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);
/// What the file says, and to spare.
const MAX_HOLDER_BYTES: u64 = 256;

/// The lock of a job, held until it is dropped.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
    pid: u32,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing the file is not enough: a child that was forked meanwhile has it open, too. That child, in turn, holds nothing.
        if self.pid == process::id() {
            let _ = self.file.unlock();
        }
    }
}

/// Takes the lock of a job.
pub(super) fn acquire(path: &Path) -> Result<Lock, JobError> {
    let mut file = None;
    for _ in 0..LOOKS {
        file = try_acquire(path).map_err(|error| {
            // Without it, two writers could take each other's files for what a crash left.
            let (shown, cause) = (path.display(), cause(&error));
            JobError::output(message!(
                "can't lock {shown}: {cause}; where a file system has no locks, choose an ",
                OptionName::Output,
                " on another"
            ))
        })?;
        if file.is_some() {
            break;
        }
        thread::sleep(BETWEEN_LOOKS);
    }
    let Some(file) = file else {
        let holder = File::open(path).ok().and_then(|mut file| Identity::read(&mut file));
        let holder = holder.map_or(String::new(), |holder| format!(" (pid {})", holder.pid));
        let directory = path.parent().and_then(Path::parent).unwrap_or(path).display();
        return Err(JobError::output(message!(
            "another headgate{holder} is writing to {directory}: wait for it, or choose another ",
            OptionName::Output
        )));
    };
    Ok(Lock { file, pid: process::id() })
}

/// Whether somebody writes to a job now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    Nobody,
    /// This process, where it can be told.
    Process(Option<u32>),
}

pub(super) fn look(path: &Path) -> Holder {
    let Ok(mut file) = File::open(path) else { return Holder::Nobody };
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => match Identity::read(&mut file) {
            Some(holder) if holder.is_gone() => Holder::Nobody,
            holder => Holder::Process(holder.map(|holder| holder.pid)),
        },
        _ => Holder::Nobody,
    }
}

/// `None`: somebody else holds it, or takes it just now.
fn try_acquire(path: &Path) -> io::Result<Option<File>> {
    let directory = File::open(path.parent().unwrap_or(Path::new(".")))?;
    let may_replace = match directory.try_lock() {
        Ok(()) => true,
        Err(TryLockError::WouldBlock) => return Ok(None),
        // Network file systems lock only what is open for writing. There, nothing is replaced.
        Err(TryLockError::Error(_)) => false,
    };
    let taken = take(path, may_replace);
    // As with the lock of a job, closing it may not be enough.
    let _ = directory.unlock();
    taken
}

fn take(path: &Path, may_replace: bool) -> io::Result<Option<File>> {
    let mut file = open(path)?;
    let mut locked = file.try_lock();
    let is_held = matches!(locked, Err(TryLockError::WouldBlock));
    if is_held && may_replace && Identity::read(&mut file).is_some_and(|holder| holder.is_gone()) {
        fs::remove_file(path)?;
        file = open(path)?;
        locked = file.try_lock();
    }
    match locked {
        // Somebody replaced it since it was opened, on a system where not everybody can lock the directory.
        Ok(()) if !is_at(&file, path) => Ok(None),
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

/// The standard library opens files such that another program which is run does not inherit them.
fn open(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).create(true).truncate(false).open(path)
}

fn is_at(file: &File, path: &Path) -> bool {
    let same = |file: &fs::Metadata, there: &fs::Metadata| (file.dev(), file.ino()) == (there.dev(), there.ino());
    matches!((file.metadata(), fs::metadata(path)), (Ok(file), Ok(there)) if same(&file, &there))
}

/// A process, such that another one with its number is told from it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Identity {
    pid: u32,
    /// When it began, and in which system: those who are not in the same one can't see each other. Known on Linux.
    instance: Option<Instance>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Instance {
    /// The boot of the machine and the name spaces of its processes and of its time.
    system: String,
    /// In ticks since the boot; 0: it has ended.
    started: u64,
}

impl Identity {
    fn own() -> Self {
        let pid = process::id();
        Self { pid, instance: Instance::of(pid) }
    }

    /// Whether it does not run any more, which is known only of processes of this system.
    fn is_gone(&self) -> bool {
        let Some(then) = self.instance.as_ref().filter(|then| Some(&then.system) == system().as_ref()) else {
            return false;
        };
        let Ok(pid) = self.pid.try_into() else { return true };
        // Another user's process may be hidden in /proc; `kill` still says that there is one.
        kill(Pid::from_raw(pid), None) == Err(Errno::ESRCH) || Instance::of(self.pid).is_some_and(|now| now != *then)
    }

    fn write(&self, file: &mut File) -> io::Result<()> {
        let instance = self.instance.as_ref();
        let instance = instance.map(|Instance { system, started }| format!("{started} {system}\n"));
        let text = format!("{}\n{}", self.pid, instance.unwrap_or_default());
        // A holder that lives must not look like one that is gone because a bit has flipped.
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
    /// `None`: it can't be known.
    fn of(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // After its name, which may contain anything: state, parent … (proc_pid_stat(5)).
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let (state, threads, started) = (fields.first()?, fields.get(17)?, fields.get(19)?.parse().ok()?);
        // It has ended and nobody has waited for it. Its files are closed when its last thread has ended, too.
        let is_dead = matches!(*state, "Z" | "X" | "x") && matches!(*threads, "0" | "1");
        Some(Self { system: system()?, started: if is_dead { 0 } else { started } })
    }
}

fn system() -> Option<String> {
    // Else this is the /proc of other processes.
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

    fn lock_path() -> (tempfile::TempDir, std::path::PathBuf) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("lock");
        (directory, path)
    }

    /// As a child that was forked keeps it: locked, and written by a process that is gone.
    fn left_behind(path: &Path, holder: &Identity) -> File {
        let mut file = open(path).expect("a file");
        file.try_lock().expect("nobody else");
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
    fn a_lock_whose_holder_is_gone_is_nobodys_and_is_taken_over() {
        let (_directory, path) = lock_path();
        let _left = left_behind(&path, &gone());
        assert_eq!(Holder::Nobody, look(&path));
        let taken = acquire(&path).expect("it is free");
        assert_eq!(Holder::Process(Some(process::id())), look(&path));
        let refused = acquire(&path).expect_err("it is held");
        assert!(refused.to_string().contains(&format!("another headgate (pid {})", process::id())), "{refused}");
        drop(taken);
        assert_eq!(Holder::Nobody, look(&path));
    }

    #[test]
    fn one_of_many_who_take_over_at_once_gets_it() {
        for _ in 0..50 {
            let (_directory, path) = lock_path();
            let _left = left_behind(&path, &gone());
            let taken: Vec<_> = thread::scope(|scope| {
                let takers: Vec<_> =
                    (0..4).map(|_| scope.spawn(|| try_acquire(&path).expect("a file system"))).collect();
                takers.into_iter().filter_map(|taker| taker.join().expect("no panic")).collect()
            });
            assert_eq!(1, taken.len());
            assert_eq!(Holder::Process(Some(process::id())), look(&path));
        }
    }

    #[test]
    fn a_holder_that_lives_or_may_live_elsewhere_is_believed() {
        let instance = |of: fn(Instance) -> Instance| gone().instance.map(of);
        let elsewhere = instance(|instance| Instance { system: "another machine".into(), ..instance });
        for holder in
            [Identity::own(), Identity { instance: elsewhere, ..gone() }, Identity { instance: None, ..gone() }]
        {
            let (_directory, path) = lock_path();
            let _left = left_behind(&path, &holder);
            assert_eq!(Holder::Process(Some(holder.pid)), look(&path), "{holder:?}");
            assert!(acquire(&path).is_err(), "{holder:?}");
        }
    }

    #[test]
    fn a_bit_that_flips_in_the_lock_does_not_make_its_holder_gone() {
        let (_directory, path) = lock_path();
        let _left = left_behind(&path, &gone());
        let sound = fs::read(&path).expect("a file");
        for at in 0..sound.len() {
            let mut flipped = sound.clone();
            flipped[at] ^= 1;
            fs::write(&path, flipped).expect("a file");
            assert!(matches!(look(&path), Holder::Process(_)), "byte {at}");
        }
    }

    #[test]
    fn a_process_with_the_number_of_another_one_is_not_that_one() {
        let own = Identity::own();
        let earlier = own.instance.clone().map(|own| Instance { started: own.started - 1, ..own });
        assert!(!own.is_gone());
        assert!(Identity { instance: earlier, ..own }.is_gone());
    }
}
