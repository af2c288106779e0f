//! One request of HTTP/1.1 and its response.

use std::future::Future;
use std::io;

use bytes::{Buf, Bytes};

use crate::connection::ServerConnection;
use crate::in_progress::InProgress;
use crate::plan::ResponseFraming;
use crate::request::ParsedRequest;
use crate::respond::{After, Responder};
use crate::response::{self, EncodedResponse, FullResponse, Persistence};

/// A request whose headers were read, and what its response needs.
#[derive(Debug)]
pub(crate) struct Http1Exchange<'a, 'worker> {
    pub connection: &'a mut ServerConnection<'worker>,
    pub request: &'a ParsedRequest,
    pub in_progress: InProgress,
}

impl Http1Exchange<'_, '_> {
    async fn send_whole(&mut self, head: &[u8], body: &[u8]) -> io::Result<()> {
        let body = if self.request.is_head { &[] } else { body };
        self.connection.send(head.chain(body)).await
    }
}

impl Responder for Http1Exchange<'_, '_> {
    fn in_progress(&mut self) -> &mut InProgress {
        &mut self.in_progress
    }

    fn is_head(&self) -> bool {
        self.request.is_head
    }

    fn framing(&self, preferred: ResponseFraming) -> ResponseFraming {
        preferred
    }

    async fn while_connected<T>(&mut self, future: impl Future<Output = T>) -> io::Result<T> {
        self.connection.while_connected(future).await
    }

    async fn send_encoded(&mut self, response: &EncodedResponse) -> io::Result<()> {
        self.send_whole(response.head(self.request.persistence), &response.body).await
    }

    async fn send_response(&mut self, response: &FullResponse) -> io::Result<()> {
        self.send_whole(&response.head(self.request.persistence), &response.body).await
    }

    async fn send_headers(
        &mut self,
        status: u16,
        fields: &str,
        framing: ResponseFraming,
        _is_all: bool,
    ) -> io::Result<()> {
        let (framed, persistence) = match framing {
            ResponseFraming::Length => ("", self.request.persistence),
            ResponseFraming::Chunked => ("Transfer-Encoding: chunked\r\n", self.request.persistence),
            ResponseFraming::Close => ("", Persistence::Close),
        };
        self.connection.send(&response::head(status, &format!("{fields}{framed}"), persistence)[..]).await
    }

    async fn send_chunk(&mut self, piece: Bytes, framing: ResponseFraming, _is_last: bool) -> io::Result<()> {
        if framing != ResponseFraming::Chunked {
            return self.connection.send(piece).await;
        }
        let size = format!("{:x}\r\n", piece.len());
        self.connection.send(size.as_bytes().chain(piece).chain(&b"\r\n"[..])).await
    }

    async fn finish(&mut self, framing: ResponseFraming, is_complete: bool) -> io::Result<After> {
        match framing {
            ResponseFraming::Chunked if !is_complete => self.connection.send(&b"0\r\n\r\n"[..]).await?,
            ResponseFraming::Length | ResponseFraming::Chunked => {}
            ResponseFraming::Close => {
                self.connection.close().await?;
                return Ok(After::Closed);
            }
        }
        Ok(After::Sent)
    }
}
