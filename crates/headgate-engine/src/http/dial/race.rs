//! Which of a host's addresses is connected to: Happy Eyeballs (RFC 8305), over TCP and TLS.
//!
//! An address that refuses gives way to the next at once, and one that says nothing has the next tried beside it after a
//! while. It counts as connected when its TLS handshake is done: a server whose port is open, and that hangs behind it, is
//! no better than one that can't be reached. What a server says against us in the handshake is final: its other addresses
//! lead to the same certificate.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::model::error::Failure;

/// How long one address may take before the next is tried beside it (RFC 8305 section 5).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// The same where it has a TCP connection and TLS is under way: a host that is merely busy is not asked twice as often
/// for it. The longest that RFC 8305 section 8 recommends.
const HANDSHAKE_DELAY: Duration = Duration::from_secs(2);

/// Why an address could not be connected to.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) address: SocketAddr,
    pub(super) why: Refusal,
}

#[derive(Debug)]
pub(super) enum Refusal {
    /// There is no TCP connection.
    Tcp(io::Error),
    /// The connection ended in the handshake.
    Handshake(Failure),
    /// TLS can't be, or the network policy objects: no other address is tried.
    Final(Failure),
}

/// How far an attempt has come.
#[derive(Debug)]
pub(super) struct Progress<'a> {
    /// Until then no other address is tried.
    alone_until: Cell<Instant>,
    has_tcp: &'a Cell<bool>,
}

impl Progress<'_> {
    /// There is a TCP connection, and a handshake begins.
    pub(super) fn connected(&self) {
        self.alone_until.set(Instant::now() + HANDSHAKE_DELAY);
        self.has_tcp.set(true);
    }
}

