//! The transport configuration of a run: everything besides the host that identifies a connection.
//!
//! A connection serves only requests with the same transport configuration, of any run. So all runs with the same options
//! share one configuration object.

use std::collections::VecDeque;
use std::env;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, SocketAddr};
#[cfg(test)]
use std::sync::LazyLock;
use std::sync::{Arc, Mutex, PoisonError};

use headgate_core::error::{ErrorKind, Failure, JobError};
use headgate_core::message;
use headgate_core::message::OptionName;
use headgate_core::mock_transport::MockTransport;
use headgate_core::option_rules::Mistake;
use headgate_core::options::{RequestOptions, TlsMin};
use headgate_core::origin::{HostName, Origin};
use headgate_core::origin_set::OriginSet;
use headgate_core::schedule::hosts::Speaks;
use headgate_core::target::origin_set;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;

use crate::dial::authorities::KnownAuthorities;
use crate::dial::dns::message::AddressFamily;
use crate::dial::local::LocalAddresses;
use crate::dial::overrides::{Overrides, host_name};
use crate::dial::policy::Policy;
use crate::dial::proxy::{Proxies, Proxy, ProxySource};
use crate::dial::tls::TlsOptions;

/// The bound of configurations kept; the oldest is evicted first.
const MAX_CONFIGS: usize = 16;
/// The value of `proxy` that stands for the proxies of the environment.
const ENVIRONMENT: &str = "env";

/// See the top of this file.
#[derive(Debug)]
pub struct TransportConfig {
    pub(super) tls: Arc<ClientConfig>,
    /// `None` without an `https://` proxy.
    pub(super) proxy_tls: Option<Arc<ClientConfig>>,
    pub(super) proxies: Proxies,
    pub(super) local: LocalAddresses,
    pub(super) policy: Policy,
    pub(super) mock_transport: Option<MockTransport>,
    options: ComparedOptions,
}

/// The options that are compared by value.
#[derive(Debug, PartialEq)]
struct ComparedOptions {
    tls: TlsOptions,
    /// `None` without an `https://` proxy.
    proxy_tls: Option<TlsOptions>,
    server_name: Option<ServerName<'static>>,
    http2_prior_knowledge: bool,
    http2_streams: u32,
    overrides: Overrides,
    family: Option<AddressFamily>,
}

/// The key of connections: a connection serves only requests with the same key.
#[derive(Debug, Clone)]
pub struct RouteKey {
    pub origin: Origin,
    /// Compared by identity.
    pub transport: Arc<TransportConfig>,
}

impl PartialEq for RouteKey {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.transport, &other.transport) && self.origin == other.origin
    }
}

impl Eq for RouteKey {}

impl Hash for RouteKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.origin.hash(state);
        Arc::as_ptr(&self.transport).hash(state);
    }
}

/// The two transport configurations of a run: one with its client certificate, for certain origins, and one without. A
/// connection belongs to one of the two, so that the pool does not mix them.
#[derive(Debug, Clone)]
pub struct Transports {
    without: Arc<TransportConfig>,
    /// `None` if the run has no certificate.
    with: Option<(Arc<TransportConfig>, Arc<OriginSet>)>,
}

impl Transports {
    pub fn to(&self, origin: &Origin) -> &Arc<TransportConfig> {
        let with = self.with.as_ref().filter(|(_, origins)| origins.contains(origin));
        with.map_or(&self.without, |(transport, _)| transport)
    }

    /// Returns the same configurations without the certificate.
    #[must_use]
    pub(crate) fn without_certificate(&self) -> Self {
        Self { without: self.without.clone(), with: None }
    }
}

impl From<Arc<TransportConfig>> for Transports {
    fn from(without: Arc<TransportConfig>) -> Self {
        Self { without, with: None }
    }
}

/// The transport configurations of an engine.
#[derive(Debug, Default)]
pub struct TransportConfigs {
    configs: Mutex<VecDeque<Arc<TransportConfig>>>,
    known: KnownAuthorities,
}

impl TransportConfigs {
    /// Returns the transport configurations of a run with these options.
    ///
    /// # Errors
    /// As [`TransportConfigs::get`].
    pub fn of_run(&self, options: &RequestOptions) -> Result<Transports, JobError> {
        let transport = self.get(options)?;
        if options.cert.is_none() {
            return Ok(transport.into());
        }
        let origins = origin_set(&options.credentials_for)
            .map_err(|error| JobError::usage(message!(OptionName::CredentialsFor, ": {error}")))?;
        let without = self.get(&RequestOptions { cert: None, key: None, ..options.clone() })?;
        Ok(Transports { without, with: Some((transport, origins.into())) })
    }

