//! A question read, and the answer that its name asks for.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use super::DnsConfig;

const HEADER_BYTES: usize = 12;
const KIND_V4: u16 = 1;
const KIND_ALIAS: u16 = 5;
const KIND_AUTHORITY: u16 = 6;
const KIND_V6: u16 = 28;
/// A pointer to the name in the question.
const ASKED_NAME: [u8; 2] = [0xc0, HEADER_BYTES as u8];
/// Addresses of a `long` name: too many for a packet of 512 bytes.
const LONG_ADDRESSES: u8 = 100;

const TRUNCATED: u8 = 0x02;
const NO_SUCH_NAME: u8 = 3;

pub(super) struct Question {
    /// In lower case, without a dot at the end.
    pub name: String,
    kind: u16,
    /// The message up to the end of the question.
    bytes: Vec<u8>,
}

impl Question {
    /// `None`: it is no question.
    pub fn read(message: &[u8]) -> Option<Self> {
        if message.get(2)? & 0x80 != 0 || message.get(4..6)? != [0, 1] {
            return None;
        }
        let mut labels = Vec::new();
        let mut at = HEADER_BYTES;
        loop {
            let length = usize::from(*message.get(at)?);
            let label = message.get(at + 1..at + 1 + length)?;
            at += 1 + length;
            if length == 0 {
                break;
            }
            labels.push(String::from_utf8_lossy(label).to_lowercase());
        }
        let kind = u16::from_be_bytes(message.get(at..at + 2)?.try_into().ok()?);
        Some(Self { name: labels.join("."), kind, bytes: message.get(..at + 4)?.to_vec() })
    }
}

pub(super) struct Answer {
    pub message: Vec<u8>,
    /// Beyond that of all answers.
    pub delay: Duration,
}

impl Answer {
    /// `None`: there is none.
    pub fn new(question: &Question, config: &DnsConfig, over_udp: bool) -> Option<Self> {
        let label = config.always.as_deref().or(question.name.split('.').next()).unwrap_or_default();
        let (what, number) = label.split_once('-').unwrap_or((label, ""));
        let number: Option<u32> = number.parse().ok();
        let mut message = Message::new(question);
        match what {
            "dead" => return None,
            "none" => message.nothing(NO_SUCH_NAME, number),
            "empty" => message.nothing(0, number),
            "servfail" => message.code(2),
            "refused" => message.code(5),
            "garbage" => message.garbage(),
            "long" if over_udp => message.bytes[2] |= TRUNCATED,
            "long" => (1..=LONG_ADDRESSES).for_each(|last| message.v4(&ASKED_NAME, config.seconds, last)),
            "alias" => {
                let target = b"\x06target\x07example\x00";
                message.record(&ASKED_NAME, KIND_ALIAS, config.seconds, target);
                message.v4(target, config.seconds, 1);
            }
            "six" => message.v6_loopback(config.seconds),
            _ => {
                let seconds = number.filter(|_| what == "ttl").unwrap_or(config.seconds);
                let mut hash = DefaultHasher::new();
                question.name.hash(&mut hash);
                message.v4(&ASKED_NAME, seconds, 1 + (hash.finish() % u64::from(config.addresses.max(1))) as u8);
            }
        }
        let delay = Duration::from_millis(number.filter(|_| what == "slow").unwrap_or_default().into());
        Some(Self { message: message.bytes, delay })
    }
}

/// An answer in the making.
struct Message<'a> {
    question: &'a Question,
    bytes: Vec<u8>,
}

impl<'a> Message<'a> {
    fn new(question: &'a Question) -> Self {
        let mut bytes = question.bytes.clone();
        // An answer; recursion is available. No records yet.
        bytes[2] |= 0x80;
        bytes[3] = 0x80;
        bytes[6..HEADER_BYTES].fill(0);
        Self { question, bytes }
    }

    fn code(&mut self, code: u8) {
        self.bytes[3] |= code;
    }

    fn garbage(&mut self) {
        self.bytes[7] = 3;
        self.bytes.extend([0xff; 7]);
    }

    fn nothing(&mut self, code: u8, seconds: Option<u32>) {
        self.code(code);
        if let Some(seconds) = seconds {
            let mut data = vec![0; 2 + 16];
            data.extend(seconds.to_be_bytes());
            self.bytes[9] += 1;
            self.append(&ASKED_NAME, KIND_AUTHORITY, seconds, &data);
        }
    }

    fn v4(&mut self, owner: &[u8], seconds: u32, last: u8) {
        if self.question.kind == KIND_V4 {
            self.record(owner, KIND_V4, seconds, &[127, 0, 0, last]);
        }
    }

    fn v6_loopback(&mut self, seconds: u32) {
        if self.question.kind == KIND_V6 {
            let mut address = [0; 16];
            address[15] = 1;
            self.record(&ASKED_NAME, KIND_V6, seconds, &address);
        }
    }

    /// A record of the answer.
    fn record(&mut self, owner: &[u8], kind: u16, seconds: u32, data: &[u8]) {
        self.bytes[7] += 1;
        self.append(owner, kind, seconds, data);
    }

    fn append(&mut self, owner: &[u8], kind: u16, seconds: u32, data: &[u8]) {
        self.bytes.extend(owner);
        self.bytes.extend(kind.to_be_bytes());
        self.bytes.extend([0, 1]);
        self.bytes.extend(seconds.to_be_bytes());
        self.bytes.extend((data.len() as u16).to_be_bytes());
        self.bytes.extend(data);
    }
}
