//! Addresses that are not public, each range with its source.
//!
//! The sources are IANA's registries of special-purpose addresses for IPv4 and IPv6 (RFC 6890), IANA's IPv6 address space
//! registry, and the documentation of cloud providers for their metadata services.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};

/// A range of addresses and its purpose.
#[derive(Debug)]
struct Range<N> {
    net: N,
    name: &'static str,
    kind: RangeKind,
}

/// Whether the addresses of a range are public.
#[derive(Debug, Clone, Copy)]
enum RangeKind {
    /// Public, in a range that is not.
    Public,
    NotPublic,
    /// Not public, and the service there trusts every client: it gives away credentials of the machine.
    Trusting,
    /// Each address embeds IPv4 addresses, and is public if they are.
    Embedding(fn(Ipv6Addr) -> [Ipv4Addr; 2]),
}

/// The reason why an address is not public.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Special {
    /// `link-local, 169.254.0.0/16`
    pub(super) name: String,
    /// The address is refused unless the user names it.
    pub(super) is_trusting: bool,
}

const fn v4(net: [u8; 4], length: u8, name: &'static str, kind: RangeKind) -> Range<Ipv4Net> {
    Range { net: Ipv4Net::new_assert(Ipv4Addr::from_octets(net), length), name, kind }
}

const fn v6(net: [u16; 8], length: u8, name: &'static str, kind: RangeKind) -> Range<Ipv6Net> {
    Range { net: Ipv6Net::new_assert(Ipv6Addr::from_segments(net), length), name, kind }
}

/// The first that holds an address counts.
#[rustfmt::skip]
static V4: &[Range<Ipv4Net>] = &[
    // Oracle Cloud, Instance Metadata Service for services of the platform.
    v4([192, 0, 0, 192], 32, "metadata service", RangeKind::Trusting),
    // Alibaba Cloud ECS, "View instance metadata".
    v4([100, 100, 100, 200], 32, "metadata service", RangeKind::Trusting),
    // Azure, "What is IP address 168.63.129.16?": it lies among public addresses.
    v4([168, 63, 129, 16], 32, "platform service", RangeKind::Trusting),
    // RFC 791 section 3.2
    v4([0, 0, 0, 0], 8, "this network", RangeKind::NotPublic),
    // RFC 1918
    v4([10, 0, 0, 0], 8, "private", RangeKind::NotPublic),
    // RFC 6598
    v4([100, 64, 0, 0], 10, "shared address space (CGNAT)", RangeKind::NotPublic),
    // RFC 1122 section 3.2.1.3
    v4([127, 0, 0, 0], 8, "loopback", RangeKind::NotPublic),
    // RFC 3927; AWS, Azure, Google Cloud, OpenStack and others have their metadata services at 169.254.169.254.
    v4([169, 254, 0, 0], 16, "link-local", RangeKind::Trusting),
    // RFC 1918
    v4([172, 16, 0, 0], 12, "private", RangeKind::NotPublic),
    // RFC 7723, RFC 8155
    v4([192, 0, 0, 9], 32, "Port Control Protocol anycast", RangeKind::Public),
    v4([192, 0, 0, 10], 32, "TURN anycast", RangeKind::Public),
    // RFC 6890 section 2.1
    v4([192, 0, 0, 0], 24, "IETF protocol assignments", RangeKind::NotPublic),
    // RFC 5737
    v4([192, 0, 2, 0], 24, "documentation", RangeKind::NotPublic),
    // RFC 7526
    v4([192, 88, 99, 0], 24, "6to4 relay anycast", RangeKind::NotPublic),
    // RFC 1918
    v4([192, 168, 0, 0], 16, "private", RangeKind::NotPublic),
    // RFC 2544
    v4([198, 18, 0, 0], 15, "benchmarking", RangeKind::NotPublic),
    // RFC 5737
    v4([198, 51, 100, 0], 24, "documentation", RangeKind::NotPublic),
    v4([203, 0, 113, 0], 24, "documentation", RangeKind::NotPublic),
    // RFC 5771
    v4([224, 0, 0, 0], 4, "multicast", RangeKind::NotPublic),
    // RFC 8190
    v4([255, 255, 255, 255], 32, "broadcast", RangeKind::NotPublic),
    // RFC 1112 section 4
    v4([240, 0, 0, 0], 4, "reserved", RangeKind::NotPublic),
];

