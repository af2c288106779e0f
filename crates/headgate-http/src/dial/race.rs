//! Chooses the address of a host to connect to: Happy Eyeballs (RFC 8305), over TCP and TLS.
//!
//! After an address has refused, the next is tried at once; while one hangs, the next is tried beside it after a delay. An
//! address counts as connected when its TLS handshake is done: a server that accepts TCP and then hangs is no better than an
//! unreachable one. A TLS error of the handshake is final: the other addresses have the same certificate.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use headgate_core::error::Failure;
use tokio::time::{Instant, timeout_at};

/// The delay before the next address is tried beside one that has not connected (RFC 8305 section 5).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// The delay after a TCP connection, during the TLS handshake: it spares a busy host a second handshake. It is the longest that
/// RFC 8305 section 8 recommends.
const HANDSHAKE_DELAY: Duration = Duration::from_secs(2);

/// An address without a connection, and why.
#[derive(Debug)]
pub(super) struct FailedAddress {
    pub(super) address: SocketAddr,
    pub(super) error: DialError,
}

#[derive(Debug)]
pub(super) enum DialError {
    /// There is no TCP connection.
    Tcp(io::Error),
    /// The connection ended in the handshake.
    Handshake(Failure),
    /// TLS failed, or the network policy refuses the address: no other address is tried.
    Final(Failure),
}

/// The progress of one attempt to connect.
#[derive(Debug)]
pub(super) struct AttemptProgress<'a> {
    /// When the next address is tried.
    next_attempt_at: Cell<Instant>,
    has_tcp: &'a Cell<bool>,
}

impl AttemptProgress<'_> {
    /// Records that TCP is connected and the handshake begins.
    pub(super) fn connected(&self) {
        self.next_attempt_at.set(Instant::now() + HANDSHAKE_DELAY);
        self.has_tcp.set(true);
    }
}

