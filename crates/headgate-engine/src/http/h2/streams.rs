//! The streams of one route: which connection the next request goes to, and when another connection is needed.
//!
//! Requests go where one has ended last, so that connections that are not needed grow old and go. Who finds no room waits
//! for a stream that becomes free or for a connection that is being made: those first that were refused before, and then
//! first come first served. So a thousand lanes that begin at once open no more connections than their requests fill.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::{Rc, Weak};

use tokio::sync::oneshot;
use tokio::task::spawn_local;

use crate::http::h2::connection::{Connection, Driver, Event};
use crate::http::h2::resends::{ResendTurn, ResendTurns};
use crate::model::error::Failure;

/// See the top of this file.
#[derive(Debug)]
pub struct Streams {
    /// Connections that had room, the one to use next last. Some may have gone, or be full again.
    with_room: RefCell<Vec<Rc<Connection>>>,
    /// Who waits, by turn.
    waiting: RefCell<VecDeque<(ResendTurn, oneshot::Sender<Granted>)>>,
    /// Connections that are being made.
    connecting: Cell<usize>,
    /// Connections whose server has not told yet how many requests it allows.
    unsettled: Cell<usize>,
    /// Connections that are open.
    open: Cell<usize>,
    /// Requests that one more connection is expected to take.
    expected: Cell<usize>,
    /// Whose turn it is among those that were refused.
    pub turns: ResendTurns,
}

/// The right to make one request over a connection. Dropping it leaves that to the next.
#[derive(Debug)]
pub struct Stream {
    streams: Rc<Streams>,
    pub connection: Rc<Connection>,
}

/// What becomes of somebody who waits.
#[derive(Debug)]
pub enum Granted {
    Stream(Stream),
    /// Something has changed: look what is there, or open a connection.
    LookAgain,
    /// The connection that was waited for could not be made.
    Failed(Failure),
}

impl Streams {
    /// `max_streams`: requests on one connection at the most.
    pub fn new(max_streams: usize) -> Rc<Self> {
        Rc::new(Self {
            with_room: RefCell::default(),
            waiting: RefCell::default(),
            connecting: Cell::new(0),
            unsettled: Cell::new(0),
            open: Cell::new(0),
            expected: Cell::new(max_streams),
            turns: ResendTurns::default(),
        })
    }

    /// A stream on a connection that is there, if one has room.
    pub fn take(self: &Rc<Self>) -> Option<Stream> {
        let mut with_room = self.with_room.borrow_mut();
        while let Some(connection) = with_room.last() {
            if connection.has_room() {
                connection.take();
                return Some(Stream { streams: self.clone(), connection: connection.clone() });
            }
            connection.is_listed.set(false);
            with_room.pop();
        }
        None
    }

    /// Whether somebody who found no room is to open a connection; `waits`: is among those who wait. `None`: whether the server
    /// speaks HTTP/2 is not known; then one connection is enough to find out.
    pub fn another_is_needed(&self, waits: bool, speaks_http2: Option<bool>) -> bool {
        let others = self.waiting.borrow().len() - usize::from(waits);
        match speaks_http2 {
            Some(true) => others >= self.promised(),
            Some(false) => true,
            None => self.connecting.get() == 0,
        }
    }

    /// Requests that connections will take which are not ready yet, beside the first ones of those who make them.
    fn promised(&self) -> usize {
        (self.connecting.get() + self.unsettled.get()) * (self.expected.get() - 1)
    }

    /// Tells what is granted, when it is.
    pub fn wait(&self, turn: ResendTurn) -> oneshot::Receiver<Granted> {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.waiting.borrow_mut();
        let place = waiting.partition_point(|(other, _)| *other <= turn);
        waiting.insert(place, (turn, sender));
        receiver
    }

    /// Takes back a wait.
    pub fn stop_waiting(&self, receiver: oneshot::Receiver<Granted>) {
        drop(receiver);
        self.waiting.borrow_mut().retain(|(_, waiting)| !waiting.is_closed());
    }

