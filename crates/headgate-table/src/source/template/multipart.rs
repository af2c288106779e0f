//! Multipart forms (RFC 7578) that are made of columns. A file is named by its path, and read when it is sent.

use std::path::Path;
use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256};
use bytes::Bytes;
use headgate_core::boundary_salt::BoundarySalt;
use headgate_core::message::Message;
use headgate_core::reason::Reason;
use headgate_core::row::{BodyPiece, RowBody};

use super::cell::{Cell, RenderBuffer};
use super::header::check_literals;
use super::parse::Template;
use super::path;

const BOUNDARY_BYTES: usize = 16;
/// Distinguishes boundaries from other values that are derived from the salt of a job.
const BOUNDARY: &[u8] = b"boundary";

const TYPE: &str = ";type=";
const FILE_NAME: &str = ";filename=";
/// The type of files without a type.
const ANY_TYPE: &str = "application/octet-stream";

/// The fields of a form, in their order.
#[derive(Debug, Clone)]
pub(super) struct MultipartTemplate {
    fields: Vec<FormField>,
    salt: BoundarySalt,
    /// The directory of the files that rows name.
    root: Arc<Path>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct FormField {
    name: Template,
    content: PartContent,
    media_type: Option<Box<str>>,
    file_name: Option<Template>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum PartContent {
    Text(Template),
    /// A file's path.
    File(Template),
}

impl MultipartTemplate {
    /// Returns a form without fields.
    pub(super) fn new(salt: BoundarySalt, root: Arc<Path>) -> Self {
        Self { fields: Vec::new(), salt, root }
    }

    /// Returns the boundary between the fields of a row, which is so long and so secret that no value contains it. Each row
    /// has its own, as a server knows those of other rows. It is the same in each attempt, like the rest of the request.
    pub(super) fn boundary(&self, row: u64) -> Result<String, Reason> {
        let salt = self.salt.get().ok_or("the system gives no random numbers")?;
        let mut context = Context::new(&SHA256);
        for piece in [&salt[..], BOUNDARY, &row.to_le_bytes()] {
            context.update(piece);
        }
        let mut number = [0; BOUNDARY_BYTES];
        number.copy_from_slice(&context.finish().as_ref()[..BOUNDARY_BYTES]);
        Ok(format!("headgate-{:032x}", u128::from_be_bytes(number)))
    }

    pub(super) fn media_type(boundary: &str) -> String {
        format!("multipart/form-data; boundary={boundary}")
    }

    /// # Errors
    /// The field is not `name=value` or `name=@path`.
    pub(super) fn add(&mut self, field: &Template) -> Result<(), Message> {
        let (name, value) = field.split_once("=").ok_or("write name=value, or name=@path for a file")?;
        if name.literal() == Some("") {
            return Err("a field needs a name: write name=value, or name=@path for a file".into());
        }
        let (value, media_type, file_name) = with_attributes(value)?;
        if value.strip_prefix("<").is_some() {
            return Err(FROM_FILE.into());
        }
        let content = value.strip_prefix("@").map_or(PartContent::Text(value), PartContent::File);
        if matches!(&content, PartContent::File(path) if path.literal() == Some("")) {
            return Err("there is no path behind the @: write name=@{column}, or name=@ with a path".into());
        }
        self.fields.push(FormField { name, content, media_type, file_name });
        Ok(())
    }

    /// # Errors
    /// A value is missing, or is not valid in its context.
    pub(super) fn render(&self, boundary: &str, cells: &[Cell<'_>], mut out: RenderBuffer) -> Result<RowBody, Reason> {
        let mut pieces = Vec::new();
        for field in &self.fields {
            let file = match &field.content {
                PartContent::File(path) => Some(path::render(path, cells)?),
                PartContent::Text(_) => None,
            };
            out.push(format!("--{boundary}\r\n").as_bytes())?;
            push_head(field, file.as_deref(), cells, &mut out)?;
            match (&field.content, file) {
                (_, Some(file)) => {
                    let before = Bytes::from(out.take());
                    // A path that is the same for all rows is not named by a row.
                    let is_named_by_row = matches!(&field.content, PartContent::File(path) if path.literal().is_none());
                    let file = if is_named_by_row {
                        BodyPiece::FileBelow(self.root.clone(), file)
                    } else {
                        BodyPiece::File(file)
                    };
                    pieces.extend([BodyPiece::Bytes(before), file]);
                }
                (PartContent::Text(text) | PartContent::File(text), None) => {
                    text.render(cells, &mut out, |_, value, out| out.push(value))?;
                }
            }
            out.push(b"\r\n")?;
        }
        out.push(format!("--{boundary}--\r\n").as_bytes())?;
        let rest = Bytes::from(out.take());
        if pieces.is_empty() {
            return Ok(rest.into());
        }
        pieces.push(BodyPiece::Bytes(rest));
        Ok(RowBody::Pieces(pieces.into()))
    }
}

fn push_head(field: &FormField, file: Option<&Path>, cells: &[Cell<'_>], out: &mut RenderBuffer) -> Result<(), Reason> {
    out.push(b"Content-Disposition: form-data; name=\"")?;
    push_quoted(&field.name, cells, out)?;
    out.push(b"\"")?;
    let of_path = file.and_then(Path::file_name).map(std::os::unix::ffi::OsStrExt::as_bytes);
    if field.file_name.is_some() || of_path.is_some() {
        out.push(b"; filename=\"")?;
        match (&field.file_name, of_path) {
            (Some(name), _) => push_quoted(name, cells, out)?,
            (None, name) => push_escaped(name.unwrap_or_default(), out)?,
        }
        out.push(b"\"")?;
    }
    out.push(b"\r\n")?;
    if let Some(media_type) = field.media_type.as_deref().or(file.map(|_| ANY_TYPE)) {
        out.push(format!("Content-Type: {media_type}\r\n").as_bytes())?;
    }
    out.push(b"\r\n")
}

const FROM_FILE: &str =
    "for curl, < sends what is in a file as text: write name=@path to send a file, or name={column} for a value";

/// The value, its content type and the file's name.
type Attributes = (Template, Option<Box<str>>, Option<Template>);

fn with_attributes(value: Template) -> Result<Attributes, Message> {
    let next = |text: &str| [TYPE, FILE_NAME].into_iter().filter_map(|key| Some((text.find(key)?, 0))).min();
    let Some((value, mut rest)) = value.split_at_first(next) else { return Ok((value, None, None)) };
    let (mut media_type, mut file_name) = (None, None);
    loop {
        let is_type = rest.strip_prefix(TYPE).is_some();
        let after = rest.strip_prefix(TYPE).or_else(|| rest.strip_prefix(FILE_NAME)).unwrap_or_else(Template::default);
        let (attribute, more) = match after.split_at_first(next) {
            Some((attribute, more)) => (attribute, Some(more)),
            None => (after, None),
        };
        if is_type {
            let text = attribute.literal().filter(|text| text.contains('/') && check_literals(&attribute).is_ok());
            let text = text.ok_or("behind ;type= there must be a media type, such as text/plain, and no column")?;
            if media_type.replace(text.into()).is_some() {
                return Err(";type= is there twice".into());
            }
        } else if file_name.replace(attribute).is_some() {
            return Err(";filename= is there twice".into());
        }
        match more {
            Some(more) => rest = more,
            None => return Ok((value, media_type, file_name)),
        }
    }
}

/// Writes a name in quotes.
fn push_quoted(template: &Template, cells: &[Cell<'_>], out: &mut RenderBuffer) -> Result<(), Reason> {
    let mut name = out.like();
    template.render(cells, &mut name, |_, value, name| name.push(value))?;
    push_escaped(&name.bytes, out)
}

/// Escapes the bytes that would end a name in quotes, as browsers do (HTML standard, "multipart/form-data encoding
/// algorithm").
fn push_escaped(name: &[u8], out: &mut RenderBuffer) -> Result<(), Reason> {
    for piece in name.split_inclusive(|byte| b"\"\r\n".contains(byte)) {
        let (text, escaped) = match piece.split_last() {
            Some((b'"', text)) => (text, "%22"),
            Some((b'\r', text)) => (text, "%0D"),
            Some((b'\n', text)) => (text, "%0A"),
            _ => (piece, ""),
        };
        out.push(text)?;
        out.push(escaped.as_bytes())?;
    }
    Ok(())
}
