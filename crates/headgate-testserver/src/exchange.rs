//! One request of HTTP/1.1 on its way to its answer.

use std::io;
use std::time::Duration;

use bytes::{Buf, Bytes};

use crate::answer::{self, Answer, Persistence};
use crate::connection::Connection;
use crate::in_progress::InProgress;
use crate::reply::{Content, Framing, Reply};
use crate::request::Request;
use crate::worker::Worker;

/// A request whose head was read, and all that its answer needs.
#[derive(Debug)]
pub(crate) struct Exchange<'a, 'worker> {
    pub connection: &'a mut Connection<'worker>,
    pub worker: &'worker Worker,
    pub request: &'a Request,
    pub in_progress: InProgress,
}

/// Whether a connection goes on after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// The answer is sent; the connection lasts as the request's head said.
    Answered,
    /// Nothing more is to be done with it.
    Ended,
}

impl Exchange<'_, '_> {
    /// The default answer after the configured delay.
    pub async fn send_default(&mut self) -> io::Result<()> {
        let delay = self.worker.draw_delay();
        if !delay.is_zero() {
            self.connection.pause(delay).await?;
        }
        self.send_default_now().await
    }

    pub async fn send_reply(&mut self, reply: Reply) -> io::Result<After> {
        if !reply.delay.is_zero() {
            self.connection.pause(reply.delay).await?;
        }
        match reply.content {
            Content::Default => self.send_default_now().await?,
            Content::Whole(answer) => self.send(&answer).await?,
            Content::Text { bytes, framing: Framing::Length } => self.send_bytes(bytes).await?,
            Content::Text { bytes, framing: Framing::Chunked } => self.send_chunked(bytes).await?,
            Content::Text { bytes, framing: Framing::Close } => {
                self.send_close_delimited(bytes).await?;
                return Ok(After::Ended);
            }
            Content::Drip { answer, pieces, pause } => self.drip(&answer, pieces, pause).await?,
        }
        Ok(After::Answered)
    }

    pub async fn send(&mut self, answer: &Answer) -> io::Result<()> {
        self.send_whole(answer.status, &answer.head(self.request.persistence), &answer.body).await
    }

    async fn send_default_now(&mut self) -> io::Result<()> {
        let answer = self.worker.default_answer();
        self.send_whole(answer.status, answer.head(self.request.persistence), &answer.body).await
    }

    async fn send_whole(&mut self, status: u16, head: &[u8], body: &[u8]) -> io::Result<()> {
        self.worker.begins(&mut self.in_progress, status);
        self.in_progress.end();
        let body = if self.request.is_head { &[] } else { body };
        self.connection.send(head.chain(body)).await
    }

    async fn send_bytes(&mut self, bytes: u64) -> io::Result<()> {
        self.worker.begins(&mut self.in_progress, 200);
        let Exchange { connection, worker, request, in_progress } = self;
        let head = answer::head(200, &answer::length_fields(bytes), request.persistence);
        let mut pieces = worker.content().pieces(if request.is_head { 0 } else { bytes });
        let last = pieces.next_back();
        if last.is_none() {
            in_progress.end();
        }
        connection.send(&head[..]).await?;
        for piece in pieces {
            connection.send(piece).await?;
        }
        in_progress.end();
        connection.send(last.unwrap_or_else(Bytes::new)).await
    }

    async fn send_chunked(&mut self, bytes: u64) -> io::Result<()> {
        self.worker.begins(&mut self.in_progress, 200);
        let Exchange { connection, worker, request, in_progress } = self;
        let fields = "Content-Type: text/plain\r\nTransfer-Encoding: chunked\r\n";
        let head = answer::head(200, fields, request.persistence);
        if request.is_head {
            in_progress.end();
            return connection.send(&head[..]).await;
        }
        connection.send(&head[..]).await?;
        for piece in worker.content().pieces(bytes) {
            let size = format!("{:x}\r\n", piece.len());
            connection.send(size.as_bytes().chain(piece).chain(&b"\r\n"[..])).await?;
        }
        in_progress.end();
        connection.send(&b"0\r\n\r\n"[..]).await
    }

    async fn drip(&mut self, answer: &Answer, pieces: usize, pause: Duration) -> io::Result<()> {
        self.worker.begins(&mut self.in_progress, answer.status);
        self.connection.send(&answer.head(self.request.persistence)[..]).await?;
        let mut pieces = answer.pieces(if self.request.is_head { 0 } else { pieces }).peekable();
        while let Some(piece) = pieces.next() {
            if pieces.peek().is_none() {
                self.in_progress.end();
            }
            self.connection.send(piece).await?;
            if pieces.peek().is_some() {
                self.connection.pause(pause).await?;
            }
        }
        Ok(())
    }

    async fn send_close_delimited(&mut self, bytes: u64) -> io::Result<()> {
        self.worker.begins(&mut self.in_progress, 200);
        let Exchange { connection, worker, request, in_progress } = self;
        let head = answer::head(200, "Content-Type: text/plain\r\n", Persistence::Close);
        connection.send(&head[..]).await?;
        for piece in worker.content().pieces(if request.is_head { 0 } else { bytes }) {
            connection.send(piece).await?;
        }
        in_progress.end();
        connection.close().await
    }
}
