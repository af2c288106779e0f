//! `NO_PROXY`: hosts with direct connections although there is a proxy.
//!
//! There is no standard for it. These are the rules that curl, Go and Python's requests share: a hostname covers itself and
//! its subdomains, with or without a leading dot; an address or a network covers itself; `*` covers all. Hostnames are not
//! resolved. `hyper-util` has such a matcher, but it depends on hyper, six crates in all.

use std::net::IpAddr;

use headgate_core::origin::{HostName, Origin};
use ipnet::IpNet;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct NoProxy {
    rules: Vec<(NoProxyRule, Option<u16>)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum NoProxyRule {
    All,
    Net(IpNet),
    /// In lower case, without a dot at either end.
    Name(Box<str>),
}

impl NoProxy {
    pub(super) fn new(text: &str) -> Self {
        let words = text.split([',', ' ', '\t']).filter(|word| !word.is_empty());
        Self { rules: words.map(parse_rule).collect() }
    }

    pub(super) fn covers(&self, origin: &Origin) -> bool {
        let covers = |rule: &NoProxyRule| match (rule, &origin.name) {
            (NoProxyRule::All, _) => true,
            (NoProxyRule::Net(net), HostName::V4(address)) => net.contains(&IpAddr::from(*address)),
            (NoProxyRule::Net(net), HostName::V6(address)) => net.contains(&IpAddr::from(*address)),
            (NoProxyRule::Name(rule), HostName::Domain(name)) => {
                let above = name.strip_suffix('.').unwrap_or(name).strip_suffix(&**rule);
                above.is_some_and(|above| above.is_empty() || above.ends_with('.'))
            }
            (NoProxyRule::Net(_), HostName::Domain(_)) | (NoProxyRule::Name(_), _) => false,
        };
        self.rules.iter().any(|(rule, port)| port.is_none_or(|port| port == origin.port) && covers(rule))
    }
}

fn parse_rule(word: &str) -> (NoProxyRule, Option<u16>) {
    let net = |text: &str| {
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        bare.parse().or_else(|_| bare.parse::<IpAddr>().map(IpNet::from)).ok().map(NoProxyRule::Net)
    };
    if word == "*" {
        return (NoProxyRule::All, None);
    }
    if let Some(net) = net(word) {
        return (net, None);
    }
    let with_port = word.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    let (host, port) = with_port.map_or((word, None), |(host, port)| (host, Some(port)));
    let name = || host.trim_start_matches("*.").trim_matches('.').to_lowercase();
    (net(host).unwrap_or_else(|| NoProxyRule::Name(name().into())), port)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dial::overrides::host_name;

    #[test]
    fn hostnames_addresses_and_networks_are_covered_as_by_curl() {
        for (expected, host, text) in [
            (true, "a.example", "a.example"),
            (true, "b.a.example", "a.example"),
            (true, "b.a.example", ".a.example"),
            (true, "b.a.example", "*.a.example"),
            (true, "a.example", ".A.Example."),
            (true, "a.example.", "a.example"),
            (false, "ba.example", "a.example"),
            (false, "example", "a.example"),
            (true, "b.example", "a.example , b.example"),
            (true, "b.example", "a.example b.example"),
            (true, "anything", "*"),
            (true, "[::1]", "*"),
            (true, "192.0.2.7", "192.0.2.7"),
            (true, "192.0.2.7", "192.0.2.0/24"),
            (false, "192.0.3.7", "192.0.2.0/24"),
            (true, "[2001:db8::1]", "2001:db8::/32"),
            (true, "[2001:db8::1]", "[2001:db8::1]"),
            (false, "192.0.2.7", "2.7"),
            (true, "a.example", "a.example:8080"),
            (false, "a.example", "a.example:81"),
            (true, "192.0.2.7", "192.0.2.7:8080"),
            (false, "a.example", ""),
            (false, "a.example", ",, ,"),
        ] {
            let origin = Origin { https: false, name: host_name(host).expect(host), port: 8080 };
            assert_eq!(expected, NoProxy::new(text).covers(&origin), "{host} beside {text:?}");
        }
    }
}
