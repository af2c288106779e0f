//! The HTTP/2 streams of one route: selects the connection of the next request, and decides when another one is needed.
//!
//! A request uses the connection on which a request has ended last, so that unneeded connections grow old and are closed. A
//! request that finds no free stream waits for one, or for a new connection. Requests that were refused before come first, and
//! then it is first come, first served. So a thousand lanes that start at once open no more connections than their requests
//! fill.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::{Rc, Weak};

use headgate_core::error::Failure;
use tokio::sync::oneshot;
use tokio::task::spawn_local;

use crate::h2::connection::{DriverEvent, Http2Connection, Http2Driver};
use crate::h2::resends::{ResendTurn, ResendTurns};

/// See the module documentation.
#[derive(Debug)]
pub struct Streams {
    /// Connections that had free streams, the one to use next last. Some may be closed or full by now.
    available: RefCell<Vec<Rc<Http2Connection>>>,
    /// Waiting requests, by turn.
    waiting: RefCell<VecDeque<(ResendTurn, oneshot::Sender<Granted>)>>,
    /// The number of connections that are being opened.
    connecting: Cell<usize>,
    /// The number of open connections whose SETTINGS have not come.
    awaiting_settings: Cell<usize>,
    /// The number of open connections.
    open: Cell<usize>,
    /// The number of concurrent requests that one more connection is expected to take.
    expected: Cell<usize>,
    /// The turns of refused requests.
    pub turns: ResendTurns,
}

/// A permit for one request over a connection. Dropping it passes it to the next waiting request.
#[derive(Debug)]
pub struct StreamPermit {
    streams: Rc<Streams>,
    pub connection: Rc<Http2Connection>,
}

/// The message that a waiting request receives.
#[derive(Debug)]
pub enum Granted {
    Stream(StreamPermit),
    /// The connections have changed: the caller tries once more, or opens a connection.
    Recheck,
    /// The connection that the request waited for could not be opened.
    Failed(Failure),
}

impl Streams {
    /// Creates the set of connections. `max_streams`: the most concurrent requests on one connection.
    pub fn new(max_streams: usize) -> Rc<Self> {
        Rc::new(Self {
            available: RefCell::default(),
            waiting: RefCell::default(),
            connecting: Cell::new(0),
            awaiting_settings: Cell::new(0),
            open: Cell::new(0),
            expected: Cell::new(max_streams),
            turns: ResendTurns::default(),
        })
    }

    /// Returns a free stream on an open connection.
    pub(crate) fn try_open(self: &Rc<Self>) -> Option<StreamPermit> {
        let mut available = self.available.borrow_mut();
        while let Some(connection) = available.last() {
            if connection.has_free_stream() {
                connection.add_stream();
                return Some(StreamPermit { streams: self.clone(), connection: connection.clone() });
            }
            connection.is_listed.set(false);
            available.pop();
        }
        None
    }

    /// Returns whether a request that found no free stream should open a connection. `waits`: the request is among the waiting
    /// ones; `speaks_http2`: `None` if it is not known: then one connection is enough to find out.
    pub(crate) fn needs_connection(&self, waits: bool, speaks_http2: Option<bool>) -> bool {
        let others = self.waiting.borrow().len() - usize::from(waits);
        match speaks_http2 {
            Some(true) => others >= self.expected_streams(),
            Some(false) => true,
            None => self.connecting.get() == 0,
        }
    }

    /// Returns how many streams are expected of connections that are not ready, beside those for the requests that open them.
    fn expected_streams(&self) -> usize {
        (self.connecting.get() + self.awaiting_settings.get()) * (self.expected.get() - 1)
    }

    /// Adds a waiting request, and returns the channel on which it receives a stream.
    pub fn wait(&self, turn: ResendTurn) -> oneshot::Receiver<Granted> {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.waiting.borrow_mut();
        let index = waiting.partition_point(|(other, _)| *other <= turn);
        waiting.insert(index, (turn, sender));
        receiver
    }

    /// Removes a waiting request.
    pub(crate) fn cancel_wait(&self, receiver: oneshot::Receiver<Granted>) {
        drop(receiver);
        self.waiting.borrow_mut().retain(|(_, waiting)| !waiting.is_closed());
    }

