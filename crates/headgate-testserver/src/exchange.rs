//! One request of HTTP/1.1 on its way to its answer.

use std::future::Future;
use std::io;

use bytes::{Buf, Bytes};

use crate::answer::{self, Answer, Persistence, ReadyAnswer};
use crate::connection::Connection;
use crate::in_progress::InProgress;
use crate::reply::Framing;
use crate::request::Request;
use crate::respond::{After, Respond};

/// A request whose head was read, and all that its answer needs.
#[derive(Debug)]
pub(crate) struct Exchange<'a, 'worker> {
    pub connection: &'a mut Connection<'worker>,
    pub request: &'a Request,
    pub in_progress: InProgress,
}

impl Exchange<'_, '_> {
    async fn send_whole(&mut self, head: &[u8], body: &[u8]) -> io::Result<()> {
        let body = if self.request.is_head { &[] } else { body };
        self.connection.send(head.chain(body)).await
    }
}

impl Respond for Exchange<'_, '_> {
    fn in_progress(&mut self) -> &mut InProgress {
        &mut self.in_progress
    }

    fn is_head(&self) -> bool {
        self.request.is_head
    }

    fn framing(&self, meant: Framing) -> Framing {
        meant
    }

    async fn while_there<T>(&mut self, something: impl Future<Output = T>) -> io::Result<T> {
        self.connection.while_there(something).await
    }

    async fn send_ready(&mut self, answer: &ReadyAnswer) -> io::Result<()> {
        self.send_whole(answer.head(self.request.persistence), &answer.body).await
    }

    async fn send_answer(&mut self, answer: &Answer) -> io::Result<()> {
        self.send_whole(&answer.head(self.request.persistence), &answer.body).await
    }

    async fn begin(&mut self, status: u16, fields: &str, framing: Framing, _is_all: bool) -> io::Result<()> {
        let (framed, persistence) = match framing {
            Framing::Length => ("", self.request.persistence),
            Framing::Chunked => ("Transfer-Encoding: chunked\r\n", self.request.persistence),
            Framing::Close => ("", Persistence::Close),
        };
        self.connection.send(&answer::head(status, &format!("{fields}{framed}"), persistence)[..]).await
    }

    async fn send_piece(&mut self, piece: Bytes, framing: Framing, _is_last: bool) -> io::Result<()> {
        if framing != Framing::Chunked {
            return self.connection.send(piece).await;
        }
        let size = format!("{:x}\r\n", piece.len());
        self.connection.send(size.as_bytes().chain(piece).chain(&b"\r\n"[..])).await
    }

    async fn finish(&mut self, framing: Framing, is_all: bool) -> io::Result<After> {
        match framing {
            Framing::Chunked if !is_all => self.connection.send(&b"0\r\n\r\n"[..]).await?,
            Framing::Length | Framing::Chunked => {}
            Framing::Close => {
                self.connection.close().await?;
                return Ok(After::Ended);
            }
        }
        Ok(After::Answered)
    }
}
