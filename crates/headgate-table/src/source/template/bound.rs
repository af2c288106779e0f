//! Templates that are bound to the columns of an input: which columns they need, and what they make of a row.

use std::path::Path;
use std::sync::Arc;

use headgate_core::credentials::is_credential;
use headgate_core::error::JobError;
use headgate_core::message;
use headgate_core::message::{Message, OptionName};
use headgate_core::options::{SaveFormat, SourceOptions};
use headgate_core::reason::Reason;
use headgate_core::row::{BodyPiece, Row, RowBody, RowExtra};
use headgate_core::saved::SaveAs;

use super::cell::{Cell, RenderBuffer};
use super::form::{self, FormTemplate};
use super::header;
use super::json::{JsonError, JsonTemplate};
use super::multipart::MultipartTemplate;
use super::parse::{Placeholder, Template};
use super::url::UrlTemplate;
use super::{checksum, path, since};
use crate::source::cells::{RowPosition, add_defect, defect_row, is_never_of_row, url_row};
use crate::source::save_to::SaveTo;
use crate::source::upload_root;

/// The longest body that is made of columns.
const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;

const IF_NONE_MATCH: &str = "if-none-match";
const IF_MODIFIED_SINCE: &str = "if-modified-since";

/// The columns of an input.
pub(in crate::source) trait Named {
    /// Returns whether the input is known to have a column of this name.
    fn has(&self, column: &str) -> bool;

    /// Returns the index of a column that this option needs.
    ///
    /// # Errors
    /// The column is missing, or occurs twice.
    fn position(&mut self, column: &str, option: OptionName) -> Result<usize, JobError>;
}

/// The parts of requests that are made of columns.
#[derive(Debug)]
pub(in crate::source) struct RequestTemplates {
    /// The indices of the columns that are needed, each once: a placeholder's slot is an index of this.
    pub(in crate::source) columns: Vec<usize>,
    url: Option<UrlTemplate>,
    headers: Vec<(Box<str>, Template)>,
    /// Headers that are credentials.
    credentials: Vec<(Box<str>, Template)>,
    if_none_match: Option<Placeholder>,
    if_modified_since: Option<Placeholder>,
    body: Option<BoundBody>,
    /// Its content type, if it is the same for all rows.
    body_type: Option<Arc<str>>,
    /// The name of the file of the response's body, if it is saved.
    save_to: Option<SaveTo>,
    /// The checksum that the body must have.
    checksum: Option<Placeholder>,
    /// The number of the first row of the file, among those of all files.
    first_row: u64,
}

#[derive(Debug)]
enum BoundBody {
    Json(JsonTemplate),
    Form(FormTemplate),
    Multipart(MultipartTemplate),
    /// A file's path, below this directory.
    File(Template, Arc<Path>),
}

impl RequestTemplates {
    /// Returns `None` if no part is made of columns.
    ///
    /// # Errors
    /// `Usage`, naming the option: an invalid template. Those of `named`.
    pub(in crate::source) fn new(options: &SourceOptions, named: &mut dyn Named) -> Result<Option<Self>, JobError> {
        let mut binder = Binder { named, columns: Vec::new() };
        let url = options.url.as_ref().map(|text| binder.url(text)).transpose()?;
        let templates = &options.templates;
        let headers = templates.headers.iter().map(|(name, text)| binder.header(name, text.expose()));
        let headers: Vec<_> = headers.collect::<Result<_, _>>()?;
        let is_secret = |(name, _): &(Box<str>, _)| is_credential(name, &templates.secret_headers);
        let (credentials, headers): (Vec<_>, Vec<_>) = headers.into_iter().partition(is_secret);
        let if_none_match = binder.column(options.if_none_match_column.as_ref(), OptionName::IfNoneMatchColumn)?;
        let if_modified_since =
            binder.column(options.if_modified_since_column.as_ref(), OptionName::IfModifiedSinceColumn)?;
        let body = binder.body(options)?;
        let body_type = body.as_ref().and_then(BoundBody::media_type);
        let save_to = options.save_to.as_ref().map(|text| binder.save_to(text, options.save_format)).transpose()?;
        let checksum = binder.column(options.checksum_column.as_ref(), OptionName::ChecksumColumn)?;
        let is_used = url.is_some()
            || body.is_some()
            || save_to.is_some()
            || !headers.is_empty()
            || !credentials.is_empty()
            || if_none_match.is_some()
            || if_modified_since.is_some();
        let columns = binder.columns;
        let first_row = 0;
        let made = Self {
            columns,
            url,
            headers,
            credentials,
            if_none_match,
            if_modified_since,
            body,
            body_type,
            save_to,
            checksum,
            first_row,
        };
        Ok(is_used.then_some(made))
    }

    /// Sets how many rows of earlier files precede this file.
    pub(in crate::source) fn set_first_row(&mut self, rows: u64) {
        self.first_row = rows;
    }

