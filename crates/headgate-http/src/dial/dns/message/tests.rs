use std::str::FromStr;

use hickory_proto::rr::rdata::{A, AAAA, CNAME, SOA, TXT};
use proptest::prelude::*;

use super::*;

fn name(text: &str) -> Name {
    Name::from_str(text).expect("a name")
}

fn question(text: &str, family: AddressFamily) -> Question {
    Question::new(text, family).expect("a name")
}

/// Returns a reply to the question, filled by `fill`.
fn response(question: &Question, fill: impl FnOnce(&mut Message)) -> Vec<u8> {
    let query = Message::from_vec(&question.message(7).expect("a message")).expect("a message");
    let mut message = query.into_response();
    fill(&mut message);
    message.to_vec().expect("a message that can be sent")
}

fn record(owner: &str, seconds: u32, data: RData) -> Record {
    Record::from_rdata(name(owner), seconds, data)
}

fn v4(last: u8) -> RData {
    RData::A(A::new(192, 0, 2, last))
}

fn alias(target: &str) -> RData {
    RData::CNAME(CNAME(name(target)))
}

fn authority(minimum: u32) -> RData {
    RData::SOA(SOA::new(name("ns.example."), name("who.example."), 1, 2, 3, 4, minimum))
}

fn found(lasts: &[u8], seconds: u64) -> DnsReply {
    let addresses = lasts.iter().map(|last| IpAddr::from([192, 0, 2, *last])).collect();
    DnsReply::Addresses { addresses, lifetime: Duration::from_secs(seconds) }
}

#[test]
fn a_query_has_one_name_and_type_whatever_its_letters() {
    for (family, kind) in [(AddressFamily::V4, RecordType::A), (AddressFamily::V6, RecordType::AAAA)] {
        for text in ["www.Example.com", "www.example.com.", "a_b.example", "-.exa\\mple"] {
            let message = question(text, family).message(0xbeef).expect("a message");
            let message = Message::from_vec(&message).expect("a message");
            assert_eq!(
                (0xbeef, MessageType::Query, true),
                (message.id, message.message_type, message.recursion_desired)
            );
            let labels = text.trim_end_matches('.').split('.').map(str::as_bytes);
            assert_eq!(vec![Query::query(Name::from_labels(labels).expect("a name"), kind)], message.queries, "{text}");
        }
    }
}

#[test]
fn invalid_names_have_no_question() {
    let long_label = "a".repeat(64);
    let longest = ["a".repeat(63), "b".repeat(63), "c".repeat(63), "d".repeat(61)].join(".");
    assert!(Question::new(&longest, AddressFamily::V4).is_some());
    for text in ["", ".", "a..b", "a.b..", &long_label, &format!("{longest}d")] {
        assert_eq!(None, Question::new(text, AddressFamily::V4), "{text}");
    }
}

#[test]
fn addresses_are_found_over_aliases_in_any_order_and_are_valid_for_the_shortest_lifetime() {
    let query = question("www.example.com", AddressFamily::V4);
    let message = response(&query, |message| {
        message.add_answer(record("c.example.net.", 300, v4(1)));
        message.add_answer(record("B.example.net.", 20, alias("c.example.net.")));
        message.add_answer(record("www.example.com.", 60, alias("b.EXAMPLE.net.")));
        message.add_answer(record("c.example.net.", 30, v4(2)));
        message.add_answer(record("stranger.example.net.", 1, v4(9)));
        message.add_answer(record("c.example.net.", 1, RData::AAAA(AAAA::new(0, 0, 0, 0, 0, 0, 0, 1))));
        message.add_answer(record("c.example.net.", 1, RData::TXT(TXT::new(vec!["text".into()]))));
    });
    assert_eq!(Some(found(&[1, 2], 20)), query.read(&message));

    let query = question("www.example.com", AddressFamily::V6);
    let message = response(&query, |message| {
        message.add_answer(record("www.example.com.", 5, RData::AAAA(AAAA::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1))));
    });
    let addresses = vec!["2001:db8::1".parse().expect("an address")];
    assert_eq!(Some(DnsReply::Addresses { addresses, lifetime: Duration::from_secs(5) }), query.read(&message));
}

#[test]
fn circular_aliases_lead_to_no_address() {
    let query = question("a.example", AddressFamily::V4);
    let message = response(&query, |message| {
        message.add_answer(record("a.example.", 60, alias("b.example.")));
        message.add_answer(record("b.example.", 60, alias("a.example.")));
    });
    assert_eq!(Some(DnsReply::NoAddress { lifetime: None }), query.read(&message));
}

