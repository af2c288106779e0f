//! DNS queries, and what is taken from replies. `hickory_proto` encodes and decodes the bytes; nothing here does I/O.
//!
//! Only addresses, aliases and lifetimes are taken from a reply, and only if it contains the question. Its last section is not
//! read: it may contain anything.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use hickory_proto::op::{Header, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};
use hickory_proto::serialize::binary::{BinDecodable, BinDecoder, DecodeError};

/// The bound of aliases followed within one reply.
const MAX_ALIASES: usize = 16;

/// IPv4 or IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AddressFamily {
    V4,
    V6,
}

/// A question: a query message without its ID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Question(Query);

/// A DNS server's reply to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DnsReply {
    Addresses {
        addresses: Vec<IpAddr>,
        lifetime: Duration,
    },
    /// The name does not exist. The reply is valid for `lifetime`, if the server sent one (RFC 2308 section 5).
    NoName {
        lifetime: Option<Duration>,
    },
    /// The name has no address of this family.
    NoAddress {
        lifetime: Option<Duration>,
    },
    /// The response did not fit into a packet: retry the query over TCP.
    Truncated,
    /// The server refused or failed with this code, or `None` if the message is malformed.
    Failed(Option<ResponseCode>),
}

impl Question {
    /// Returns `None` if the name is not valid in DNS. A dot at the end makes no difference.
    pub(crate) fn new(name: &str, family: AddressFamily) -> Option<Self> {
        // Labels are passed as bytes: in text, a backslash would begin an escape.
        let labels = name.strip_suffix('.').unwrap_or(name).split('.').map(str::as_bytes);
        let kind = match family {
            AddressFamily::V4 => RecordType::A,
            AddressFamily::V6 => RecordType::AAAA,
        };
        Some(Self(Query::query(Name::from_labels(labels).ok()?, kind)))
    }

    /// Returns the query message with this ID.
    pub(crate) fn message(&self, id: u16) -> io::Result<Vec<u8>> {
        let mut message = Message::new(id, MessageType::Query, OpCode::Query);
        message.metadata.recursion_desired = true;
        message.add_query(self.0.clone());
        message.to_vec().map_err(io::Error::other)
    }

    /// Parses a message as the reply to this question, or returns `None` if it is not one. The caller has compared the ID.
    pub(crate) fn read(&self, message: &[u8]) -> Option<DnsReply> {
        let mut rest = BinDecoder::new(message);
        let header = Header::read(&mut rest).ok()?;
        let is_response = header.metadata.message_type == MessageType::Response;
        if !is_response || header.metadata.op_code != OpCode::Query || header.counts.queries != 1 {
            return None;
        }
        if Query::read(&mut rest).ok()? != self.0 {
            return None;
        }
        if header.metadata.truncation {
            // A truncated message may end within a record.
            return Some(DnsReply::Truncated);
        }
        Some(match header.metadata.response_code {
            code @ (ResponseCode::NoError | ResponseCode::NXDomain) => match read_records(&mut rest, &header) {
                Ok(records) => self.reply_of(&records, code == ResponseCode::NXDomain),
                Err(_) => DnsReply::Failed(None),
            },
            code => DnsReply::Failed(Some(code)),
        })
    }

    /// Returns the reply that the records amount to, after following aliases.
    fn reply_of(&self, records: &[Record], no_such_name: bool) -> DnsReply {
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
            return DnsReply::Addresses { addresses, lifetime };
        }
        // RFC 2308 section 5: the smaller one of the record's lifetime and its last field.
        let lifetime = records.iter().find_map(|record| match &record.data {
            RData::SOA(authority) => Some(lifetime_of(record.ttl).min(lifetime_of(authority.minimum))),
            _ => None,
        });
        if no_such_name { DnsReply::NoName { lifetime } } else { DnsReply::NoAddress { lifetime } }
    }
}

/// Reads the records of the answer and authority sections whose class is IN.
fn read_records(rest: &mut BinDecoder<'_>, header: &Header) -> Result<Vec<Record>, DecodeError> {
    let mut records = Vec::new();
    for count in [header.counts.answers, header.counts.authorities] {
        records.extend(Message::read_records(rest, count.into(), false, OpCode::Query)?.0);
    }
    records.retain(|record| record.dns_class == DNSClass::IN);
    Ok(records)
}

/// Returns a TTL in seconds as a duration; if its highest bit is set, it counts as 0 (RFC 2181 section 8).
fn lifetime_of(seconds: u32) -> Duration {
    Duration::from_secs(if seconds > i32::MAX as u32 { 0 } else { seconds.into() })
}

#[cfg(test)]
mod tests;
