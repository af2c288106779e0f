//! A header arrives unchanged, or its row is refused.

use headgate_core::options::SourceOptions;
use headgate_core::row::Row;

use super::fuzz_input::{FuzzInput, bound, joined};
use super::made::{defect, try_row, with_header};
use crate::source::template::header::MAX_HEADER_BYTES;

/// Checks the laws with a template and values; the first two are also the values that an earlier response left.
pub fn hold(bytes: &[u8]) {
    let Some(input) = FuzzInput::new(bytes) else { return };
    let conditions = SourceOptions {
        if_none_match_column: Some("a".into()),
        if_modified_since_column: Some("b".into()),
        ..SourceOptions::default()
    };
    let row = try_row(&conditions, &input.cells).expect("columns").expect("conditions");
    for (name, value) in sent(row).unwrap_or_default() {
        is_sent_as_it_is(&value);
        let date = str::from_utf8(&value).ok().filter(|_| &*name == "if-modified-since");
        assert!(date.is_none_or(|date| httpdate::parse_http_date(date).is_ok()), "{date:?}");
    }
    let Ok(Some(row)) = try_row(&with_header(input.text), &input.cells) else { return };
    let template = bound(input.text).expect("it was taken");
    let expected = joined(&template, &input.cells, <[u8]>::to_vec);
    match sent(row) {
        Some(headers) => {
            let expected = expected.expect("values");
            is_sent_as_it_is(&expected);
            assert_eq!(vec![("X-A".into(), expected.into())], headers);
        }
        None => assert!(expected.is_none_or(|value| value.len() > MAX_HEADER_BYTES || !is_fit(&value))),
    }
}

type Headers = Vec<(Box<str>, Box<[u8]>)>;

/// Returns the headers, or `None` if the row is refused.
fn sent(row: Row) -> Option<Headers> {
    defect(&row).is_none().then(|| row.extra.map(|extra| extra.headers.clone()).unwrap_or_default())
}

fn is_sent_as_it_is(value: &[u8]) {
    assert!(is_fit(value) && http::HeaderValue::from_bytes(value).is_ok(), "{}", value.escape_ascii());
}

pub(in super::super) fn is_fit(value: &[u8]) -> bool {
    let is_control = |byte: &u8| *byte != b'\t' && (*byte < b' ' || *byte == 0x7F);
    let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    !value.iter().any(is_control) && !is_blank(value.first()) && !is_blank(value.last())
}
