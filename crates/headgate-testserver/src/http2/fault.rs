//! Plays a fault on a stream of HTTP/2, as far as `h2` can send it. Bytes of HTTP/1.1 in the table are converted to HTTP/2, if
//! that is possible.

use std::future::pending;
use std::io;

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use super::command::ConnectionCommand;
use super::stream::ServerStream;
use crate::faults::play::{DRIP_INTERVAL, PAUSE};
use crate::faults::{Fault, FaultStep};
use crate::respond::Responder as _;
use crate::response::{FullResponse, field_map};

const MAX_FIELDS: usize = 32 * 1024;
const MAX_HEAD_BYTES: usize = 4 * 1024 * 1024;
const HTTP_11_ONLY: &str = "this fault is one of HTTP/1.1\n";

pub(super) async fn play(mut stream: ServerStream, fault: &Fault) -> io::Result<()> {
    let mut player = StreamPlayer { waiting: BytesMut::new(), is_complete: false };
    let mut steps = fault.steps;
    while let Some((step, rest)) = steps.split_first() {
        if step.may_complete(rest) {
            stream.in_progress.end();
        }
        match player.run(&mut stream, *step, rest.is_empty()).await? {
            StepResult::Continues => {}
            StepResult::Ended => return Ok(()),
            StepResult::Unsupported if stream.body.is_none() => {
                return stream.send(&FullResponse::new(501, HTTP_11_ONLY)).await;
            }
            StepResult::Unsupported => break,
        }
        steps = rest;
    }
    match &mut stream.body {
        Some(body) => body.send_data(Bytes::new(), true).map_err(io::Error::other),
        None if player.is_complete => Ok(()),
        None => stream.send(&FullResponse::new(501, HTTP_11_ONLY)).await,
    }
}

struct StreamPlayer {
    /// The beginning of a status line and headers.
    waiting: BytesMut,
    /// Headers were sent that ended the stream.
    is_complete: bool,
}

enum StepResult {
    Continues,
    Ended,
    Unsupported,
}

impl StreamPlayer {
    async fn run(&mut self, stream: &mut ServerStream, step: FaultStep, is_last: bool) -> io::Result<StepResult> {
        match step {
            FaultStep::Send(bytes) => return self.send(stream, bytes, is_last).await,
            FaultStep::Make(make) => return self.send(stream, &make()?, is_last).await,
            FaultStep::Times(count, bytes) => return self.send(stream, &bytes.repeat(count), is_last).await,
            FaultStep::Forever(bytes) if stream.body.is_some() => loop {
                self.send(stream, bytes, false).await?;
            },
            FaultStep::Drip(bytes) if stream.body.is_some() => {
                for byte in bytes.chunks(1) {
                    self.send(stream, byte, false).await?;
                    stream.pause(DRIP_INTERVAL).await?;
                }
            }
            FaultStep::Pause => stream.pause(PAUSE).await?,
            FaultStep::Hang if self.waiting.is_empty() => stream.while_connected(pending::<()>()).await?,
            FaultStep::Close | FaultStep::Cut | FaultStep::Reset if self.waiting.is_empty() => {
                // The pause lets `h2` send the frames before this step.
                stream.pause(PAUSE).await?;
                // Sending fails if the connection has already ended.
                let _ = stream.commands.send(ConnectionCommand::Close(step)).await;
                stream.while_connected(pending::<()>()).await?;
            }
            FaultStep::ResetStream(code) => {
                stream.reset(code.into());
                return Ok(StepResult::Ended);
            }
            FaultStep::Trailers(fields) => {
                if let Some(body) = &mut stream.body {
                    body.send_trailers(field_map(fields)).map_err(io::Error::other)?;
                }
                return Ok(StepResult::Ended);
            }
            FaultStep::Interim(status) => {
                let mut interim = http::Response::new(());
                *interim.status_mut() = StatusCode::from_u16(status).map_err(io::Error::other)?;
                stream.respond.send_informational(interim).map_err(io::Error::other)?;
            }
            FaultStep::GoAway => {
                // Sending fails if the connection has already ended.
                let _ = stream.commands.send(ConnectionCommand::GoAway).await;
            }
            _ => return Ok(StepResult::Unsupported),
        }
        Ok(StepResult::Continues)
    }

    async fn send(&mut self, stream: &mut ServerStream, bytes: &[u8], is_last: bool) -> io::Result<StepResult> {
        if stream.body.is_some() {
            stream.send_data(Bytes::copy_from_slice(bytes), false).await?;
            return Ok(StepResult::Continues);
        }
        self.waiting.extend_from_slice(bytes);
        match parse_headers(&self.waiting) {
            ParsedHeaders::Partial => Ok(StepResult::Continues),
            ParsedHeaders::Unsupported => Ok(StepResult::Unsupported),
            ParsedHeaders::Whole { bytes, status, fields } => {
                self.waiting.advance(bytes);
                let body = self.waiting.split().freeze();
                self.is_complete = is_last && body.is_empty();
                stream.send_head(status, fields, self.is_complete)?;
                stream.send_data(body, false).await?;
                Ok(StepResult::Continues)
            }
        }
    }
}

enum ParsedHeaders {
    Partial,
    /// The headers are not valid in HTTP/2.
    Unsupported,
    Whole {
        bytes: usize,
        status: u16,
        fields: HeaderMap,
    },
}

fn parse_headers(waiting: &[u8]) -> ParsedHeaders {
    let mut fields = vec![httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut parsed = httparse::Response::new(&mut fields);
    let bytes = match parsed.parse(waiting) {
        Ok(httparse::Status::Complete(bytes)) => bytes,
        Ok(httparse::Status::Partial) if waiting.len() < MAX_HEAD_BYTES => return ParsedHeaders::Partial,
        _ => return ParsedHeaders::Unsupported,
    };
    let mut map = HeaderMap::new();
    for field in &*parsed.headers {
        let name = field.name.to_ascii_lowercase();
        match (HeaderName::try_from(&name), HeaderValue::from_bytes(field.value)) {
            // HTTP/2 has no such header; it ends connections with GOAWAY (RFC 9113 section 8.2.2).
            (Ok(_), Ok(_)) if name == "connection" => {}
            (Ok(_), Ok(_)) if name == "transfer-encoding" => return ParsedHeaders::Unsupported,
            (Ok(name), Ok(value)) => {
                map.append(name, value);
            }
            _ => return ParsedHeaders::Unsupported,
        }
    }
    let is_final = |status: &u16| (200..=999).contains(status);
    match parsed.code.filter(is_final) {
        Some(status) => ParsedHeaders::Whole { bytes, status, fields: map },
        None => ParsedHeaders::Unsupported,
    }
}