    /// Returns the configuration for requests with these options.
    ///
    /// # Errors
    /// `Usage`: an option is not valid, or names a file, address or interface that does not exist.
    pub fn get(&self, options: &RequestOptions) -> Result<Arc<TransportConfig>, JobError> {
        let proxies = Proxies::new(proxy_source(options)?);
        let (local, policy, mock_transport) =
            (LocalAddresses::new(options)?, Policy::new(options), options.mock_transport.clone());
        let compared = ComparedOptions::new(options, proxies.has_https_proxy())?;
        let mut configs = self.configs.lock().unwrap_or_else(PoisonError::into_inner);
        let same = configs.iter().find(|other| {
            other.options == compared
                && other.proxies == proxies
                && other.local == local
                && other.policy == policy
                && other.mock_transport == mock_transport
        });
        if let Some(same) = same {
            return Ok(same.clone());
        }
        let proxy_tls = compared.proxy_tls.as_ref().map(|options| options.create_config(&self.known)).transpose()?;
        let tls = compared.tls.create_config(&self.known)?;
        let options = compared;
        let transport = Arc::new(TransportConfig { tls, proxy_tls, proxies, local, policy, mock_transport, options });
        if configs.len() == MAX_CONFIGS {
            configs.pop_front();
        }
        configs.push_back(transport.clone());
        Ok(transport)
    }
}

/// Returns the mistakes in the options of a transport configuration that can be found without opening a file.
pub fn mistakes(options: &RequestOptions) -> Vec<Mistake> {
    let found = [proxy_source(options).err(), server_name_of(options).err(), overrides(options).err()];
    found.into_iter().flatten().collect()
}

fn proxy_source(options: &RequestOptions) -> Result<ProxySource, Mistake> {
    let refused = |why: String| Mistake { option: OptionName::Proxy, message: why.into() };
    match &*options.proxies {
        [] => Ok(ProxySource::None),
        [only] if only.expose() == ENVIRONMENT => ProxySource::of_environment(|name| env::var(name).ok())
            .map_err(|why| refused(format!("can't be `env`: {why}"))),
        proxies if proxies.iter().any(|proxy| proxy.expose() == ENVIRONMENT) => {
            Err(refused("`env` takes the proxies that the environment names, and no other proxies".into()))
        }
        // The message has a number instead of the URL, which may contain a password.
        proxies => {
            let number =
                |index: usize| if proxies.len() > 1 { format!("number {} ", index + 1) } else { String::new() };
            let parsed = proxies.iter().enumerate().map(|(index, text)| {
                Proxy::parse(text.expose()).map_err(|why| refused(format!("{}{why}", number(index))))
            });
            Ok(ProxySource::List(parsed.collect::<Result<_, _>>()?))
        }
    }
}

fn server_name_of(options: &RequestOptions) -> Result<Option<ServerName<'static>>, Mistake> {
    let Some(name) = &options.tls_server_name else { return Ok(None) };
    let named = host_name(name).ok().and_then(|name| server_name(&name).ok());
    let refused =
        || Mistake { option: OptionName::TlsServerName, message: format!("'{name}' is not the name of a host").into() };
    named.map(Some).ok_or_else(refused)
}

fn overrides(options: &RequestOptions) -> Result<Overrides, Mistake> {
    Overrides::new(&options.resolve).map_err(|why| Mistake { option: OptionName::Resolve, message: why.into() })
}

impl ComparedOptions {
    fn new(options: &RequestOptions, has_https_proxy: bool) -> Result<Self, JobError> {
        let family = match (options.ipv4, options.ipv6) {
            (true, false) => Some(AddressFamily::V4),
            (false, true) => Some(AddressFamily::V6),
            (false, false) | (true, true) => None,
        };
        Ok(Self {
            tls: TlsOptions::for_hosts(options)?,
            proxy_tls: has_https_proxy.then(|| TlsOptions::for_proxies(options)).transpose()?,
            server_name: server_name_of(options)?,
            http2_prior_knowledge: options.http2_prior_knowledge,
            http2_streams: options.http2_streams,
            overrides: overrides(options)?,
            family,
        })
    }
}

impl TransportConfig {
    #[cfg(test)]
    pub fn for_tests() -> Arc<Self> {
        static CONFIG: LazyLock<Arc<TransportConfig>> =
            LazyLock::new(|| TransportConfigs::default().get(&RequestOptions::default()).expect("nothing is read"));
        CONFIG.clone()
    }

    /// Returns the bound of concurrent requests on one HTTP/2 connection.
    pub fn http2_streams(&self) -> usize {
        self.options.http2_streams.max(1) as usize
    }

