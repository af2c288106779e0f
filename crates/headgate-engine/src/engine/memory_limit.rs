//! How much memory this process may use, and what of it responses may take: containers get a cgroup with a limit, and the kernel
//! kills the process that exceeds it.
//!
//! A limit of a cgroup holds for all cgroups below it, so each on the way to the root is read (cgroups(7); v1:
//! `memory.limit_in_bytes`, v2: `memory.max` and `memory.high`). Where the memory of a cgroup is short, its file cache goes first,
//! so that counts as free.

use std::fs;
use std::path::Path;

use headgate_core::error::JobError;
use headgate_core::message;
use headgate_core::message::OptionName;

/// The default budget is a share of the limit and of what is free: the rest is for the process itself, files and sockets.
const BUDGET_SHARE: u64 = 4;
/// The bounds of the default budget.
const MIN_DEFAULT_BUDGET_BYTES: u64 = 16 * MIB;
const MAX_DEFAULT_BUDGET_BYTES: u64 = 256 * MIB;
/// What a request in flight takes beside its response, with the kernel's part of its connection; over TLS it is more.
const REQUEST_BYTES: u64 = 8 * 1024;
const MIB: u64 = 1024 * 1024;

/// See the top of this file. `None`: the system does not tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct MemoryLimit {
    /// The least of the limits of all cgroups, and of the machine's memory.
    pub limit: Option<u64>,
    /// The least that is free in any of them.
    pub free: Option<u64>,
}

impl MemoryLimit {
    pub(crate) fn of_this_process() -> Self {
        Self::read(Path::new("/"))
    }

    /// Reads the files of the kernel below `root`.
    fn read(root: &Path) -> Self {
        let mut found = Self::of_machine(root).unwrap_or_default();
        for cgroup in of_cgroups(root) {
            found.limit = least(found.limit, cgroup.limit);
            found.free = least(found.free, cgroup.free);
        }
        found
    }

    fn of_machine(root: &Path) -> Option<Self> {
        let meminfo = fs::read_to_string(root.join("proc/meminfo")).ok()?;
        let kilobytes = |name| figure(&meminfo, name).map(|kilobytes| kilobytes.saturating_mul(1024));
        Some(Self { limit: kilobytes("MemTotal:"), free: kilobytes("MemAvailable:") })
    }

    /// Returns the budget of responses where the user gave none.
    pub(crate) fn default_budget(self) -> u64 {
        let usable = least(self.limit, self.free).unwrap_or(u64::MAX);
        (usable / BUDGET_SHARE).clamp(MIN_DEFAULT_BUDGET_BYTES, MAX_DEFAULT_BUDGET_BYTES)
    }

    /// Checks that so many requests in flight fit beside a budget of so many bytes. What is free at the moment does not matter:
    /// a job that has started once can be resumed.
    ///
    /// # Errors
    /// `Usage`: they don't fit, with what would.
    pub(crate) fn check(self, concurrency: usize, budget: u64) -> Result<(), JobError> {
        let Some(limit) = self.limit else { return Ok(()) };
        let needed = REQUEST_BYTES.saturating_mul(concurrency as u64).saturating_add(budget);
        if needed <= limit {
            return Ok(());
        }
        let fitting = limit.saturating_sub(budget) / REQUEST_BYTES;
        let (needed, limit) = (needed.div_ceil(MIB), limit / MIB);
        let (both, lower) = if fitting > 0 {
            let lower = message!("use ", OptionName::Concurrency.set(fitting), " or less, or ");
            (message!(OptionName::Concurrency.set(concurrency), " and "), lower)
        } else {
            Default::default()
        };
        Err(JobError::usage(message!(
            both,
            OptionName::MaxMemory.set(budget),
            ": with 8 KiB for each request in flight beside its response, {needed} MiB are needed, and this process may \
             use {limit} MiB; ",
            lower,
            "lower ",
            OptionName::MaxMemory,
            ", or allow the process more memory (its cgroup has the limit, or the machine has no more)"
        )))
    }
}

/// Returns what the cgroups of this process allow, each on the way to the root.
fn of_cgroups(root: &Path) -> Vec<MemoryLimit> {
    let read = |path| fs::read_to_string(root.join(path)).unwrap_or_default();
    let (memberships, mounts) = (read("proc/self/cgroup"), read("proc/self/mountinfo"));
    let mut found = Vec::new();
    for mount in mounts.lines().filter_map(Mount::parse) {
        let Some(own) = memberships.lines().find_map(|line| mount.version.membership(line)) else { continue };
        // Where a container sees only its own part of the tree, that part is mounted, and its path may be one of outside.
        let below = Path::new(own).strip_prefix(mount.root).unwrap_or(Path::new(""));
        let top = root.join(mount.point.trim_start_matches('/'));
        let own = top.join(below);
        found.extend(own.ancestors().take_while(|path| path.starts_with(&top)).map(|path| mount.version.read(path)));
    }
    found
}