    /// Returns whether all URLs are made of columns.
    pub(in crate::source) fn make_urls(&self) -> bool {
        self.url.is_some()
    }

    /// Returns whether all bodies are made of columns.
    pub(in crate::source) fn make_bodies(&self) -> bool {
        self.body.is_some()
    }

    /// Returns the row with these values, if its URL is made of them.
    pub(in crate::source) fn row(&self, ordinal: u64, position: RowPosition, cells: &[Cell<'_>]) -> Row {
        match self.url(cells) {
            Ok(url) => url_row(ordinal, position, url.as_bytes()),
            Err(reason) => defect_row(ordinal, position, reason),
        }
    }

    fn url(&self, cells: &[Cell<'_>]) -> Result<String, Reason> {
        match &self.url {
            Some(url) => url.render(cells),
            None => Err("there is no URL".into()),
        }
    }

    /// Replaces the row's own headers and body by those that are made of these values.
    pub(in crate::source) fn fill(&self, row: &mut Row, position: RowPosition, cells: &[Cell<'_>]) {
        let ordinal = self.first_row + row.ordinal;
        let extra = row.extra.get_or_insert_default();
        if extra.defect.is_none()
            && let Err(reason) = self.fill_extra(extra, ordinal, cells)
        {
            add_defect(row, position, reason);
        }
    }

    /// # Errors
    /// Why they can't be sent.
    fn fill_extra(&self, extra: &mut RowExtra, ordinal: u64, cells: &[Cell<'_>]) -> Result<(), Reason> {
        for (name, _) in self.headers.iter().chain(&self.credentials) {
            remove(extra, name);
        }
        for (name, template) in &self.credentials {
            extra.credentials.push((name.clone(), header::render(name, template, cells)?.into()));
        }
        for (name, template) in &self.headers {
            extra.headers.push((name.clone(), header::render(name, template, cells)?));
        }
        if let Some(value) = optional(self.if_none_match.as_ref(), cells)? {
            remove(extra, IF_NONE_MATCH);
            header::check(IF_NONE_MATCH, value)?;
            extra.headers.push((IF_NONE_MATCH.into(), value.into()));
        }
        if let Some(since) = &self.if_modified_since
            && let Some(value) = optional(Some(since), cells)?
        {
            remove(extra, IF_MODIFIED_SINCE);
            let date = since::http_date(&since.column, value)?;
            extra.headers.push((IF_MODIFIED_SINCE.into(), date.into_owned().into()));
        }
        if let Some(body) = &self.body {
            let (body, own_type) = body.render(ordinal, cells)?;
            extra.body = Some(body);
            extra.body_type = own_type.or_else(|| self.body_type.clone());
        }
        if let Some(save_to) = &self.save_to {
            let checksum = optional(self.checksum.as_ref(), cells)?.map(checksum::parse).transpose()?;
            extra.save_as = Some(Arc::new(SaveAs { name: save_to.name(ordinal, cells)?, checksum }));
        }
        Ok(())
    }
}

/// Returns the value of a column, or `None` if it is null or empty.
fn optional<'a>(placeholder: Option<&'a Placeholder>, cells: &'a [Cell<'a>]) -> Result<Option<&'a [u8]>, Reason> {
    let value = placeholder.map(|placeholder| placeholder.cell(cells).bytes()).transpose()?.flatten();
    Ok(value.filter(|value| !value.is_empty()))
}

fn remove(extra: &mut RowExtra, header: &str) {
    extra.headers.retain(|(name, _)| !name.eq_ignore_ascii_case(header));
}

impl BoundBody {
    fn media_type(&self) -> Option<Arc<str>> {
        match self {
            Self::Json(_) => Some("application/json".into()),
            Self::Form(_) => Some(form::MEDIA_TYPE.into()),
            Self::Multipart(_) | Self::File(..) => None,
        }
    }

    /// Returns the body of a row, and its content type where the row determines it.
    fn render(&self, row: u64, cells: &[Cell<'_>]) -> Result<(RowBody, Option<Arc<str>>), Reason> {
        let mut out = RenderBuffer::new("the body", MAX_BODY_BYTES);
        match self {
            Self::Json(json) => json.render(cells, &mut out)?,
            Self::Form(form) => form.render(cells, &mut out)?,
            Self::Multipart(multipart) => {
                let boundary = multipart.boundary(row)?;
                let body = multipart.render(&boundary, cells, out)?;
                return Ok((body, Some(MultipartTemplate::media_type(&boundary).into())));
            }
            Self::File(template, root) => {
                let file = BodyPiece::FileBelow(root.clone(), path::render(template, cells)?);
                return Ok((RowBody::Pieces([file].into()), None));
            }
        }
        Ok((out.bytes.into(), None))
    }
}

/// Parses templates, and collects the columns that they need.
struct Binder<'a> {
    named: &'a mut dyn Named,
    columns: Vec<usize>,
}

impl Binder<'_> {
    fn url(&mut self, text: &str) -> Result<UrlTemplate, JobError> {
        let refused = |reason: Message| refused(OptionName::Url, reason);
        let mut template = Template::parse(text).map_err(|error| refused(error.to_string().into()))?;
        self.bind(&mut template, OptionName::Url)?;
        UrlTemplate::new(&template).map_err(refused)
    }

