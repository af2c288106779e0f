//! A request on its way, as far as the server takes it.

use std::task::{Context, Poll};

use bytes::Bytes;
use h2::SendStream;
use h2::client::ResponseFuture;

use crate::http::deadline::Deadline;
use crate::http::h2::meter::Awaited;
use crate::http::patience::Progress;
use crate::http::save::saving::Saving;
use crate::http::upload::Upload;
use crate::model::error::Failure;

/// A request that is on its way, and what comes back.
pub struct Sending {
    pub(super) outgoing: Outgoing,
    pub(super) response: ResponseFuture,
    pub(super) awaited: Awaited,
    pub(super) to_head: bool,
    /// What had come over the connection when it was sent.
    pub(super) heard: u32,
    /// Where the body goes, if it is saved.
    pub(super) saving: Option<Box<Saving>>,
}

/// A request's body on its way.
pub(super) struct Outgoing {
    pub(super) stream: SendStream<Bytes>,
    pub(super) rest: Bytes,
    /// What of the body is read when `rest` has gone.
    pub(super) files: Option<Box<Upload>>,
    /// Why that can't be read.
    pub(super) failure: Option<Failure>,
}

impl Outgoing {
    /// Sends on, as far as the server takes it. One that wants no more is heard when it answers. Whether some of it went.
    pub(super) fn poll(&mut self, deadline: &mut Deadline, cx: &mut Context<'_>) -> bool {
        let mut has_moved = false;
        while self.is_pending() && self.failure.is_none() {
            if self.rest.is_empty() && !self.poll_files(deadline, cx) {
                break;
            }
            let Poll::Ready(Some(Ok(room))) = self.stream.poll_capacity(cx) else { break };
            let piece = self.rest.split_to(room.min(self.rest.len()));
            has_moved = true;
            if self.stream.send_data(piece, !self.is_pending()).is_err() {
                self.rest.clear();
                self.files = None;
            }
            self.stream.reserve_capacity(self.rest.len());
        }
        has_moved
    }

    /// Reads on. Whether there is something to be sent.
    fn poll_files(&mut self, deadline: &mut Deadline, cx: &mut Context<'_>) -> bool {
        let Some(files) = &mut self.files else { return false };
        let Poll::Ready(read) = files.poll_next(cx) else { return false };
        files.excuse(deadline);
        match read {
            Ok(read) => self.rest = read,
            Err(failure) => self.failure = Some(failure),
        }
        self.stream.reserve_capacity(self.rest.len());
        self.failure.is_none()
    }

    pub(super) fn is_pending(&self) -> bool {
        !self.rest.is_empty() || self.files.as_ref().is_some_and(|files| !files.is_done())
    }

    /// Whether the server waits for us.
    pub(super) fn is_reading(&self) -> bool {
        self.files.as_ref().is_some_and(|files| files.is_reading())
    }

    pub(super) fn progress(&self) -> Progress {
        if self.is_pending() { Progress::Sending } else { Progress::Waiting }
    }
}
