//! Faults of HTTP/2 (RFC 9113): of a stream, sent by `h2`, and of a connection, written frame by frame.

use super::fault::Fault;
use super::fault::FaultStep::{
    Close, Frames, FramesForever, GoAway, Hang, Interim, Pause, ResetStream, Send, Trailers,
};
use super::frames::{
    CONTINUATION, DATA, END_HEADERS, HEADERS, NEWEST_ENTRY, PING, PUSH_PROMISE, RST_STREAM, SETTINGS, STATUS_200,
    UNKNOWN, WINDOW_UPDATE, data, frame, goaway, headers, last_data, literal, response, setting,
};

const NO_ERROR: u32 = 0x0;
const PROTOCOL_ERROR: u32 = 0x1;
const INTERNAL_ERROR: u32 = 0x2;
const FLOW_CONTROL_ERROR: u32 = 0x3;
const STREAM_CLOSED: u32 = 0x5;
const REFUSED_STREAM: u32 = 0x7;
const CANCEL: u32 = 0x8;
const ENHANCE_YOUR_CALM: u32 = 0xb;
const HTTP_1_1_REQUIRED: u32 = 0xd;

const MAX_CONCURRENT_STREAMS: u16 = 0x3;
const INITIAL_WINDOW_SIZE: u16 = 0x4;
const LARGEST_WINDOW: u32 = (1 << 31) - 1;
/// The largest frame that every client accepts.
const FRAME_BYTES: usize = 16 * 1024;
/// The size of an entry that, with its overhead, just fits into HPACK's dynamic table.
const ENTRY_BYTES: usize = 4000;

const HEADERS_BYTES: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n";
const RESPONSE_BYTES: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nHello, World!";
const PARTIAL_RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nHello";