    /// Records that the caller opens a connection.
    pub fn connect(self: &Rc<Self>) -> Connecting {
        self.connecting.update(|connecting| connecting + 1);
        // If even more connections are needed, another waiting request opens the next one at the same time.
        self.request_connection();
        Connecting(self.clone())
    }

    /// Returns whether a stream belongs to this route.
    pub fn has(&self, stream: &StreamPermit) -> bool {
        std::ptr::eq(self, &raw const *stream.streams)
    }

    pub(crate) fn has_connections(&self) -> bool {
        self.open.get() > 0
    }

    fn pop_waiting(&self) -> Option<oneshot::Sender<Granted>> {
        let mut waiting = self.waiting.borrow_mut();
        while let Some((_, next)) = waiting.pop_front() {
            if !next.is_closed() {
                return Some(next);
            }
        }
        None
    }

    fn pop_waiting_before(&self, turn: ResendTurn) -> Option<oneshot::Sender<Granted>> {
        let mut waiting = self.waiting.borrow_mut();
        waiting.retain(|(_, waiting)| !waiting.is_closed());
        if waiting.front()?.0 < turn { waiting.pop_front().map(|(_, next)| next) } else { None }
    }

    /// Grants the free streams of a connection to waiting requests. If any are left, later requests will find them.
    fn grant_free_streams(self: &Rc<Self>, connection: &Rc<Http2Connection>) {
        while connection.has_free_stream() {
            let Some(next) = self.pop_waiting() else {
                if !connection.is_listed.replace(true) {
                    self.available.borrow_mut().push(connection.clone());
                }
                return;
            };
            connection.add_stream();
            let stream = StreamPermit { streams: self.clone(), connection: connection.clone() };
            // The request still waits: no other task has run meanwhile.
            let _ = next.send(Granted::Stream(stream));
        }
    }

    /// Has one waiting request open a connection, if the connections that are not ready are too few for all waiting
    /// requests.
    fn request_connection(&self) {
        if self.waiting.borrow().len() > self.expected_streams()
            && let Some(next) = self.pop_waiting()
        {
            let _ = next.send(Granted::Recheck);
        }
    }

    /// Drives a connection until it is closed.
    async fn drive(mut driver: Http2Driver, streams: Weak<Self>) {
        let connection = driver.connection().clone();
        loop {
            let event = poll_fn(|cx| driver.poll(cx)).await;
            let Some(streams) = streams.upgrade() else { break };
            streams.update_expected(&connection);
            if event == DriverEvent::Closed {
                break;
            }
            streams.grant_free_streams(&connection);
            streams.request_connection();
        }
        connection.close();
        // This fails the requests that are still on the connection.
        drop(driver);
        if let Some(streams) = streams.upgrade() {
            streams.update_expected(&connection);
            streams.open.update(|open| open - 1);
            streams.available.borrow_mut().retain(|other| !Rc::ptr_eq(other, &connection));
            streams.request_connection();
        }
    }

    /// Expects as many streams of the next connection as this one allows, once its SETTINGS have come.
    fn update_expected(&self, connection: &Http2Connection) {
        if connection.has_settings() || connection.stream_limit() == 0 {
            self.awaiting_settings.update(|count| count - usize::from(connection.take_awaits_settings()));
        }
        if connection.has_settings() && connection.stream_limit() > 0 {
            self.expected.set(connection.stream_limit());
        }
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        self.connection.remove_stream();
        self.streams.grant_free_streams(&self.connection);
        if self.connection.stream_limit() == 0 {
            self.streams.update_expected(&self.connection);
            self.streams.request_connection();
        }
    }
}

impl StreamPermit {
    /// Records that a response has come.
    pub(super) fn record_response(&self) {
        self.connection.record_response();
        self.streams.turns.record_response();
    }
}

/// A connection that is being opened. Dropping it aborts that.
#[derive(Debug)]
pub struct Connecting(Rc<Streams>);