/// The first that holds an address counts.
#[rustfmt::skip]
static V6: &[Range<Ipv6Net>] = &[
    // RFC 4291 section 2.5.3, section 2.5.2
    v6([0, 0, 0, 0, 0, 0, 0, 1], 128, "loopback", RangeKind::NotPublic),
    v6([0, 0, 0, 0, 0, 0, 0, 0], 128, "unspecified", RangeKind::NotPublic),
    // RFC 4291 section 2.5.5: IPv4-mapped and IPv4-compatible
    v6([0, 0, 0, 0, 0, 0xffff, 0, 0], 96, "IPv4-mapped", RangeKind::Embedding(at_end)),
    v6([0, 0, 0, 0, 0, 0, 0, 0], 96, "IPv4-compatible", RangeKind::Embedding(at_end)),
    // RFC 2765 section 2.1
    v6([0, 0, 0, 0, 0xffff, 0, 0, 0], 96, "IPv4-translated", RangeKind::Embedding(at_end)),
    // RFC 6052 section 2.1
    v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96, "NAT64", RangeKind::Embedding(at_end)),
    // RFC 8215: only the network's operator knows the position of the IPv4 address in it.
    v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48, "local-use NAT64", RangeKind::NotPublic),
    // RFC 4380 section 4
    v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 32, "Teredo", RangeKind::Embedding(of_teredo)),
    // RFC 3056 section 2
    v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16, "6to4", RangeKind::Embedding(of_6to4)),
    // RFC 7723, RFC 8155, RFC 9665
    v6([0x2001, 1, 0, 0, 0, 0, 0, 1], 128, "Port Control Protocol anycast", RangeKind::Public),
    v6([0x2001, 1, 0, 0, 0, 0, 0, 2], 128, "TURN anycast", RangeKind::Public),
    v6([0x2001, 1, 0, 0, 0, 0, 0, 3], 128, "DNS-SD SRP anycast", RangeKind::Public),
    // RFC 7450, RFC 7535, RFC 7343, RFC 9374
    v6([0x2001, 3, 0, 0, 0, 0, 0, 0], 32, "AMT", RangeKind::Public),
    v6([0x2001, 4, 0x112, 0, 0, 0, 0, 0], 48, "AS112", RangeKind::Public),
    v6([0x2001, 0x20, 0, 0, 0, 0, 0, 0], 28, "ORCHIDv2", RangeKind::Public),
    v6([0x2001, 0x30, 0, 0, 0, 0, 0, 0], 28, "drone remote ID", RangeKind::Public),
    // RFC 5180
    v6([0x2001, 2, 0, 0, 0, 0, 0, 0], 48, "benchmarking", RangeKind::NotPublic),
    // RFC 2928
    v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23, "IETF protocol assignments", RangeKind::NotPublic),
    // RFC 3849, RFC 9637
    v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32, "documentation", RangeKind::NotPublic),
    v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20, "documentation", RangeKind::NotPublic),
    // RFC 4291 section 2.4: all that has been given out.
    v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3, "global unicast", RangeKind::Public),
    // AWS, "Access instance metadata for an EC2 instance".
    v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], 128, "metadata service", RangeKind::Trusting),
    // Google Cloud, "About VM metadata".
    v6([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128, "metadata service", RangeKind::Trusting),
    // Scaleway, "Using Instance metadata".
    v6([0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42], 128, "metadata service", RangeKind::Trusting),
    // RFC 6666, RFC 9780
    v6([0x100, 0, 0, 0, 0, 0, 0, 0], 64, "discard-only", RangeKind::NotPublic),
    v6([0x100, 0, 0, 1, 0, 0, 0, 0], 64, "dummy", RangeKind::NotPublic),
    // RFC 9602
    v6([0x5f00, 0, 0, 0, 0, 0, 0, 0], 16, "segment routing", RangeKind::NotPublic),
    // RFC 4193
    v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7, "unique local", RangeKind::NotPublic),
    // RFC 4291 section 2.5.6, RFC 3879, RFC 4291 section 2.7
    v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10, "link-local", RangeKind::Trusting),
    v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10, "site-local", RangeKind::NotPublic),
    v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8, "multicast", RangeKind::NotPublic),
    v6([0, 0, 0, 0, 0, 0, 0, 0], 0, "reserved", RangeKind::NotPublic),
];