#[test]
fn a_negative_reply_is_valid_for_as_long_as_the_soa_record_says() {
    let query = question("a.example", AddressFamily::V4);
    for (expected, lifetime, minimum) in [(30, 30, 900), (40, 900, 40), (0, u32::MAX, 40)] {
        let lifetime_of = |code| {
            let message = response(&query, |message| {
                message.metadata.response_code = code;
                message.add_authority(record("example.", lifetime, authority(minimum)));
            });
            query.read(&message)
        };
        let lifetime = Some(Duration::from_secs(expected));
        assert_eq!(Some(DnsReply::NoName { lifetime }), lifetime_of(ResponseCode::NXDomain));
        assert_eq!(Some(DnsReply::NoAddress { lifetime }), lifetime_of(ResponseCode::NoError));
    }
}

#[test]
fn failures_and_truncated_replies_are_recognised() {
    let query = question("a.example", AddressFamily::V4);
    let failed = |code| query.read(&response(&query, |message| message.metadata.response_code = code));
    for code in [ResponseCode::ServFail, ResponseCode::Refused, ResponseCode::NotImp] {
        assert_eq!(Some(DnsReply::Failed(Some(code))), failed(code));
    }
    let truncated = response(&query, |message| {
        message.metadata.truncation = true;
        message.add_answer(record("a.example.", 60, v4(1)));
    });
    // Some servers truncate a reply within a record.
    for end in [truncated.len(), truncated.len() - 3] {
        assert_eq!(Some(DnsReply::Truncated), query.read(&truncated[..end]));
    }
}

#[test]
fn a_reply_to_another_question_is_ignored() {
    let query = question("a.example", AddressFamily::V4);
    let good = response(&query, |message| _ = message.add_answer(record("a.example.", 60, v4(1))));
    assert_eq!(Some(found(&[1], 60)), query.read(&good));
    for (text, family) in
        [("b.example", AddressFamily::V4), ("a.example", AddressFamily::V6), ("a.example.com", AddressFamily::V4)]
    {
        assert_eq!(None, question(text, family).read(&good), "{text}");
    }
    assert_eq!(None, query.read(&query.message(7).expect("a message")), "the question itself");
    for more in [Query::query(name("b.example."), RecordType::A), Query::query(name("a.example."), RecordType::A)] {
        assert_eq!(None, query.read(&response(&query, |message| _ = message.add_query(more))), "two questions");
    }
    let update = response(&query, |message| message.metadata.op_code = OpCode::Update);
    assert_eq!(None, query.read(&update), "another opcode");
    let chaos = response(&query, |message| message.queries[0].query_class = DNSClass::CH);
    assert_eq!(None, query.read(&chaos), "another class");
    assert_eq!(None, query.read(&[]));
}

#[test]
fn records_of_another_class_are_ignored() {
    let query = question("a.example", AddressFamily::V4);
    let message = response(&query, |message| {
        let mut other = record("a.example.", 60, v4(1));
        other.dns_class = DNSClass::CH;
        message.add_answer(other);
    });
    assert_eq!(Some(DnsReply::NoAddress { lifetime: None }), query.read(&message));
}

#[test]
fn malformed_bytes_fail_a_reply_unless_they_are_in_a_section_that_is_not_read() {
    let query = question("a.example", AddressFamily::V4);
    let mut message = response(&query, |message| _ = message.add_answer(record("a.example.", 60, v4(1))));
    // Adds a record to the answer section or to the last one; its name points at itself.
    let end = message.len() as u8;
    message.extend([0xc0, end, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 2]);
    for (expected, count) in [(DnsReply::Failed(None), 7), (found(&[1], 60), 11)] {
        let mut message = message.clone();
        message[count] += 1;
        assert_eq!(Some(expected), query.read(&message));
    }
}

proptest! {
    #[test]
    fn any_bytes_are_parsed_or_refused(
        tail in proptest::collection::vec(any::<u8>(), 0..80), counts in any::<[u8; 2]>(), flags in any::<[u8; 2]>(),
    ) {
        let query = question("a.example", AddressFamily::V4);
        let mut message = query.message(7).expect("a message");
        // Marks it as a response to a query.
        message[2] = flags[0] & 0x07 | 0x80;
        message[3] = flags[1];
        message[7] = counts[0];
        message[9] = counts[1];
        message.extend(tail);
        prop_assert!(query.read(&message).is_some());
    }

    #[test]
    fn a_reply_cut_anywhere_is_parsed_or_refused(cut in 0_usize..120, flipped in 0_usize..120, bits in any::<u8>()) {
        let query = question("www.example.com", AddressFamily::V4);
        let mut message = response(&query, |message| {
            message.add_answer(record("www.example.com.", 60, alias("b.example.com.")));
            message.add_answer(record("b.example.com.", 60, v4(1)));
            message.add_authority(record("example.com.", 60, authority(5)));
        });
        if let Some(byte) = message.get_mut(flipped) {
            *byte ^= bits;
        }
        message.truncate(cut);
        let _ = query.read(&message);
    }
}
