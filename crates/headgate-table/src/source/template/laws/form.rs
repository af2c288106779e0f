//! A form in the URL encoding has the fields of its templates, and a server decodes what the cells hold.

use headgate_core::row::RowBody;

use super::fuzz_input::{FuzzInput, bound, encoded, joined};
use super::made::{body, defect, try_row, with_form};
use crate::source::template::cell::Cell;

/// Checks the laws with a field on each line, and values.
pub fn hold(bytes: &[u8]) {
    let Some(input) = FuzzInput::new(bytes) else { return };
    if let [a, b, ..] = input.texts()[..] {
        a_server_decodes_what_the_cells_hold(a, b);
    }
    let fields: Vec<&str> = input.text.split('\n').collect();
    let Ok(Some(row)) = try_row(&with_form(&fields), &input.cells) else { return };
    // As in curl, nothing separates the first field from empty fields before it.
    let is_empty = |text: &&&str| matches!(**text, "" | "=");
    let expected: Option<Vec<_>> = fields.iter().skip_while(is_empty).map(|text| field(text, &input.cells)).collect();
    assert_eq!(expected.is_none(), defect(&row).is_some(), "{:?}", defect(&row));
    if let Some(expected) = expected {
        let expected = RowBody::from(expected.join(&b'&'));
        assert_eq!(Some(expected), row.extra.and_then(|extra| extra.body));
    }
}

/// Returns the field as it is sent, or `None` if a value is missing.
fn field(text: &str, cells: &[Cell<'_>]) -> Option<Vec<u8>> {
    let template = bound(text).expect("it was taken");
    let (name, content) = template.split_once("=").map_or((None, template), |(name, rest)| (Some(name), rest));
    let content = encoded(&joined(&content, cells, <[u8]>::to_vec)?);
    match name.filter(|name| name.literal() != Some("")) {
        Some(name) => Some([joined(&name, cells, encoded)?, content].join(&b'=')),
        None => Some(content),
    }
}

pub(in super::super) fn a_server_decodes_what_the_cells_hold(a: &str, b: &str) {
    let cells = [a, b].map(|value| Cell::Text(value.as_bytes().into()));
    let body = body(&with_form(&["n={a|}", "{b|}=x"]), &cells).expect("a body");
    let pairs: Vec<(String, String)> =
        url::form_urlencoded::parse(&body).map(|(name, value)| (name.into(), value.into())).collect();
    assert_eq!(vec![("n".to_owned(), a.to_owned()), (b.to_owned(), "x".to_owned())], pairs);
}
