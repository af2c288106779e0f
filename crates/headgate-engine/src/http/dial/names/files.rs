//! The files that a configuration is read from, and that are read again when they have changed: an engine lives long.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use crate::http::dial::names::config::Config;
use crate::http::dial::names::hosts::Hosts;

/// How often it is looked whether the files have changed, at the most, and only while names are wanted.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Where a configuration is.
#[derive(Debug, Clone)]
pub struct Files {
    pub resolv_conf: PathBuf,
    pub hosts: PathBuf,
    /// Asked instead of the servers in the file.
    pub server: Option<SocketAddr>,
}

impl Files {
    pub fn of_system(server: Option<SocketAddr>) -> Self {
        Self { resolv_conf: "/etc/resolv.conf".into(), hosts: "/etc/hosts".into(), server }
    }

    /// What can't be read is as if it were empty, as for the C library.
    fn read(&self) -> Config {
        let config = Config::parse(&fs::read(&self.resolv_conf).unwrap_or_default());
        Config {
            servers: self.server.map_or(config.servers, |server| vec![server]),
            hosts: Hosts::of_file(&self.hosts),
            ..config
        }
    }
}

/// The configuration, followed through changes of its files.
#[derive(Debug)]
pub struct Watch {
    files: Files,
    seen: [Option<Stamp>; 2],
    next_look: Instant,
}

/// By which a file is known to be the same as before: inode, length, time of its last change.
type Stamp = (u64, u64, SystemTime);

impl Watch {
    /// What the files say now, and who knows when they say something else.
    pub fn start(files: Files, now: Instant) -> (Config, Self) {
        let mut watch = Self { files, seen: [None; 2], next_look: now };
        (watch.read(watch.stamps(), now), watch)
    }

    /// The configuration, if it is time to look and the files have changed.
    pub fn changed(&mut self, now: Instant) -> Option<Config> {
        if now < self.next_look {
            return None;
        }
        self.next_look = now + LOOK_EVERY;
        let stamps = self.stamps();
        (stamps != self.seen).then(|| self.read(stamps, now))
    }

    /// What is written after the files were looked at is noticed the next time.
    fn read(&mut self, seen: [Option<Stamp>; 2], now: Instant) -> Config {
        (self.seen, self.next_look) = (seen, now + LOOK_EVERY);
        self.files.read()
    }

    fn stamps(&self) -> [Option<Stamp>; 2] {
        [stamp(&self.files.resolv_conf), stamp(&self.files.hosts)]
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
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
        let (config, mut watch) = Watch::start(files, now);
        assert_eq!((vec![server], vec!["a.example".into()]), (config.servers, config.search));

        now += LOOK_EVERY;
        assert_eq!(None, watch.changed(now));

        fs::write(&resolv_conf, "search other.example\n").expect("written");
        assert_eq!(None, watch.changed(now + Duration::from_millis(4999)));
        now += LOOK_EVERY;
        let config = watch.changed(now).expect("another configuration");
        assert_eq!((vec![server], vec!["other.example".into()]), (config.servers, config.search));

        // One that was not there before, and one that is put in the place of another.
        for address in ["192.0.2.1", "192.0.2.2"] {
            let written = directory.path().join("hosts.new");
            fs::write(&written, format!("{address} box\n")).expect("written");
            fs::rename(&written, &hosts).expect("renamed");
            now += LOOK_EVERY;
            let config = watch.changed(now).expect("another configuration");
            assert_eq!(Some(&[address.parse().expect("an address")][..]), config.hosts.get("box"));
        }
        now += LOOK_EVERY;
        assert_eq!(None, watch.changed(now));
    }
}
