//! Which column of the input is what, by name.

use crate::message;
use crate::model::error::JobError;
use crate::model::message::{Message, OptionName};
use crate::model::options::SourceOptions;

/// A message names no more columns than this.
const SHOWN_COLUMNS: usize = 20;

/// Where the columns stand that a job uses.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Columns {
    pub(super) url: usize,
    pub(super) method: Option<usize>,
    pub(super) headers: Option<usize>,
    pub(super) body: Option<usize>,
    pub(super) cost: Option<usize>,
    pub(super) kept: Vec<usize>,
}

/// Of columns that are used where they are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OptionalColumns {
    method: bool,
    headers: bool,
    body: bool,
}

impl OptionalColumns {
    /// The first of which one has what the other has not: its name, and whether it is this one.
    pub(super) fn difference(self, other: Self, options: &SourceOptions) -> Option<(&str, bool)> {
        let pairs = [
            (&options.method_column, self.method, other.method),
            (&options.headers_column, self.headers, other.headers),
            (&options.body_column, self.body, other.body),
        ];
        pairs.into_iter().find(|(_, here, there)| here != there).map(|(name, here, _)| (name.as_str(), here))
    }
}

impl Columns {
    pub(super) fn optional(&self) -> OptionalColumns {
        OptionalColumns { method: self.method.is_some(), headers: self.headers.is_some(), body: self.body.is_some() }
    }

    /// # Errors
    /// `Input`: a column that must be there is not, or one that is used is there twice.
    pub(super) fn find<'a>(
        options: &SourceOptions,
        keep: &[String],
        names: impl Iterator<Item = &'a str>,
    ) -> Result<Self, JobError> {
        let names: Vec<&str> = names.collect();
        let find = |name: &str| {
            let mut found = names.iter().enumerate().filter(|(_, each)| **each == name).map(|(index, _)| index);
            match (found.next(), found.next()) {
                (Some(_), Some(_)) => {
                    Err(error(options, format!("there are several columns {name:?}: give each its own name")))
                }
                (first, _) => Ok(first),
            }
        };
        let missing = |trouble: Message| {
            let columns = shown(&names);
            error(options, message!(trouble, "; {columns}"))
        };

        // The default names are optional; a name that somebody chose must be there.
        let defaults = SourceOptions::default();
        let optional = |name: &String, default: &String, option: OptionName| match find(name)? {
            None if name != default => Err(missing(message!("there is no column {name:?} for ", option))),
            found => Ok(found),
        };
        let url = find(&options.url_column)?.ok_or_else(|| {
            let name = &options.url_column;
            missing(message!(
                "there is no column {name:?} with URLs: use ",
                OptionName::UrlColumn,
                " to name the one that has them"
            ))
        })?;
        let cost = |name: &String| {
            let option = OptionName::CostColumn;
            find(name)?.ok_or_else(|| missing(message!("there is no column {name:?} for ", option)))
        };
        let kept =
            keep.iter().map(|name| find(name)?.ok_or_else(|| missing(message!("there is no column {name:?} to keep"))));
        Ok(Self {
            url,
            method: optional(&options.method_column, &defaults.method_column, OptionName::MethodColumn)?,
            headers: optional(&options.headers_column, &defaults.headers_column, OptionName::HeadersColumn)?,
            body: optional(&options.body_column, &defaults.body_column, OptionName::BodyColumn)?,
            cost: options.cost_column.as_ref().map(cost).transpose()?,
            kept: kept.collect::<Result<_, _>>()?,
        })
    }
}

fn error(options: &SourceOptions, trouble: impl Into<Message>) -> JobError {
    let name = &options.input;
    JobError::input(message!("{name}: ", trouble))
}

fn shown(names: &[&str]) -> String {
    let mut shown: Vec<String> = names.iter().take(SHOWN_COLUMNS).map(|name| format!("{name:?}")).collect();
    if names.len() > SHOWN_COLUMNS {
        shown.push(format!("and {} more", names.len() - SHOWN_COLUMNS));
    }
    match names {
        [] => "there are no columns at all".to_owned(),
        _ => format!("the columns are {}", shown.join(", ")),
    }
}