    /// Somebody makes a connection.
    pub fn connect(self: &Rc<Self>) -> Connecting {
        self.connecting.update(|connecting| connecting + 1);
        // Who else must open one does not wait for this one.
        self.look_for_more();
        Connecting(self.clone())
    }

    /// Whether a stream is one of these.
    pub fn has(&self, stream: &Stream) -> bool {
        std::ptr::eq(self, &raw const *stream.streams)
    }

    pub fn has_connections(&self) -> bool {
        self.open.get() > 0
    }

    fn next_waiting(&self) -> Option<oneshot::Sender<Granted>> {
        let mut waiting = self.waiting.borrow_mut();
        while let Some((_, next)) = waiting.pop_front() {
            if !next.is_closed() {
                return Some(next);
            }
        }
        None
    }

    fn waiting_before(&self, turn: ResendTurn) -> Option<oneshot::Sender<Granted>> {
        let mut waiting = self.waiting.borrow_mut();
        waiting.retain(|(_, waiting)| !waiting.is_closed());
        if waiting.front()?.0 < turn { waiting.pop_front().map(|(_, next)| next) } else { None }
    }

    /// A connection may have room: for those who wait, and then for those who come.
    fn freed(self: &Rc<Self>, connection: &Rc<Connection>) {
        while connection.has_room() {
            let Some(next) = self.next_waiting() else {
                if !connection.is_listed.replace(true) {
                    self.with_room.borrow_mut().push(connection.clone());
                }
                return;
            };
            connection.take();
            let stream = Stream { streams: self.clone(), connection: connection.clone() };
            // It still waits: nothing else has run meanwhile.
            let _ = next.send(Granted::Stream(stream));
        }
    }

    /// Has one of those who wait open a connection, where those that are being made are too few for all of them.
    fn look_for_more(&self) {
        if self.waiting.borrow().len() > self.promised()
            && let Some(next) = self.next_waiting()
        {
            let _ = next.send(Granted::LookAgain);
        }
    }

    /// Drives a connection to its end.
    async fn drive(mut driver: Driver, streams: Weak<Self>) {
        let connection = driver.connection().clone();
        loop {
            let event = poll_fn(|cx| driver.poll(cx)).await;
            let Some(streams) = streams.upgrade() else { break };
            streams.settle(&connection);
            if event == Event::Ended {
                break;
            }
            streams.freed(&connection);
            streams.look_for_more();
        }
        connection.close();
        // Requests that are still on it are told.
        drop(driver);
        if let Some(streams) = streams.upgrade() {
            streams.settle(&connection);
            streams.open.update(|open| open - 1);
            streams.with_room.borrow_mut().retain(|other| !Rc::ptr_eq(other, &connection));
            streams.look_for_more();
        }
    }

    /// Expects of the next connection what this one allows, once it is known.
    fn settle(&self, connection: &Connection) {
        if connection.is_settled() || connection.allowed() == 0 {
            self.unsettled.update(|unsettled| unsettled - usize::from(connection.take_unsettled()));
        }
        if connection.is_settled() && connection.allowed() > 0 {
            self.expected.set(connection.allowed());
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.connection.give_back();
        self.streams.freed(&self.connection);
        if self.connection.allowed() == 0 {
            self.streams.settle(&self.connection);
            self.streams.look_for_more();
        }
    }
}

impl Stream {
    /// The request on it has an answer.
    pub(super) fn answered(&self) {
        self.connection.answered();
        self.streams.turns.answered();
    }
}

/// A connection that is being made. Dropping it gives that up.
#[derive(Debug)]
pub struct Connecting(Rc<Streams>);

impl Connecting {
    /// It is there. Its first stream is for who made it, and the others are for those who wait. Where one of these is to have
    /// the first one before `turn`, there is none for who made it.
    pub fn made(self, connection: &Rc<Connection>, driver: Driver, turn: ResendTurn) -> Option<Stream> {
        let streams = &self.0;
        streams.open.update(|open| open + 1);
        streams.unsettled.update(|unsettled| unsettled + 1);
        connection.take();
        spawn_local(Streams::drive(driver, Rc::downgrade(streams)));
        let stream = Stream { streams: streams.clone(), connection: connection.clone() };
        let Some(earlier) = streams.waiting_before(turn) else { return Some(stream) };
        // It still waits: nothing else has run meanwhile.
        let _ = earlier.send(Granted::Stream(stream));
        None
    }

