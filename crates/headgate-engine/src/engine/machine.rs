//! What this machine allows: open files and local ports. Checked before the first request, because then it is too late.

use std::fs;
use std::thread;

use headgate_core::error::JobError;
use headgate_core::message;
use headgate_core::message::{Message, OptionName};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Files that are needed beside the connections: input, parts, and some thirty for DNS.
const SPARE_FILES: u64 = 64;
/// Threads of a worker that read files to be sent, each of which has one open. Started as they are needed.
pub(super) const FILE_READERS: usize = 4;
/// Threads that save bodies, at the least: a disk is slower than a core.
const MIN_SAVERS: usize = 4;
/// Files that each of them has open: a body as it came, and as it is decoded.
const FILES_OF_SAVER: usize = 2;
/// Files that a worker's event loop takes, and those that it sends.
const WORKER_FILES: u64 = 4 + FILE_READERS as u64;

/// Returns the number of cores that this process may use.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Returns the number of threads that save bodies, beside one for short work.
pub(super) fn savers() -> usize {
    cores().max(MIN_SAVERS)
}

/// Returns how many files a run has open at most for bodies that it saves.
pub(crate) fn files_to_save(saves: bool) -> usize {
    if saves { FILES_OF_SAVER * (savers() + 1) } else { 0 }
}

/// Raises the soft limit of open files to the hard one, and returns how many more files can be opened.
///
/// # Errors
/// `Internal`: the system does not say its limit.
pub fn raise_open_files() -> Result<OpenFiles, JobError> {
    let failed = |error| JobError::internal(format!("the limit of open files can't be read: {error}"));
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(failed)?;
    // macOS refuses what is above its own bound, and then the soft limit stays what it was.
    let limit = if soft < hard && setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok() { hard } else { soft };
    let open = fs::read_dir("/dev/fd").map_or(64, |entries| entries.count() as u64);
    Ok(OpenFiles { limit, open })
}

/// The number of files that this process may open, and has open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenFiles {
    pub limit: u64,
    pub open: u64,
}

impl OpenFiles {
    /// Returns how many files are open beside so many connections.
    pub fn needed(self, concurrency: usize, others: usize, workers: usize) -> u64 {
        self.beside(others, workers) + concurrency as u64
    }

    fn beside(self, others: usize, workers: usize) -> u64 {
        self.open + SPARE_FILES + WORKER_FILES * workers as u64 + others as u64
    }

    /// Returns how many connections fit beside other files: the connections of other runs, and bodies that are saved.
    pub(crate) fn fitting(self, others: usize, workers: usize) -> usize {
        usize::try_from(self.limit.saturating_sub(self.beside(others, workers))).unwrap_or(usize::MAX)
    }

    /// Checks that so many connections fit beside other files.
    ///
    /// # Errors
    /// `Usage`: they do not; what does, and how to raise the limit.
    pub fn check(self, concurrency: usize, others: usize, workers: usize) -> Result<(), JobError> {
        let fitting = self.fitting(others, workers);
        if concurrency <= fitting {
            return Ok(());
        }
        let (limit, needed) = (self.limit, self.needed(concurrency, others, workers));
        let lower = message!("use ", OptionName::Concurrency.set(fitting), " or less, or ");
        Err(JobError::usage(message!(
            OptionName::Concurrency.set(concurrency),
            ": this process may have {limit} files open (the hard limit), which leaves room for {fitting} connections; ",
            if fitting > 0 { lower } else { Message::default() },
            "raise the limit to {needed} (`ulimit -Hn` as root, limits.conf, or LimitNOFILE= of a service)"
        )))
    }
}

/// Returns how many local ports there are for connections to one address and port, if the system says so.
pub(crate) fn local_ports() -> Option<u64> {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let mut bounds = range.split_whitespace().map(str::parse::<u64>);
    match (bounds.next()?, bounds.next()?) {
        (Ok(first), Ok(last)) if first <= last => Some(last - first + 1),
        _ => None,
    }
}

/// # Errors
/// `Usage`: more connections to one address than there are local ports.
pub(crate) fn check_ports(concurrency: usize, authority: &str, ports: u64) -> Result<(), JobError> {
    if concurrency as u64 <= ports {
        return Ok(());
    }
    Err(JobError::usage(message!(
        OptionName::Concurrency.set(concurrency),
        ": all requests go to {authority}, and this machine has {ports} local ports for connections to one address; use ",
        OptionName::Concurrency.set(ports),
        " or less, widen the range (`sysctl -w net.ipv4.ip_local_port_range=\"1024 65535\"`), or name several addresses of \
         this machine with ",
        OptionName::LocalAddress
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_concurrency_that_does_not_fit_is_refused_with_one_that_does() {
        let files = OpenFiles { limit: 1024, open: 10 };
        assert_eq!(Ok(()), files.check(934, 0, 2));
        assert_eq!(
            "concurrency=935: this process may have 1024 files open (the hard limit), which leaves room for 934 connections; \
             use concurrency=934 or less, or raise the limit to 1025 (`ulimit -Hn` as root, limits.conf, or LimitNOFILE= of \
             a service)",
            files.check(935, 0, 2).expect_err("one too many").to_string()
        );
        assert_eq!(Ok(()), files.check(434, 500, 2));
        assert!(files.check(435, 500, 2).is_err(), "another run has its share");
        assert_eq!((934, 434, 0), (files.fitting(0, 2), files.fitting(500, 2), files.fitting(5000, 2)));
        assert_eq!(Ok(()), check_ports(28_232, "127.0.0.1", 28_232));
        assert!(check_ports(28_233, "127.0.0.1", 28_232).is_err());
    }

    #[test]
    fn threads_that_save_bodies_have_two_files_open_each() {
        let files = OpenFiles { limit: 1024, open: 10 };
        let saving = files_to_save(true);
        assert_eq!((0, 2 * (cores().max(MIN_SAVERS) + 1)), (files_to_save(false), saving));
        assert_eq!(files.needed(7, 0, 2) + saving as u64, files.needed(7, saving, 2));
        assert_eq!(Ok(()), files.check(934 - saving, saving, 2));
        assert!(files.check(935 - saving, saving, 2).is_err());
    }

    #[test]
    fn the_limit_of_open_files_of_this_machine_is_known() {
        assert!(raise_open_files().expect("told").limit > 0);
    }
}