    fn save_to(&mut self, text: &str, format: SaveFormat) -> Result<SaveTo, JobError> {
        let mut save_to = SaveTo::new(text, format)?;
        save_to.bind(|placeholder| self.find(placeholder, OptionName::SaveTo))?;
        Ok(save_to)
    }

    fn header(&mut self, name: &str, text: &str) -> Result<(Box<str>, Template), JobError> {
        let refused = |reason: Message| refused(OptionName::HeaderTemplates, message!("{name}: ", reason));
        if is_never_of_row(name) {
            return Err(refused("a row can't choose this header".into()));
        }
        let mut template = Template::parse(text).map_err(|error| refused(error.to_string().into()))?;
        header::check_literals(&template).map_err(refused)?;
        self.bind(&mut template, OptionName::HeaderTemplates)?;
        Ok((name.into(), template))
    }

    fn body(&mut self, options: &SourceOptions) -> Result<Option<BoundBody>, JobError> {
        let templates = &options.templates;
        if let Some(document) = &templates.json {
            let json = JsonTemplate::new(document, |template| self.bind(template, OptionName::Json));
            return json.map(|json| Some(BoundBody::Json(json))).map_err(|reason| match reason {
                JsonError::Document(reason) => refused(OptionName::Json, reason),
                JsonError::Binding(error) => error,
            });
        }
        if !templates.data_urlencode.is_empty() {
            let mut form = FormTemplate::default();
            for (index, text) in templates.data_urlencode.iter().enumerate() {
                self.field(index, text, OptionName::DataUrlencode, |field| form.add(field))?;
            }
            return Ok(Some(BoundBody::Form(form)));
        }
        if !templates.form.is_empty() {
            let mut multipart = MultipartTemplate::new(options.boundary_salt.clone(), upload_root::of(options)?);
            for (index, text) in templates.form.iter().enumerate() {
                self.field(index, text, OptionName::Form, |field| multipart.add(field))?;
            }
            return Ok(Some(BoundBody::Multipart(multipart)));
        }
        let file = self.column(options.body_file_column.as_ref(), OptionName::BodyFileColumn)?;
        let file = file.map(|column| Ok(BoundBody::File(Template::of_column(column), upload_root::of(options)?)));
        file.transpose()
    }

    /// Messages have the number of a field and not its text, which may be a secret.
    fn field(
        &mut self,
        index: usize,
        text: &str,
        option: OptionName,
        add: impl FnOnce(&Template) -> Result<(), Message>,
    ) -> Result<(), JobError> {
        let number = index + 1;
        let refused = |reason: Message| refused(option, message!("field {number}: ", reason));
        let mut template = Template::parse(text).map_err(|error| refused(error.to_string().into()))?;
        self.bind(&mut template, option)?;
        add(&template).map_err(refused)
    }

    fn bind(&mut self, template: &mut Template, option: OptionName) -> Result<(), JobError> {
        template.bind(|placeholder| self.find(placeholder, option))
    }

    fn find(&mut self, placeholder: &mut Placeholder, option: OptionName) -> Result<usize, JobError> {
        if placeholder.column != placeholder.written && self.named.has(&placeholder.written) {
            placeholder.use_written_name();
        }
        self.slot(&placeholder.column, option)
    }

    fn column(&mut self, column: Option<&String>, option: OptionName) -> Result<Option<Placeholder>, JobError> {
        let placeholder = |column: &String| {
            let slot = self.slot(column, option)?;
            Ok(Placeholder { slot, ..Placeholder::of(column) })
        };
        column.map(placeholder).transpose()
    }

    fn slot(&mut self, column: &str, option: OptionName) -> Result<usize, JobError> {
        let position = self.named.position(column, option)?;
        Ok(self.columns.iter().position(|each| *each == position).unwrap_or_else(|| {
            self.columns.push(position);
            self.columns.len() - 1
        }))
    }
}

fn refused(option: OptionName, reason: Message) -> JobError {
    JobError::usage(message!(option, ": ", reason))
}

/// Accepts any column, to check templates before an input is open.
pub(in crate::source) struct AnyNames;

impl Named for AnyNames {
    fn has(&self, _column: &str) -> bool {
        false
    }

    fn position(&mut self, _column: &str, _option: OptionName) -> Result<usize, JobError> {
        Ok(0)
    }
}
