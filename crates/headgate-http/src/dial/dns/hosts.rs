//! The hosts file (hosts(5)): hostnames that need no DNS server.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::IpAddr;
use std::path::Path;

/// The bound of what is read of the file. Lists that block advertisements have a few megabytes.
const MAX_BYTES: u64 = 64 << 20;

/// Addresses by name, in the order of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hosts {
    addresses: HashMap<Box<str>, Vec<IpAddr>>,
}

impl Hosts {
    /// Reads a file; an unreadable one is treated as empty.
    pub fn of_file(path: &Path) -> Self {
        File::open(path).map(|file| Self::read(file.take(MAX_BYTES))).unwrap_or_default()
    }

    pub fn read(text: impl Read) -> Self {
        let mut hosts = Self::default();
        // Only the lines that are not UTF-8 are skipped.
        for line in BufReader::new(text).split(b'\n').map_while(Result::ok) {
            let Ok(line) = str::from_utf8(&line) else { continue };
            let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
            let Some(address) = words.next().and_then(|word| word.parse::<IpAddr>().ok()) else { continue };
            for name in words {
                let addresses = hosts.addresses.entry(name.to_ascii_lowercase().into()).or_default();
                if !addresses.contains(&address) {
                    addresses.push(address);
                }
            }
        }
        hosts
    }

    /// Returns the addresses of a hostname in lower case. If there are only addresses of one family, the other is not looked up.
    pub fn get(&self, name: &str) -> Option<&[IpAddr]> {
        self.addresses.get(name.strip_suffix('.').unwrap_or(name)).map(Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_of_a_line_has_its_address_and_invalid_lines_are_skipped() {
        let text =
            b"127.0.0.1 localhost Box # comment two\n::1 localhost\n\xff\n10.0.0.1\nnonsense name\n127.0.0.1 box\r\n";
        let hosts = Hosts::read(&text[..]);
        let addresses =
            |texts: &[&str]| texts.iter().map(|text| text.parse().expect("an address")).collect::<Vec<IpAddr>>();
        assert_eq!(Some(&*addresses(&["127.0.0.1", "::1"])), hosts.get("localhost"));
        assert_eq!(Some(&*addresses(&["127.0.0.1"])), hosts.get("box."));
        for name in ["comment", "two", "name", "10.0.0.1", ""] {
            assert_eq!(None, hosts.get(name), "{name}");
        }
    }
}
