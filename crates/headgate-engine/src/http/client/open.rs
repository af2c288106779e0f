//! How a lane comes by a connection, or by a stream on one that speaks HTTP/2.

use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::time::timeout_at;

use crate::http::client::{AttemptLimits, Client, LaneState};
use crate::http::dial::connect::{ConnectBy, Connection};
use crate::http::h2::connection::{Connection as Http2Connection, Driver, Terms};
use crate::http::h2::streams::{Connecting, Granted};
use crate::http::open::OpenPermit;
use crate::http::pool::{Pool, Route};
use crate::model::error::{ErrorKind, Failure};
use crate::model::message::OptionName;
use crate::schedule::hosts::Speaks;

/// How long who finds a connection being made waits to be told which HTTP the host speaks, before making another.
const FIRST_CONTACT: Duration = Duration::from_secs(1);

impl Client {
    /// Has the lane hold a new connection of this route, or a stream on one that speaks HTTP/2; or neither, where
    /// somebody else has its stream or the route has changed: then it is to be looked at again.
    ///
    /// # Errors
    /// `resolve`, `connect`, `connect_timeout`, `tls`, `proxy`.
    ///
    /// Cancelling it gives up the connection.
    pub async fn open(&self, route: &Rc<Route>, limits: &AttemptLimits, lane: &mut LaneState) -> Result<(), Failure> {
        lane.held = None;
        lane.stream = None;
        if matches!(route.speaks(), Some(Speaks::Http1 | Speaks::OnlyHttp1)) {
            return self.connect(route, limits, lane, None).await;
        }
        Box::pin(self.obtain(route, limits, lane)).await
    }

    /// As [`Client::open`], where HTTP/2 is spoken, or may be.
    async fn obtain(&self, route: &Rc<Route>, limits: &AttemptLimits, lane: &mut LaneState) -> Result<(), Failure> {
        let streams = &route.streams;
        let begun = Instant::now();
        let mut waiting = None;
        loop {
            lane.stream = streams.take();
            let speaks_http2 = route.speaks().map(|speaks| speaks == Speaks::Http2);
            if lane.stream.is_some() || speaks_http2 == Some(false) {
                break;
            }
            let is_needed = streams.another_is_needed(waiting.is_some(), speaks_http2)
                || speaks_http2.is_none() && begun.elapsed() >= FIRST_CONTACT;
            if is_needed && self.pool.borrow().has_room() {
                if let Some(receiver) = waiting.take() {
                    streams.stop_waiting(receiver);
                }
                return self.connect(route, limits, lane, Some(streams.connect())).await;
            }
            let receiver = waiting.get_or_insert_with(|| streams.wait(lane.again.turn()));
            // Now and then: what else there is may have changed without a word.
            let until = (Instant::now() + FIRST_CONTACT).min(lane.deadline.at());
            let since = Instant::now();
            let granted = timeout_at(until.into(), receiver).await;
            lane.waited_for_stream += since.elapsed();
            match granted {
                Ok(Ok(Granted::Stream(stream))) => {
                    lane.stream = Some(stream);
                    return Ok(());
                }
                Ok(Ok(Granted::LookAgain) | Err(_)) => waiting = None,
                Ok(Ok(Granted::Failed(failure))) => return Err(failure),
                Err(_) if lane.deadline.at() <= Instant::now() => {
                    let message = "no stream of an HTTP/2 connection was free in time";
                    return Err(Failure::new(ErrorKind::ConnectTimeout, message).with_option(OptionName::TimeoutS));
                }
                Err(_) => {}
            }
        }
        if let Some(receiver) = waiting {
            streams.stop_waiting(receiver);
        }
        Ok(())
    }

    /// Makes a connection; `connecting`: others may wait for what comes of it.
    async fn connect(
        &self,
        route: &Rc<Route>,
        limits: &AttemptLimits,
        lane: &mut LaneState,
        connecting: Option<Connecting>,
    ) -> Result<(), Failure> {
        let permit = self.pool.borrow_mut().make_room();
        let connect_by = Instant::now() + limits.connect_timeout;
        let by = if connect_by < lane.deadline.at() {
            ConnectBy { time: connect_by, option: OptionName::ConnectTimeoutS }
        } else {
            ConnectBy { time: lane.deadline.at(), option: OptionName::TimeoutS }
        };
        let begun = Instant::now();
        let found = self.connector.find(&route.key, by.time).await;
        lane.waited_for_names += begun.elapsed();
        let connected = match found {
            // Boxed: connecting needs far more room than an exchange, and lanes rarely do it.
            Ok(found) => Box::pin(self.connector.connect(&route.key, &route.host, found, by)).await,
            Err(failure) => Err(failure),
        };
        let made = match connected {
            Ok(connection) if connection.is_http2 => {
                Box::pin(self.begin_http2(route, limits, (connection, permit), by)).await
            }
            Ok(connection) => {
                if route.speaks() != Some(Speaks::OnlyHttp1) && (route.key.origin.https || route.is_http2()) {
                    route.learn(Speaks::Http1);
                }
                lane.held = Some(Pool::lease(route.clone(), connection, permit));
                if let Some(connecting) = connecting {
                    connecting.speaks_http1();
                }
                return Ok(());
            }
            Err(failure) => Err(failure),
        };
        match made {
            Ok((connection, driver)) => {
                route.learn(Speaks::Http2);
                self.pool.borrow_mut().watch(connection.clone());
                let connecting = connecting.unwrap_or_else(|| route.streams.connect());
                lane.stream = connecting.made(&connection, driver, lane.again.turn());
                Ok(())
            }
            Err(failure) => {
                if let Some(connecting) = connecting {
                    connecting.failed(&failure);
                }
                Err(failure)
            }
        }
    }

    async fn begin_http2(
        &self,
        route: &Route,
        limits: &AttemptLimits,
        (connection, permit): (Connection, OpenPermit),
        by: ConnectBy,
    ) -> Result<(Rc<Http2Connection>, Driver), Failure> {
        let terms = Terms { max_streams: route.key.way.http2_streams(), window_bytes: limits.window_bytes };
        let begun = timeout_at(by.time.into(), Http2Connection::begin(connection, terms, permit)).await;
        begun.unwrap_or_else(|_| {
            let message = "the HTTP/2 connection did not begin in time";
            Err(Failure::new(ErrorKind::ConnectTimeout, message).with_option(by.option))
        })
    }
}