/// A line of `/proc/self/mountinfo` (proc(5)).
struct Mount<'a> {
    version: Version,
    /// The part of the tree of cgroups that is mounted there.
    root: &'a str,
    point: &'a str,
}

impl<'a> Mount<'a> {
    /// Returns `None` where it is no mount of cgroups, or not of those for memory.
    fn parse(line: &'a str) -> Option<Self> {
        let (place, of_system) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let (root, point) = (place.next()?, place.next()?);
        let mut of_system = of_system.split(' ');
        let version = match of_system.next()? {
            "cgroup2" => Version::V2,
            "cgroup" if of_system.nth(1)?.split(',').any(|controller| controller == "memory") => Version::V1,
            _ => return None,
        };
        Some(Self { version, root, point })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    V1,
    V2,
}

impl Version {
    /// Returns the path of a cgroup in a line of `/proc/self/cgroup`: `4:memory:/path`, or `0::/path`.
    fn membership(self, line: &str) -> Option<&str> {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let is_it = match self {
            Self::V1 => controllers.split(',').any(|controller| controller == "memory"),
            Self::V2 => controllers.is_empty(),
        };
        is_it.then_some(path)
    }

    fn read(self, directory: &Path) -> MemoryLimit {
        let text = |name: &str| fs::read_to_string(directory.join(name)).unwrap_or_default();
        // `max` is no number.
        let number = |name: &str| text(name).trim().parse::<u64>().ok();
        let (limits, used, cached): (&[&str], _, _) = match self {
            Self::V1 => {
                (&["memory.limit_in_bytes"], "memory.usage_in_bytes", ["total_inactive_file", "total_active_file"])
            }
            Self::V2 => (&["memory.max", "memory.high"], "memory.current", ["inactive_file", "active_file"]),
        };
        let limit = limits.iter().filter_map(|name| number(name)).min();
        let stat = text("memory.stat");
        let cached: u64 = cached.iter().filter_map(|name| figure(&stat, name)).sum();
        let free = limit.zip(number(used)).map(|(limit, used)| limit.saturating_sub(used.saturating_sub(cached)));
        MemoryLimit { limit, free }
    }
}

/// Returns the figure that follows a name at the beginning of a line.
fn figure(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next()? == name).then(|| words.next()?.parse().ok())?
    })
}

