//! Faults of framing: the end of the body is marked wrongly, ambiguously or not at all (RFC 9112 sections 6 and 7).

use super::fault::Fault;
use super::fault::FaultStep::{Close, Forever, Send};

pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "content-length-too-long",
        description: "announces 100 bytes, sends 13 and closes",
        steps: &[Send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nHello, World!"), Close],
    },
    Fault {
        name: "content-length-too-short",
        description: "announces 5 bytes and sends 13",
        steps: &[Send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHello, World!")],
    },
    Fault {
        name: "conflicting-content-lengths",
        description: "announces both 5 and 13 bytes",
        steps: &[Send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 13\r\n\r\nHello, World!"), Close],
    },
    Fault {
        name: "repeated-content-length",
        description: "announces 13 bytes twice, which a client may accept",
        steps: &[Send(b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\nContent-Length: 13\r\n\r\nHello, World!")],
    },
    Fault {
        name: "negative-content-length",
        description: "announces -1 bytes",
        steps: &[Send(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nHello, World!"), Close],
    },
    Fault {
        name: "content-length-no-number",
        description: "announces `many` bytes",
        steps: &[Send(b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\nHello, World!"), Close],
    },
    Fault {
        name: "content-length-overflow",
        description: "announces more bytes than 64 bits can count",
        steps: &[Send(b"HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551617\r\n\r\nHello, World!"), Close],
    },
    Fault {
        name: "content-length-huge",
        description: "announces 8 EiB, sends 13 bytes and closes",
        steps: &[Send(b"HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775807\r\n\r\nHello, World!"), Close],
    },
    Fault {
        name: "content-length-and-chunked",
        description: "announces 5 bytes and chunks",
        steps: &[Send(
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n\
              d\r\nHello, World!\r\n0\r\n\r\n",
        )],
    },
    Fault {
        name: "unknown-transfer-encoding",
        description: "announces an unknown transfer-encoding",
        steps: &[Send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: rot13\r\n\r\nUryyb, Jbeyq!"), Close],
    },
    Fault {
        name: "bad-chunk-size",
        description: "sends a chunk size that is not a number",
        steps: &[
            Send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\nHello, World!\r\n0\r\n\r\n"),
            Close,
        ],
    },
    Fault {
        name: "negative-chunk-size",
        description: "sends a chunk of -1 bytes",
        steps: &[Send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\nHello, World!\r\n0\r\n\r\n"), Close],
    },
    Fault {
        name: "chunk-size-overflow",
        description: "sends a chunk size of more than 64 bits",
        steps: &[
            Send(
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1000000000000000d\r\nHello, World!\r\n0\r\n\r\n",
            ),
            Close,
        ],
    },
    Fault {
        name: "chunk-too-long",
        description: "sends more bytes than the size of the chunk says",
        steps: &[Send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nHello, World!\r\n0\r\n\r\n"), Close],
    },
    Fault {
        name: "truncated-chunk",
        description: "closes in the middle of a chunk",
        steps: &[Send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nd\r\nHello"), Close],
    },
    Fault {
        name: "truncated-chunks",
        description: "closes after a whole chunk, without the last one",
        steps: &[Send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nd\r\nHello, World!\r\n"), Close],
    },
    Fault {
        name: "endless-chunk-extension",
        description: "sends a chunk extension without end",
        steps: &[Send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nd;extension="), Forever(b"x")],
    },
    Fault {
        name: "endless-trailers",
        description: "sends trailers without end",
        steps: &[
            Send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nd\r\nHello, World!\r\n0\r\n"),
            Forever(b"X-Trailer: one more\r\n"),
        ],
    },
    Fault {
        name: "extensions-and-trailers",
        description: "sends chunk extensions and a trailer, which is allowed",
        steps: &[Send(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Checksum\r\n\r\n\
              5;name=value\r\nHello\r\n8;quoted=\"a;b\"\r\n, World!\r\n0\r\nX-Checksum: 13\r\n\r\n",
        )],
    },
    Fault {
        name: "body-after-head",
        description: "sends a body even in the response to HEAD",
        steps: &[Send(b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nHello, World!")],
    },
    Fault {
        name: "no-content-with-body",
        description: "sends a body after 204",
        steps: &[Send(b"HTTP/1.1 204 No Content\r\nContent-Length: 13\r\n\r\nHello, World!")],
    },
    Fault {
        name: "not-modified",
        description: "sends 304 with the length of a body, but none, which is allowed",
        steps: &[Send(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 13\r\n\r\n")],
    },
    Fault {
        name: "not-modified-with-body",
        description: "sends a body after 304",
        steps: &[Send(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 13\r\n\r\nHello, World!")],
    },
];
