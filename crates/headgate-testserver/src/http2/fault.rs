//! A fault on a stream of HTTP/2: what `h2` can be made to send. What is bytes of HTTP/1.1 in the table is said as HTTP/2
//! says it, if that can be said at all.

use std::future::pending;
use std::io;

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};

use super::stream::Stream;
use super::wish::Wish;
use crate::answer::{Answer, field_map};
use crate::faults::play::{DRIP_INTERVAL, PAUSE};
use crate::faults::{Fault, Step};
use crate::respond::Respond as _;

const MAX_FIELDS: usize = 32 * 1024;
const MAX_HEAD_BYTES: usize = 4 * 1024 * 1024;
const HTTP_11_ONLY: &str = "this fault is one of HTTP/1.1\n";

pub(super) async fn play(mut stream: Stream, fault: &Fault) -> io::Result<()> {
    let mut sent = Sent { waiting: BytesMut::new(), is_all: false };
    let mut steps = fault.steps;
    while let Some((step, rest)) = steps.split_first() {
        if step.may_complete(rest) {
            stream.in_progress.end();
        }
        match sent.take(&mut stream, *step, rest.is_empty()).await? {
            Taken::Goes => {}
            Taken::Ended => return Ok(()),
            Taken::CannotBeSaid if stream.body.is_none() => return stream.send(&Answer::new(501, HTTP_11_ONLY)).await,
            Taken::CannotBeSaid => break,
        }
        steps = rest;
    }
    match &mut stream.body {
        Some(body) => body.send_data(Bytes::new(), true).map_err(io::Error::other),
        None if sent.is_all => Ok(()),
        None => stream.send(&Answer::new(501, HTTP_11_ONLY)).await,
    }
}

struct Sent {
    /// The beginning of a head.
    waiting: BytesMut,
    /// A head was sent, and ended the stream.
    is_all: bool,
}

enum Taken {
    Goes,
    Ended,
    CannotBeSaid,
}

impl Sent {
    async fn take(&mut self, stream: &mut Stream, step: Step, is_last: bool) -> io::Result<Taken> {
        match step {
            Step::Send(bytes) => return self.send(stream, bytes, is_last).await,
            Step::Make(make) => return self.send(stream, &make()?, is_last).await,
            Step::Times(count, bytes) => return self.send(stream, &bytes.repeat(count), is_last).await,
            Step::Forever(bytes) if stream.body.is_some() => loop {
                self.send(stream, bytes, false).await?;
            },
            Step::Drip(bytes) if stream.body.is_some() => {
                for byte in bytes.chunks(1) {
                    self.send(stream, byte, false).await?;
                    stream.pause(DRIP_INTERVAL).await?;
                }
            }
            Step::Pause => stream.pause(PAUSE).await?,
            Step::Hang if self.waiting.is_empty() => stream.while_there(pending::<()>()).await?,
            Step::Close | Step::Cut | Step::Reset if self.waiting.is_empty() => {
                // What was sent before is to be there first.
                stream.pause(PAUSE).await?;
                // The connection may have ended before.
                let _ = stream.wishes.send(Wish::End(step)).await;
                stream.while_there(pending::<()>()).await?;
            }
            Step::ResetStream(code) => {
                stream.reset(code.into());
                return Ok(Taken::Ended);
            }
            Step::Trailers(fields) => {
                if let Some(body) = &mut stream.body {
                    body.send_trailers(field_map(fields)).map_err(io::Error::other)?;
                }
                return Ok(Taken::Ended);
            }
            Step::Interim(status) => {
                let mut interim = Response::new(());
                *interim.status_mut() = StatusCode::from_u16(status).map_err(io::Error::other)?;
                stream.respond.send_informational(interim).map_err(io::Error::other)?;
            }
            Step::GoAway => {
                // As above.
                let _ = stream.wishes.send(Wish::GoAway).await;
            }
            _ => return Ok(Taken::CannotBeSaid),
        }
        Ok(Taken::Goes)
    }

    async fn send(&mut self, stream: &mut Stream, bytes: &[u8], is_last: bool) -> io::Result<Taken> {
        if stream.body.is_some() {
            stream.send_data(Bytes::copy_from_slice(bytes), false).await?;
            return Ok(Taken::Goes);
        }
        self.waiting.extend_from_slice(bytes);
        match head_of(&self.waiting) {
            Head::Partial => Ok(Taken::Goes),
            Head::None => Ok(Taken::CannotBeSaid),
            Head::Whole { bytes, status, fields } => {
                self.waiting.advance(bytes);
                let body = self.waiting.split().freeze();
                self.is_all = is_last && body.is_empty();
                stream.send_head(status, fields, self.is_all)?;
                stream.send_data(body, false).await?;
                Ok(Taken::Goes)
            }
        }
    }
}

enum Head {
    Partial,
    /// HTTP/2 can't say it.
    None,
    Whole {
        bytes: usize,
        status: u16,
        fields: HeaderMap,
    },
}

fn head_of(waiting: &[u8]) -> Head {
    let mut fields = vec![httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut parsed = httparse::Response::new(&mut fields);
    let bytes = match parsed.parse(waiting) {
        Ok(httparse::Status::Complete(bytes)) => bytes,
        Ok(httparse::Status::Partial) if waiting.len() < MAX_HEAD_BYTES => return Head::Partial,
        _ => return Head::None,
    };
    let mut map = HeaderMap::new();
    for field in &*parsed.headers {
        let name = field.name.to_ascii_lowercase();
        match (HeaderName::try_from(&name), HeaderValue::from_bytes(field.value)) {
            // What it says of the connection, HTTP/2 says in its own way (RFC 9113 section 8.2.2).
            (Ok(_), Ok(_)) if name == "connection" => {}
            (Ok(_), Ok(_)) if name == "transfer-encoding" => return Head::None,
            (Ok(name), Ok(value)) => {
                map.append(name, value);
            }
            _ => return Head::None,
        }
    }
    let is_final = |status: &u16| (200..=999).contains(status);
    match parsed.code.filter(is_final) {
        Some(status) => Head::Whole { bytes, status, fields: map },
        None => Head::None,
    }
}
