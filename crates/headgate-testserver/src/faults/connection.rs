//! Faults of the connection: it ends, hangs or continues when it should not.

use super::fault::Fault;
use super::fault::FaultStep::{AwaitNext, Close, Cut, Drip, Forever, Hang, Pause, Reset, Send};

pub(super) const FAULTS: &[Fault] = &[
    Fault { name: "refuse", description: "closes without sending a byte", steps: &[Close] },
    Fault { name: "reset-before-headers", description: "resets without sending a byte", steps: &[Reset] },
    Fault {
        name: "close-mid-headers",
        description: "closes in the middle of the headers",
        steps: &[Send(b"HTTP/1.1 200 OK\r\nContent-Type: te"), Close],
    },
    Fault {
        name: "reset-after-headers",
        description: "resets after the headers, before the body",
        steps: &[Send(b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n"), Pause, Reset],
    },
    Fault {
        name: "reset-mid-body",
        description: "resets after 5 of 13 bytes of the body",
        steps: &[Send(b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nHello"), Pause, Reset],
    },
    Fault { name: "hang-before-headers", description: "never responds", steps: &[Hang] },
    Fault {
        name: "hang-mid-headers",
        description: "stands still in the middle of the headers",
        steps: &[Send(b"HTTP/1.1 200 OK\r\nContent-Type: te"), Hang],
    },
    Fault {
        name: "hang-mid-body",
        description: "stands still after 5 of 13 bytes of the body",
        steps: &[Send(b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nHello"), Hang],
    },
    Fault {
        name: "drip",
        description: "sends the 13 bytes of the body one a second",
        steps: &[Send(b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n"), Drip(b"Hello, World!")],
    },
    Fault {
        name: "drip-headers",
        description: "sends the headers one byte a second",
        steps: &[Drip(b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n"), Send(b"Hello, World!")],
    },
    Fault {
        name: "endless-body",
        description: "sends chunks without end",
        steps: &[
            Send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
            Forever(b"1f\r\nthis body will never come to an\r\n"),
        ],
    },
    Fault {
        name: "endless-body-close-delimited",
        description: "sends a body without end, to be ended by closing",
        steps: &[Send(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"), Forever(b"this body will never come to an ")],
    },
    Fault {
        name: "close-after-response",
        description: "responds, and closes without announcing it",
        steps: &[Send(b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nHello, World!"), Close],
    },
    Fault {
        name: "close-idle",
        description: "responds, and closes as the first bytes of the next request arrive",
        steps: &[Send(b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nHello, World!"), AwaitNext, Close],
    },
    Fault {
        name: "reset-idle",
        description: "responds, and resets as the first bytes of the next request arrive",
        steps: &[Send(b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nHello, World!"), AwaitNext, Reset],
    },
    Fault {
        name: "cut-mid-stream",
        description: "ends a body that closing ends; with TLS, without saying that this is the end",
        steps: &[Send(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nHello, World!"), Cut],
    },
    Fault {
        name: "extra-bytes",
        description: "sends bytes that belong to nothing after the response",
        steps: &[Send(b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nHello, World!these bytes belong to nothing")],
    },
    Fault {
        name: "extra-response",
        description: "sends a second response without a request",
        steps: &[Send(
            b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nHello, World!\
              HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nunasked!",
        )],
    },
];
