//! Questions and answers as bytes (RFC 1035 section 4). No I/O.
//!
//! A client of a recursive server asks one question in one message, and of the answer only addresses, aliases and lifetimes
//! concern it. What comes is not trusted: a message is read once, forwards, and pointers in names may only point
//! backwards, so that none can lead in a circle. Tests compare it with another implementation.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

const HEADER_BYTES: usize = 12;
/// Bytes of a name at the most, lengths included (RFC 1035 section 2.3.4).
const MAX_NAME_BYTES: usize = 255;
const MAX_LABEL_BYTES: usize = 63;
/// Aliases followed within one answer.
const MAX_ALIASES: usize = 16;

const CLASS_INTERNET: u16 = 1;
const KIND_ALIAS: u16 = 5;
const KIND_AUTHORITY: u16 = 6;

const NO_ERROR: u8 = 0;
const NO_SUCH_NAME: u8 = 3;

/// A family of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum Family {
    /// `A` records.
    V4 = 1,
    /// `AAAA` records (RFC 3596).
    V6 = 28,
}

/// A question: everything of a message but its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    message: Box<[u8]>,
    family: Family,
}

/// What a server says to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    Addresses {
        addresses: Vec<IpAddr>,
        lifetime: Duration,
    },
    /// There is no such name; how long to believe it, if the server says so (RFC 2308 section 5).
    NoName {
        lifetime: Option<Duration>,
    },
    /// The name has no address of this family.
    NoAddress {
        lifetime: Option<Duration>,
    },
    /// The answer did not fit: ask again over TCP.
    Truncated,
    /// The server would not or could not answer: its code, or `None` if the message makes no sense.
    Failed(Option<u8>),
}

impl Question {
    /// `None`: it is no name that can be asked for. A dot at the end makes no difference.
    pub fn new(name: &str, family: Family) -> Option<Self> {
        // Recursion desired, one question.
        let mut message = vec![0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.strip_suffix('.').unwrap_or(name).split('.') {
            if label.is_empty() || label.len() > MAX_LABEL_BYTES {
                return None;
            }
            message.push(label.len() as u8);
            message.extend(label.bytes().map(|byte| byte.to_ascii_lowercase()));
        }
        message.push(0);
        if message.len() - HEADER_BYTES > MAX_NAME_BYTES {
            return None;
        }
        message.extend((family as u16).to_be_bytes());
        message.extend(CLASS_INTERNET.to_be_bytes());
        Some(Self { message: message.into(), family })
    }

    /// The message that asks it under this number.
    pub fn message(&self, number: u16) -> Vec<u8> {
        let mut message = self.message.to_vec();
        message[..2].copy_from_slice(&number.to_be_bytes());
        message
    }

    /// What a message says to this question; `None`: it is no answer to it. Its number was looked at before.
    pub fn read(&self, message: &[u8]) -> Option<Reply> {
        let asked = &self.message[HEADER_BYTES..];
        let flags = message.get(2..4)?;
        let is_answer = flags[0] & 0x80 != 0;
        let same = message.get(HEADER_BYTES..HEADER_BYTES + asked.len())?.eq_ignore_ascii_case(asked);
        if !is_answer || !same || message[4..6] != [0, 1] {
            return None;
        }
        let is_truncated = flags[0] & 0x02 != 0;
        Some(match flags[1] & 0x0f {
            _ if is_truncated => Reply::Truncated,
            code @ (NO_ERROR | NO_SUCH_NAME) => read_records(message, HEADER_BYTES + asked.len())
                .map_or(Reply::Failed(None), |records| {
                    conclude(&records, &asked[..asked.len() - 4], self.family, code == NO_SUCH_NAME)
                }),
            code => Reply::Failed(Some(code)),
        })
    }
}

/// A record that concerns us.
struct Record<'a> {
    owner: Vec<u8>,
    kind: u16,
    lifetime: Duration,
    data: &'a [u8],
    /// Where a name begins that `data` consists of.
    name: Option<Vec<u8>>,
}

