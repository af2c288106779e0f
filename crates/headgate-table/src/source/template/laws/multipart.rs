//! A multipart form has the fields of its templates, whatever the values are. None of their files lies outside of the
//! directory that a template names.

use std::path::Path;

use headgate_core::row::{BodyPiece, Row, RowBody};

use super::fuzz_input::{FuzzInput, bound, joined};
use super::made::{defect, try_row, with_multipart};
use crate::source::template::cell::Cell;
use crate::source::template::parse::{Template, TemplatePiece};

const FILE: &[u8] = b"(a file)";

/// Checks the laws with a field on each line, and values.
pub fn hold(bytes: &[u8]) {
    let Some(input) = FuzzInput::new(bytes) else { return };
    if let [_, b, ..] = input.texts()[..] {
        let a = input.cells[0].bytes().ok().flatten().unwrap_or_default();
        a_server_decodes_what_the_cells_hold(a, b);
    }
    let texts: Vec<&str> = input.text.split('\n').collect();
    let Ok(Some(row)) = try_row(&with_multipart(&texts), &input.cells) else { return };
    if defect(&row).is_some() {
        return;
    }
    let (body, files) = sent(&row);
    let fields = fields(&body, boundary(&row));
    assert_eq!(texts.len(), fields.len());
    let mut files = files.into_iter();
    for (text, field) in texts.into_iter().zip(fields) {
        let (name, content) = bound(text).expect("it was taken").split_once("=").expect("a name");
        assert_eq!(escaped(&joined(&name, &input.cells, <[u8]>::to_vec).expect("values")), field.name);
        let file = content.strip_prefix("@").is_some().then(|| files.next().expect("a file"));
        // Attributes after the value are not checked here.
        if content.literals().any(|literal| literal.contains(';')) {
            continue;
        }
        match (content.strip_prefix("@"), file) {
            (Some(path), Some(file)) => {
                stays_in_its_directory(&path, &input.cells, file);
                assert_eq!(FILE, field.content);
            }
            _ => assert_eq!(joined(&content, &input.cells, <[u8]>::to_vec).expect("values"), field.content),
        }
    }
}

/// Checks that the path's components are those of the template: a value adds none.
fn stays_in_its_directory(template: &Template, cells: &[Cell<'_>], path: &Path) {
    let shown = path.to_str().map(str::as_bytes);
    let written = joined(template, cells, <[u8]>::to_vec).expect("values");
    assert!(shown.is_none_or(|shown| shown == written) && !written.is_empty() && !written.contains(&0));
    let first = match template.pieces().first() {
        Some(TemplatePiece::Column(first)) => first.bytes(cells).expect("a value"),
        _ => b"",
    };
    let mut is_first = !first.is_empty();
    let harmless = template.pieces().iter().map(|piece| match piece {
        TemplatePiece::Literal(text) => text.as_bytes(),
        TemplatePiece::Column(_) if std::mem::take(&mut is_first) => first,
        TemplatePiece::Column(_) => b"x",
    });
    let harmless = harmless.collect::<Vec<_>>().concat();
    let ups = |path: &[u8]| path.split(|byte| *byte == b'/').filter(|part| *part == b"..").count();
    let parts = |path: &[u8]| path.split(|byte| *byte == b'/').count();
    assert_eq!(parts(&harmless), parts(&written), "{}", path.display());
    assert!(ups(&written) <= ups(&harmless), "{}", path.display());
}

struct Field {
    name: Vec<u8>,
    content: Vec<u8>,
}

fn boundary(row: &Row) -> &str {
    let media_type = row.extra.as_ref().and_then(|extra| extra.body_type.as_deref()).expect("a type");
    media_type.strip_prefix("multipart/form-data; boundary=").expect("a boundary")
}

/// Returns what is sent, with a mark in place of each file, and the files.
fn sent<'r>(row: &'r Row) -> (Vec<u8>, Vec<&'r Path>) {
    match row.extra.as_ref().and_then(|extra| extra.body.as_ref()).expect("a body") {
        RowBody::Bytes(bytes) => (bytes.to_vec(), Vec::new()),
        RowBody::Pieces(pieces) => {
            let bytes = |piece: &BodyPiece| match piece {
                BodyPiece::Bytes(bytes) => bytes.to_vec(),
                BodyPiece::File(_) | BodyPiece::FileBelow(..) | BodyPiece::OpenFile(_) => FILE.to_vec(),
            };
            let file = |piece: &'r BodyPiece| match piece {
                BodyPiece::File(path) | BodyPiece::FileBelow(_, path) => Some(&**path),
                BodyPiece::Bytes(_) | BodyPiece::OpenFile(_) => None,
            };
            let files = pieces.iter().filter_map(file).collect();
            (pieces.iter().flat_map(bytes).collect(), files)
        }
        RowBody::Stream(_) => panic!("a row of a table has no stream"),
    }
}

/// Returns the fields of a multipart form, by the rules of RFC 2046 section 5.1.
fn fields(body: &[u8], boundary: &str) -> Vec<Field> {
    let delimiter = format!("\r\n--{boundary}");
    let body = [b"\r\n", body].concat();
    let starts: Vec<usize> = memchr::memmem::find_iter(&body, &delimiter).collect();
    let parts = starts.windows(2).map(|pair| &body[pair[0] + delimiter.len() + 2..pair[1]]);
    assert_eq!(b"--\r\n", &body[starts.last().expect("an end") + delimiter.len()..]);
    let field = parts.map(|part| {
        let head_end = memchr::memmem::find(part, b"\r\n\r\n").expect("a head");
        let lines: Vec<&[u8]> = part[..head_end].split(|byte| *byte == b'\n').collect();
        assert!(lines.len() <= 2 && lines.get(1).is_none_or(|line| line.starts_with(b"Content-Type: ")));
        let pieces: Vec<&[u8]> = lines[0].trim_ascii_end().split(|byte| *byte == b'"').collect();
        assert_eq!(b"Content-Disposition: form-data; name=", pieces[0]);
        match pieces[2..] {
            [b""] | [b"; filename=", _, b""] => {}
            _ => panic!("{}", lines[0].escape_ascii()),
        }
        Field { name: pieces[1].to_vec(), content: part[head_end + 4..].to_vec() }
    });
    field.collect()
}

/// Escapes what would end a name, as browsers do.
fn escaped(name: &[u8]) -> Vec<u8> {
    let escape = |byte: &u8| match byte {
        b'"' => b"%22".to_vec(),
        b'\r' => b"%0D".to_vec(),
        b'\n' => b"%0A".to_vec(),
        byte => vec![*byte],
    };
    name.iter().flat_map(escape).collect()
}

pub(in super::super) fn a_server_decodes_what_the_cells_hold(a: &[u8], b: &str) {
    let cells = [a, b.as_bytes()].map(|value| Cell::Text(value.into()));
    let row = try_row(&with_multipart(&["n={a|}", "m{b|}={b|};filename={b|}"]), &cells);
    let row = row.expect("templates").expect("some");
    let (body, _) = sent(&row);
    let found = fields(&body, boundary(&row)).into_iter().map(|field| (field.name, field.content));
    let name = escaped(format!("m{b}").as_bytes());
    assert_eq!(vec![(b"n".to_vec(), a.to_vec()), (name, b.as_bytes().to_vec())], found.collect::<Vec<_>>());
}
