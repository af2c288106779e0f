//! The local end of connections: local addresses, used in turn, and a network interface.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};

use headgate_core::error::JobError;
use headgate_core::message;
use headgate_core::message::OptionName;
use headgate_core::options::RequestOptions;
#[cfg(target_os = "linux")]
use nix::sys::socket::{setsockopt, sockopt};
#[cfg(target_os = "linux")]
use socket2::SockRef;
use tokio::net::{TcpSocket, TcpStream};

use crate::dial::policy::Guard;
use crate::dial::race::DialError;

/// The bound of bytes that the kernel buffers beyond what it can send now.
#[cfg(target_os = "linux")]
const MAX_UNSENT_BYTES: u32 = 128 * 1024;

#[derive(Debug, Default)]
pub(super) struct LocalAddresses {
    addresses: Vec<IpAddr>,
    interface: Option<String>,
    next_index: AtomicUsize,
}

impl PartialEq for LocalAddresses {
    fn eq(&self, other: &Self) -> bool {
        self.addresses == other.addresses && self.interface == other.interface
    }
}

impl LocalAddresses {
    /// # Errors
    /// `Usage`: this machine has no such address or interface.
    pub(super) fn new(options: &RequestOptions) -> Result<Self, JobError> {
        for address in &options.local_addresses {
            UdpSocket::bind((*address, 0)).map_err(|error| {
                let why = match error.kind() {
                    io::ErrorKind::AddrNotAvailable => "this machine has no such address".to_owned(),
                    _ => error.to_string(),
                };
                JobError::usage(message!(OptionName::LocalAddress.set(&*address.to_string()), ": {why}"))
            })?;
        }
        if let Some(name) = &options.interface {
            if name.parse::<IpAddr>().is_ok() {
                let option = OptionName::Interface.set(&**name);
                return Err(JobError::usage(message!(
                    option,
                    ": is an address: give it as ",
                    OptionName::LocalAddress
                )));
            }
            let bound = TcpSocket::new_v4().and_then(|socket| bind_to_interface(&socket, name));
            bound.map_err(|error| {
                let why = match error.kind() {
                    _ if error.raw_os_error() == Some(nix::Error::ENODEV as i32) => {
                        "this machine has no such network interface".to_owned()
                    }
                    io::ErrorKind::PermissionDenied => "only root may choose it on this machine".to_owned(),
                    _ => error.to_string(),
                };
                JobError::usage(message!(OptionName::Interface.set(&**name), ": {why}"))
            })?;
        }
        let (addresses, interface) = (options.local_addresses.clone(), options.interface.clone());
        Ok(Self { addresses, interface, next_index: AtomicUsize::new(0) })
    }

    /// Returns whether the local addresses allow connections to the family of `to`.
    pub(super) fn has_family_of(&self, to: &SocketAddr) -> bool {
        self.addresses.is_empty() || self.addresses.iter().any(|from| from.is_ipv4() == to.is_ipv4())
    }

    /// Returns the next local address of the family of `to`.
    fn take_next(&self, to: &SocketAddr) -> Option<IpAddr> {
        let count = self.addresses.iter().filter(|from| from.is_ipv4() == to.is_ipv4()).count();
        let next_index = self.next_index.fetch_add(1, Ordering::Relaxed) % count.max(1);
        self.addresses.iter().filter(|from| from.is_ipv4() == to.is_ipv4()).nth(next_index).copied()
    }

    /// Opens a TCP connection. All connections of requests are opened here, so that the guard checks each address.
    ///
    /// # Errors
    /// The error of the connection, or the objection of the guard.
    pub(super) async fn connect(&self, to: SocketAddr, guard: Guard<'_>) -> Result<TcpStream, DialError> {
        if let Some(objection) = guard.objection(to) {
            return Err(DialError::Final(objection));
        }
        self.open(to).await.map_err(DialError::Tcp)
    }

    async fn open(&self, to: SocketAddr) -> io::Result<TcpStream> {
        let stream = if self.addresses.is_empty() && self.interface.is_none() {
            TcpStream::connect(to).await?
        } else {
            self.socket(&to)?.connect(to).await?
        };
        // A request is one write; waiting to gather more of it (Nagle) would only add to the latency.
        stream.set_nodelay(true)?;
        // The progress of a large request is measured by what the kernel accepts: megabytes in its buffer would look sent.
        // If the option can't be set, timeouts are less exact.
        #[cfg(target_os = "linux")]
        let _ = SockRef::from(&stream).set_tcp_notsent_lowat(MAX_UNSENT_BYTES);
        Ok(stream)
    }