    /// Returns the version of HTTP for connections to this origin, or `None` if the server chooses.
    pub fn speaks(&self, origin: &Origin) -> Option<Speaks> {
        match self.tls.alpn_protocols.as_slice() {
            _ if self.has_http2_prior_knowledge() => Some(Speaks::Http2),
            _ if !origin.https => Some(Speaks::Http1),
            [_] => Some(Speaks::Http1),
            _ => None,
        }
    }

    /// Returns whether requests use HTTP/2 without negotiation.
    pub(super) fn has_http2_prior_knowledge(&self) -> bool {
        self.options.http2_prior_knowledge
    }

    pub(super) fn tls_min(&self) -> TlsMin {
        self.options.tls.min
    }

    /// Returns the server name for TLS (SNI), which the certificate must be for.
    ///
    /// # Errors
    /// `tls`: no certificate can be issued for this name.
    pub(super) fn server_name(&self, origin: &Origin) -> Result<ServerName<'static>, Failure> {
        self.options.server_name.clone().map_or_else(|| server_name(&origin.name), Ok)
    }

    /// Returns the addresses that the user has set for a host, which replace those of DNS.
    pub(super) fn override_for(&self, host: &Origin) -> Option<Vec<SocketAddr>> {
        let addresses = self.options.overrides.get(&host.name, host.port)?;
        Some(addresses.iter().map(|address| SocketAddr::new(*address, host.port)).collect())
    }

    /// Returns the addresses of a host that the options allow connections to.
    ///
    /// # Errors
    /// `dns`, `connect`: no address is left.
    pub(super) fn reachable(&self, mut addresses: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, Failure> {
        let (is_allowed, none, option): (fn(&SocketAddr) -> bool, _, _) = match self.options.family {
            None => (|_| true, "the hostname has no address", None),
            Some(AddressFamily::V4) => (SocketAddr::is_ipv4, "the host has no IPv4 address", Some(OptionName::Ipv4)),
            Some(AddressFamily::V6) => (SocketAddr::is_ipv6, "the host has no IPv6 address", Some(OptionName::Ipv6)),
        };
        addresses.retain(is_allowed);
        if addresses.is_empty() {
            let failure = Failure::new(ErrorKind::Dns, none).lasting();
            return Err(if let Some(option) = option { failure.with_option(option) } else { failure });
        }
        addresses.retain(|address| self.local.has_family_of(address));
        if addresses.is_empty() {
            let why = "none of the local addresses is of the same family as those of the host";
            return Err(Failure::new(ErrorKind::Connect, why).with_option(OptionName::LocalAddress).lasting());
        }
        Ok(addresses)
    }
}

pub(super) fn server_name(name: &HostName) -> Result<ServerName<'static>, Failure> {
    match name {
        HostName::Domain(name) => ServerName::try_from(name.to_string())
            .map_err(|error| Failure::new(ErrorKind::Tls, format!("no certificate can be for this name: {error}"))),
        HostName::V4(address) => Ok(ServerName::from(IpAddr::from(*address))),
        HostName::V6(address) => Ok(ServerName::from(IpAddr::from(*address))),
    }
}

#[cfg(test)]
mod tests {
    use headgate_core::mock_transport::{ConnectMock, MockSocket};
    use headgate_core::network_options::{NetworkOptions, NetworkPolicy};

    use super::*;

