//! Creates the response that a name selects.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use hickory_proto::op::{Message, MessageType, Query, ResponseCode};
use hickory_proto::rr::rdata::{A, CNAME, SOA};
use hickory_proto::rr::{Name, RData, Record, RecordType};

use super::config::DnsConfig;

/// The number of addresses of a `long` name: too many for a packet of 512 bytes.
const LONG_ADDRESSES: u8 = 100;

/// A query message for one name.
pub(super) struct DnsQuestion {
    message: Message,
    query: Query,
    /// The name in lower case, without a dot at the end.
    pub name: String,
}

impl DnsQuestion {
    /// Parses a query. Returns `None` if the message is not a query for one name.
    pub(super) fn read(message: &[u8]) -> Option<Self> {
        let mut message = Message::from_vec(message).ok()?;
        let query = message.queries.pop()?;
        let name = query.name.to_ascii().trim_end_matches('.').to_lowercase();
        (message.message_type == MessageType::Query && message.queries.is_empty()).then_some(Self {
            message,
            query,
            name,
        })
    }
}

pub(super) struct ResponseMessage {
    pub message: Vec<u8>,
    /// The delay in addition to that of all responses.
    pub delay: Duration,
}

impl ResponseMessage {
    /// Returns a response with these addresses.
    pub(super) fn of(question: &DnsQuestion, addresses: &[IpAddr]) -> Option<Self> {
        let mut draft = Draft::new(&question.message, &question.query);
        for address in addresses {
            match address {
                IpAddr::V4(address) if draft.kind == RecordType::A => draft.add(0, RData::A((*address).into())),
                IpAddr::V6(address) if draft.kind == RecordType::AAAA => draft.add(0, RData::AAAA((*address).into())),
                _ => {}
            }
        }
        Some(Self { message: draft.message.to_vec().ok()?, delay: Duration::ZERO })
    }

    /// Returns the response that the name selects, or `None` for no response.
    pub(super) fn new(question: &DnsQuestion, config: &DnsConfig, over_udp: bool) -> Option<Self> {
        let name = &question.name;
        let label = config.always.as_deref().or(name.split('.').next()).unwrap_or_default();
        let (kind, number) = label.split_once('-').unwrap_or((label, ""));
        let number: Option<u32> = number.parse().ok();
        let mut draft = Draft::new(&question.message, &question.query);
        match kind {
            "dead" => return None,
            "garbage" => {}
            "none" => draft.set_no_address(ResponseCode::NXDomain, number),
            "empty" => draft.set_no_address(ResponseCode::NoError, number),
            "servfail" => draft.message.metadata.response_code = ResponseCode::ServFail,
            "refused" => draft.message.metadata.response_code = ResponseCode::Refused,
            "long" if over_udp => draft.message.metadata.truncation = true,
            "long" => (1..=LONG_ADDRESSES).for_each(|last| draft.add_v4(config.seconds, last)),
            "alias" => {
                draft.add_alias(Name::from_ascii("target.example.").ok()?, config.seconds);
                draft.add_v4(config.seconds, 1);
            }
            "six" => draft.add_v6_loopback(config.seconds),
            _ => {
                let seconds = number.filter(|_| kind == "ttl").unwrap_or(config.seconds);
                let mut hash = DefaultHasher::new();
                name.hash(&mut hash);
                draft.add_v4(seconds, 1 + (hash.finish() % u64::from(config.addresses.max(1))) as u8);
            }
        }
        let mut message = draft.message.to_vec().ok()?;
        if kind == "garbage" {
            // The header announces three responses, but these bytes are not a name.
            message[7] = 3;
            message.extend([0xff; 7]);
        }
        let delay = Duration::from_millis(number.filter(|_| kind == "slow").unwrap_or_default().into());
        Some(Self { message, delay })
    }
}

/// a response that is being created.
struct Draft {
    message: Message,
    name: Name,
    kind: RecordType,
}

impl Draft {
    fn new(question: &Message, query: &Query) -> Self {
        let mut message = Message::response(question.id, question.op_code);
        message.metadata.recursion_desired = question.recursion_desired;
        message.metadata.recursion_available = true;
        message.add_query(query.clone());
        Self { message, name: query.name.clone(), kind: query.query_type }
    }

    fn set_no_address(&mut self, code: ResponseCode, seconds: Option<u32>) {
        self.message.metadata.response_code = code;
        if let Some(seconds) = seconds {
            let authority = SOA::new(Name::root(), Name::root(), 0, 0, 0, 0, seconds);
            self.message.add_authority(Record::from_rdata(self.name.clone(), seconds, RData::SOA(authority)));
        }
    }

    /// Adds an alias for the name; later records are those of `target`.
    fn add_alias(&mut self, target: Name, seconds: u32) {
        self.add(seconds, RData::CNAME(CNAME(target.clone())));
        self.name = target;
    }

    fn add_v4(&mut self, seconds: u32, last: u8) {
        if self.kind == RecordType::A {
            self.add(seconds, RData::A(A::new(127, 0, 0, last)));
        }
    }

    fn add_v6_loopback(&mut self, seconds: u32) {
        if self.kind == RecordType::AAAA {
            self.add(seconds, RData::AAAA(Ipv6Addr::LOCALHOST.into()));
        }
    }

    fn add(&mut self, seconds: u32, data: RData) {
        self.message.add_answer(Record::from_rdata(self.name.clone(), seconds, data));
    }
}
