//! What a request is answered, before it is known how that is sent.

use std::time::Duration;

use crate::answer::Answer;

#[derive(Debug)]
pub(crate) struct Reply {
    /// To be waited before it.
    pub delay: Duration,
    pub content: Content,
}

#[derive(Debug)]
pub(crate) enum Content {
    Default,
    Whole(Answer),
    /// So many bytes of the server's text.
    Text {
        bytes: u64,
        framing: Framing,
    },
    /// A head, and its body piece by piece, with a pause before each but the first.
    Drip {
        answer: Answer,
        pieces: usize,
        pause: Duration,
    },
}

/// How the end of a body is told over HTTP/1.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    Length,
    Chunked,
    Close,
}

impl Reply {
    pub fn at_once(content: Content) -> Self {
        Self { delay: Duration::ZERO, content }
    }
}

impl From<Answer> for Reply {
    fn from(answer: Answer) -> Self {
        Self::at_once(Content::Whole(answer))
    }
}
