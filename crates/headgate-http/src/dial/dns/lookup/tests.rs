use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn addresses(texts: &[&str], lifetime: Duration) -> DnsReply {
    DnsReply::Addresses { addresses: texts.iter().map(|text| text.parse().expect("an address")).collect(), lifetime }
}

fn result_of(replies: [Option<Result<DnsReply, Reason>>; 2]) -> Result<LookupResult, Reason> {
    merge(replies).map(|result| match result {
        CandidateResult::Addresses(result) | CandidateResult::NoAddress(result) => result,
    })
}

fn found(texts: &[&str], lifetime: Duration) -> LookupResult {
    LookupResult::addresses(texts.iter().map(|text| text.parse().expect("an address")).collect(), lifetime)
}

#[test]
fn addresses_of_both_families_are_valid_for_the_shorter_of_their_lifetimes() {
    let (six, four) = (["2001:db8::1"], ["192.0.2.1", "192.0.2.2"]);
    let both = [Some(Ok(addresses(&six, SECOND * 60))), Some(Ok(addresses(&four, SECOND * 30)))];
    assert_eq!(Ok(found(&["2001:db8::1", "192.0.2.1", "192.0.2.2"], SECOND * 30)), result_of(both));
}

#[test]
fn one_family_is_enough_and_its_failure_counts_if_the_other_has_no_address() {
    let failed = || Some(Err("no response".into()));
    let nothing = || Some(Ok(DnsReply::NoAddress { lifetime: None }));
    let no_name = || Some(Ok(DnsReply::NoName { lifetime: None }));
    let four = || Some(Ok(addresses(&["192.0.2.1"], SECOND)));
    for replies in [[four(), failed()], [failed(), four()], [four(), nothing()], [nothing(), four()], [four(), None]] {
        assert_eq!(Ok(found(&["192.0.2.1"], SECOND)), result_of(replies));
    }
    assert_eq!(Err("no response".into()), result_of([nothing(), failed()]));
    let reason = |replies| result_of(replies).map(|result| result.result.expect_err("no address").to_string());
    assert_eq!(Ok("the hostname does not exist".into()), reason([no_name(), failed()]));
    assert_eq!(Ok("the hostname has no address".into()), reason([nothing(), nothing()]));
}

#[test]
fn the_number_of_addresses_is_bounded() {
    let many = (0..200).map(|last| IpAddr::from([192, 0, 2, last])).collect();
    let reply = Ok(DnsReply::Addresses { addresses: many, lifetime: SECOND });
    let found = result_of([Some(reply), None]).expect("addresses").result.expect("addresses");
    assert_eq!(MAX_ADDRESSES_BY_FAMILY, found.len());
}
