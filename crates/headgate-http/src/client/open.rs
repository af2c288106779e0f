//! How a lane comes by a connection, or by a stream on one that speaks HTTP/2.

use std::rc::Rc;
use std::time::{Duration, Instant};

use headgate_core::call::CallStage;
use headgate_core::clock;
use headgate_core::error::{ErrorKind, Failure};
use headgate_core::host_connections::HostPermit;
use headgate_core::message::OptionName;
use headgate_core::schedule::hosts::Speaks;
use headgate_core::timer::timeout_at;

use crate::client::{AttemptLimits, Client, LaneState, Opening};
use crate::dial::connect::{ConnectBy, Connection, timed_out};
use crate::h2::connection::{Http2Connection, Http2Driver, Http2Options};
use crate::h2::streams::{Connecting, Granted};
use crate::open::OpenPermit;
use crate::pool::{Pool, Route};
use crate::site::Site;

/// How long a lane waits for a connection that is being made, and shows which HTTP the host speaks, before it makes another.
const FIRST_CONTACT: Duration = Duration::from_secs(1);

/// The memory of an idle HTTP/2 connection beside its stream, as measured: the state of the crate `h2` and its buffers.
const HTTP2_IDLE_BYTES: usize = 28 * 1024;

impl Client {
    /// Gives the lane a new connection to a site, or a stream on one that speaks HTTP/2. It gets neither if another lane took
    /// the stream or the route has changed: then the caller looks at the route again.
    ///
    /// # Errors
    /// `dns`, `connect`, `connect_timeout`, `tls`, `proxy`, `blocked_by_network_policy`.
    ///
    /// Cancelling it aborts the connection.
    pub async fn open(
        &self,
        site: &Site,
        limits: &AttemptLimits,
        opening: Opening<'_>,
        lane: &mut LaneState,
    ) -> Result<(), Failure> {
        loop {
            let begun = clock::now();
            (lane.held, lane.stream) = (None, None);
            let opened = if matches!(site.route.speaks(), Some(Speaks::Http1 | Speaks::OnlyHttp1)) {
                self.connect(site, limits, opening, lane, None).await
            } else {
                Box::pin(self.obtain(site, limits, opening, lane)).await
            };
            match opened {
                // It came to nothing because nothing ran: a limit of time passed unseen, or the server gave the connection up.
                Err(failure)
                    if !failure.is_lasting
                        && lane.deadline.has_stalled_since(begun, clock::now())
                        && !lane.deadline.has_passed(clock::now()) => {}
                opened => return opened,
            }
        }
    }

    /// Opens a connection as [`Client::open`] does, to a host that speaks HTTP/2, or may speak it.
    async fn obtain(
        &self,
        site: &Site,
        limits: &AttemptLimits,
        opening: Opening<'_>,
        lane: &mut LaneState,
    ) -> Result<(), Failure> {
        let route = &site.route;
        let streams = &route.streams;
        let begun = clock::now();
        let mut waiting = None;
        loop {
            if let Some(stream) = streams.try_open()
                && let Err(failure) = lane.hold(stream)
            {
                if let Some(receiver) = waiting {
                    streams.cancel_wait(receiver);
                }
                return Err(failure);
            }
            let speaks_http2 = route.speaks().map(|speaks| speaks == Speaks::Http2);
            if lane.stream.is_some() || speaks_http2 == Some(false) {
                break;
            }
            let is_needed = streams.needs_connection(waiting.is_some(), speaks_http2)
                || speaks_http2.is_none() && clock::elapsed(begun) >= FIRST_CONTACT;
            if is_needed && self.pool.borrow().has_capacity() {
                if let Some(receiver) = waiting.take() {
                    streams.cancel_wait(receiver);
                }
                return self.connect(site, limits, opening, lane, Some(streams.connect())).await;
            }
            (opening.record)(CallStage::Stream);
            let receiver = waiting.get_or_insert_with(|| streams.wait(lane.resends.turn()));
            // Now and then: what else there is may have changed without a word.
            let until = (clock::now() + FIRST_CONTACT).min(lane.deadline.at());
            let since = clock::now();
            let granted = timeout_at(until, receiver).await;
            lane.waited_for_stream += clock::elapsed(since);
            match granted {
                Ok(Ok(Granted::Stream(stream))) => return lane.hold(stream),
                Ok(Ok(Granted::Recheck) | Err(_)) => waiting = None,
                Ok(Ok(Granted::Failed(failure))) => return Err(failure),
                Err(_) if lane.deadline.has_passed(clock::now()) => {
                    let message = "no stream of an HTTP/2 connection was free in time";
                    let by = ConnectBy { time: lane.deadline.at(), option: attempt_timeout(lane) };
                    return Err(timed_out(message, by).of_ours());
                }
                Err(_) => {}
            }
        }
        if let Some(receiver) = waiting {
            streams.cancel_wait(receiver);
        }
        Ok(())
    }