impl Connecting {
    /// Adds the new connection. Returns its first stream for the request that opened it; all others are for waiting requests.
    /// `None`: the first stream went to a waiting request whose turn is before `turn`.
    pub fn finish(
        self,
        connection: &Rc<Http2Connection>,
        driver: Http2Driver,
        turn: ResendTurn,
    ) -> Option<StreamPermit> {
        let streams = &self.0;
        streams.open.update(|open| open + 1);
        streams.awaiting_settings.update(|count| count + 1);
        connection.add_stream();
        spawn_local(Streams::drive(driver, Rc::downgrade(streams)));
        let stream = StreamPermit { streams: streams.clone(), connection: connection.clone() };
        let Some(earlier) = streams.pop_waiting_before(turn) else { return Some(stream) };
        // The request still waits: no other task has run meanwhile.
        let _ = earlier.send(Granted::Stream(stream));
        None
    }

    /// Has all waiting requests open connections of their own, because the server speaks HTTP/1.1.
    pub(crate) fn fall_back_to_http1(self) {
        while let Some(next) = self.0.pop_waiting() {
            let _ = next.send(Granted::Recheck);
        }
    }

    /// Fails as many waiting requests as would have had a stream on the connection.
    pub fn fail(self, failure: &Failure) {
        for _ in 1..self.0.expected.get() {
            let Some(next) = self.0.pop_waiting() else { return };
            let _ = next.send(Granted::Failed(failure.clone()));
        }
    }
}

impl Drop for Connecting {
    fn drop(&mut self) {
        self.0.connecting.update(|connecting| connecting - 1);
        self.0.request_connection();
    }
}

#[cfg(test)]
mod tests {
    use headgate_core::error::ErrorKind;

    use super::*;
    use crate::h2::resends::Resends;

    fn received(waiting: &mut [oneshot::Receiver<Granted>]) -> Vec<&'static str> {
        let received = |receiver: &mut oneshot::Receiver<Granted>| match receiver.try_recv() {
            Ok(Granted::Stream(_)) => "stream",
            Ok(Granted::Recheck) => "recheck",
            Ok(Granted::Failed(_)) => "failed",
            Err(_) => "nothing",
        };
        waiting.iter_mut().map(received).collect()
    }

    #[test]
    fn one_connection_detects_the_version_and_with_http1_all_requests_open_their_own() {
        let streams = Streams::new(100);
        assert!(streams.needs_connection(false, None));
        let connecting = streams.connect();
        let mut waiting: Vec<_> = (0..3).map(|_| streams.wait(Resends::default().turn())).collect();
        assert!(!streams.needs_connection(false, None) && !streams.needs_connection(true, None));
        assert_eq!(vec!["nothing"; 3], received(&mut waiting));
        connecting.fall_back_to_http1();
        assert_eq!(vec!["recheck"; 3], received(&mut waiting));
        assert!(streams.needs_connection(false, Some(false)));
    }

    #[test]
    fn no_more_connections_are_opened_than_waiting_requests_will_fill() {
        let streams = Streams::new(3);
        let http2 = Some(true);
        assert!(streams.needs_connection(false, http2));
        let first = streams.connect();
        let mut waiting = Vec::new();
        for _ in 0..2 {
            assert!(!streams.needs_connection(false, http2), "the first one has a stream for it");
            waiting.push(streams.wait(Resends::default().turn()));
        }
        assert!(streams.needs_connection(false, http2));
        let second = streams.connect();
        waiting.push(streams.wait(Resends::default().turn()));
        assert!(!streams.needs_connection(true, http2));
        // The request that opens the connection is cancelled: a waiting request takes over.
        drop(second);
        assert_eq!(vec!["recheck", "nothing", "nothing"], received(&mut waiting));
        drop(first);
        assert_eq!(vec!["recheck", "nothing"], received(&mut waiting[1..]));
    }

    #[test]
    fn a_connection_that_fails_fails_the_requests_that_would_have_used_it() {
        let streams = Streams::new(3);
        let connecting = streams.connect();
        let mut waiting: Vec<_> = (0..4).map(|_| streams.wait(Resends::default().turn())).collect();
        // A cancelled request does not count.
        drop(waiting.remove(1));
        connecting.fail(&Failure::new(ErrorKind::Connect, "connection refused"));
        assert_eq!(vec!["failed", "failed", "recheck"], received(&mut waiting));
    }
}