fn at_end(address: Ipv6Addr) -> [Ipv4Addr; 2] {
    [Ipv4Addr::from_bits(address.to_bits() as u32); 2]
}

fn of_6to4(address: Ipv6Addr) -> [Ipv4Addr; 2] {
    [Ipv4Addr::from_bits((address.to_bits() >> 80) as u32); 2]
}

/// Returns the client's address, whose bits are inverted, and its server's.
fn of_teredo(address: Ipv6Addr) -> [Ipv4Addr; 2] {
    [Ipv4Addr::from_bits(!(address.to_bits() as u32)), Ipv4Addr::from_bits((address.to_bits() >> 64) as u32)]
}

/// Returns the IPv4 addresses that an address embeds.
pub(super) fn embedded(address: IpAddr) -> Option<[Ipv4Addr; 2]> {
    let IpAddr::V6(address) = address else { return None };
    match v6_range(address).kind {
        RangeKind::Embedding(embedded) => Some(embedded(address)),
        _ => None,
    }
}

/// Returns why an address is not public, or `None` if it is. An address that embeds others is public if all of them are.
pub(super) fn special(address: IpAddr) -> Option<Special> {
    match address {
        IpAddr::V4(address) => special_v4(address),
        IpAddr::V6(address) => {
            let range = v6_range(address);
            match range.kind {
                RangeKind::Embedding(embedded) => embedded(address).into_iter().find_map(special_v4),
                kind => Special::of(range.name, range.net, kind),
            }
        }
    }
}

fn special_v4(address: Ipv4Addr) -> Option<Special> {
    let range = V4.iter().find(|range| range.net.contains(&address))?;
    Special::of(range.name, range.net, range.kind)
}

fn v6_range(address: Ipv6Addr) -> &'static Range<Ipv6Net> {
    // The last one holds all addresses.
    V6.iter().find(|range| range.net.contains(&address)).unwrap_or(&V6[V6.len() - 1])
}

