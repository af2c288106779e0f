//! The answer that a name asks for.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use hickory_proto::op::{Message, MessageType, Query, ResponseCode};
use hickory_proto::rr::rdata::{A, CNAME, SOA};
use hickory_proto::rr::{Name, RData, Record, RecordType};

use super::config::DnsConfig;

/// Addresses of a `long` name: too many for a packet of 512 bytes.
const LONG_ADDRESSES: u8 = 100;

/// A message that asks for one name.
pub(super) struct Question {
    message: Message,
    asked: Query,
    /// In lower case, without a dot at the end.
    pub name: String,
}

impl Question {
    /// `None`: it is no question.
    pub fn read(message: &[u8]) -> Option<Self> {
        let mut message = Message::from_vec(message).ok()?;
        let asked = message.queries.pop()?;
        let name = asked.name.to_ascii().trim_end_matches('.').to_lowercase();
        (message.message_type == MessageType::Query && message.queries.is_empty()).then_some(Self {
            message,
            asked,
            name,
        })
    }
}

pub(super) struct Answer {
    pub message: Vec<u8>,
    /// Beyond that of all answers.
    pub delay: Duration,
}

impl Answer {
    /// These addresses.
    pub fn of(question: &Question, addresses: &[IpAddr]) -> Option<Self> {
        let mut draft = Draft::new(&question.message, &question.asked);
        for address in addresses {
            match address {
                IpAddr::V4(address) if draft.kind == RecordType::A => draft.add(0, RData::A((*address).into())),
                IpAddr::V6(address) if draft.kind == RecordType::AAAA => draft.add(0, RData::AAAA((*address).into())),
                _ => {}
            }
        }
        Some(Self { message: draft.message.to_vec().ok()?, delay: Duration::ZERO })
    }

    /// `None`: there is none.
    pub fn new(question: &Question, config: &DnsConfig, over_udp: bool) -> Option<Self> {
        let name = &question.name;
        let label = config.always.as_deref().or(name.split('.').next()).unwrap_or_default();
        let (what, number) = label.split_once('-').unwrap_or((label, ""));
        let number: Option<u32> = number.parse().ok();
        let mut draft = Draft::new(&question.message, &question.asked);
        match what {
            "dead" => return None,
            "garbage" => {}
            "none" => draft.nothing(ResponseCode::NXDomain, number),
            "empty" => draft.nothing(ResponseCode::NoError, number),
            "servfail" => draft.message.metadata.response_code = ResponseCode::ServFail,
            "refused" => draft.message.metadata.response_code = ResponseCode::Refused,
            "long" if over_udp => draft.message.metadata.truncation = true,
            "long" => (1..=LONG_ADDRESSES).for_each(|last| draft.v4(config.seconds, last)),
            "alias" => {
                draft.alias(Name::from_ascii("target.example.").ok()?, config.seconds);
                draft.v4(config.seconds, 1);
            }
            "six" => draft.v6_loopback(config.seconds),
            _ => {
                let seconds = number.filter(|_| what == "ttl").unwrap_or(config.seconds);
                let mut hash = DefaultHasher::new();
                name.hash(&mut hash);
                draft.v4(seconds, 1 + (hash.finish() % u64::from(config.addresses.max(1))) as u8);
            }
        }
        let mut message = draft.message.to_vec().ok()?;
        if what == "garbage" {
            // Three answers are announced, and no name begins so.
            message[7] = 3;
            message.extend([0xff; 7]);
        }
        let delay = Duration::from_millis(number.filter(|_| what == "slow").unwrap_or_default().into());
        Some(Self { message, delay })
    }
}

/// An answer in the making.
struct Draft {
    message: Message,
    name: Name,
    kind: RecordType,
}

impl Draft {
    fn new(question: &Message, asked: &Query) -> Self {
        let mut message = Message::response(question.id, question.op_code);
        message.metadata.recursion_desired = question.recursion_desired;
        message.metadata.recursion_available = true;
        message.add_query(asked.clone());
        Self { message, name: asked.name.clone(), kind: asked.query_type }
    }

    fn nothing(&mut self, code: ResponseCode, seconds: Option<u32>) {
        self.message.metadata.response_code = code;
        if let Some(seconds) = seconds {
            let authority = SOA::new(Name::root(), Name::root(), 0, 0, 0, 0, seconds);
            self.message.add_authority(Record::from_rdata(self.name.clone(), seconds, RData::SOA(authority)));
        }
    }

    /// What was asked for stands for another name from here on.
    fn alias(&mut self, target: Name, seconds: u32) {
        self.add(seconds, RData::CNAME(CNAME(target.clone())));
        self.name = target;
    }

    fn v4(&mut self, seconds: u32, last: u8) {
        if self.kind == RecordType::A {
            self.add(seconds, RData::A(A::new(127, 0, 0, last)));
        }
    }

    fn v6_loopback(&mut self, seconds: u32) {
        if self.kind == RecordType::AAAA {
            self.add(seconds, RData::AAAA(Ipv6Addr::LOCALHOST.into()));
        }
    }

    fn add(&mut self, seconds: u32, data: RData) {
        self.message.add_answer(Record::from_rdata(self.name.clone(), seconds, data));
    }
}
