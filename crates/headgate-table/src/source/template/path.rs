//! Paths of files that are made of columns. A column after other text names no file outside the directory of this text, and
//! all files are below the directory for uploads.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use headgate_core::reason::{Reason, shown};

use super::cell::{Cell, RenderBuffer};
use super::parse::{Template, TemplatePiece};

/// The longest path that Linux opens, its NUL included.
const MAX_PATH_BYTES: usize = 4096;

/// # Errors
/// Why no file can have the path of a row with these values.
pub(super) fn render(template: &Template, cells: &[Cell<'_>]) -> Result<Box<Path>, Reason> {
    let mut path = RenderBuffer::new("the path of the file", MAX_PATH_BYTES);
    let mut begins_with_value = matches!(template.pieces().first(), Some(TemplatePiece::Column(_)));
    let mut values = Vec::new();
    template.render(cells, &mut path, |placeholder, value, path| {
        if !std::mem::take(&mut begins_with_value) {
            if value.contains(&b'/') {
                let reason =
                    format!("the column {:?} has a / and is not the beginning of the path", placeholder.column);
                return Err(Reason::new(reason).with(shown(value)));
            }
            values.push(path.bytes.len()..path.bytes.len() + value.len());
        }
        path.push(value)
    })?;
    let path = path.bytes;
    if path.is_empty() {
        return Err("the path of the file is empty".into());
    }
    if path.contains(&0) {
        return Err(Reason::new("the path of the file has a NUL").with(shown(&path)));
    }
    for range in values {
        let start = path[..range.start].iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
        let end = path[range.end..].iter().position(|byte| *byte == b'/').map_or(path.len(), |at| range.end + at);
        if path[start..end] == *b".." {
            return Err(Reason::new("the path of the file leads out of its directory").with(shown(&path)));
        }
    }
    Ok(Path::new(OsStr::from_bytes(&path)).into())
}
