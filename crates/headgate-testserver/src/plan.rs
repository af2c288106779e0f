//! The response to a request, before it is known over which version of HTTP it is sent.

use std::time::Duration;

use crate::response::FullResponse;

#[derive(Debug)]
pub(crate) struct ResponsePlan {
    /// The delay before the response.
    pub delay: Duration,
    pub content: PlannedContent,
}

#[derive(Debug)]
pub(crate) enum PlannedContent {
    Default,
    Whole(FullResponse),
    /// The first `bytes` bytes of the server's text.
    Text {
        bytes: u64,
        framing: ResponseFraming,
    },
    /// A response whose body is sent in pieces, with a pause before each except the first.
    Drip {
        response: FullResponse,
        pieces: usize,
        pause: Duration,
    },
}

/// How the end of a response's body is marked in HTTP/1.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResponseFraming {
    Length,
    Chunked,
    Close,
}

impl ResponsePlan {
    pub(crate) fn immediate(content: PlannedContent) -> Self {
        Self { delay: Duration::ZERO, content }
    }
}

impl From<FullResponse> for ResponsePlan {
    fn from(response: FullResponse) -> Self {
        Self::immediate(PlannedContent::Whole(response))
    }
}