/// The first connection that stands, of those that `attempt` makes; `has_tcp` tells whether any address had a TCP
/// connection.
///
/// # Errors
/// Why each address failed that was tried; none where there are no addresses.
pub(super) async fn first<T>(
    addresses: &[SocketAddr],
    has_tcp: &Cell<bool>,
    attempt: &impl AsyncFn(SocketAddr, &Progress<'_>) -> Result<T, Refusal>,
) -> Result<(T, SocketAddr), Vec<Refused>> {
    let Some((address, rest)) = addresses.split_first() else { return Err(Vec::new()) };
    let progress = Progress { alone_until: Cell::new(Instant::now() + ATTEMPT_DELAY), has_tcp };
    let one = async {
        let made = attempt(*address, &progress).await;
        made.map(|made| (made, *address)).map_err(|why| Refused { address: *address, why })
    };
    let mut one = std::pin::pin!(one);
    if rest.is_empty() {
        return one.await.map_err(|refused| vec![refused]);
    }
    let later = || Box::pin(first(rest, has_tcp, attempt));
    let ended = loop {
        let until = progress.alone_until.get();
        match timeout_at(until, &mut one).await {
            Ok(ended) => break Some(ended),
            Err(_) if progress.alone_until.get() > until => {}
            Err(_) => break None,
        }
    };
    match ended {
        Some(Err(refused)) if !refused.is_final() => later().await.map_err(|others| both(refused, others)),
        Some(ended) => ended.map_err(|refused| vec![refused]),
        None => {
            let mut later = later();
            tokio::select! {
                ended = &mut one => match ended {
                    Err(refused) if !refused.is_final() => later.await.map_err(|others| both(refused, others)),
                    ended => ended.map_err(|refused| vec![refused]),
                },
                ended = &mut later => match ended {
                    Err(others) if !others.iter().any(Refused::is_final) => {
                        one.await.map_err(|refused| both(refused, others))
                    }
                    ended => ended,
                },
            }
        }
    }
}

fn both(refused: Refused, mut others: Vec<Refused>) -> Vec<Refused> {
    others.push(refused);
    others
}

impl Refused {
    fn is_final(&self) -> bool {
        matches!(self.why, Refusal::Final(_))
    }
}

/// The families in turn, beginning with the one that the resolver prefers (RFC 8305 section 4).
pub(super) fn interleaved(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let Some(first) = addresses.first().map(SocketAddr::is_ipv6).filter(|_| addresses.len() > 1) else {
        return addresses;
    };
    let (preferred, other): (Vec<_>, Vec<_>) = addresses.into_iter().partition(|address| address.is_ipv6() == first);
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

    use tokio::time::sleep;

    use super::*;
    use crate::model::error::ErrorKind;

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
            assert_eq!(expected, interleaved(addresses));
        }
    }

    /// What an address does, by its port.
    const REFUSES: u16 = 1;
    const HANGS: u16 = 2;
    const HANGS_IN_TLS: u16 = 3;
    const RESETS_IN_TLS: u16 = 4;
    const IS_NOT_TRUSTED: u16 = 5;
    const CONNECTS: u16 = 6;
    const CONNECTS_IN_A_SECOND: u16 = 7;

    async fn behave(address: SocketAddr, progress: &Progress<'_>) -> Result<(), Refusal> {
        let tls = || Failure::new(ErrorKind::Tls, "no");
        match address.port() {
            REFUSES => return Err(Refusal::Tcp(io::ErrorKind::ConnectionRefused.into())),
            HANGS => pending().await,
            _ => progress.connected(),
        }
        match address.port() {
            HANGS_IN_TLS => pending().await,
            RESETS_IN_TLS => Err(Refusal::Handshake(tls())),
            IS_NOT_TRUSTED => Err(Refusal::Final(tls())),
            CONNECTS_IN_A_SECOND => {
                sleep(Duration::from_secs(1)).await;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The port that was connected to, or those that refused; and which were tried, and when.
    async fn race(ports: &[u16]) -> (Result<u16, Vec<u16>>, Vec<(u16, u128)>) {
        let addresses: Vec<_> = ports.iter().map(|port| SocketAddr::new([127, 0, 0, 1].into(), *port)).collect();
        let (tried, begun) = (RefCell::default(), Instant::now());
        let attempt = async |address: SocketAddr, progress: &Progress<'_>| {
            RefCell::<Vec<_>>::borrow_mut(&tried).push((address.port(), begun.elapsed().as_millis()));
            behave(address, progress).await
        };
        let ended = first(&addresses, &Cell::new(false), &attempt).await;
        let ended = ended.map(|((), address)| address.port());
        let ended = ended.map_err(|refused| refused.iter().map(|refused| refused.address.port()).collect());
        (ended, tried.into_inner())
    }

    #[tokio::test]
    async fn an_address_that_refuses_gives_way_to_the_next_and_a_verdict_of_tls_to_none() {
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
    async fn an_address_that_hangs_has_the_next_tried_beside_it_sooner_before_its_connection_than_in_its_handshake() {
        for (expected, tried, ports) in [
            (CONNECTS, &[(HANGS, 0), (CONNECTS, 250)][..], &[HANGS, CONNECTS][..]),
            (CONNECTS, &[(HANGS, 0), (HANGS, 250), (CONNECTS, 500)], &[HANGS, HANGS, CONNECTS]),
            (CONNECTS, &[(HANGS_IN_TLS, 0), (CONNECTS, 2000)], &[HANGS_IN_TLS, CONNECTS]),
            (CONNECTS, &[(HANGS, 0), (REFUSES, 250), (CONNECTS, 250)], &[HANGS, REFUSES, CONNECTS]),
            // Who is merely slow is not asked twice.
            (CONNECTS_IN_A_SECOND, &[(CONNECTS_IN_A_SECOND, 0)], &[CONNECTS_IN_A_SECOND, CONNECTS]),
            (CONNECTS_IN_A_SECOND, &[(HANGS, 0), (CONNECTS_IN_A_SECOND, 250)], &[HANGS, CONNECTS_IN_A_SECOND]),
        ] {
            let in_ms = tried.iter().map(|(port, time)| (*port, *time)).collect();
            assert_eq!((Ok(expected), in_ms), race(ports).await, "{ports:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_verdict_of_tls_ends_the_wait_for_an_address_that_hangs() {
        assert_eq!(Err(vec![IS_NOT_TRUSTED]), race(&[HANGS, IS_NOT_TRUSTED]).await.0);
    }
}