fn least(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.into_iter().chain(other).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMINFO: &str = "MemTotal:        8388608 kB\nMemFree:          100000 kB\nMemAvailable:    4194304 kB\n";
    const V1: &str = "30 20 0:26 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n\
                      31 20 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
    const V2: &str = "29 20 0:25 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";

    /// Returns the memory that is found if the kernel has these files.
    fn found(files: &[(&str, &str)]) -> MemoryLimit {
        let root = tempfile::tempdir().expect("a directory");
        for (name, text) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().expect("a file in it")).expect("a directory");
            fs::write(path, text).expect("a file");
        }
        MemoryLimit::read(root.path())
    }

    fn mib(limit: u64, free: u64) -> MemoryLimit {
        MemoryLimit { limit: Some(limit * MIB), free: Some(free * MIB) }
    }

    #[test]
    fn the_lowest_limit_of_a_cgroup_and_its_ancestors_applies() {
        let megabytes = |count: u64| format!("{}\n", count * MIB);
        let [m100, m200, m256, m512, m1024] = [100, 200, 256, 512, 1024].map(megabytes);
        let [m100, m200, m256, m512, m1024] = [&m100, &m200, &m256, &m512, &m1024].map(String::as_str);
        let cache = format!("anon 5\ninactive_file {}\nactive_file {}\n", 60 * MIB, 20 * MIB);
        let cache_v1 = format!("inactive_file 0\ntotal_inactive_file {}\n", 80 * MIB);
        let machine = ("proc/meminfo", MEMINFO);
        assert_eq!(MemoryLimit::default(), found(&[]));
        assert_eq!(mib(8192, 4096), found(&[machine]));
        assert_eq!(
            mib(8192, 4096),
            found(&[
                machine,
                ("proc/self/mountinfo", V2),
                ("proc/self/cgroup", "0::/job\n"),
                ("sys/fs/cgroup/job/memory.max", "max\n"),
                ("sys/fs/cgroup/job/memory.high", "max\n"),
                ("sys/fs/cgroup/job/memory.current", m100),
            ]),
            "no limit is set"
        );
        assert_eq!(
            mib(256, 236),
            found(&[
                machine,
                ("proc/self/mountinfo", V2),
                ("proc/self/cgroup", "0::/pods/one\n"),
                ("sys/fs/cgroup/pods/memory.max", m1024),
                ("sys/fs/cgroup/pods/memory.current", m512),
                ("sys/fs/cgroup/pods/one/memory.max", m512),
                ("sys/fs/cgroup/pods/one/memory.high", m256),
                ("sys/fs/cgroup/pods/one/memory.current", m100),
                ("sys/fs/cgroup/pods/one/memory.stat", &cache),
            ]),
            "memory.high is below memory.max, and the file cache is free"
        );
        assert_eq!(
            mib(256, 56),
            found(&[
                machine,
                ("proc/self/mountinfo", V2),
                ("proc/self/cgroup", "0::/pods/one\n"),
                ("sys/fs/cgroup/pods/memory.max", m256),
                ("sys/fs/cgroup/pods/memory.current", m200),
                ("sys/fs/cgroup/pods/one/memory.max", m512),
                ("sys/fs/cgroup/pods/one/memory.current", m100),
            ]),
            "that of the outer one is less"
        );
        assert_eq!(
            mib(256, 136),
            found(&[
                machine,
                ("proc/self/mountinfo", V1),
                ("proc/self/cgroup", "5:cpu:/other\n4:memory:/docker/a1\n0::/\n"),
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
                ("sys/fs/cgroup/memory/docker/a1/memory.limit_in_bytes", m256),
                ("sys/fs/cgroup/memory/docker/a1/memory.usage_in_bytes", m200),
                ("sys/fs/cgroup/memory/docker/a1/memory.stat", &cache_v1),
            ]),
            "v1, as root"
        );
        assert_eq!(
            mib(256, 156),
            found(&[
                machine,
                ("proc/self/mountinfo", "30 20 0:26 /docker/a1 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"),
                ("proc/self/cgroup", "4:memory:/docker/a1\n"),
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", m256),
                ("sys/fs/cgroup/memory/memory.usage_in_bytes", m100),
            ]),
            "v1 in a container, which sees its own part"
        );
        assert_eq!(
            mib(256, 156),
            found(&[
                machine,
                ("proc/self/mountinfo", V2),
                ("proc/self/cgroup", "0::/../outside\n"),
                ("sys/fs/cgroup/memory.max", m256),
                ("sys/fs/cgroup/memory.current", m100),
            ]),
            "a cgroup outside of the namespace"
        );
    }

    #[test]
    fn the_default_budget_is_a_quarter_of_the_available_memory_within_bounds() {
        for (expected, limit) in [
            (64, mib(256, 256)),
            (50, mib(256, 200)),
            (16, mib(40, 30)),
            (256, mib(1024, 1024)),
            (256, mib(65_536, 20_000)),
            (100, mib(65_536, 400)),
            (256, MemoryLimit::default()),
        ] {
            assert_eq!(expected * MIB, limit.default_budget(), "{limit:?}");
        }
    }

    #[test]
    fn requests_in_flight_that_do_not_fit_are_refused_with_a_number_that_does() {
        let small = mib(256, 30);
        assert_eq!(Ok(()), small.check(256, small.default_budget()));
        assert_eq!(Ok(()), small.check(24_576, 64 * MIB));
        assert_eq!(
            "concurrency=24577 and max_memory=67108864: with 8 KiB for each request in flight beside its response, 257 MiB \
             are needed, and this process may use 256 MiB; use concurrency=24576 or less, or lower max_memory, or allow the \
             process more memory (its cgroup has the limit, or the machine has no more)",
            small.check(24_577, 64 * MIB).expect_err("one too many").to_string()
        );
        let error = small.check(1, 1024 * MIB).expect_err("the budget alone is too large").to_string();
        assert!(error.contains("1025 MiB are needed, and this process may use 256 MiB; lower max_memory"), "{error}");
        assert_eq!(Ok(()), MemoryLimit::default().check(usize::MAX, u64::MAX));
    }

    #[test]
    fn the_memory_of_this_machine_is_known() {
        let found = MemoryLimit::of_this_process();
        assert!(found.limit > Some(0) && found.free <= found.limit, "{found:?}");
    }
}
