//! Hosts that are asked directly, though there is a proxy: what `NO_PROXY` says.
//!
//! There is no standard for it. These are the rules that curl, Go and Python's requests share: a name stands for itself and
//! for all below it, with or without a dot before it; an address or a network for itself; `*` for all. Names are not looked
//! up. `hyper-util` has such a matcher, but with it comes hyper and what hyper needs, six crates in all.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::model::origin::{HostName, Origin};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct NoProxy {
    rules: Vec<(Rule, Option<u16>)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Rule {
    All,
    Net(IpNet),
    /// In lower case, without a dot at either end.
    Name(Box<str>),
}

impl NoProxy {
    pub(super) fn new(text: &str) -> Self {
        let words = text.split([',', ' ', '\t']).filter(|word| !word.is_empty());
        Self { rules: words.map(rule).collect() }
    }

    pub(super) fn covers(&self, origin: &Origin) -> bool {
        let covers = |rule: &Rule| match (rule, &origin.name) {
            (Rule::All, _) => true,
            (Rule::Net(net), HostName::V4(address)) => net.contains(&IpAddr::from(*address)),
            (Rule::Net(net), HostName::V6(address)) => net.contains(&IpAddr::from(*address)),
            (Rule::Name(rule), HostName::Domain(name)) => {
                let above = name.strip_suffix('.').unwrap_or(name).strip_suffix(&**rule);
                above.is_some_and(|above| above.is_empty() || above.ends_with('.'))
            }
            (Rule::Net(_), HostName::Domain(_)) | (Rule::Name(_), _) => false,
        };
        self.rules.iter().any(|(rule, port)| port.is_none_or(|port| port == origin.port) && covers(rule))
    }
}

fn rule(word: &str) -> (Rule, Option<u16>) {
    let net = |text: &str| {
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        bare.parse().or_else(|_| bare.parse::<IpAddr>().map(IpNet::from)).ok().map(Rule::Net)
    };
    if word == "*" {
        return (Rule::All, None);
    }
    if let Some(net) = net(word) {
        return (net, None);
    }
    let with_port = word.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    let (host, port) = with_port.map_or((word, None), |(host, port)| (host, Some(port)));
    let name = || host.trim_start_matches("*.").trim_matches('.').to_lowercase();
    (net(host).unwrap_or_else(|| Rule::Name(name().into())), port)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::dial::overrides::host_name;

    #[test]
    fn names_addresses_and_networks_are_covered_as_curl_and_others_do() {
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