pub(super) const STREAM_FAULTS: &[Fault] = &[
    Fault {
        name: "h2-refused-stream",
        description: "refuses the stream, which the server says is safe to resend",
        steps: &[ResetStream(REFUSED_STREAM)],
    },
    Fault {
        name: "h2-http-1-1-required",
        description: "wants HTTP/1.1 for this",
        steps: &[ResetStream(HTTP_1_1_REQUIRED)],
    },
    Fault {
        name: "h2-reset-no-error",
        description: "resets the stream in the middle of the body, without an error",
        steps: &[Send(PARTIAL_RESPONSE), Pause, ResetStream(NO_ERROR)],
    },
    Fault {
        name: "h2-reset-protocol-error",
        description: "the same, as an error of the protocol",
        steps: &[Send(PARTIAL_RESPONSE), Pause, ResetStream(PROTOCOL_ERROR)],
    },
    Fault {
        name: "h2-reset-internal-error",
        description: "the same, as an error of its own",
        steps: &[Send(PARTIAL_RESPONSE), Pause, ResetStream(INTERNAL_ERROR)],
    },
    Fault {
        name: "h2-reset-flow-control-error",
        description: "the same, as an error of flow control",
        steps: &[Send(PARTIAL_RESPONSE), Pause, ResetStream(FLOW_CONTROL_ERROR)],
    },
    Fault {
        name: "h2-reset-stream-closed",
        description: "the same, as if the stream had ended",
        steps: &[Send(PARTIAL_RESPONSE), Pause, ResetStream(STREAM_CLOSED)],
    },
    Fault {
        name: "h2-reset-refused-stream",
        description: "the same, as if it had not begun",
        steps: &[Send(PARTIAL_RESPONSE), Pause, ResetStream(REFUSED_STREAM)],
    },
    Fault {
        name: "h2-reset-cancel",
        description: "the same, as if it was cancelled",
        steps: &[Send(PARTIAL_RESPONSE), Pause, ResetStream(CANCEL)],
    },
    Fault {
        name: "h2-reset-enhance-your-calm",
        description: "the same, because the client sends too many requests",
        steps: &[Send(PARTIAL_RESPONSE), Pause, ResetStream(ENHANCE_YOUR_CALM)],
    },
    Fault {
        name: "h2-content-length-too-long",
        description: "announces 100 bytes, and ends the stream after 13",
        steps: &[Send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nHello, World!")],
    },
    Fault {
        name: "h2-content-length-too-short",
        description: "announces 5 bytes, and ends the stream after 13",
        steps: &[Send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHello, World!")],
    },
    Fault {
        name: "h2-trailers",
        description: "sends trailers, which is allowed",
        steps: &[Send(RESPONSE_BYTES), Trailers("x-checksum: 13\r\n")],
    },
    Fault {
        name: "h2-interim",
        description: "sends an interim response first, which is allowed",
        steps: &[Interim(103), Send(RESPONSE_BYTES)],
    },
    Fault {
        name: "h2-goaway-graceful",
        description: "accepts no more streams on this connection, and responds to the open ones",
        steps: &[GoAway, Send(HEADERS_BYTES), Pause, Send(b"Hello, World!")],
    },
];

pub(super) const CONNECTION_FAULTS: &[Fault] = &[
    Fault {
        name: "h2-goaway",
        description: "says that it has taken no stream at all, and closes",
        steps: &[Frames(|_| goaway(0, NO_ERROR)), Close],
    },
    Fault {
        name: "h2-goaway-lower",
        description: "says that it has taken all streams but this one, and closes",
        steps: &[Frames(|stream| goaway(stream.saturating_sub(2), NO_ERROR)), Close],
    },
    Fault {
        name: "h2-goaway-taken",
        description: "says that it has taken this stream, too, and closes",
        steps: &[Frames(|stream| goaway(stream, NO_ERROR)), Close],
    },
    Fault {
        name: "h2-goaway-calm",
        description: "says that the client sends too many requests, and closes",
        steps: &[Frames(|stream| goaway(stream, ENHANCE_YOUR_CALM)), Close],
    },
    Fault {
        name: "h2-goaway-mid-body",
        description: "goes away in the middle of the body, but sends the rest first",
        steps: &[
            Frames(|stream| [headers(stream), data(stream, b"Hello"), goaway(stream, NO_ERROR)].concat()),
            Pause,
            Frames(|stream| last_data(stream, b", World!")),
            Close,
        ],
    },
    Fault {
        name: "h2-goaway-hang",
        description: "says that it has taken this stream, and stands still",
        steps: &[Frames(|stream| goaway(stream, NO_ERROR)), Hang],
    },
    Fault {
        name: "h2-silent",
        description: "says nothing more on this connection, not even that it is there",
        steps: &[Frames(|_| Vec::new()), Hang],
    },
    Fault {
        name: "h2-silent-mid-body",
        description: "the same, after 5 of 13 bytes of the body",
        steps: &[Frames(|stream| [headers(stream), data(stream, b"Hello")].concat()), Hang],
    },
    Fault {
        name: "h2-close-mid-body",
        description: "closes the connection after 5 of 13 bytes of the body",
        steps: &[Frames(|stream| [headers(stream), data(stream, b"Hello")].concat()), Pause, Close],
    },
    Fault {
        name: "h2-no-more-streams",
        description: "responds, and allows no stream on this connection from now on",
        steps: &[Frames(|stream| [setting(MAX_CONCURRENT_STREAMS, 0), response(stream)].concat()), Hang],
    },
    Fault {
        name: "h2-rapid-reset",
        description: "resets the stream without end",
        steps: &[FramesForever(|stream| frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes()))],
    },
    Fault {
        name: "h2-continuation-flood",
        description: "sends headers without end",
        steps: &[
            Frames(|stream| frame(HEADERS, 0, stream, &[STATUS_200])),
            FramesForever(|stream| frame(CONTINUATION, 0, stream, &literal("x-header", "one more"))),
        ],
    },
    Fault {
        name: "h2-empty-continuation-flood",
        description: "goes on with headers without end, each time with nothing",
        steps: &[
            Frames(|stream| frame(HEADERS, 0, stream, &[STATUS_200])),
            FramesForever(|stream| frame(CONTINUATION, 0, stream, b"")),
        ],
    },
    Fault {
        name: "h2-settings-flood",
        description: "sends settings without end",
        steps: &[FramesForever(|_| frame(SETTINGS, 0, 0, b""))],
    },
    Fault {
        name: "h2-ping-flood",
        description: "sends pings without end",
        steps: &[FramesForever(|_| frame(PING, 0, 0, b"headgate"))],
    },
    Fault {
        name: "h2-window-update-flood",
        description: "allows the client one byte more without end",
        steps: &[FramesForever(|_| frame(WINDOW_UPDATE, 0, 0, &1_u32.to_be_bytes()))],
    },
    Fault {
        name: "h2-empty-data-flood",
        description: "sends parts of the body without end, each of which is empty",
        steps: &[Frames(headers), FramesForever(|stream| frame(DATA, 0, stream, b""))],
    },
    Fault {
        name: "h2-header-bomb",
        description: "sends 5 KB of headers that come to 4 MB",
        steps: &[Frames(header_bomb), Frames(|stream| last_data(stream, b"Hello, World!")), Close],
    },
    Fault {
        name: "h2-window-ignored",
        description: "sends a body without end, whatever the client allows",
        steps: &[
            Frames(|stream| frame(HEADERS, END_HEADERS, stream, &[STATUS_200])),
            FramesForever(|stream| data(stream, &[b'x'; FRAME_BYTES])),
        ],
    },
    Fault {
        name: "h2-garbage",
        description: "sends bytes that are no frames",
        steps: &[Frames(|_| b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nHello, World!".to_vec()), Close],
    },
    Fault {
        name: "h2-frame-too-large",
        description: "sends a frame of 16 MiB, which the client has not allowed",
        steps: &[
            Frames(headers),
            Frames(|stream| [&[0xff, 0xff, 0xff, DATA, 0], &stream.to_be_bytes()[..]].concat()),
            FramesForever(|_| b"this frame is far too large ".to_vec()),
        ],
    },
    Fault {
        name: "h2-bad-compression",
        description: "sends headers that refer to what no table has",
        steps: &[Frames(|stream| frame(HEADERS, END_HEADERS, stream, &[STATUS_200, 0xff, 0x7f])), Close],
    },
    Fault {
        name: "h2-no-status",
        description: "sends headers without a status",
        steps: &[
            Frames(|stream| frame(HEADERS, END_HEADERS, stream, &literal("content-length", "13"))),
            Frames(|stream| last_data(stream, b"Hello, World!")),
            Close,
        ],
    },
    Fault {
        name: "h2-upper-case",
        description: "sends a header whose name has upper-case letters",
        steps: &[
            Frames(|stream| {
                frame(HEADERS, END_HEADERS, stream, &[&[STATUS_200], &literal("X-Upper", "1")[..]].concat())
            }),
            Frames(|stream| last_data(stream, b"Hello, World!")),
            Close,
        ],
    },
    Fault {
        name: "h2-connection-header",
        description: "sends a header that HTTP/2 does not have",
        steps: &[
            Frames(|stream| {
                frame(HEADERS, END_HEADERS, stream, &[&[STATUS_200], &literal("connection", "close")[..]].concat())
            }),
            Frames(|stream| last_data(stream, b"Hello, World!")),
            Close,
        ],
    },
    Fault {
        name: "h2-data-first",
        description: "sends the body before the headers",
        steps: &[Frames(|stream| [data(stream, b"Hello"), response(stream)].concat()), Close],
    },
    Fault {
        name: "h2-idle-stream",
        description: "responds on a stream that has not begun",
        steps: &[Frames(|stream| response(stream + 1000)), Close],
    },
    Fault {
        name: "h2-push",
        description: "pushes a response without a request",
        steps: &[
            Frames(|stream| {
                let promised =
                    [&2_u32.to_be_bytes()[..], &[0x82, 0x84, 0x86], &literal(":authority", "localhost")].concat();
                [frame(PUSH_PROMISE, END_HEADERS, stream, &promised), response(stream)].concat()
            }),
            Close,
        ],
    },
    Fault {
        name: "h2-window-overflow",
        description: "allows more bytes than can be counted",
        steps: &[
            Frames(|_| frame(WINDOW_UPDATE, 0, 0, &LARGEST_WINDOW.to_be_bytes()).repeat(2)),
            Frames(response),
            Close,
        ],
    },
    Fault {
        name: "h2-bad-settings",
        description: "sends a setting that can't be",
        steps: &[Frames(|_| setting(INITIAL_WINDOW_SIZE, LARGEST_WINDOW + 1)), Frames(response), Close],
    },
    Fault {
        name: "h2-unknown-frame",
        description: "sends an unknown frame, then a correct response, which is allowed",
        steps: &[Frames(|stream| [frame(UNKNOWN, 0xff, stream, b"???"), response(stream)].concat()), Close],
    },
    Fault {
        name: "h2-succeeded-and-reset",
        description: "responds, and resets the stream without an error, which is allowed",
        steps: &[
            Frames(|stream| [response(stream), frame(RST_STREAM, 0, stream, &NO_ERROR.to_be_bytes())].concat()),
            Close,
        ],
    },
];

/// Encodes headers: one long header that is added to the dynamic table, and a thousand references to it.
fn header_bomb(stream: u32) -> Vec<u8> {
    // Its length has a prefix of 7 bits (RFC 7541 section 5.1).
    let more = ENTRY_BYTES - 0x7f;
    let length = [0x7f, (more & 0x7f) as u8 | 0x80, (more >> 7) as u8];
    let entry = [&[0x40, 1, b'x'], &length[..], &[b'x'; ENTRY_BYTES]].concat();
    let block = [&[STATUS_200], &entry[..], &[NEWEST_ENTRY; 1000]].concat();
    frame(HEADERS, END_HEADERS, stream, &block)
}