/// All records of the answer and authority sections.
fn read_records(message: &[u8], mut at: usize) -> Option<Vec<Record<'_>>> {
    let count = usize::from(number(message, 6)?) + usize::from(number(message, 8)?);
    let mut records = Vec::new();
    for _ in 0..count {
        let owner;
        (owner, at) = read_name(message, at)?;
        let (kind, class, length) = (number(message, at)?, number(message, at + 2)?, number(message, at + 8)?);
        let lifetime = read_lifetime(message, at + 4)?;
        let (start, end) = (at + 10, at + 10 + usize::from(length));
        let data = message.get(start..end)?;
        let name = if kind == KIND_ALIAS { Some(read_name(message, start)?.0) } else { None };
        if class == CLASS_INTERNET {
            records.push(Record { owner, kind, lifetime, data, name });
        }
        at = end;
    }
    Some(records)
}

/// What records say of a name, over its aliases.
fn conclude(records: &[Record<'_>], name: &[u8], family: Family, no_such_name: bool) -> Reply {
    let mut owner = name;
    let mut lifetime = Duration::MAX;
    for _ in 0..MAX_ALIASES {
        let Some(alias) = records.iter().find(|record| record.kind == KIND_ALIAS && record.owner == owner) else {
            break;
        };
        lifetime = lifetime.min(alias.lifetime);
        owner = alias.name.as_deref().unwrap_or(owner);
    }
    let mut addresses = Vec::new();
    for record in records.iter().filter(|record| record.kind == family as u16 && record.owner == owner) {
        if let Some(address) = read_address(record.data, family) {
            lifetime = lifetime.min(record.lifetime);
            addresses.push(address);
        }
    }
    if !addresses.is_empty() {
        return Reply::Addresses { addresses, lifetime };
    }
    let authority = records.iter().find(|record| record.kind == KIND_AUTHORITY);
    // RFC 2308 section 5: the lesser of the record's own lifetime and its last field.
    let lifetime = authority.and_then(|record| {
        let last = record.data.len().checked_sub(4)?;
        Some(record.lifetime.min(read_lifetime(record.data, last)?))
    });
    if no_such_name { Reply::NoName { lifetime } } else { Reply::NoAddress { lifetime } }
}

fn read_address(data: &[u8], family: Family) -> Option<IpAddr> {
    match family {
        Family::V4 => <[u8; 4]>::try_from(data).ok().map(|bytes| Ipv4Addr::from(bytes).into()),
        Family::V6 => <[u8; 16]>::try_from(data).ok().map(|bytes| Ipv6Addr::from(bytes).into()),
    }
}

/// The name at `at` without pointers and in lower case, and where it ends.
fn read_name(message: &[u8], mut at: usize) -> Option<(Vec<u8>, usize)> {
    let mut name = Vec::new();
    let mut end = None;
    // A pointer must point before all that was read of the name so far.
    let mut bound = at;
    loop {
        let length = *message.get(at)?;
        match length >> 6 {
            0 => {
                let label = message.get(at..=at + usize::from(length))?;
                name.extend(label.iter().map(u8::to_ascii_lowercase));
                if name.len() > MAX_NAME_BYTES {
                    return None;
                }
                at += label.len();
                if length == 0 {
                    return Some((name, end.unwrap_or(at)));
                }
            }
            3 => {
                end = end.or(Some(at + 2));
                at = usize::from(number(message, at)? & 0x3fff);
                if at >= bound {
                    return None;
                }
                bound = at;
            }
            _ => return None,
        }
    }
}

fn number(message: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(message.get(at..at + 2)?.try_into().ok()?))
}

/// A number of seconds; with the highest bit set it counts as none (RFC 2181 section 8).
fn read_lifetime(message: &[u8], at: usize) -> Option<Duration> {
    let seconds = u32::from_be_bytes(message.get(at..at + 4)?.try_into().ok()?);
    Some(Duration::from_secs(if seconds > i32::MAX as u32 { 0 } else { seconds.into() }))
}

#[cfg(test)]
mod tests;