    /// A mock transport that refuses. It is not zero-sized, so that two have different addresses.
    struct Refusing(#[expect(dead_code, reason = "it makes the type larger than 0 bytes")] u8);

    impl ConnectMock for Refusing {
        fn connect(&self, _: &Origin) -> Result<MockSocket, Failure> {
            Err(Failure::new(ErrorKind::Connect, "refused"))
        }
    }

    fn refused(options: &RequestOptions) -> String {
        TransportConfigs::default().get(options).expect_err("it can't be").to_string()
    }

    #[test]
    fn runs_share_a_configuration_only_if_their_options_are_the_same() {
        let plain = RequestOptions::default();
        let public = NetworkOptions { network: NetworkPolicy::Public, ..NetworkOptions::default() };
        let others = [
            RequestOptions { insecure: true, ..plain.clone() },
            RequestOptions { http1_1: true, ..plain.clone() },
            RequestOptions { http2_prior_knowledge: true, ..plain.clone() },
            RequestOptions { http2_streams: 7, ..plain.clone() },
            RequestOptions { tls_min: TlsMin::V13, ..plain.clone() },
            RequestOptions { tls_server_name: Some("a.example".into()), ..plain.clone() },
            RequestOptions { proxies: vec!["http://p:1".into()], ..plain.clone() },
            RequestOptions { proxies: vec!["http://me:secret@p:1".into()], ..plain.clone() },
            RequestOptions { resolve: vec!["a:80:192.0.2.1".into()], ..plain.clone() },
            RequestOptions { ipv4: true, ..plain.clone() },
            RequestOptions { ipv6: true, ..plain.clone() },
            RequestOptions { local_addresses: vec!["127.0.0.1".parse().expect("one")], ..plain.clone() },
            RequestOptions { interface: Some("lo".into()), ..plain.clone() },
            RequestOptions { network: public.clone(), ..plain.clone() },
            RequestOptions { network: NetworkOptions { allow_port: vec![443], ..public }, ..plain.clone() },
            RequestOptions { named_address: Some([169, 254, 169, 254].into()), ..plain.clone() },
            RequestOptions { mock_transport: Some(MockTransport(Arc::new(Refusing(0)))), ..plain.clone() },
            RequestOptions { mock_transport: Some(MockTransport(Arc::new(Refusing(0)))), ..plain.clone() },
        ];
        for options in &others {
            let configs = TransportConfigs::default();
            let get = |options: &RequestOptions| configs.get(options).expect("it can be");
            let (first, other) = (get(&plain), get(options));
            assert!(!Arc::ptr_eq(&first, &other), "{options:?}");
            assert!(Arc::ptr_eq(&other, &get(options)) && Arc::ptr_eq(&first, &get(&plain)), "{options:?}");
        }
        let configs = TransportConfigs::default();
        let get = |options: &RequestOptions| configs.get(options).expect("it can be");
        // Naming an address that is allowed anyway makes no difference.
        let named = RequestOptions { named_address: Some([127, 0, 0, 1].into()), ..plain.clone() };
        assert!(Arc::ptr_eq(&get(&plain), &get(&named)));
        for _ in 0..2 {
            for number in 0..MAX_CONFIGS {
                let proxies = vec![format!("http://p:{}", number + 2).into()];
                get(&RequestOptions { proxies, ..plain.clone() });
            }
        }
        assert_eq!(MAX_CONFIGS, configs.configs.lock().expect("whole").len());
    }

    #[test]
    fn invalid_options_are_refused_without_showing_a_password() {
        let plain = RequestOptions::default();
        let kinds = "has the scheme ftp:// that is not supported: http://, https://, socks5h:// and socks5:// are";
        let proxies = |texts: &[&str]| RequestOptions {
            proxies: texts.iter().map(|text| (*text).into()).collect(),
            ..plain.clone()
        };
        for (expected, options) in [
            (format!("proxy {kinds}"), proxies(&["ftp://me:secret@p"])),
            (format!("proxy number 2 {kinds}"), proxies(&["http://p", "ftp://me:secret@p"])),
            (
                "proxy `env` takes the proxies that the environment names, and no other proxies".into(),
                proxies(&["env", "http://me:secret@p"]),
            ),
            (
                "tls_server_name 'a b' is not the name of a host".into(),
                RequestOptions { tls_server_name: Some("a b".into()), ..plain.clone() },
            ),
            (
                "resolve `a` has no port and no address: it must be host:port:address, such as \
                 api.example.com:443:192.0.2.1"
                    .into(),
                RequestOptions { resolve: vec!["a".into()], ..plain.clone() },
            ),
        ] {
            assert_eq!(expected, refused(&options));
        }
    }

    #[test]
    fn only_addresses_that_the_options_allow_remain() {
        let (four, six): (SocketAddr, SocketAddr) =
            ("192.0.2.1:80".parse().expect("one"), "[2001:db8::1]:80".parse().expect("one"));
        let plain = RequestOptions::default();
        let from_four = RequestOptions { local_addresses: vec!["127.0.0.1".parse().expect("one")], ..plain.clone() };
        let (only_four, only_six) =
            (RequestOptions { ipv4: true, ..plain.clone() }, RequestOptions { ipv6: true, ..plain.clone() });
        let allowed = |options: &RequestOptions, addresses: &[SocketAddr]| {
            let transport = TransportConfigs::default().get(options).expect("it can be");
            transport.reachable(addresses.to_vec()).map_err(|failure| failure.to_string())
        };
        for (expected, options, addresses) in [
            (Ok(vec![six, four]), &plain, &[six, four][..]),
            (Ok(vec![four]), &only_four, &[six, four]),
            (Ok(vec![six]), &only_six, &[six, four]),
            (Ok(vec![four]), &from_four, &[six, four]),
            (Err("dns: the host has no IPv4 address".into()), &only_four, &[six]),
            (Err("dns: the host has no IPv6 address".into()), &only_six, &[four]),
            (
                Err("connect: none of the local addresses is of the same family as those of the host".into()),
                &from_four,
                &[six],
            ),
        ] {
            assert_eq!(expected, allowed(options, addresses), "{options:?}");
        }
    }
}
