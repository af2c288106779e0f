//! A body whose pieces the caller provides while it is sent.
//!
//! If its length is known, the request states it. A longer body would reach the server as the beginning of another request,
//! and with a shorter one the server would wait for the rest. So a body of another length fails, and the piece that completes
//! the stated length is sent only once the caller has ended the body.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use headgate_core::error::{ErrorKind, Failure};
use headgate_core::reason::Reason;
use headgate_core::upload_stream::UploadStream;

/// One sending of a stream. Dropping it stops it.
#[derive(Debug)]
pub(super) struct StreamUpload {
    stream: Arc<UploadStream>,
    sending: u64,
    taken_bytes: u64,
    /// The piece that completes the stated length.
    last: Bytes,
    has_ended: bool,
    /// Whether the caller is to provide the next piece.
    is_awaited: bool,
}

impl StreamUpload {
    /// Begins to send a stream.
    ///
    /// # Errors
    /// `invalid_request`: it was sent before, and can't be sent a second time.
    pub(super) fn begin(stream: Arc<UploadStream>) -> Result<Self, Failure> {
        let sending = stream.begin()?;
        Ok(Self { stream, sending, taken_bytes: 0, last: Bytes::new(), has_ended: false, is_awaited: false })
    }

    pub(super) fn length(&self) -> Option<u64> {
        self.stream.length()
    }

    pub(super) fn is_done(&self) -> bool {
        self.has_ended
    }

    /// Returns whether the server waits because the caller has not provided the next piece.
    pub(super) fn is_awaited(&self) -> bool {
        self.is_awaited
    }

    /// Returns the next piece, or `None` at the end of the body.
    ///
    /// # Errors
    /// `invalid_request`: the body is longer or shorter than the request states.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Failure>> {
        let length = self.length();
        self.is_awaited = true;
        while let Some(piece) = ready!(self.stream.poll_next(self.sending, cx)) {
            self.taken_bytes += piece.len() as u64;
            self.is_awaited = false;
            match length {
                Some(length) if self.taken_bytes > length => {
                    return Poll::Ready(Err(wrong_length(length, format!("{} bytes or more", self.taken_bytes))));
                }
                Some(length) if self.taken_bytes == length => (self.last, self.is_awaited) = (piece, true),
                _ => return Poll::Ready(Ok(Some(piece))),
            }
        }
        (self.has_ended, self.is_awaited) = (true, false);
        if let Some(length) = length.filter(|length| self.taken_bytes < *length) {
            return Poll::Ready(Err(wrong_length(length, format!("{} bytes", self.taken_bytes))));
        }
        let last = mem::take(&mut self.last);
        Poll::Ready(Ok((!last.is_empty()).then_some(last)))
    }
}

impl Drop for StreamUpload {
    fn drop(&mut self) {
        self.stream.stop(self.sending);
    }
}

fn wrong_length(length: u64, had: String) -> Failure {
    let reason = Reason::new(format!("the body has another length than its content-length of {length}"));
    Failure::new(ErrorKind::InvalidRequest, reason.with(had)).lasting()
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// Returns what is sent of a body in these pieces, and the failure.
    fn sent(length: Option<u64>, pieces: &[&'static str]) -> (String, Option<String>) {
        let stream = Arc::new(UploadStream::new(length, false));
        let mut upload = StreamUpload::begin(stream.clone()).expect("it was not begun");
        let mut cx = Context::from_waker(Waker::noop());
        let (mut sent, mut pieces) = (Vec::new(), pieces.iter());
        loop {
            match upload.poll_next(&mut cx) {
                Poll::Pending => {
                    let sending = stream.wanted_sending().expect("more is wanted");
                    stream.push(sending, pieces.next().map(|piece| Bytes::from(*piece)));
                }
                Poll::Ready(Ok(Some(piece))) => sent.extend_from_slice(&piece),
                Poll::Ready(Ok(None)) => return (String::from_utf8(sent).expect("text"), None),
                Poll::Ready(Err(failure)) => {
                    assert!(failure.is_lasting);
                    return (String::from_utf8(sent).expect("text"), Some(failure.reason.to_string()));
                }
            }
            if upload.is_done() {
                return (String::from_utf8(sent).expect("text"), None);
            }
        }
    }

    #[test]
    fn a_body_of_another_length_fails_before_its_request_is_complete() {
        let wrong = |had: &str| Some(format!("the body has another length than its content-length of 4 ({had})"));
        for (expected, pieces) in [
            (("abcd", None), &["ab", "cd"][..]),
            (("abc", wrong("3 bytes")), &["ab", "c"]),
            (("ab", wrong("5 bytes or more")), &["ab", "cd", "e"]),
            (("", wrong("6 bytes or more")), &["abcdef", "g"]),
            (("", wrong("0 bytes")), &[]),
        ] {
            assert_eq!((expected.0.to_owned(), expected.1), sent(Some(4), pieces));
        }
        assert_eq!([("abc".into(), None), (String::new(), None)], [sent(None, &["ab", "c"]), sent(None, &[])]);
        assert_eq!((String::new(), None), sent(Some(0), &[]));
    }
}
