//! Faults of redirects: missing, circular or invalid targets, and long bodies that are not needed.

use std::io;

use super::fault::Fault;
use super::fault::FaultStep::{Drip, Hang, Make, Send};
use crate::content::gzip;

const BODY_BYTES: usize = 4 * 1024 * 1024;

pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "redirect-loop",
        description: "redirects to itself",
        steps: &[Send(b"HTTP/1.1 302 Found\r\nLocation: /fault/redirect-loop\r\nContent-Length: 0\r\n\r\n")],
    },
    Fault {
        name: "redirect-without-location",
        description: "redirects without saying where to",
        steps: &[Send(b"HTTP/1.1 302 Found\r\nContent-Length: 13\r\n\r\nHello, World!")],
    },
    Fault {
        name: "redirect-to-nothing",
        description: "redirects with an empty Location",
        steps: &[Send(b"HTTP/1.1 302 Found\r\nLocation:\r\nContent-Length: 0\r\n\r\n")],
    },
    Fault {
        name: "redirect-broken",
        description: "redirects to what is no URL",
        steps: &[Send(b"HTTP/1.1 302 Found\r\nLocation: http://[::1/\r\nContent-Length: 0\r\n\r\n")],
    },
    Fault {
        name: "redirect-other-scheme",
        description: "redirects to a URL of another scheme than HTTP",
        steps: &[Send(b"HTTP/1.1 302 Found\r\nLocation: ftp://localhost/hello\r\nContent-Length: 0\r\n\r\n")],
    },
    Fault {
        name: "redirect-two-locations",
        description: "redirects to two places at once",
        steps: &[Send(b"HTTP/1.1 302 Found\r\nLocation: /hello\r\nLocation: /world\r\nContent-Length: 0\r\n\r\n")],
    },
    Fault {
        name: "redirect-coded-body",
        description: "redirects with 4 MiB in the body, in gzip",
        steps: &[Make(coded_body)],
    },
    Fault {
        name: "redirect-corrupt-body",
        description: "redirects with a body that is not the gzip it says",
        steps: &[Send(
            b"HTTP/1.1 302 Found\r\nLocation: /hello\r\nContent-Encoding: gzip\r\nContent-Length: 13\r\n\r\nHello, World!",
        )],
    },
    Fault {
        name: "redirect-hang-mid-body",
        description: "redirects, and stands still in the middle of the body",
        steps: &[Send(b"HTTP/1.1 302 Found\r\nLocation: /hello\r\nContent-Length: 13\r\n\r\nHello"), Hang],
    },
    Fault {
        name: "redirect-drip",
        description: "redirects with a body that comes one byte a second",
        steps: &[
            Send(b"HTTP/1.1 302 Found\r\nLocation: /hello\r\nContent-Length: 13\r\n\r\n"),
            Drip(b"Hello, World!"),
        ],
    },
];

fn coded_body() -> io::Result<Vec<u8>> {
    let body = gzip(&vec![0; BODY_BYTES])?;
    let fields = format!("Location: /hello\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n", body.len());
    Ok([format!("HTTP/1.1 302 Found\r\n{fields}\r\n").as_bytes(), &body].concat())
}
