//! The names of the files of saved bodies, made of the values of a row.

use headgate_core::error::JobError;
use headgate_core::file_name::{FileName, NamePiece, is_of_jobs, is_of_results};
use headgate_core::message;
use headgate_core::message::OptionName;
use headgate_core::options::SaveFormat;
use headgate_core::reason::Reason;

use super::template::cell::Cell;
use super::template::parse::{Placeholder, Template, TemplatePiece};

/// Placeholders that are not columns.
const ROW: &str = "row";
const EXTENSION: &str = "ext";
const CHECKSUM: &str = "sha256";
/// Replaces what is not known yet.
const UNKNOWN: &str = "x";

/// A template of names.
#[derive(Debug)]
pub(super) struct SaveTo {
    template: Template,
    /// Whether files are beside the results.
    is_at_top: bool,
}

impl SaveTo {
    /// # Errors
    /// `Usage`: the text is not a template, or names files outside the output directory, or those of results.
    pub(super) fn new(text: &str, format: SaveFormat) -> Result<Self, JobError> {
        let refused = |reason: &str| JobError::usage(message!(OptionName::SaveTo.set(text), ": {reason}"));
        let template = Template::parse(text).map_err(|error| refused(&error.to_string()))?;
        // Values add no separators, and none of them is empty.
        let literal = |piece: &TemplatePiece| match piece {
            TemplatePiece::Literal(text) => text.clone(),
            TemplatePiece::Column(_) => UNKNOWN.to_owned(),
        };
        let shape: String = template.pieces().iter().map(literal).collect();
        if shape.starts_with('/') {
            return Err(refused("names are those of files in the output directory: leave out the / at the beginning"));
        }
        if shape.split('/').any(|component| matches!(component, "." | "..")) {
            return Err(refused("names are those of files in the output directory: leave out . and .."));
        }
        if shape.split('/').any(str::is_empty) {
            return Err(refused("a part of the name between slashes is empty: name each directory, and the file"));
        }
        if shape.contains(|character: char| character.is_control() || character == '\\') {
            return Err(refused("a name can't have a backslash or control characters: use / between directories"));
        }
        if format == SaveFormat::Files && (is_of_results(&shape) || shape.split('/').next().is_some_and(is_of_jobs)) {
            return Err(JobError::usage(message!(
                OptionName::SaveTo.set(text),
                ": at the top of the output directory, names such as this are for results and what belongs to them: \
                 put the files into a directory, as in ",
                OptionName::SaveTo.set(&*format!("files/{text}"))
            )));
        }
        Ok(Self { template, is_at_top: format == SaveFormat::Files && !shape.contains('/') })
    }

    /// Finds the columns of its placeholders: `find` returns the index of each.
    pub(super) fn bind(
        &mut self,
        mut find: impl FnMut(&mut Placeholder) -> Result<usize, JobError>,
    ) -> Result<(), JobError> {
        self.template.bind(|placeholder| if is_own(&placeholder.column) { Ok(0) } else { find(placeholder) })
    }

    /// Returns the name for a row with these values.
    ///
    /// # Errors
    /// Why the row can't have one.
    pub(super) fn name(&self, ordinal: u64, cells: &[Cell<'_>]) -> Result<FileName, Reason> {
        let mut number = itoa::Buffer::new();
        let number = number.format(ordinal);
        let mut pieces = Vec::with_capacity(self.template.pieces().len());
        for piece in self.template.pieces() {
            pieces.push(match piece {
                TemplatePiece::Literal(text) => NamePiece::Literal(text),
                TemplatePiece::Column(placeholder) => match &*placeholder.column {
                    ROW => NamePiece::Literal(number),
                    EXTENSION => NamePiece::Extension,
                    CHECKSUM => NamePiece::Checksum,
                    _ => NamePiece::Value(placeholder.bytes(cells)?),
                },
            });
        }
        let name = FileName::new(pieces)?;
        if self.is_at_top {
            // Checks now whether the path can be valid at all.
            name.path(UNKNOWN, UNKNOWN)?;
        }
        Ok(name)
    }
}

fn is_own(column: &str) -> bool {
    matches!(column, ROW | EXTENSION | CHECKSUM)
}
