//! Addresses that the user sets for hostnames (`--resolve`), which are then not looked up.

use std::collections::HashMap;
use std::net::IpAddr;

use headgate_core::origin::HostName;
use url::Host;

/// Addresses by hostname and port; without a hostname, for any host with that port.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Overrides {
    by_host: HashMap<(Option<HostName>, u16), Vec<IpAddr>>,
}

impl Overrides {
    /// Parses entries of the form `host:port:address[,address]`, like those of curl's `--resolve`. Of two entries for the same
    /// host and port, the later one counts.
    ///
    /// # Errors
    /// A readable reason why an entry is not valid.
    pub(super) fn new<T: AsRef<str>>(entries: impl IntoIterator<Item = T>) -> Result<Self, String> {
        let mut by_host = HashMap::new();
        for entry in entries {
            let text = entry.as_ref();
            let (host, port, addresses) = parse(text).map_err(|why| {
                format!("`{text}` {why}: it must be host:port:address, such as api.example.com:443:192.0.2.1")
            })?;
            by_host.insert((host, port), addresses);
        }
        Ok(Self { by_host })
    }

    /// Returns the addresses that are set for this hostname and port.
    pub(super) fn get(&self, name: &HostName, port: u16) -> Option<&[IpAddr]> {
        if self.by_host.is_empty() {
            return None;
        }
        let of_host = self.by_host.get(&(Some(name.clone()), port));
        of_host.or_else(|| self.by_host.get(&(None, port))).map(Vec::as_slice)
    }
}

type ResolveEntry = (Option<HostName>, u16, Vec<IpAddr>);

fn parse(text: &str) -> Result<ResolveEntry, String> {
    if text.starts_with('-') {
        return Err("removes an address, which is not supported".into());
    }
    // In curl, `+` means that the address expires. Here all addresses are valid for the whole run.
    let text = text.strip_prefix('+').unwrap_or(text);
    let incomplete = || "has no port and no address".to_owned();
    let (host, rest) = match text.find(']').filter(|_| text.starts_with('[')) {
        Some(end) => (&text[..=end], text[end + 1..].strip_prefix(':').ok_or_else(incomplete)?),
        None => text.split_once(':').ok_or_else(incomplete)?,
    };
    let (port, addresses) = rest.split_once(':').ok_or("has no address")?;
    let host = match host {
        "*" => None,
        host => Some(host_name(host)?),
    };
    let port = port.parse().ok().filter(|port| *port > 0).ok_or_else(|| format!("has `{port}` for a port"))?;
    let addresses = addresses.split(',').map(|text| {
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        bare.parse().map_err(|_| format!("has `{text}` for an address"))
    });
    Ok((host, port, addresses.collect::<Result<_, _>>()?))
}

/// Parses a host like that of a URL.
pub(super) fn host_name(text: &str) -> Result<HostName, String> {
    match Host::parse(text) {
        Ok(Host::Domain(name)) => Ok(HostName::Domain(name.into())),
        Ok(Host::Ipv4(address)) => Ok(HostName::V4(address)),
        Ok(Host::Ipv6(address)) => Ok(HostName::V6(address)),
        Err(error) => Err(format!("has `{text}` for a host ({error})")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> HostName {
        host_name(text).expect("a name")
    }

    fn addresses(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().expect("an address")).collect()
    }

    #[test]
    fn the_last_entry_of_a_host_counts_and_comes_before_that_of_any_host() {
        let entries =
            ["a.example:443:192.0.2.1", "*:443:192.0.2.9", "A.example:443:192.0.2.2,[2001:db8::2],2001:db8::3"];
        let overrides = Overrides::new(entries).expect("good entries");
        let of_a = addresses(&["192.0.2.2", "2001:db8::2", "2001:db8::3"]);
        for (expected, host, port) in [
            (Some(of_a), "a.example", 443),
            (Some(addresses(&["192.0.2.9"])), "b.example", 443),
            (None, "a.example", 80),
        ] {
            assert_eq!(expected.as_deref(), overrides.get(&name(host), port), "{host}:{port}");
        }
    }

    #[test]
    fn hosts_are_parsed_as_in_urls_and_a_plus_is_ignored() {
        for (host, entry) in [
            ("xn--bcher-kva.example", "bücher.example:80:192.0.2.1"),
            ("[2001:db8::1]", "[2001:DB8::1]:80:192.0.2.1"),
            ("a", "+a:80:192.0.2.1"),
        ] {
            let overrides = Overrides::new([entry]).expect(entry);
            assert_eq!(Some(&*addresses(&["192.0.2.1"])), overrides.get(&name(host), 80), "{entry}");
        }
    }

    #[test]
    fn an_invalid_entry_is_refused_with_the_reason() {
        for (what, entry) in [
            ("has no port and no address", "a"),
            ("has no port and no address", "[::1]"),
            ("has no address", "a:80"),
            ("has `http` for a port", "a:http:192.0.2.1"),
            ("has `0` for a port", "a:0:192.0.2.1"),
            ("has `b.example` for an address", "a:80:192.0.2.1,b.example"),
            ("has `` for an address", "a:80:"),
            ("has `` for a host (empty host)", ":80:192.0.2.1"),
            ("removes an address, which is not supported", "-a:80"),
        ] {
            let expected =
                format!("`{entry}` {what}: it must be host:port:address, such as api.example.com:443:192.0.2.1");
            assert_eq!(Err(expected), Overrides::new([entry]));
        }
    }
}