    /// Makes a connection; `connecting`: other lanes may wait for it.
    async fn connect(
        &self,
        site: &Site,
        limits: &AttemptLimits,
        opening: Opening<'_>,
        lane: &mut LaneState,
        connecting: Option<Connecting>,
    ) -> Result<(), Failure> {
        let route = &site.route;
        let connect_by = clock::now() + opening.timeout;
        let by = if connect_by < lane.deadline.at() {
            ConnectBy { time: connect_by, option: OptionName::ConnectTimeout }
        } else {
            ConnectBy { time: lane.deadline.at(), option: attempt_timeout(lane) }
        };
        let max_of_host = if route.is_http2() { usize::MAX } else { limits.max_connections_to(&site.limit_key) };
        let of_host = if let Some(of_host) = route.host.connections.try_open(max_of_host) {
            of_host
        } else {
            (opening.record)(CallStage::HostConnection);
            Box::pin(self.wait_for_another(site, limits, by)).await?
        };
        let permit = self.pool.borrow_mut().permit();
        permit.set_of_host(Some(of_host));
        (opening.record)(CallStage::Dns);
        let begun = clock::now();
        let found = self.connector.find(&route.key, lane.from_outside, by.time).await;
        let found_at = clock::now();
        (opening.record)(CallStage::Connecting);
        lane.waited_for_dns += found_at.saturating_duration_since(begun);
        let connected = match found {
            // Boxed: connecting needs far more memory than an exchange, and lanes rarely do it.
            Ok(found) => Box::pin(self.connector.connect(&route.key, &route.host, found, by)).await,
            // As for connecting, the total timeout is the cause, and not the host.
            Err(failure) if failure.kind == ErrorKind::Dns && is_total_timeout(by, found_at) => {
                Err(timed_out("the hostname was not resolved before the total timeout passed", by))
            }
            Err(failure) => Err(failure),
        };
        lane.connected.connections += u64::from(connected.is_ok());
        lane.connected.time += clock::elapsed(found_at);
        let made = match connected {
            Ok(connection) if connection.is_http2 => {
                Box::pin(self.begin_http2(route, limits, (connection, permit), by)).await
            }
            Ok(connection) => {
                if route.speaks() != Some(Speaks::OnlyHttp1) && (route.key.origin.https || route.is_http2()) {
                    route.record_version(Speaks::Http1);
                }
                lane.held = Some(Pool::lease(route.clone(), connection, permit));
                if let Some(connecting) = connecting {
                    connecting.fall_back_to_http1();
                }
                return Ok(());
            }
            Err(failure) => Err(failure),
        };
        match made {
            Ok((connection, driver)) => {
                route.record_version(Speaks::Http2);
                self.pool.borrow_mut().add_http2(connection.clone());
                let connecting = connecting.unwrap_or_else(|| route.streams.connect());
                lane.stream = connecting.finish(&connection, driver, lane.resends.turn());
                Ok(())
            }
            Err(failure) => {
                // Other requests may connect where this redirect may not.
                let is_of_all = !(lane.from_outside && failure.kind == ErrorKind::BlockedByNetworkPolicy);
                if let Some(connecting) = connecting.filter(|_| is_of_all) {
                    connecting.fail(&failure);
                }
                Err(failure)
            }
        }
    }

    /// Waits until the host may have another connection, also because the limit is raised meanwhile.
    async fn wait_for_another(
        &self,
        site: &Site,
        limits: &AttemptLimits,
        by: ConnectBy,
    ) -> Result<HostPermit, Failure> {
        let mut live = limits.live.clone();
        let opened = async {
            loop {
                live.mark_unchanged();
                let max = limits.max_connections_to(&site.limit_key);
                let permit = site.route.host.connections.open(max, || self.recalls.recall(&site.route.key));
                tokio::select! {
                    permit = permit => return permit,
                    Ok(()) = live.changed() => {}
                }
            }
        };
        timeout_at(by.time, opened).await.map_err(|_| {
            let message = "no other connection to the host was closed in time";
            timed_out(message, by).of_ours()
        })
    }

    async fn begin_http2(
        &self,
        route: &Route,
        limits: &AttemptLimits,
        (connection, permit): (Connection, OpenPermit),
        by: ConnectBy,
    ) -> Result<(Rc<Http2Connection>, Http2Driver), Failure> {
        permit.set_of_host(None);
        permit.set_bytes(HTTP2_IDLE_BYTES + connection.stream.held_bytes());
        let options =
            Http2Options { max_streams: route.key.transport.http2_streams(), window_bytes: limits.window_bytes };
        let begun = timeout_at(by.time, Http2Connection::begin(connection, options, permit)).await;
        begun.unwrap_or_else(|_| {
            let message = "the HTTP/2 connection did not begin in time";
            Err(timed_out(message, by))
        })
    }
}

fn is_total_timeout(by: ConnectBy, now: Instant) -> bool {
    by.option == OptionName::TotalTimeout && now >= by.time
}

/// Returns the option that limits the attempt: its own timeout, or the total timeout of the row.
fn attempt_timeout(lane: &LaneState) -> OptionName {
    match lane.deadline.due().option {
        OptionName::TotalTimeout => OptionName::TotalTimeout,
        _ => OptionName::Timeout,
    }
}
