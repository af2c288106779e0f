//! Faults of the status line and the headers (RFC 9112 sections 4 and 5).

use std::fmt::Write as _;
use std::io;

use super::fault::Fault;
use super::fault::FaultStep::{Close, Forever, Make, Send, Times};

const MEBIBYTE: usize = 1024 * 1024;

pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "garbage",
        description: "sends garbage instead of a status line",
        steps: &[Send(b"\x16\x03\x01\x02\x00\xff\xfe\x00 this is no HTTP \x80\x81\r\n\r\n"), Close],
    },
    Fault {
        name: "http-09",
        description: "sends a body without a head, as HTTP/0.9 did",
        steps: &[Send(b"Hello, World!"), Close],
    },
    Fault {
        name: "bad-status",
        description: "sends a status that is not a number",
        steps: &[Send(b"HTTP/1.1 abc OK\r\nContent-Length: 13\r\n\r\nHello, World!"), Close],
    },
    Fault {
        name: "long-status",
        description: "sends a status of five digits",
        steps: &[Send(b"HTTP/1.1 20000 OK\r\nContent-Length: 13\r\n\r\nHello, World!"), Close],
    },
    Fault {
        name: "no-reason",
        description: "sends no reason phrase, which is allowed",
        steps: &[Send(b"HTTP/1.1 200 \r\nContent-Length: 13\r\n\r\nHello, World!")],
    },
    Fault {
        name: "bad-version",
        description: "responds as HTTP/9.9",
        steps: &[Send(b"HTTP/9.9 200 OK\r\nContent-Length: 13\r\n\r\nHello, World!"), Close],
    },
    Fault {
        name: "unsolicited-upgrade",
        description: "switches protocols without a request to do so",
        steps: &[
            Send(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: other\r\n\r\nother bytes"),
            Close,
        ],
    },
    Fault {
        name: "many-headers",
        description: "sends 1 MiB of headers, then a correct response",
        steps: &[Send(b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n"), Make(many_headers), Send(b"\r\nHello, World!")],
    },
    Fault {
        name: "long-header",
        description: "sends one header of 1 MiB, then a correct response",
        steps: &[
            Send(b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\nX-Long: "),
            Times(MEBIBYTE, b"x"),
            Send(b"\r\n\r\nHello, World!"),
        ],
    },
    Fault {
        name: "endless-headers",
        description: "sends headers without end",
        steps: &[Send(b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n"), Forever(b"X-Header: one more\r\n")],
    },
    Fault {
        name: "endless-header",
        description: "sends one header without end",
        steps: &[Send(b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\nX-Long: "), Forever(b"x")],
    },
    Fault {
        name: "many-interim",
        description: "sends 1,000 interim 103 responses, then a correct one",
        steps: &[
            Times(1000, b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n"),
            Send(b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nHello, World!"),
        ],
    },
    Fault {
        name: "endless-interim",
        description: "sends interim 102 responses without end",
        steps: &[Forever(b"HTTP/1.1 102 Processing\r\n\r\n")],
    },
    Fault {
        name: "folded-header",
        description: "sends a header over two lines, as was once allowed",
        steps: &[
            Send(b"HTTP/1.1 200 OK\r\nX-Folded: first\r\n second\r\nContent-Length: 13\r\n\r\nHello, World!"),
            Close,
        ],
    },
    Fault {
        name: "bare-line-feeds",
        description: "ends its lines with LF only, which a client may accept",
        steps: &[Send(b"HTTP/1.1 200 OK\nContent-Length: 13\n\nHello, World!"), Close],
    },
    Fault {
        name: "bare-carriage-return",
        description: "sends a CR in the middle of a header value",
        steps: &[Send(b"HTTP/1.1 200 OK\r\nX-Value: a\rb\r\nContent-Length: 13\r\n\r\nHello, World!"), Close],
    },
    Fault {
        name: "nul-in-header",
        description: "sends a NUL in a header value",
        steps: &[Send(b"HTTP/1.1 200 OK\r\nX-Value: a\0b\r\nContent-Length: 13\r\n\r\nHello, World!"), Close],
    },
    Fault {
        name: "latin-1-header",
        description: "sends bytes beyond ASCII in a header value, which is allowed",
        steps: &[Send(b"HTTP/1.1 200 OK\r\nX-Value: caf\xe9\r\nContent-Length: 13\r\n\r\nHello, World!")],
    },
    Fault {
        name: "space-before-colon",
        description: "sends a space between the name of a header and its colon",
        steps: &[Send(b"HTTP/1.1 200 OK\r\nContent-Length : 13\r\n\r\nHello, World!"), Close],
    },
    Fault {
        name: "no-colon",
        description: "sends a header line without a colon",
        steps: &[Send(b"HTTP/1.1 200 OK\r\nthis is no header\r\nContent-Length: 13\r\n\r\nHello, World!"), Close],
    },
];

/// Creates 1 MiB of headers. It can't fail, but has the type of `FaultStep::Make`.
#[expect(clippy::unnecessary_wraps, reason = "the type of `FaultStep::Make`")]
fn many_headers() -> io::Result<Vec<u8>> {
    let mut headers = String::with_capacity(MEBIBYTE + 128);
    let mut number = 0;
    while headers.len() < MEBIBYTE {
        // Writing to a string can't fail.
        let _ = write!(headers, "X-Filler-{number:05}: {number:0>80}\r\n");
        number += 1;
    }
    Ok(headers.into_bytes())
}
