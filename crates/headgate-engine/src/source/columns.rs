//! Which column of the input is what, by name.

use super::partition::UNNAMED;
use super::template::bound::{Named, RequestTemplates};
use crate::columns::result::NEEDED;
use crate::message;
use crate::model::error::JobError;
use crate::model::message::{Message, OptionName};
use crate::model::options::SourceOptions;

/// A message names no more columns than this.
const SHOWN_COLUMNS: usize = 20;

/// Where the columns stand that a job uses.
pub(super) struct Columns {
    /// `None`: a template makes them.
    pub(super) url: Option<usize>,
    pub(super) method: Option<usize>,
    pub(super) headers: Option<usize>,
    pub(super) body: Option<usize>,
    pub(super) cost: Option<usize>,
    pub(super) kept: Vec<usize>,
    pub(super) templates: Option<RequestTemplates>,
}

/// The columns that an input has by name.
pub(super) struct Names<'a> {
    options: &'a SourceOptions,
    names: Vec<&'a str>,
}

impl<'a> Names<'a> {
    pub(super) fn new(options: &'a SourceOptions, names: impl Iterator<Item = &'a str>) -> Self {
        Self { options, names: names.collect() }
    }

    fn find(&self, name: &str) -> Result<Option<usize>, JobError> {
        let mut found = self.names.iter().enumerate().filter(|(_, each)| **each == name).map(|(index, _)| index);
        match (found.next(), found.next()) {
            (Some(_), Some(_)) => {
                Err(error(self.options, format!("there are several columns {name:?}: give each its own name")))
            }
            (first, _) => Ok(first),
        }
    }

    fn missing(&self, trouble: Message) -> JobError {
        let named: Vec<&str> = self.names.iter().copied().filter(|name| *name != UNNAMED).collect();
        let columns = shown(&named);
        error(self.options, message!(trouble, "; {columns}"))
    }
}

impl Named for Names<'_> {
    fn has(&self, column: &str) -> bool {
        self.names.contains(&column)
    }

    fn place(&mut self, column: &str, option: OptionName) -> Result<usize, JobError> {
        self.find(column)?.ok_or_else(|| self.missing(message!("there is no column {column:?} for ", option)))
    }
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
    /// The rows come behind so many of other files.
    pub(super) fn begin_behind(&mut self, rows: u64) {
        self.templates.iter_mut().for_each(|templates| templates.begin_behind(rows));
    }

    pub(super) fn optional(&self) -> OptionalColumns {
        OptionalColumns { method: self.method.is_some(), headers: self.headers.is_some(), body: self.body.is_some() }
    }

    /// # Errors
    /// `Input`: a column that must be there is not, or one that is used is there twice.
    pub(super) fn find<'a>(
        options: &'a SourceOptions,
        keep: &[String],
        names: impl Iterator<Item = &'a str>,
    ) -> Result<Self, JobError> {
        let mut names = Names::new(options, names);
        let templates = RequestTemplates::new(options, &mut names)?;
        let makes = |part: fn(&RequestTemplates) -> bool| templates.as_ref().is_some_and(part);

        // The default names are optional; a name that somebody chose must be there.
        let defaults = SourceOptions::default();
        let optional = |name: &String, default: &String, option: OptionName| match names.find(name)? {
            None if name != default => Err(names.missing(message!("there is no column {name:?} for ", option))),
            found => Ok(found),
        };
        let url = if makes(RequestTemplates::make_urls) {
            None
        } else {
            let name = &options.url_column;
            Some(names.find(name)?.ok_or_else(|| {
                names.missing(message!(
                    "there is no column {name:?} with URLs: use ",
                    OptionName::UrlColumn,
                    " to name the one that has them, or ",
                    OptionName::Url,
                    " to make them of others"
                ))
            })?)
        };
        let method = optional(&options.method_column, &defaults.method_column, OptionName::MethodColumn)?;
        // The headers and bodies of results are those of answers: sent, they would tell a server what another one said.
        let of_answers =
            |name: &String, default: &String| name == default && NEEDED.iter().all(|needed| names.has(needed));
        let headers = if of_answers(&options.headers_column, &defaults.headers_column) {
            None
        } else {
            optional(&options.headers_column, &defaults.headers_column, OptionName::HeadersColumn)?
        };
        let body = if makes(RequestTemplates::make_bodies) || of_answers(&options.body_column, &defaults.body_column) {
            None
        } else {
            optional(&options.body_column, &defaults.body_column, OptionName::BodyColumn)?
        };
        let cost = options.cost_column.as_ref().map(|name| names.place(name, OptionName::CostColumn)).transpose()?;
        let kept = keep.iter().map(|name| {
            let missing = || names.missing(message!("there is no column {name:?} to keep"));
            names.find(name)?.ok_or_else(missing)
        });
        let kept = kept.collect::<Result<_, _>>()?;
        Ok(Self { url, method, headers, body, cost, kept, templates })
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