    fn socket(&self, to: &SocketAddr) -> io::Result<TcpSocket> {
        let socket = if to.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        if let Some(name) = &self.interface {
            bind_to_interface(&socket, name)?;
        }
        if let Some(from) = self.take_next(to) {
            // Without it, the kernel chooses the port before it knows the destination. A local address then has its 28,000
            // ports for all hosts together, and not for each host.
            #[cfg(target_os = "linux")]
            setsockopt(&socket, sockopt::IpBindAddressNoPort, &true)?;
            socket.bind(SocketAddr::new(from, 0))?;
        }
        Ok(socket)
    }
}

#[cfg(target_os = "linux")]
fn bind_to_interface(socket: &TcpSocket, name: &str) -> io::Result<()> {
    socket.bind_device(Some(name.as_bytes()))
}

#[cfg(not(target_os = "linux"))]
fn bind_to_interface(_: &TcpSocket, _: &str) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "it can be chosen on Linux only"))
}

#[cfg(test)]
mod tests {
    use headgate_core::error::ErrorKind;
    use headgate_core::network_options::{NetworkOptions, NetworkPolicy};

    use super::*;
    use crate::dial::policy::Policy;

    #[test]
    fn local_addresses_are_used_in_turn_and_not_for_the_other_family() {
        let of = |texts: &[&str]| LocalAddresses {
            addresses: texts.iter().map(|text| text.parse().expect("an address")).collect(),
            ..LocalAddresses::default()
        };
        let (four, six): (SocketAddr, SocketAddr) =
            ("192.0.2.1:80".parse().expect("one"), "[2001:db8::1]:80".parse().expect("one"));
        let both = of(&["127.0.0.2", "::1", "127.0.0.3"]);
        let taken: Vec<_> = (0..3).filter_map(|_| both.take_next(&four)).map(|from| from.to_string()).collect();
        assert_eq!(["127.0.0.2", "127.0.0.3", "127.0.0.2"], *taken);
        assert_eq!(Some("::1".parse().expect("one")), both.take_next(&six));
        assert_eq!((true, true), (both.has_family_of(&four), both.has_family_of(&six)));
        let only_four = of(&["127.0.0.2"]);
        assert_eq!(
            (true, false, None),
            (only_four.has_family_of(&four), only_four.has_family_of(&six), only_four.take_next(&six))
        );
        let none = of(&[]);
        assert_eq!((true, true, None), (none.has_family_of(&four), none.has_family_of(&six), none.take_next(&four)));
    }

    #[tokio::test]
    async fn a_port_is_bound_for_one_connection_and_not_for_the_address() {
        let addresses = vec!["127.0.0.2".parse().expect("one")];
        let local = LocalAddresses { addresses, ..LocalAddresses::default() };
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let to = listener.local_addr().expect("a bound address");
        let before = local.socket(&to).expect("a socket").local_addr().expect("it is bound");
        assert_eq!("127.0.0.2:0", before.to_string());
        let connected =
            local.connect(to, Guard::Proxy).await.expect("it listens").local_addr().expect("it is connected");
        assert_eq!("127.0.0.2", connected.ip().to_string());
        assert_ne!(0, connected.port());
    }

    #[test]
    fn a_missing_address_or_interface_is_refused_before_the_run() {
        let refused = |options: RequestOptions| LocalAddresses::new(&options).expect_err("it is not there").to_string();
        let elsewhere = vec!["192.0.2.1".parse().expect("an address")];
        let options = RequestOptions { local_addresses: elsewhere, ..RequestOptions::default() };
        assert_eq!("local_address=192.0.2.1: this machine has no such address", refused(options));
        let options = RequestOptions { interface: Some("no-such-dev".into()), ..RequestOptions::default() };
        assert_eq!("interface=no-such-dev: this machine has no such network interface", refused(options));
        let options = RequestOptions { interface: Some("127.0.0.1".into()), ..RequestOptions::default() };
        assert_eq!("interface=127.0.0.1: is an address: give it as local_address", refused(options));
    }

    #[tokio::test]
    async fn a_refused_address_gets_no_connection() {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        listener.set_nonblocking(true).expect("a socket");
        let to = listener.local_addr().expect("a bound address");
        let network = NetworkOptions { network: NetworkPolicy::Public, ..NetworkOptions::default() };
        let policy = Policy::new(&RequestOptions { network, ..RequestOptions::default() });
        let guard = Guard::Host { policy: &policy, from_outside: false };
        let refused = LocalAddresses::default().connect(to, guard).await.expect_err("it is no public address");
        assert!(matches!(refused, DialError::Final(failure) if failure.kind == ErrorKind::BlockedByNetworkPolicy));
        assert_eq!(io::ErrorKind::WouldBlock, listener.accept().expect_err("there is no connection").kind());
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_kernel_buffers_few_unsent_bytes() {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let stream = LocalAddresses::default().open(listener.local_addr().expect("bound")).await.expect("it listens");
        assert_eq!(MAX_UNSENT_BYTES, SockRef::from(&stream).tcp_notsent_lowat().expect("an option"));
    }
}
