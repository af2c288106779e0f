//! Requests that templates make of values.

use headgate_core::error::JobError;
use headgate_core::message::OptionName;
use headgate_core::options::{SourceOptions, Templates};
use headgate_core::row::{Row, RowBody, RowExtra};

use crate::source::cells::RowPosition;
use crate::source::template::bound::{Named, RequestTemplates};
use crate::source::template::cell::Cell;

pub(in super::super) const COLUMNS: [&str; 5] = ["a", "b", "c", "b|c", "c:string"];

/// An input with these columns.
pub(in super::super) struct Letters;

impl Named for Letters {
    fn has(&self, column: &str) -> bool {
        COLUMNS.contains(&column)
    }

    fn position(&mut self, column: &str, _option: OptionName) -> Result<usize, JobError> {
        let position = COLUMNS.iter().position(|each| *each == column);
        position.ok_or_else(|| JobError::input(format!("there is no column {column:?}")))
    }
}

/// Returns the row with these values in the columns, in their order.
///
/// # Errors
/// Invalid options.
pub(in super::super) fn try_row(options: &SourceOptions, values: &[Cell<'_>]) -> Result<Option<Row>, JobError> {
    let Some(templates) = RequestTemplates::new(options, &mut Letters)? else { return Ok(None) };
    let cells: Vec<Cell> =
        templates.columns.iter().map(|position| values.get(*position).unwrap_or(&Cell::Null).clone()).collect();
    let mut row =
        if templates.make_urls() { templates.row(0, RowPosition::Row(0), &cells) } else { Row::new(0, "http://h/") };
    templates.fill(&mut row, RowPosition::Row(0), &cells);
    Ok(Some(row))
}

/// Returns the row of [`try_row`], with options that make one.
pub(in super::super) fn row(options: &SourceOptions, values: &[Cell<'_>]) -> Row {
    try_row(options, values).expect("templates").expect("some")
}

pub(in super::super) fn defect(row: &Row) -> Option<String> {
    row.extra.as_ref()?.defect.as_ref().map(ToString::to_string)
}

pub(in super::super) fn with_url(url: &str) -> SourceOptions {
    SourceOptions { url: Some(url.into()), ..SourceOptions::default() }
}

pub(in super::super) fn with(templates: Templates) -> SourceOptions {
    SourceOptions { templates, ..SourceOptions::default() }
}

pub(in super::super) fn with_json(json: &str) -> SourceOptions {
    with(Templates { json: Some(json.into()), ..Templates::default() })
}

pub(in super::super) fn with_form(fields: &[&str]) -> SourceOptions {
    with(Templates { data_urlencode: fields.iter().map(ToString::to_string).collect(), ..Templates::default() })
}

pub(in super::super) fn with_multipart(fields: &[&str]) -> SourceOptions {
    with(Templates { form: fields.iter().map(ToString::to_string).collect(), ..Templates::default() })
}

pub(in super::super) fn with_header(template: &str) -> SourceOptions {
    with(Templates { headers: vec![("X-A".into(), template.into())], ..Templates::default() })
}

pub(in super::super) fn with_save_to(template: &str) -> SourceOptions {
    SourceOptions { save_to: Some(template.into()), ..SourceOptions::default() }
}

pub(in super::super) fn url(template: &str, values: &[Cell<'_>]) -> Result<String, String> {
    let row = row(&with_url(template), values);
    defect(&row).map_or_else(|| Ok(row.url.to_string()), Err)
}

pub(in super::super) fn extra(options: &SourceOptions, values: &[Cell<'_>]) -> Result<RowExtra, String> {
    let row = row(options, values);
    defect(&row).map_or_else(|| Ok(*row.extra.clone().expect("something of it")), Err)
}

/// Returns a body that is in memory.
pub(in super::super) fn body(options: &SourceOptions, values: &[Cell<'_>]) -> Result<Vec<u8>, String> {
    extra(options, values).map(|extra| match extra.body {
        Some(RowBody::Bytes(bytes)) => bytes.to_vec(),
        other => panic!("not in memory: {other:?}"),
    })
}
