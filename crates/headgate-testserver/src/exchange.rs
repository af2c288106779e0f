//! One request on its way to its answer.

use std::io;

use bytes::Buf;

use crate::answer::Answer;
use crate::connection::Connection;
use crate::in_progress::InProgress;
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

    pub async fn send_default_now(&mut self) -> io::Result<()> {
        let answer = self.worker.default_answer();
        self.send_whole(answer.status, answer.head(self.request.persistence), &answer.body).await
    }

    pub async fn send(&mut self, answer: &Answer) -> io::Result<()> {
        self.send_whole(answer.status, &answer.head(self.request.persistence), &answer.body).await
    }

    /// An answer with this status begins.
    pub fn begins(&mut self, status: u16) {
        if self.in_progress.is_counted() {
            self.worker.counters().response(status);
        }
        self.in_progress.answers(status);
    }

    async fn send_whole(&mut self, status: u16, head: &[u8], body: &[u8]) -> io::Result<()> {
        self.begins(status);
        self.in_progress.end();
        let body = if self.request.is_head { &[] } else { body };
        self.connection.send(head.chain(body)).await
    }
}
