//! What this process used of the machine, and how busy its cores were, with all processes.

use std::fs;
use std::time::Instant;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

use headgate_core::clock;

/// The resources that this process has used so far.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Usage {
    /// User and system time of all threads, in seconds.
    pub cpu_s: f64,
    /// The maximum resident memory at any time.
    pub peak_rss_bytes: u64,
}

impl Usage {
    pub(crate) fn now() -> Self {
        let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return Self::default() };
        let cpu_us = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
        // The unit of ru_maxrss is kilobytes, but on macOS bytes.
        let unit = if cfg!(target_os = "macos") { 1 } else { 1024 };
        let peak_rss_bytes = own_peak_rss_bytes().unwrap_or_else(|| usage.max_rss() as u64 * unit);
        Self { cpu_s: cpu_us as f64 / 1e6, peak_rss_bytes }
    }
}

/// Returns the process's own maximum: Linux preserves `ru_maxrss` across `execve`, so it may be that of the parent process.
fn own_peak_rss_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let kilobytes: u64 =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes * 1024)
}

/// The time of the cores that this process may use since the system started, for all processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CoreTime {
    /// In ticks of the system, like `total`.
    pub idle: u64,
    pub total: u64,
}

impl CoreTime {
    /// Returns `None` if the system does not report it.
    pub(crate) fn now() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?, &allowed_cores()?)
    }

    /// Returns the share of the time since `earlier` in which the cores worked.
    pub(crate) fn busy_since(self, earlier: Self) -> Option<f64> {
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

/// The usage of this process and its cores at one time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    pub at: Instant,
    pub usage: Usage,
    pub cores: Option<CoreTime>,
}

impl Moment {
    pub(crate) fn now() -> Self {
        Self { at: clock::now(), usage: Usage::now(), cores: CoreTime::now() }
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
    fn the_time_of_usable_cores_is_added_up() {
        let stat = "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 1 2 3 4 5 6 7 8 9 10\ncpu1 0 0 0 99 1 0 0 0 0 0\nintr 1\n";
        assert_eq!(Some(CoreTime { idle: 9, total: 36 }), CoreTime::parse(stat, &[0]));
        assert_eq!(Some(CoreTime { idle: 109, total: 136 }), CoreTime::parse(stat, &[0, 1]));
        assert_eq!(None, CoreTime::parse(stat, &[2]));
        let earlier = CoreTime { idle: 100, total: 200 };
        assert_eq!(Some(0.75), CoreTime { idle: 110, total: 240 }.busy_since(earlier));
        assert_eq!(None, earlier.busy_since(earlier));
    }

    #[test]
    fn the_memory_of_this_process_is_known() {
        assert!(Usage::now().peak_rss_bytes > 1 << 20);
    }
}
