//! `.ndjson` and `.jsonl`: a JSON object a line. Only the columns that are used are parsed; values that are handed on as
//! JSON stay as they are written.

use std::borrow::Cow;
use std::io;

use bytes::Bytes;
use headgate_core::error::JobError;
use headgate_core::message::OptionName;
use headgate_core::options::SourceOptions;
use headgate_core::reason::Reason;
use headgate_core::row::{Row, RowHeaders};
use serde_json::value::{RawValue, to_raw_value};

use super::MAX_RECORD_BYTES;
use super::cells::{RowPosition, add_defect, defect_row, not_utf8};
use super::columns::{self, OfRequest, UsedColumns};
use super::header_json::{self, no_object, reason};
use super::input::{InputReader, OpenInput};
use super::input_error::InputError;
use super::json_object::{self, OtherMembers};
use super::keep::{self, KeptText};
use super::kept_columns::REST;
use super::lines::{Line, Lines};
use super::partition::Partition;
use super::template::bound::{Named, RequestTemplates};
use super::template::cell::Cell as TemplateCell;
use super::text_rows::{TextForm, TextRows};
use super::values::RecordValues;

pub(super) struct Ndjson {
    lines: Lines<InputReader>,
    used: UsedNames,
    options: SourceOptions,
    /// Whether rows that have arrived do not wait for a full batch, as the writer may be slow.
    live: bool,
}

/// The names that are looked for in each object, each once, and what each is used for.
struct UsedNames {
    names: UniqueNames,
    columns: UsedColumns,
    /// Columns that set more of a request than its URL, and that no option names or dismisses.
    unnamed: Vec<(usize, OfRequest)>,
    /// Values from the file's directories, which replace those of the objects.
    from_directories: Vec<(usize, Option<Box<RawValue>>)>,
    /// `None`: the columns to keep are listed, and other members are ignored.
    rest: Option<OtherMembers>,
}

/// Names of columns, each once.
#[derive(Default)]
struct UniqueNames(Vec<String>);

impl UniqueNames {
    fn index(&mut self, name: &str) -> usize {
        self.0.iter().position(|each| each == name).unwrap_or_else(|| {
            self.0.push(name.to_owned());
            self.0.len() - 1
        })
    }
}

/// Any column may exist, as each object has its own.
impl Named for UniqueNames {
    fn has(&self, _column: &str) -> bool {
        false
    }

    fn position(&mut self, column: &str, _option: OptionName) -> Result<usize, JobError> {
        Ok(self.index(column))
    }
}

impl UsedNames {
    fn new(options: &SourceOptions, keep: &[String], partition: &Partition) -> Result<Self, JobError> {
        let mut names = UniqueNames::default();
        let templates = RequestTemplates::new(options, &mut names)?;
        let makes = |part: fn(&RequestTemplates) -> bool| templates.as_ref().is_some_and(part);
        let makes_bodies = makes(RequestTemplates::make_bodies);
        let is_in_template = |name: &str| {
            let at = names.0.iter().position(|each| each == name);
            at.is_some_and(|at| templates.as_ref().is_some_and(|templates| templates.columns.contains(&at)))
        };
        let unnamed: Vec<OfRequest> =
            columns::unnamed(options, makes_bodies).filter(|(name, _)| !is_in_template(name)).collect();
        let columns = UsedColumns {
            url: (!makes(RequestTemplates::make_urls)).then(|| names.index(&options.url_column)),
            method: options.method_column.as_ref().map(|name| names.index(name)),
            headers: options.headers_column.as_ref().map(|name| names.index(name)),
            body: options.body_column.as_ref().filter(|_| !makes_bodies).map(|name| names.index(name)),
            cost: options.cost_column.as_ref().map(|name| names.index(name)),
            kept: keep.iter().map(|name| names.index(name)).collect(),
            templates,
        };
        let unnamed = unnamed.into_iter().map(|column| (names.index(column.0), column)).collect();
        let value = |name: &str| partition.value(partition.find(name)?).and_then(|value| to_raw_value(value).ok());
        let from_directories = names.0.iter().enumerate().filter(|(_, name)| partition.find(name).is_some());
        let from_directories = from_directories.map(|(index, name)| (index, value(name))).collect();
        let rest = keep::keeps_all(options).then(|| {
            let is_kept = |name: &str| keep.iter().any(|kept| kept == name) || keep::is_url_of_result(options, name);
            OtherMembers {
                is_kept: names.0.iter().map(|name| is_kept(name)).collect(),
                from_directories: partition
                    .names()
                    .filter(|name| !is_kept(name))
                    .map(|name| (name.to_owned(), value(name)))
                    .collect(),
            }
        });
        Ok(Self { names, columns, unnamed, from_directories, rest })
    }
}

