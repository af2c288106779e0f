//! A URL has the shape of its template: a value changes nothing around it, and a server decodes what the cell holds.

use std::collections::BTreeSet;

use headgate_core::row::MAX_URL_BYTES;
use percent_encoding::percent_decode_str;
use url::{Host, Url};

use super::fuzz_input::{FuzzInput, bound, encoded, joined};
use super::made::{defect, try_row, url, with_url};
use crate::source::template::cell::Cell;
use crate::source::template::parse::{Template, TemplatePiece};

const ENDS_AUTHORITY: [char; 4] = ['/', '?', '#', '\\'];

/// Checks the laws with a template and values.
pub fn hold(bytes: &[u8]) {
    let Some(input) = FuzzInput::new(bytes) else { return };
    let texts = input.texts();
    for value in &texts {
        a_server_decodes_what_the_cell_holds(value);
        a_host_is_that_of_the_template(value);
    }
    if let [a, b, c, ..] = texts[..] {
        a_path_keeps_its_shape(&[a, b, c]);
        a_base_keeps_its_host(a, b);
    }
    let Ok(Some(row)) = try_row(&with_url(input.text), &input.cells) else { return };
    if defect(&row).is_some() {
        return;
    }
    assert!(row.url.len() <= MAX_URL_BYTES);
    let template = bound(input.text).expect("it was rendered");
    assert!(is_rendering_of(&template, &input.cells, row.url.as_bytes()), "{template:?} is {}", row.url);
    let Ok(url) = Url::parse(&row.url) else { return };
    assert!(matches!(url.scheme(), "http" | "https"), "{url}");
    let base = match template.pieces().first() {
        Some(TemplatePiece::Column(base)) => base.bytes(&input.cells).ok().and_then(|value| str::from_utf8(value).ok()),
        _ => None,
    };
    match base.filter(|base| base.contains("://")) {
        Some(base) => is_below(&url, base),
        None => has_the_shape_of(&url, &row.url, &template),
    }
}

/// Returns whether a rendered text is the template's own text with the values between, each unchanged or encoded.
fn is_rendering_of(template: &Template, cells: &[Cell<'_>], rendered: &[u8]) -> bool {
    let mut ends = BTreeSet::from([0]);
    for piece in template.pieces() {
        let forms = match piece {
            TemplatePiece::Literal(text) => vec![text.as_bytes().to_vec()],
            TemplatePiece::Column(placeholder) => match placeholder.bytes(cells) {
                Ok(value) => vec![value.to_vec(), encoded(value)],
                Err(_) => return false,
            },
        };
        let next = |end: &usize| {
            let follows = forms.iter().filter(|form| rendered[*end..].starts_with(form));
            follows.map(|form| end + form.len()).collect::<Vec<_>>()
        };
        ends = ends.iter().flat_map(next).collect();
    }
    ends.contains(&rendered.len())
}

fn is_below(url: &Url, base: &str) {
    if let Ok(base) = Url::parse(base) {
        assert_eq!(authority_of(&base), authority_of(url), "{base} {url}");
    }
}

fn authority_of(url: &Url) -> (&str, &str, Option<&str>, Option<Host<&str>>, Option<u16>) {
    (url.scheme(), url.username(), url.password(), url.host(), url.port())
}

/// Checks that the parts of a URL are where its template has them.
fn has_the_shape_of(url: &Url, written: &str, template: &Template) {
    let (_, after) = template.split_once("://").expect("a scheme");
    let rest = after.split_at_first(|literal| literal.find(ENDS_AUTHORITY).map(|at| (at, 0)));
    let (authority, rest) = rest.unwrap_or_else(|| (after.clone(), Template::default()));
    let literals: String = authority.literals().collect();
    let start = written.find("://").expect("a scheme") + 3;
    let end = written[start..].find(ENDS_AUTHORITY).map_or(written.len(), |at| start + at);
    let (begin, written_rest) = written.split_at(end);
    let count = |text: &str, each: char| text.matches(each).count();
    assert_eq!(count(&literals, '@'), count(begin, '@'), "{written}");
    if !matches!(url.host(), Some(Host::Ipv6(_))) {
        assert_eq!(count(&literals, ':'), count(&begin[start..], ':'), "{written}");
    }
    if let Ok(begin) = Url::parse(begin) {
        assert_eq!(authority_of(&begin), authority_of(url));
    }
    // The library keeps a letter followed by a colon, as a drive of Windows, whatever dots follow.
    if rest.literals().any(|literal| literal.trim_start().starts_with([':', '|'])) {
        return;
    }
    let harmless = vec![Cell::Text(b"x"[..].into()); 5];
    let expected = joined(&rest, &harmless, <[u8]>::to_vec).expect("values");
    let below = |rest: &str| Url::parse(&format!("http://h{rest}")).expect("a URL");
    let expected = below(str::from_utf8(&expected).expect("text"));
    let found = below(written_rest);
    assert_eq!(shape_of(&expected), shape_of(&found), "{expected} {written}");
    assert_eq!((found.path(), found.query(), found.fragment()), (url.path(), url.query(), url.fragment()));
}

/// Returns the number of segments and parameters, and whether there is a fragment.
fn shape_of(url: &Url) -> (usize, Option<usize>, bool) {
    let segments = url.path_segments().expect("a path").count();
    (segments, url.query().map(|query| query.split('&').count()), url.fragment().is_some())
}

pub(in super::super) fn a_server_decodes_what_the_cell_holds(value: &str) {
    let cell = Cell::Text(value.as_bytes().into());
    let url = match url("http://h/x/{a|}/y?a=1&q={a|}&b=2#{a|}", &[cell]) {
        Ok(url) => Url::parse(&url).expect("a URL"),
        Err(reason) => {
            assert!(matches!(value, "." | ".."), "{reason}");
            return;
        }
    };
    assert_eq!(Some("h"), url.host_str());
    let segments: Vec<_> = url.path_segments().expect("a path").collect();
    assert_eq!(3, segments.len());
    let decoded = |text| percent_decode_str(text).decode_utf8().expect("UTF-8");
    assert_eq!(value, decoded(segments[1]));
    let pairs: Vec<(String, String)> = url.query_pairs().map(|(name, value)| (name.into(), value.into())).collect();
    let expected = [("a", "1"), ("q", value), ("b", "2")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(&expected[..], pairs);
    assert_eq!(value, decoded(url.fragment().unwrap_or_default()));
}

pub(in super::super) fn a_path_keeps_its_shape(values: &[&str; 3]) {
    let cells = values.map(|value| Cell::Text(value.as_bytes().into()));
    if let Ok(url) = url("http://h/x/.{a|}{b|}/%2{c|}/z", &cells) {
        let url = Url::parse(&url).expect("a URL");
        assert_eq!(4, url.path_segments().expect("a path").count(), "{url}");
    }
}

pub(in super::super) fn a_host_is_that_of_the_template(value: &str) {
    if let Ok(url) = url("http://{a}.example.com:81/", &[Cell::Text(value.as_bytes().into())])
        && let Ok(url) = Url::parse(&url)
    {
        assert!(url.host_str().expect("a host").ends_with(".example.com"), "{url}");
        assert_eq!((Some(81), "", "/"), (url.port(), url.username(), url.path()));
    }
}

pub(in super::super) fn a_base_keeps_its_host(base: &str, value: &str) {
    let base = format!("http://{base}");
    let cells = [&base, value].map(|value| Cell::Text(value.as_bytes().into()));
    if let Ok(url) = url("{a}/{b|}", &cells)
        && let Ok(url) = Url::parse(&url)
    {
        is_below(&url, &base);
    }
}
