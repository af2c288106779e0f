//! A question, and what of its answer is believed. The bytes are `hickory_proto`'s; nothing here does I/O.
//!
//! Of an answer only addresses, aliases and lifetimes concern us, and only if it repeats the question. Its last section is
//! not even read: it may contain anything.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use hickory_proto::op::{Header, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};
use hickory_proto::serialize::binary::{BinDecodable, BinDecoder, DecodeError};

/// Aliases followed within one answer.
const MAX_ALIASES: usize = 16;

/// A family of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    V4,
    V6,
}

/// A question: everything of a message but its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question(Query);

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
    Failed(Option<ResponseCode>),
}

impl Question {
    /// `None`: it is no name that can be asked for. A dot at the end makes no difference.
    pub fn new(name: &str, family: Family) -> Option<Self> {
        // Bytes as they are: as text, a backslash would begin an escape.
        let labels = name.strip_suffix('.').unwrap_or(name).split('.').map(str::as_bytes);
        let kind = match family {
            Family::V4 => RecordType::A,
            Family::V6 => RecordType::AAAA,
        };
        Some(Self(Query::query(Name::from_labels(labels).ok()?, kind)))
    }

    /// The message that asks it under this number.
    pub fn message(&self, number: u16) -> io::Result<Vec<u8>> {
        let mut message = Message::new(number, MessageType::Query, OpCode::Query);
        message.metadata.recursion_desired = true;
        message.add_query(self.0.clone());
        message.to_vec().map_err(io::Error::other)
    }

    /// What a message says to this question; `None`: it is no answer to it. Its number was looked at before.
    pub fn read(&self, message: &[u8]) -> Option<Reply> {
        let mut rest = BinDecoder::new(message);
        let header = Header::read(&mut rest).ok()?;
        let is_answer = header.metadata.message_type == MessageType::Response;
        if !is_answer || header.metadata.op_code != OpCode::Query || header.counts.queries != 1 {
            return None;
        }
        if Query::read(&mut rest).ok()? != self.0 {
            return None;
        }
        if header.metadata.truncation {
            // It may end within a record.
            return Some(Reply::Truncated);
        }
        Some(match header.metadata.response_code {
            code @ (ResponseCode::NoError | ResponseCode::NXDomain) => match read_records(&mut rest, &header) {
                Ok(records) => self.conclude(&records, code == ResponseCode::NXDomain),
                Err(_) => Reply::Failed(None),
            },
            code => Reply::Failed(Some(code)),
        })
    }

    /// What records say of the name, over its aliases.
    fn conclude(&self, records: &[Record], no_such_name: bool) -> Reply {
        let mut owner = &self.0.name;
        let mut lifetime = Duration::MAX;
        for _ in 0..MAX_ALIASES {
            let alias = records.iter().find_map(|record| match &record.data {
                RData::CNAME(alias) if record.name == *owner => Some((&alias.0, lifetime_of(record.ttl))),
                _ => None,
            });
            let Some((target, own)) = alias else { break };
            lifetime = lifetime.min(own);
            owner = target;
        }
        let mut addresses = Vec::new();
        for record in records.iter().filter(|record| record.record_type() == self.0.query_type && record.name == *owner)
        {
            if let Some(address) = record.data.ip_addr() {
                lifetime = lifetime.min(lifetime_of(record.ttl));
                addresses.push(address);
            }
        }
        if !addresses.is_empty() {
            return Reply::Addresses { addresses, lifetime };
        }
        // RFC 2308 section 5: the lesser of the record's own lifetime and its last field.
        let lifetime = records.iter().find_map(|record| match &record.data {
            RData::SOA(authority) => Some(lifetime_of(record.ttl).min(lifetime_of(authority.minimum))),
            _ => None,
        });
        if no_such_name { Reply::NoName { lifetime } } else { Reply::NoAddress { lifetime } }
    }
}

/// The records of the answer and authority sections that are of the internet.
fn read_records(rest: &mut BinDecoder<'_>, header: &Header) -> Result<Vec<Record>, DecodeError> {
    let mut records = Vec::new();
    for count in [header.counts.answers, header.counts.authorities] {
        records.extend(Message::read_records(rest, count.into(), false, OpCode::Query)?.0);
    }
    records.retain(|record| record.dns_class == DNSClass::IN);
    Ok(records)
}

/// Of a number of seconds; with the highest bit set it counts as none (RFC 2181 section 8).
fn lifetime_of(seconds: u32) -> Duration {
    Duration::from_secs(if seconds > i32::MAX as u32 { 0 } else { seconds.into() })
}

#[cfg(test)]
mod tests;