impl Ndjson {
    /// # Errors
    /// `Usage`: an invalid template. `Input`: a column can't be kept.
    pub(super) fn open(
        (input, reader): (OpenInput, InputReader),
        options: &SourceOptions,
        partition: &Partition,
    ) -> Result<TextRows<Self>, JobError> {
        let found = options.kept_columns.clone().filter(|_| keep::keeps_all(options));
        let keep = found.unwrap_or_else(|| keep::names(options, &[]));
        let used = UsedNames::new(options, &keep, partition)?;
        let columns: Vec<String> = keep.into_iter().chain(used.rest.as_ref().map(|_| REST.to_owned())).collect();
        let kept = KeptText::new(&options.input, &columns)?;
        // FIFOs and the like, which are written while they are read, have no size.
        let live = input.size().bytes.is_none();
        let form = Self { lines: Lines::new(reader, MAX_RECORD_BYTES), used, options: options.clone(), live };
        Ok(TextRows::new(input, form, kept))
    }
}

impl TextForm for Ndjson {
    fn next_row(&mut self, ordinal: u64, kept: &mut KeptText, hash: Option<&mut u128>) -> io::Result<Option<Row>> {
        let Some((number, line)) = self.lines.next_row(hash)? else { return Ok(None) };
        let position = RowPosition::Line(number);
        let row = match line {
            Line::Whole(line) => row(ordinal, position, line, &self.used, kept),
            Line::TooLong(_) => Err(format!("longer than {MAX_RECORD_BYTES} bytes").into()),
        };
        Ok(Some(match row {
            Ok(row) => row,
            // Before the first request, the whole list is refused; afterwards, the row fails.
            Err(RefusedLine::Columns(found)) if ordinal == 0 => {
                return Err(InputError::Refused(columns::refusal(&self.options, &found)).into());
            }
            Err(refused) => {
                kept.push_nulls();
                defect_row(ordinal, position, refused.into_reason())
            }
        }))
    }

    fn skip_row(&mut self, hash: Option<&mut u128>) -> io::Result<bool> {
        Ok(self.lines.next_row(hash)?.is_some())
    }

    fn templates(&mut self) -> Option<&mut RequestTemplates> {
        self.used.columns.templates.as_mut()
    }

    fn ends_batch(&self) -> bool {
        self.live && !self.lines.has_line()
    }
}

/// Why a line has no row.
enum RefusedLine {
    Line(Reason),
    /// The object has columns that no option names.
    Columns(Vec<OfRequest>),
}

impl RefusedLine {
    fn into_reason(self) -> Reason {
        match self {
            Self::Line(reason) => reason,
            Self::Columns(found) => {
                let names: Vec<String> = found.iter().map(|(name, _)| format!("{name:?}")).collect();
                Reason::new("it sets more of its request than the URL, which no option names").with(names.join(", "))
            }
        }
    }
}

impl<T: Into<Reason>> From<T> for RefusedLine {
    fn from(reason: T) -> Self {
        Self::Line(reason.into())
    }
}

