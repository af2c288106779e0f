use headgate_core::options::SourceOptions;
use headgate_core::source_size::SourceSize;
use proptest::prelude::*;

use crate::{defects, open, open_error, rows, urls};

fn pattern(input: &str) -> SourceOptions {
    SourceOptions { input: input.to_owned(), ..SourceOptions::default() }
}

#[test]
fn a_pattern_yields_all_its_urls_and_the_last_part_varies_fastest() {
    let cases: [(&str, &[&str]); 16] = [
        ("http://h/", &["http://h/"]),
        ("http://h/[1-3]", &["http://h/1", "http://h/2", "http://h/3"]),
        ("http://h/[8-11]", &["http://h/8", "http://h/9", "http://h/10", "http://h/11"]),
        ("http://h/[08-11]", &["http://h/08", "http://h/09", "http://h/10", "http://h/11"]),
        ("http://h/[0-2]", &["http://h/0", "http://h/1", "http://h/2"]),
        ("http://h/[001-005:2]", &["http://h/001", "http://h/003", "http://h/005"]),
        ("http://h/[1-10:4]", &["http://h/1", "http://h/5", "http://h/9"]),
        ("http://h/[7-7]", &["http://h/7"]),
        ("http://h/[a-c]", &["http://h/a", "http://h/b", "http://h/c"]),
        ("http://h/[A-Z:20]", &["http://h/A", "http://h/U"]),
        ("http://h/{a,,é}x", &["http://h/ax", "http://h/x", "http://h/éx"]),
        (r"http://h/{a\,b,\{}", &["http://h/a,b", "http://h/{"]),
        (r"http://h/\[1-3\]\{a\}\x", &[r"http://h/[1-3]{a}\x"]),
        ("http://[::1]:8080/[1-2]", &["http://[::1]:8080/1", "http://[::1]:8080/2"]),
        ("http://[fe80::1%25eth0]/", &["http://[fe80::1%25eth0]/"]),
        ("http://{a,b}/[1-2]", &["http://a/1", "http://a/2", "http://b/1", "http://b/2"]),
    ];
    for (input, expected) in cases {
        assert_eq!(expected, urls(&rows(&pattern(input))), "{input}");
    }
}

#[test]
fn the_number_of_rows_of_a_pattern_is_known_whatever_its_size() {
    let input = "http://h/[0-18446744073709551614]";
    let mut source = open(&pattern(input));
    assert_eq!(SourceSize { rows: Some(u64::MAX), bytes: None, bytes_read: 0 }, source.size());
    assert_eq!(1024, source.next_batch().expect("rows").expect("rows").len());
}

#[test]
fn an_invalid_pattern_is_refused_with_the_position() {
    let form = "it needs two numbers or two letters, as in [1-100], [001-100], [1-100:5], [a-z]";
    let cases = [
        ("http://h/[1-3", "the [ at position 10 is not closed: write \\[ for the character".to_owned()),
        ("http://é/{a,b", "the { at position 10 is not closed: write \\{ for the character".into()),
        ("http://h/a]", "the ] at position 11 has no opening before it: write \\] for the character".into()),
        ("http://h/a}", "the } at position 11 has no opening before it: write \\} for the character".into()),
        ("http://h/{}", "the { at position 10 opens an empty set".into()),
        ("http://h/{a,[1-2]}", "the [ at position 13 is within a set: write \\[ for the character".into()),
        ("http://h/[]", format!("the [ at position 10 doesn't start a range: {form}")),
        ("http://h/[x]", format!("the [ at position 10 doesn't start a range: {form}")),
        ("http://h/[a-3]", format!("the [ at position 10 doesn't start a range: {form}")),
        ("http://h/[1-b]", format!("the [ at position 10 doesn't start a range: {form}")),
        ("http://h/[a-Z]", "the [ at position 10 doesn't start a range: its letters differ in case".into()),
        ("http://h/[3-1]", "the [ at position 10 doesn't start a range: it ends before it starts".into()),
        ("http://h/[1-3:0]", "the [ at position 10 doesn't start a range: its step 0 does not fit into it".into()),
        ("http://h/[1-3:3]", "the [ at position 10 doesn't start a range: its step 3 does not fit into it".into()),
        ("http://h/[1-3:x]", "the [ at position 10 doesn't start a range: \"x\" is not a number".into()),
        (
            "http://h/[1-18446744073709551616]",
            "the [ at position 10 doesn't start a range: 18446744073709551616 is more than 64 bits can represent"
                .into(),
        ),
        (
            "http://h/[0-18446744073709551615]",
            "the [ at position 10 doesn't start a range: it has more numbers than 64 bits can count".into(),
        ),
        (
            "http://h/[1-10000000000][1-10000000000]",
            "the ranges and sets multiply to more URLs than 64 bits can count".into(),
        ),
    ];
    for (input, expected) in cases {
        assert_eq!(format!("{input}: {expected}"), open_error(&pattern(input)).to_string());
    }
}

#[test]
fn a_pattern_of_urls_that_are_too_long_yields_defects() {
    let rows = rows(&pattern(&format!("http://h/{}[1-1]", "x".repeat(70_000))));
    assert_eq!([Some("the URL is longer than 65536 bytes (row 0)")].as_slice(), defects(&rows));
}

/// Generates a part of a pattern, and its values.
fn part() -> impl Strategy<Value = (String, Vec<String>)> {
    let literal = "[a-z/]{1,4}".prop_map(|text| (text.clone(), vec![text]));
    let set =
        proptest::collection::vec("[a-z0-9]{1,3}", 1..4).prop_map(|texts| (format!("{{{}}}", texts.join(",")), texts));
    let numbers = (0_u64..2000, 0_u64..30, 1_u64..4, 0_usize..6).prop_filter_map(
        "a step that fits",
        |(first, span, step, width)| {
            let padded = format!("{first:0width$}");
            // A single 0 requests no padding, and neither do digits that need none.
            let width = if padded.starts_with('0') { padded.len() } else { 0 };
            let texts =
                (first..=first + span).step_by(step as usize).map(|number| format!("{number:0width$}")).collect();
            (step <= span.max(1)).then(|| (format!("[{padded}-{}:{step}]", first + span), texts))
        },
    );
    prop_oneof![literal, set, numbers]
}

proptest! {
    #[test]
    fn a_pattern_has_the_product_of_its_parts_in_the_order_of_nested_loops(parts in proptest::collection::vec(part(), 1..4)) {
        let mut input = "http://".to_owned();
        let mut expected = vec![input.clone()];
        for (text, choices) in &parts {
            input.push_str(text);
            expected = expected.iter().flat_map(|start| choices.iter().map(move |end| format!("{start}{end}"))).collect();
        }
        let count: usize = parts.iter().map(|(_, choices)| choices.len()).product();
        prop_assert_eq!(Some(count as u64), open(&pattern(&input)).size().rows);
        let rows = rows(&pattern(&input));
        prop_assert_eq!(expected, urls(&rows));
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "[\\[\\]{}\\\\,:0-9a-z%é-]{0,40}") {
        let options = pattern(&format!("http://{text}"));
        if let Ok(mut source) = headgate_table::source::open::open(&options) {
            source.next_batch().expect("a pattern that was accepted has rows");
        }
    }
}