    /// The server speaks something else: whoever waits makes a connection of their own.
    pub fn speaks_http1(self) {
        while let Some(next) = self.0.next_waiting() {
            let _ = next.send(Granted::LookAgain);
        }
    }

    /// It could not be made: that is so for those as well who would have had a stream on it.
    pub fn failed(self, failure: &Failure) {
        for _ in 1..self.0.expected.get() {
            let Some(next) = self.0.next_waiting() else { return };
            let _ = next.send(Granted::Failed(failure.clone()));
        }
    }
}

impl Drop for Connecting {
    fn drop(&mut self) {
        self.0.connecting.update(|connecting| connecting - 1);
        self.0.look_for_more();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::h2::resends::Resends;
    use crate::model::error::ErrorKind;

    fn told(waiting: &mut [oneshot::Receiver<Granted>]) -> Vec<&'static str> {
        let told = |receiver: &mut oneshot::Receiver<Granted>| match receiver.try_recv() {
            Ok(Granted::Stream(_)) => "stream",
            Ok(Granted::LookAgain) => "look",
            Ok(Granted::Failed(_)) => "failed",
            Err(_) => "nothing",
        };
        waiting.iter_mut().map(told).collect()
    }

    #[test]
    fn one_connection_finds_out_what_a_host_speaks_and_then_each_has_its_own_or_a_stream() {
        let streams = Streams::new(100);
        assert!(streams.another_is_needed(false, None));
        let connecting = streams.connect();
        let mut waiting: Vec<_> = (0..3).map(|_| streams.wait(Resends::default().turn())).collect();
        assert!(!streams.another_is_needed(false, None) && !streams.another_is_needed(true, None));
        assert_eq!(vec!["nothing"; 3], told(&mut waiting));
        connecting.speaks_http1();
        assert_eq!(vec!["look"; 3], told(&mut waiting));
        assert!(streams.another_is_needed(false, Some(false)));
    }

    #[test]
    fn no_more_connections_are_made_than_those_who_wait_will_fill() {
        let streams = Streams::new(3);
        let http2 = Some(true);
        assert!(streams.another_is_needed(false, http2));
        let first = streams.connect();
        let mut waiting = Vec::new();
        for _ in 0..2 {
            assert!(!streams.another_is_needed(false, http2), "the first one has a stream for it");
            waiting.push(streams.wait(Resends::default().turn()));
        }
        assert!(streams.another_is_needed(false, http2));
        let second = streams.connect();
        waiting.push(streams.wait(Resends::default().turn()));
        assert!(!streams.another_is_needed(true, http2));
        // Who makes it gives up: one of those who wait takes it over.
        drop(second);
        assert_eq!(vec!["look", "nothing", "nothing"], told(&mut waiting));
        drop(first);
        assert_eq!(vec!["look", "nothing"], told(&mut waiting[1..]));
    }

    #[test]
    fn a_connection_that_fails_fails_those_who_would_have_had_a_stream_on_it() {
        let streams = Streams::new(3);
        let connecting = streams.connect();
        let mut waiting: Vec<_> = (0..4).map(|_| streams.wait(Resends::default().turn())).collect();
        // Somebody who has gone takes nobody's place.
        drop(waiting.remove(1));
        connecting.failed(&Failure::new(ErrorKind::Connect, "connection refused"));
        assert_eq!(vec!["failed", "failed", "look"], told(&mut waiting));
    }
}
