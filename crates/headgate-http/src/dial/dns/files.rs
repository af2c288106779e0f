//! The files of the system's configuration. They are read again when they have changed, since an engine is long-lived.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use crate::dial::dns::config::ResolverConfig;
use crate::dial::dns::hosts::Hosts;

/// The shortest time between two checks for changed files. Without lookups there are no checks.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The paths of the configuration.
#[derive(Debug, Clone)]
pub struct Files {
    pub resolv_conf: PathBuf,
    pub hosts: PathBuf,
    /// Replaces the servers of the file.
    pub server: Option<SocketAddr>,
}

impl Files {
    pub fn of_system(server: Option<SocketAddr>) -> Self {
        Self { resolv_conf: "/etc/resolv.conf".into(), hosts: "/etc/hosts".into(), server }
    }

    /// Reads both files; like the C library, it treats an unreadable file as empty.
    fn read(&self) -> ResolverConfig {
        let config = ResolverConfig::parse(&fs::read(&self.resolv_conf).unwrap_or_default());
        ResolverConfig {
            servers: self.server.map_or(config.servers, |server| vec![server]),
            hosts: Hosts::of_file(&self.hosts),
            ..config
        }
    }
}

/// Watches the files of a configuration for changes.
#[derive(Debug)]
pub(crate) struct ConfigWatch {
    files: Files,
    seen: [Option<FileStamp>; 2],
    next_check: Instant,
}

/// Identifies a version of a file: inode, length, time of its last change.
type FileStamp = (u64, u64, SystemTime);

impl ConfigWatch {
    /// Returns the current configuration, and the watch that reports changes of it.
    pub(crate) fn start(files: Files, now: Instant) -> (ResolverConfig, Self) {
        let mut watch = Self { files, seen: [None; 2], next_check: now };
        (watch.read(watch.stamps(), now), watch)
    }

    /// Returns the new configuration, if a check is due and the files have changed.
    pub(crate) fn poll_change(&mut self, now: Instant) -> Option<ResolverConfig> {
        if now < self.next_check {
            return None;
        }
        self.next_check = now + CHECK_INTERVAL;
        let stamps = self.stamps();
        (stamps != self.seen).then(|| self.read(stamps, now))
    }

    /// Reads the files. `seen` was taken before, so that the next check finds a change made during the read.
    fn read(&mut self, seen: [Option<FileStamp>; 2], now: Instant) -> ResolverConfig {
        (self.seen, self.next_check) = (seen, now + CHECK_INTERVAL);
        self.files.read()
    }

    fn stamps(&self) -> [Option<FileStamp>; 2] {
        [stamp(&self.files.resolv_conf), stamp(&self.files.hosts)]
    }
}

fn stamp(path: &Path) -> Option<FileStamp> {
    let file = fs::metadata(path).ok()?;
    Some((file.ino(), file.len(), file.modified().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_have_changed_are_read_again_within_seconds_and_others_are_not() {
        let directory = tempfile::tempdir().expect("a directory");
        let [resolv_conf, hosts] = ["resolv.conf", "hosts"].map(|name| directory.path().join(name));
        fs::write(&resolv_conf, "search a.example\n").expect("written");
        let (server, mut now) = (SocketAddr::from(([10, 0, 0, 1], 53)), Instant::now());
        let files = Files { resolv_conf: resolv_conf.clone(), hosts: hosts.clone(), server: Some(server) };
        let (config, mut watch) = ConfigWatch::start(files, now);
        assert_eq!((vec![server], vec!["a.example".into()]), (config.servers, config.search));

        now += CHECK_INTERVAL;
        assert_eq!(None, watch.poll_change(now));

        fs::write(&resolv_conf, "search other.example\n").expect("written");
        assert_eq!(None, watch.poll_change(now + Duration::from_millis(4999)));
        now += CHECK_INTERVAL;
        let config = watch.poll_change(now).expect("another configuration");
        assert_eq!((vec![server], vec!["other.example".into()]), (config.servers, config.search));

        // The first file is new, the second replaces it.
        for address in ["192.0.2.1", "192.0.2.2"] {
            let written = directory.path().join("hosts.new");
            fs::write(&written, format!("{address} box\n")).expect("written");
            fs::rename(&written, &hosts).expect("renamed");
            now += CHECK_INTERVAL;
            let config = watch.poll_change(now).expect("another configuration");
            assert_eq!(Some(&[address.parse().expect("an address")][..]), config.hosts.get("box"));
        }
        now += CHECK_INTERVAL;
        assert_eq!(None, watch.poll_change(now));
    }
}