/// Returns the row of a line, or why it has none.
fn row(
    ordinal: u64,
    position: RowPosition,
    line: &[u8],
    used: &UsedNames,
    kept: &mut KeptText,
) -> Result<Row, RefusedLine> {
    let text = std::str::from_utf8(line).map_err(|error| not_utf8("the line is", line, error))?;
    let found = json_object::find(text, &used.names.0, used.rest.as_ref());
    let (mut values, rest) = found.map_err(|error| no_object("", &error))?;
    for (index, value) in &used.from_directories {
        values[*index] = value.as_deref();
    }
    let cell = |column: usize| values[column].map(|json| JsonCell { name: &used.names.0[column], json });
    let unnamed: Vec<OfRequest> =
        used.unnamed.iter().filter(|(column, _)| values[*column].is_some()).map(|(_, name)| *name).collect();
    if !unnamed.is_empty() {
        return Err(RefusedLine::Columns(unnamed));
    }
    let columns = &used.columns;
    let templates = columns.templates.as_ref();
    let of_templates = templates.iter().flat_map(|templates| &templates.columns);
    let url = |column: usize| match cell(column) {
        Some(url) => url.string().map(bytes),
        None => Err(format!("there is no {:?}", used.names.0[column]).into()),
    };
    let body = columns.body.and_then(cell).map(JsonCell::text).transpose();
    // The headers are an object, or a string that holds the text of one.
    let headers = columns
        .headers
        .and_then(cell)
        .map_or(Ok(RowHeaders::new()), |headers| header_json::parse(headers.text()?.as_bytes()));
    let values = RecordValues {
        url: columns.url.map(url),
        method: columns.method.and_then(cell).map_or(Ok(Cow::default()), |method| method.string().map(bytes)),
        headers,
        body: body.map(|body| body.map(|body| Bytes::copy_from_slice(body.as_bytes()))),
        cost: columns.cost.and_then(cell).map(|cost| (cost.name, cost.text().map(bytes))),
        cells: of_templates.map(|column| cell(*column).map_or(TemplateCell::Null, JsonCell::of_template)).collect(),
    };
    let mut row = values.row(ordinal, position, templates);
    for (index, column) in columns.kept.iter().enumerate() {
        match cell(*column).map(JsonCell::text).transpose() {
            Ok(text) => kept.push(index, text.as_deref()),
            Err(reason) => {
                kept.push(index, None);
                add_defect(&mut row, position, reason);
            }
        }
    }
    if used.rest.is_some() {
        kept.push(columns.kept.len(), rest.as_deref());
    }
    Ok(row)
}

fn bytes(text: Cow<'_, str>) -> Cow<'_, [u8]> {
    match text {
        Cow::Borrowed(text) => text.as_bytes().into(),
        Cow::Owned(text) => text.into_bytes().into(),
    }
}

/// A value that is not null.
#[derive(Clone, Copy)]
struct JsonCell<'a> {
    name: &'a str,
    json: &'a RawValue,
}

impl<'a> JsonCell<'a> {
    fn string(self) -> Result<Cow<'a, str>, Reason> {
        let kind = match self.json.get().as_bytes().first() {
            Some(b'"') => return self.text(),
            Some(b'{') => "an object",
            Some(b'[') => "a list",
            Some(b't' | b'f') => "a boolean",
            _ => "a number",
        };
        Err(format!("{:?} is {kind}, not a string", self.name).into())
    }

    fn of_template(self) -> TemplateCell<'a> {
        if !self.json.get().starts_with('"') {
            return TemplateCell::Json(self.json.get().into());
        }
        self.text().map(bytes).map_or_else(TemplateCell::Unfit, TemplateCell::Text)
    }

    /// Returns a string's value, or the JSON text of another value.
    fn text(self) -> Result<Cow<'a, str>, Reason> {
        let json = self.json.get();
        match json.strip_prefix('"').and_then(|json| json.strip_suffix('"')) {
            None => Ok(json.into()),
            Some(plain) if !plain.contains('\\') && !plain.bytes().any(|byte| byte < b' ') => Ok(plain.into()),
            Some(_) => serde_json::from_str::<String>(json)
                .map(Cow::Owned)
                .map_err(|error| reason(&format!("{:?} is not a valid JSON string: ", self.name), &error)),
        }
    }
}
