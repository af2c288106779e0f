//! Reads the body of a request, and discards it unless it is needed.

use std::io;

use bytes::Buf;

use crate::connection::ServerConnection;
use crate::request::{MAX_HEAD_BYTES, ParsedRequest, Rejection, RequestFraming};

pub(crate) const MAX_BODY_BYTES: u64 = 64 * 1024 * 1024;
const MAX_CHUNK_LINE_BYTES: usize = 1024;
const TOO_LARGE: Rejection = Rejection { status: 413, reason: "the body of the request is longer than 64 MiB" };
const BAD_CHUNK: Rejection = Rejection::bad("the body of the request is not chunked as it should be");

/// Why a body was not read.
#[derive(Debug)]
pub(crate) enum BodyError {
    Disconnected(io::Error),
    Rejected(Rejection),
}

impl From<io::Error> for BodyError {
    fn from(error: io::Error) -> Self {
        Self::Disconnected(error)
    }
}

impl From<Rejection> for BodyError {
    fn from(rejection: Rejection) -> Self {
        Self::Rejected(rejection)
    }
}

/// Reads to the end of the body, and returns it, or nothing unless `keep` is set.
pub(crate) async fn read(
    connection: &mut ServerConnection<'_>,
    request: &ParsedRequest,
    keep: bool,
) -> Result<Vec<u8>, BodyError> {
    let mut body = BodyReader { kept: keep.then(Vec::new), bytes: 0 };
    if matches!(request.body, RequestFraming::Length(bytes) if bytes > MAX_BODY_BYTES) {
        return Err(TOO_LARGE.into());
    }
    if request.expects_continue && request.body != RequestFraming::Empty {
        connection.send(&b"HTTP/1.1 100 Continue\r\n\r\n"[..]).await?;
    }
    match request.body {
        RequestFraming::Empty => {}
        RequestFraming::Length(bytes) => body.take(connection, bytes).await?,
        RequestFraming::Chunked => body.take_chunks(connection).await?,
    }
    Ok(body.kept.unwrap_or_default())
}

struct BodyReader {
    kept: Option<Vec<u8>>,
    bytes: u64,
}

impl BodyReader {
    async fn take(&mut self, connection: &mut ServerConnection<'_>, mut bytes: u64) -> Result<(), BodyError> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > MAX_BODY_BYTES {
            return Err(TOO_LARGE.into());
        }
        while bytes > 0 {
            if connection.buffer.is_empty() {
                connection.fill().await?;
            }
            let piece = (connection.buffer.len() as u64).min(bytes) as usize;
            if let Some(kept) = &mut self.kept {
                kept.extend_from_slice(&connection.buffer[..piece]);
            }
            connection.buffer.advance(piece);
            bytes -= piece as u64;
        }
        Ok(())
    }

    async fn take_chunks(&mut self, connection: &mut ServerConnection<'_>) -> Result<(), BodyError> {
        loop {
            let size = chunk_size(connection).await?;
            if size == 0 {
                return skip_trailers(connection).await;
            }
            self.take(connection, size).await?;
            if line(connection, 2).await? != 2 {
                return Err(BAD_CHUNK.into());
            }
            connection.buffer.advance(2);
        }
    }
}

async fn chunk_size(connection: &mut ServerConnection<'_>) -> Result<u64, BodyError> {
    loop {
        match httparse::parse_chunk_size(&connection.buffer) {
            Ok(httparse::Status::Complete((bytes, size))) => {
                connection.buffer.advance(bytes);
                return Ok(size);
            }
            Ok(httparse::Status::Partial) if connection.buffer.len() < MAX_CHUNK_LINE_BYTES => {
                connection.fill().await?;
            }
            _ => return Err(BAD_CHUNK.into()),
        }
    }
}

async fn skip_trailers(connection: &mut ServerConnection<'_>) -> Result<(), BodyError> {
    let mut left = MAX_HEAD_BYTES;
    loop {
        let bytes = line(connection, left).await?;
        connection.buffer.advance(bytes);
        left -= bytes;
        if bytes == 2 {
            return Ok(());
        }
    }
}

/// Returns the length of the line at the start of the buffer, with its CR LF; at most `max_bytes`.
async fn line(connection: &mut ServerConnection<'_>, max_bytes: usize) -> Result<usize, BodyError> {
    loop {
        if let Some(end) = connection.buffer.windows(2).take(max_bytes.saturating_sub(1)).position(|two| two == b"\r\n")
        {
            return Ok(end + 2);
        }
        if connection.buffer.len() >= max_bytes {
            return Err(BAD_CHUNK.into());
        }
        connection.fill().await?;
    }
}