/// Returns the first connection that `attempt` establishes. Sets `has_tcp` once any address has a TCP connection.
///
/// # Errors
/// The errors of all addresses that were tried; empty if there are no addresses.
pub(super) async fn connect_first<T>(
    addresses: &[SocketAddr],
    has_tcp: &Cell<bool>,
    attempt: &impl AsyncFn(SocketAddr, &AttemptProgress<'_>) -> Result<T, DialError>,
) -> Result<(T, SocketAddr), Vec<FailedAddress>> {
    let Some((address, rest)) = addresses.split_first() else { return Err(Vec::new()) };
    let progress = AttemptProgress { next_attempt_at: Cell::new(Instant::now() + ATTEMPT_DELAY), has_tcp };
    let first = async {
        let result = attempt(*address, &progress).await;
        result.map(|stream| (stream, *address)).map_err(|error| FailedAddress { address: *address, error })
    };
    let mut first = std::pin::pin!(first);
    if rest.is_empty() {
        return first.await.map_err(|failed| vec![failed]);
    }
    let connect_rest = || Box::pin(connect_first(rest, has_tcp, attempt));
    let result = loop {
        let until = progress.next_attempt_at.get();
        match timeout_at(until, &mut first).await {
            Ok(result) => break Some(result),
            Err(_) if progress.next_attempt_at.get() > until => {}
            Err(_) => break None,
        }
    };
    match result {
        Some(Err(failed)) if !failed.is_final() => connect_rest().await.map_err(|rest| with(rest, failed)),
        Some(result) => result.map_err(|failed| vec![failed]),
        None => {
            let mut rest = connect_rest();
            tokio::select! {
                result = &mut first => match result {
                    Err(failed) if !failed.is_final() => rest.await.map_err(|rest| with(rest, failed)),
                    result => result.map_err(|failed| vec![failed]),
                },
                result = &mut rest => match result {
                    Err(rest) if !rest.iter().any(FailedAddress::is_final) => {
                        first.await.map_err(|failed| with(rest, failed))
                    }
                    result => result,
                },
            }
        }
    }
}

fn with(mut rest: Vec<FailedAddress>, failed: FailedAddress) -> Vec<FailedAddress> {
    rest.push(failed);
    rest
}

impl FailedAddress {
    fn is_final(&self) -> bool {
        matches!(self.error, DialError::Final(_))
    }
}

/// Returns the addresses with their families in turn, the resolver's preferred one first (RFC 8305 section 4).
pub(super) fn interleave(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let Some(is_ipv6_first) = addresses.first().map(SocketAddr::is_ipv6).filter(|_| addresses.len() > 1) else {
        return addresses;
    };
    let (preferred, other): (Vec<_>, Vec<_>) =
        addresses.into_iter().partition(|address| address.is_ipv6() == is_ipv6_first);
    let mut other = other.into_iter();
    let mut mixed: Vec<SocketAddr> =
        preferred.into_iter().flat_map(|one| [Some(one), other.next()]).flatten().collect();
    mixed.extend(other);
    mixed
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::future::pending;

    use headgate_core::error::ErrorKind;
    use tokio::time::sleep;

    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn the_families_are_tried_in_turn_from_the_preferred_one_on() {
        let [six_1, six_2, six_3] = ["[::1]:1", "[::2]:1", "[::3]:1"].map(address);
        let [four_1, four_2] = ["1.1.1.1:1", "2.2.2.2:1"].map(address);
        for (expected, addresses) in [
            (vec![six_1, four_1, six_2, four_2, six_3], vec![six_1, six_2, six_3, four_1, four_2]),
            (vec![four_1, six_1, four_2, six_2], vec![four_1, four_2, six_1, six_2]),
            (vec![four_1], vec![four_1]),
            (vec![], vec![]),
        ] {
            assert_eq!(expected, interleave(addresses));
        }
    }

    /// The ports of addresses, each of which selects a behavior.
    const REFUSES: u16 = 1;
    const HANGS: u16 = 2;
    const HANGS_IN_TLS: u16 = 3;
    const RESETS_IN_TLS: u16 = 4;
    const IS_NOT_TRUSTED: u16 = 5;
    const CONNECTS: u16 = 6;
    const CONNECTS_IN_A_SECOND: u16 = 7;

    async fn behave(address: SocketAddr, progress: &AttemptProgress<'_>) -> Result<(), DialError> {
        let tls = || Failure::new(ErrorKind::Tls, "no");
        match address.port() {
            REFUSES => return Err(DialError::Tcp(io::ErrorKind::ConnectionRefused.into())),
            HANGS => pending().await,
            _ => progress.connected(),
        }
        match address.port() {
            HANGS_IN_TLS => pending().await,
            RESETS_IN_TLS => Err(DialError::Handshake(tls())),
            IS_NOT_TRUSTED => Err(DialError::Final(tls())),
            CONNECTS_IN_A_SECOND => {
                sleep(Duration::from_secs(1)).await;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Returns the connected port or the failed ones, and the ports that were tried, each with its time in milliseconds.
    async fn race(ports: &[u16]) -> (Result<u16, Vec<u16>>, Vec<(u16, u128)>) {
        let addresses: Vec<_> = ports.iter().map(|port| SocketAddr::new([127, 0, 0, 1].into(), *port)).collect();
        let (tried, begun) = (RefCell::default(), Instant::now());
        let attempt = async |address: SocketAddr, progress: &AttemptProgress<'_>| {
            RefCell::<Vec<_>>::borrow_mut(&tried).push((address.port(), begun.elapsed().as_millis()));
            behave(address, progress).await
        };
        let result = connect_first(&addresses, &Cell::new(false), &attempt).await;
        let result = result.map(|((), address)| address.port());
        let result = result.map_err(|failed| failed.iter().map(|failed| failed.address.port()).collect());
        (result, tried.into_inner())
    }

    #[tokio::test]
    async fn the_next_address_is_tried_after_a_refusal_but_not_after_a_tls_error() {
        for (expected, ports) in [
            (Ok(CONNECTS), &[REFUSES, CONNECTS][..]),
            (Ok(CONNECTS), &[REFUSES, REFUSES, CONNECTS]),
            (Ok(CONNECTS), &[CONNECTS, REFUSES]),
            (Ok(CONNECTS), &[RESETS_IN_TLS, CONNECTS]),
            (Err(vec![IS_NOT_TRUSTED]), &[IS_NOT_TRUSTED, CONNECTS]),
            (Err(vec![IS_NOT_TRUSTED, REFUSES]), &[REFUSES, IS_NOT_TRUSTED, CONNECTS]),
            (Err(vec![RESETS_IN_TLS, REFUSES]), &[REFUSES, RESETS_IN_TLS]),
            (Err(vec![]), &[]),
        ] {
            assert_eq!(expected, race(ports).await.0, "{ports:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_address_is_tried_beside_one_that_hangs_and_later_if_that_hangs_in_the_handshake() {
        for (expected, tried, ports) in [
            (CONNECTS, &[(HANGS, 0), (CONNECTS, 250)][..], &[HANGS, CONNECTS][..]),
            (CONNECTS, &[(HANGS, 0), (HANGS, 250), (CONNECTS, 500)], &[HANGS, HANGS, CONNECTS]),
            (CONNECTS, &[(HANGS_IN_TLS, 0), (CONNECTS, 2000)], &[HANGS_IN_TLS, CONNECTS]),
            (CONNECTS, &[(HANGS, 0), (REFUSES, 250), (CONNECTS, 250)], &[HANGS, REFUSES, CONNECTS]),
            // A server that is merely slow gets no second connection.
            (CONNECTS_IN_A_SECOND, &[(CONNECTS_IN_A_SECOND, 0)], &[CONNECTS_IN_A_SECOND, CONNECTS]),
            (CONNECTS_IN_A_SECOND, &[(HANGS, 0), (CONNECTS_IN_A_SECOND, 250)], &[HANGS, CONNECTS_IN_A_SECOND]),
        ] {
            let in_ms = tried.iter().map(|(port, time)| (*port, *time)).collect();
            assert_eq!((Ok(expected), in_ms), race(ports).await, "{ports:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_tls_error_ends_the_wait_for_an_address_that_hangs() {
        assert_eq!(Err(vec![IS_NOT_TRUSTED]), race(&[HANGS, IS_NOT_TRUSTED]).await.0);
    }
}
