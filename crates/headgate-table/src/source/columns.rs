//! Finds the columns that a job uses, by name.

use headgate_core::error::JobError;
use headgate_core::message;
use headgate_core::message::{Message, OptionName};
use headgate_core::options::SourceOptions;

use super::partition::UNNAMED;
use super::template::bound::{Named, RequestTemplates};

/// A message lists at most this many columns.
const SHOWN_COLUMNS: usize = 20;

/// The indices of the columns that a job uses.
pub(super) struct UsedColumns {
    /// `None`: a template makes the URLs.
    pub(super) url: Option<usize>,
    pub(super) method: Option<usize>,
    pub(super) headers: Option<usize>,
    pub(super) body: Option<usize>,
    pub(super) cost: Option<usize>,
    pub(super) kept: Vec<usize>,
    pub(super) templates: Option<RequestTemplates>,
}

/// The names of the columns of an input.
pub(super) struct ColumnNames<'a> {
    options: &'a SourceOptions,
    names: Vec<&'a str>,
    /// Why columns are missing that were looked for.
    missing: Vec<Message>,
}

impl<'a> ColumnNames<'a> {
    pub(super) fn new(options: &'a SourceOptions, names: impl Iterator<Item = &'a str>) -> Self {
        Self { options, names: names.collect(), missing: Vec::new() }
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

    /// Returns the position of a column. If it is missing, `check_missing` reports that, and the position has no meaning.
    fn find_or_report(&mut self, name: &str, reason: impl FnOnce() -> Message) -> Result<usize, JobError> {
        let found = self.find(name)?;
        if found.is_none() {
            let reason = reason();
            // A template may name a column several times.
            if !self.missing.contains(&reason) {
                self.missing.push(reason);
            }
        }
        Ok(found.unwrap_or_default())
    }

    /// # Errors
    /// `Input`: columns are missing; the message has all of them.
    pub(super) fn check_missing(&mut self) -> Result<(), JobError> {
        if self.missing.is_empty() {
            return Ok(());
        }
        let named: Vec<&str> = self.names.iter().copied().filter(|name| *name != UNNAMED).collect();
        let (reasons, columns) = (Message::joined(self.missing.drain(..), "; "), shown(&named));
        Err(error(self.options, message!(reasons, "; {columns}")))
    }
}

impl Named for ColumnNames<'_> {
    fn has(&self, column: &str) -> bool {
        self.names.contains(&column)
    }

    fn position(&mut self, column: &str, option: OptionName) -> Result<usize, JobError> {
        self.find_or_report(column, || message!("there is no column {column:?} for ", option))
    }
}

/// The name of a column that sets more of a request than its URL, and the option that would use it.
pub(super) type OfRequest = (&'static str, OptionName);

/// Returns the columns that set more of a request than its URL and that no option names or dismisses. Otherwise the author
/// of the list would choose what is sent, and where.
pub(super) fn unnamed(options: &SourceOptions, makes_bodies: bool) -> impl Iterator<Item = OfRequest> {
    let SourceOptions { method_column, headers_column, body_column, .. } = options;
    let all = [
        ("method", OptionName::MethodColumn, method_column),
        ("headers", OptionName::HeadersColumn, headers_column),
        ("body", OptionName::BodyColumn, body_column),
    ];
    let used = [&options.body_file_column, &options.cost_column, method_column, headers_column, body_column];
    let is_used = move |name: &str| {
        used.iter().any(|used| used.as_deref() == Some(name)) || options.url.is_none() && options.url_column == name
    };
    all.into_iter()
        .filter(move |(name, option, named)| {
            let is_made = makes_bodies && *option == OptionName::BodyColumn;
            !options.url_only && named.is_none() && !is_made && !is_used(name)
        })
        .map(|(name, option, _)| (name, option))
}

/// Returns the error of an input that has these columns.
pub(super) fn refusal(options: &SourceOptions, found: &[OfRequest]) -> JobError {
    let names: Vec<String> = found.iter().map(|(name, _)| format!("{name:?}")).collect();
    let (what, them) = match &names[..] {
        [one] => (format!("the column {one} sets more of a request than its URL"), "it"),
        _ => (format!("the columns {} set more of a request than its URL", names.join(", ")), "them"),
    };
    let uses = found.iter().map(|(name, option)| message!(option.set(*name)));
    error(
        options,
        message!(
            "{what}: use {them} with ",
            Message::joined(uses, " and "),
            ", or leave {them} with ",
            OptionName::UrlOnly.set(true)
        ),
    )
}

impl UsedColumns {
    /// Sets how many rows of earlier files precede this file.
    pub(super) fn set_first_row(&mut self, rows: u64) {
        self.templates.iter_mut().for_each(|templates| templates.set_first_row(rows));
    }

    /// # Errors
    /// `Input`: a required column is missing, or a used one occurs twice.
    pub(super) fn find<'a>(
        options: &'a SourceOptions,
        keep: &[String],
        names: impl Iterator<Item = &'a str>,
    ) -> Result<Self, JobError> {
        let mut names = ColumnNames::new(options, names);
        let templates = RequestTemplates::new(options, &mut names)?;
        let makes = |part: fn(&RequestTemplates) -> bool| templates.as_ref().is_some_and(part);
        let makes_bodies = makes(RequestTemplates::make_bodies);
        let is_in_template = |at: usize| templates.as_ref().is_some_and(|templates| templates.columns.contains(&at));
        let found: Vec<OfRequest> = unnamed(options, makes_bodies)
            .filter(|(name, _)| names.names.iter().position(|each| each == name).is_some_and(|at| !is_in_template(at)))
            .collect();
        let url = if makes(RequestTemplates::make_urls) {
            None
        } else {
            let name = &options.url_column;
            Some(names.find_or_report(name, || {
                message!(
                    "there is no column {name:?} with URLs: use ",
                    OptionName::UrlColumn,
                    " to name the one that has them, or ",
                    OptionName::Url,
                    " to make them of other columns"
                )
            })?)
        };
        let mut column = |name: &Option<String>, option: OptionName| {
            name.as_ref().map(|name| names.position(name, option)).transpose()
        };
        let method = column(&options.method_column, OptionName::MethodColumn)?;
        let headers = column(&options.headers_column, OptionName::HeadersColumn)?;
        let body = if makes_bodies { None } else { column(&options.body_column, OptionName::BodyColumn)? };
        let cost = column(&options.cost_column, OptionName::CostColumn)?;
        let kept = keep
            .iter()
            .map(|name| names.find_or_report(name, || message!("there is no column {name:?} to keep")))
            .collect::<Result<_, _>>()?;
        names.check_missing()?;
        if !found.is_empty() {
            return Err(refusal(options, &found));
        }
        Ok(Self { url, method, headers, body, cost, kept, templates })
    }
}

fn error(options: &SourceOptions, reason: impl Into<Message>) -> JobError {
    let name = &options.input;
    JobError::input(message!("{name}: ", reason))
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