impl Special {
    fn of(name: &str, net: impl std::fmt::Display, kind: RangeKind) -> Option<Self> {
        let is_trusting = matches!(kind, RangeKind::Trusting);
        (is_trusting || matches!(kind, RangeKind::NotPublic))
            .then(|| Self { name: format!("{name}, {net}"), is_trusting })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(address: &str) -> Option<String> {
        special(address.parse().expect("an address")).map(|special| special.name)
    }

    /// The ranges of IPv4, from end to end.
    const EDGES_OF_V4: &[(Option<&str>, &str, &str)] = &[
        (Some("this network, 0.0.0.0/8"), "0.0.0.0", "0.255.255.255"),
        (None, "1.0.0.0", "9.255.255.255"),
        (Some("private, 10.0.0.0/8"), "10.0.0.0", "10.255.255.255"),
        (None, "11.0.0.0", "100.63.255.255"),
        (Some("shared address space (CGNAT), 100.64.0.0/10"), "100.64.0.0", "100.100.100.199"),
        (Some("metadata service, 100.100.100.200/32"), "100.100.100.200", "100.100.100.200"),
        (Some("shared address space (CGNAT), 100.64.0.0/10"), "100.100.100.201", "100.127.255.255"),
        (None, "100.128.0.0", "126.255.255.255"),
        (Some("loopback, 127.0.0.0/8"), "127.0.0.0", "127.255.255.255"),
        (None, "128.0.0.0", "168.63.129.15"),
        (Some("platform service, 168.63.129.16/32"), "168.63.129.16", "168.63.129.16"),
        (None, "168.63.129.17", "169.253.255.255"),
        (Some("link-local, 169.254.0.0/16"), "169.254.0.0", "169.254.255.255"),
        (None, "169.255.0.0", "172.15.255.255"),
        (Some("private, 172.16.0.0/12"), "172.16.0.0", "172.31.255.255"),
        (None, "172.32.0.0", "191.255.255.255"),
        (Some("IETF protocol assignments, 192.0.0.0/24"), "192.0.0.0", "192.0.0.8"),
        (None, "192.0.0.9", "192.0.0.10"),
        (Some("IETF protocol assignments, 192.0.0.0/24"), "192.0.0.11", "192.0.0.191"),
        (Some("metadata service, 192.0.0.192/32"), "192.0.0.192", "192.0.0.192"),
        (Some("IETF protocol assignments, 192.0.0.0/24"), "192.0.0.193", "192.0.0.255"),
        (None, "192.0.1.0", "192.0.1.255"),
        (Some("documentation, 192.0.2.0/24"), "192.0.2.0", "192.0.2.255"),
        (None, "192.0.3.0", "192.88.98.255"),
        (Some("6to4 relay anycast, 192.88.99.0/24"), "192.88.99.0", "192.88.99.255"),
        (None, "192.88.100.0", "192.167.255.255"),
        (Some("private, 192.168.0.0/16"), "192.168.0.0", "192.168.255.255"),
        (None, "192.169.0.0", "198.17.255.255"),
        (Some("benchmarking, 198.18.0.0/15"), "198.18.0.0", "198.19.255.255"),
        (None, "198.20.0.0", "198.51.99.255"),
        (Some("documentation, 198.51.100.0/24"), "198.51.100.0", "198.51.100.255"),
        (None, "198.51.101.0", "203.0.112.255"),
        (Some("documentation, 203.0.113.0/24"), "203.0.113.0", "203.0.113.255"),
        (None, "203.0.114.0", "223.255.255.255"),
        (Some("multicast, 224.0.0.0/4"), "224.0.0.0", "239.255.255.255"),
        (Some("reserved, 240.0.0.0/4"), "240.0.0.0", "255.255.255.254"),
        (Some("broadcast, 255.255.255.255/32"), "255.255.255.255", "255.255.255.255"),
    ];

    /// The ranges of IPv6 that embed no address.
    const EDGES_OF_V6: &[(Option<&str>, &str, &str)] = &[
        (Some("unspecified, ::/128"), "::", "::"),
        (Some("loopback, ::1/128"), "::1", "::1"),
        (Some("reserved, ::/0"), "::1:0:0:0", "::fffe:ffff:ffff:ffff"),
        (Some("local-use NAT64, 64:ff9b:1::/48"), "64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff"),
        (Some("reserved, ::/0"), "64:ff9b:2::", "ff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        (Some("discard-only, 100::/64"), "100::", "100::ffff:ffff:ffff:ffff"),
        (Some("dummy, 100:0:0:1::/64"), "100:0:0:1::", "100:0:0:1:ffff:ffff:ffff:ffff"),
        (Some("reserved, ::/0"), "100:0:0:2::", "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        (None, "2000::", "2000:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        (Some("IETF protocol assignments, 2001::/23"), "2001:1::", "2001:1::"),
        (None, "2001:1::1", "2001:1::3"),
        (Some("IETF protocol assignments, 2001::/23"), "2001:1::4", "2001:1:ffff:ffff:ffff:ffff:ffff:ffff"),
        (Some("benchmarking, 2001:2::/48"), "2001:2::", "2001:2:0:ffff:ffff:ffff:ffff:ffff"),
        (Some("IETF protocol assignments, 2001::/23"), "2001:2:1::", "2001:2:ffff:ffff:ffff:ffff:ffff:ffff"),
        (None, "2001:3::", "2001:3:ffff:ffff:ffff:ffff:ffff:ffff"),
        (Some("IETF protocol assignments, 2001::/23"), "2001:4::", "2001:4:111:ffff:ffff:ffff:ffff:ffff"),
        (None, "2001:4:112::", "2001:4:112:ffff:ffff:ffff:ffff:ffff"),
        (Some("IETF protocol assignments, 2001::/23"), "2001:4:113::", "2001:1f:ffff:ffff:ffff:ffff:ffff:ffff"),
        (None, "2001:20::", "2001:3f:ffff:ffff:ffff:ffff:ffff:ffff"),
        (Some("IETF protocol assignments, 2001::/23"), "2001:40::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff"),
        (None, "2001:200::", "2001:db7:ffff:ffff:ffff:ffff:ffff:ffff"),
        (Some("documentation, 2001:db8::/32"), "2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"),
        (None, "2001:db9::", "2001:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        (None, "2003::", "3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        (Some("documentation, 3fff::/20"), "3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff"),
        (None, "3fff:1000::", "3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        (Some("reserved, ::/0"), "4000::", "5eff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        (Some("segment routing, 5f00::/16"), "5f00::", "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        (Some("reserved, ::/0"), "5f01::", "fbff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        (Some("unique local, fc00::/7"), "fc00::", "fd00:42::41"),
        (Some("metadata service, fd00:42::42/128"), "fd00:42::42", "fd00:42::42"),
        (Some("unique local, fc00::/7"), "fd00:42::43", "fd00:ec2::253"),
        (Some("metadata service, fd00:ec2::254/128"), "fd00:ec2::254", "fd00:ec2::254"),
        (Some("unique local, fc00::/7"), "fd00:ec2::255", "fd20:ce::253"),
        (Some("metadata service, fd20:ce::254/128"), "fd20:ce::254", "fd20:ce::254"),
        (Some("unique local, fc00::/7"), "fd20:ce::255", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        (Some("reserved, ::/0"), "fe00::", "fe7f:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        (Some("link-local, fe80::/10"), "fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        (Some("site-local, fec0::/10"), "fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        (Some("multicast, ff00::/8"), "ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ];

    #[test]
    fn each_range_begins_and_ends_where_its_registry_says_cve_2024_4032() {
        for (expected, first, last) in EDGES_OF_V4.iter().chain(EDGES_OF_V6) {
            assert_eq!([*expected; 2], [name(first).as_deref(), name(last).as_deref()], "{first} to {last}");
        }
    }

    #[test]
    fn the_ranges_cover_every_address_of_ipv4() {
        let mut next = Some(Ipv4Addr::UNSPECIFIED);
        for (_, first, last) in EDGES_OF_V4 {
            assert_eq!(next, Some(first.parse().expect("an address")));
            next = last.parse::<Ipv4Addr>().expect("an address").to_bits().checked_add(1).map(Ipv4Addr::from_bits);
        }
        assert_eq!(None, next);
    }

    #[test]
    fn an_address_that_embeds_another_has_the_range_of_that_one_cve_2024_29415() {
        for (_, first, last) in EDGES_OF_V4 {
            for text in [first, last] {
                let address: Ipv4Addr = text.parse().expect("an address");
                let [a, b] = [address.to_bits() >> 16, address.to_bits() & 0xffff];
                let inverted = [a ^ 0xffff, b ^ 0xffff];
                let mut forms = vec![
                    format!("::ffff:{address}"),
                    format!("::ffff:0:{a:x}:{b:x}"),
                    format!("64:ff9b::{a:x}:{b:x}"),
                    format!("2002:{a:x}:{b:x}::1"),
                    format!("2001:0:808:808:0:0:{:x}:{:x}", inverted[0], inverted[1]),
                    // A Teredo server, and a client at 8.8.8.8.
                    format!("2001:0:{a:x}:{b:x}:0:0:f7f7:f7f7"),
                ];
                // These two addresses are not merely IPv4-compatible.
                forms.extend((address.to_bits() > 1).then(|| format!("::{a:x}:{b:x}")));
                for form in forms {
                    assert_eq!(name(text), name(&form), "{form}");
                }
            }
        }
    }
}
