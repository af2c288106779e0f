use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn addresses(texts: &[&str], lifetime: Duration) -> Reply {
    Reply::Addresses { addresses: texts.iter().map(|text| text.parse().expect("an address")).collect(), lifetime }
}

fn settled(replies: [Option<Result<Reply, Unanswered>>; 2]) -> Result<Settled, Unanswered> {
    conclude(replies).map(|known| match known {
        Known::Addresses(settled) | Known::None(settled) => settled,
    })
}

fn found(texts: &[&str], lifetime: Duration) -> Settled {
    Settled::found(texts.iter().map(|text| text.parse().expect("an address")).collect(), lifetime)
}

#[test]
fn addresses_of_both_families_hold_for_the_shorter_of_their_lifetimes() {
    let (six, four) = (["2001:db8::1"], ["192.0.2.1", "192.0.2.2"]);
    let both = [Some(Ok(addresses(&six, SECOND * 60))), Some(Ok(addresses(&four, SECOND * 30)))];
    assert_eq!(Ok(found(&["2001:db8::1", "192.0.2.1", "192.0.2.2"], SECOND * 30)), settled(both));
}

#[test]
fn one_family_is_enough_and_its_trouble_counts_where_the_other_has_nothing() {
    let trouble = || Some(Err("no answer".into()));
    let nothing = || Some(Ok(Reply::NoAddress { lifetime: None }));
    let no_name = || Some(Ok(Reply::NoName { lifetime: None }));
    let four = || Some(Ok(addresses(&["192.0.2.1"], SECOND)));
    for replies in [[four(), trouble()], [trouble(), four()], [four(), nothing()], [nothing(), four()], [four(), None]]
    {
        assert_eq!(Ok(found(&["192.0.2.1"], SECOND)), settled(replies));
    }
    assert_eq!(Err("no answer".into()), settled([nothing(), trouble()]));
    let said = |replies| settled(replies).map(|settled| settled.answer.expect_err("no address").to_string());
    assert_eq!(Ok("there is no such name".into()), said([no_name(), trouble()]));
    assert_eq!(Ok("the name has no address".into()), said([nothing(), nothing()]));
}

#[test]
fn of_many_addresses_few_are_kept() {
    let many = (0..200).map(|last| IpAddr::from([192, 0, 2, last])).collect();
    let reply = Ok(Reply::Addresses { addresses: many, lifetime: SECOND });
    let found = settled([Some(reply), None]).expect("addresses").answer.expect("addresses");
    assert_eq!(MAX_ADDRESSES_BY_FAMILY, found.len());
}
