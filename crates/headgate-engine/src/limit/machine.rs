//! What this machine allows: open files and local ports. Found out before the first request, because at the first
//! request it is too late.

use std::fs;

use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};
use nix::sys::time::TimeValLike;

use crate::error::JobError;

/// Files that are needed beside the connections: input, parts, the resolver's.
const SPARE_FILES: u64 = 32;
/// Files that a worker's event loop takes.
const WORKER_FILES: u64 = 4;

/// Raises the soft limit of open files to the hard one, and tells how many more files can be opened.
///
/// # Errors
/// `Internal`: the system does not tell its limit.
pub fn raise_open_files() -> Result<OpenFiles, JobError> {
    let failed = |error| JobError::internal(format!("the limit of open files cannot be read: {error}"));
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(failed)?;
    // macOS refuses what is above its own bound, and then the soft limit stays what it was.
    let limit = if soft < hard && setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok() { hard } else { soft };
    let open = fs::read_dir("/dev/fd").map_or(64, |entries| entries.count() as u64);
    Ok(OpenFiles { limit, open })
}

/// How many files this process may open, and has open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenFiles {
    pub limit: u64,
    pub open: u64,
}

impl OpenFiles {
    /// # Errors
    /// `Usage`: so many connections do not fit; what does, and how to raise the limit.
    pub fn check(self, concurrency: usize, workers: usize) -> Result<(), JobError> {
        let other = self.open + SPARE_FILES + WORKER_FILES * workers as u64;
        let fitting = self.limit.saturating_sub(other);
        if concurrency as u64 <= fitting {
            return Ok(());
        }
        let lower = if fitting > 0 { format!("use --concurrency {fitting} or less, or ") } else { String::new() };
        Err(JobError::usage(format!(
            "--concurrency {concurrency}: this process may have {} files open (the hard limit), which leaves room for {fitting} \
             connections; {lower}raise the limit to {} (`ulimit -Hn` as root, limits.conf, or LimitNOFILE= of a service)",
            self.limit,
            concurrency as u64 + other,
        )))
    }
}

/// Local ports for connections to one address and port, where the system tells.
pub fn local_ports() -> Option<u64> {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let mut bounds = range.split_whitespace().map(str::parse::<u64>);
    match (bounds.next()?, bounds.next()?) {
        (Ok(first), Ok(last)) if first <= last => Some(last - first + 1),
        _ => None,
    }
}

/// # Errors
/// `Usage`: more connections to one address than there are local ports.
pub fn check_ports(concurrency: usize, authority: &str, ports: u64) -> Result<(), JobError> {
    if concurrency as u64 <= ports {
        return Ok(());
    }
    Err(JobError::usage(format!(
        "--concurrency {concurrency}: all requests go to {authority}, and this machine has {ports} local ports for connections \
         to one address; use --concurrency {ports} or less, or widen the range (`sysctl -w \
         net.ipv4.ip_local_port_range=\"1024 65535\"`)"
    )))
}

/// What this process has used so far.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    /// User and system time of all threads, in seconds.
    pub cpu_s: f64,
    /// The most memory it had resident at any time.
    pub peak_rss_bytes: u64,
}

impl Usage {
    pub fn now() -> Self {
        let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return Self::default() };
        let cpu_us = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
        // The unit of ru_maxrss is kilobytes, but on macOS bytes.
        let unit = if cfg!(target_os = "macos") { 1 } else { 1024 };
        let peak_rss_bytes = own_peak_rss_bytes().unwrap_or_else(|| usage.max_rss() as u64 * unit);
        Self { cpu_s: cpu_us as f64 / 1e6, peak_rss_bytes }
    }
}

/// Linux hands `ru_maxrss` on through `execve`: it may be that of the process that started this one.
fn own_peak_rss_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let kilobytes: u64 =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes * 1024)
}

/// What the cores that this process may use have done since the system started, whoever used them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CoreTime {
    /// In ticks of the system, as is `total`.
    pub idle: u64,
    pub total: u64,
}

impl CoreTime {
    /// `None` where the system does not tell.
    pub fn now() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?, &allowed_cores()?)
    }

    /// Share of the time since `earlier` in which the cores worked.
    pub fn busy_since(self, earlier: Self) -> Option<f64> {
        let total = self.total.checked_sub(earlier.total).filter(|total| *total > 0)?;
        let idle = self.idle.saturating_sub(earlier.idle);
        Some(1.0 - (idle as f64 / total as f64).min(1.0))
    }

    /// Lines are `cpuN user nice system idle iowait irq softirq steal guest guest_nice` (proc(5)); guest time is in user.
    fn parse(stat: &str, cores: &[usize]) -> Option<Self> {
        let mut sum = Self::default();
        for line in stat.lines() {
            let mut fields = line.split_whitespace();
            let core = fields.next().and_then(|name| name.strip_prefix("cpu")).and_then(|number| number.parse().ok());
            if core.is_some_and(|core: usize| cores.contains(&core)) {
                let ticks: Vec<u64> = fields.take(8).map_while(|field| field.parse().ok()).collect();
                sum.idle += ticks.get(3)? + ticks.get(4)?;
                sum.total += ticks.iter().sum::<u64>();
            }
        }
        (sum.total > 0).then_some(sum)
    }
}

#[cfg(target_os = "linux")]
fn allowed_cores() -> Option<Vec<usize>> {
    let set = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)).ok()?;
    Some((0..nix::sched::CpuSet::count()).filter(|core| set.is_set(*core).unwrap_or(false)).collect())
}

#[cfg(not(target_os = "linux"))]
fn allowed_cores() -> Option<Vec<usize>> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused_with_what_would() {
        let files = OpenFiles { limit: 1024, open: 10 };
        assert_eq!(Ok(()), files.check(974, 2));
        assert_eq!(
            "--concurrency 975: this process may have 1024 files open (the hard limit), which leaves room for 974 connections; \
             use --concurrency 974 or less, or raise the limit to 1025 (`ulimit -Hn` as root, limits.conf, or LimitNOFILE= of \
             a service)",
            files.check(975, 2).expect_err("one too many").message
        );
        assert_eq!(Ok(()), check_ports(28_232, "127.0.0.1", 28_232));
        assert!(check_ports(28_233, "127.0.0.1", 28_232).is_err());
    }

    #[test]
    fn the_time_of_the_cores_we_may_use_is_added_up() {
        let stat = "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 1 2 3 4 5 6 7 8 9 10\ncpu1 0 0 0 99 1 0 0 0 0 0\nintr 1\n";
        assert_eq!(Some(CoreTime { idle: 9, total: 36 }), CoreTime::parse(stat, &[0]));
        assert_eq!(Some(CoreTime { idle: 109, total: 136 }), CoreTime::parse(stat, &[0, 1]));
        assert_eq!(None, CoreTime::parse(stat, &[2]));
        let earlier = CoreTime { idle: 100, total: 200 };
        assert_eq!(Some(0.75), CoreTime { idle: 110, total: 240 }.busy_since(earlier));
        assert_eq!(None, earlier.busy_since(earlier));
    }

    #[test]
    fn this_machine_tells_its_limits() {
        assert!(raise_open_files().expect("told").limit > 0);
        assert!(Usage::now().peak_rss_bytes > 1 << 20);
    }
}
