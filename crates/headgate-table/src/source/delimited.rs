//! `.csv` and `.tsv`: the first record names the columns.

use std::io;

use bytes::Bytes;
use headgate_core::error::JobError;
use headgate_core::options::SourceOptions;
use headgate_core::reason::Reason;
use headgate_core::row::Row;

use super::MAX_RECORD_BYTES;
use super::cells::{RowPosition, add_defect, defect_row, not_utf8};
use super::columns::UsedColumns;
use super::header_json;
use super::input::{InputReader, OpenInput};
use super::keep::{self, KeptText};
use super::partition::Partition;
use super::records::{Fields, Record, Records};
use super::template::bound::RequestTemplates;
use super::template::cell::Cell;
use super::text_rows::{TextForm, TextRows};
use super::values::RecordValues;

pub(super) struct Delimited {
    records: Records<InputReader>,
    /// `None`: an empty file, which has no header either.
    header: Option<DelimitedHeader>,
}

struct DelimitedHeader {
    columns: UsedColumns,
    /// The names in the header, followed by those of the file's directories.
    names: Vec<String>,
    fields: usize,
    partition: Partition,
    hash: u128,
}

impl DelimitedHeader {
    /// Returns the value, or `None` if the record has no such field, or a directory has a null.
    fn cell<'a>(&'a self, fields: &'a Fields, column: usize) -> Option<&'a [u8]> {
        match column.checked_sub(self.fields) {
            None => fields.get(column),
            Some(at) => self.partition.value(at).map(str::as_bytes),
        }
    }
}

impl Delimited {
    /// # Errors
    /// `Input`: the first record can't be read, or lacks a column.
    pub(super) fn open(
        (input, reader): (OpenInput, InputReader),
        options: &SourceOptions,
        delimiter: u8,
        partition: Partition,
    ) -> Result<TextRows<Self>, JobError> {
        let mut records = Records::new(reader, delimiter, MAX_RECORD_BYTES);
        let mut hash = 0;
        let first = records.next_record(Some(&mut hash)).or_else(|error| input.ended_by(&error, 0).map(|()| None))?;
        let mut keep = Vec::new();
        let header = match first {
            None => None,
            Some((_, Record::Fields(fields))) => {
                let own: Vec<_> = fields.iter().map(String::from_utf8_lossy).collect();
                let names: Vec<String> = partition.columns(own.iter().map(|name| &**name)).map(String::from).collect();
                keep = keep::names(options, &names.iter().map(String::as_str).collect::<Vec<_>>());
                let columns = UsedColumns::find(options, &keep, names.iter().map(String::as_str))?;
                Some(DelimitedHeader { columns, names, fields: fields.len(), partition, hash })
            }
            Some((line, Record::Broken(reason))) => {
                return Err(JobError::input(format!(
                    "{}: line {line}, which should name the columns: {reason}",
                    input.name
                )));
            }
        };
        let kept = KeptText::new(&options.input, &keep)?;
        Ok(TextRows::new(input, Self { records, header }, kept))
    }
}

impl TextForm for Delimited {
    fn next_row(&mut self, ordinal: u64, kept: &mut KeptText, hash: Option<&mut u128>) -> io::Result<Option<Row>> {
        let Some(header) = &self.header else { return Ok(None) };
        let Some((line, record)) = self.records.next_record(hash)? else { return Ok(None) };
        let position = RowPosition::Line(line);
        Ok(Some(match record {
            Record::Fields(fields) => row(ordinal, position, header, fields, kept),
            Record::Broken(reason) => {
                kept.push_nulls();
                defect_row(ordinal, position, reason)
            }
        }))
    }

    fn skip_row(&mut self, hash: Option<&mut u128>) -> io::Result<bool> {
        Ok(self.header.is_some() && self.records.next_record(hash)?.is_some())
    }

    fn templates(&mut self) -> Option<&mut RequestTemplates> {
        self.header.as_mut()?.columns.templates.as_mut()
    }

    fn header(&self) -> u128 {
        self.header.as_ref().map_or(0, |header| header.hash)
    }
}

fn row(ordinal: u64, position: RowPosition, header: &DelimitedHeader, fields: &Fields, kept: &mut KeptText) -> Row {
    let DelimitedHeader { columns, names, .. } = header;
    let cell = |column: usize| header.cell(fields, column).unwrap_or_default();
    if fields.len() != header.fields {
        kept.push_nulls();
        let mut row = Row::new(ordinal, String::from_utf8_lossy(columns.url.map(cell).unwrap_or_default()));
        let reason = Reason::new("the line has more or fewer fields than the first line names columns");
        add_defect(&mut row, position, reason.with(format!("{}, not {}", fields.len(), header.fields)));
        return row;
    }
    let templates = columns.templates.as_ref();
    let of_templates = templates.iter().flat_map(|templates| &templates.columns);
    let body = columns.body.map(cell).filter(|body| !body.is_empty());
    let values = RecordValues {
        url: columns.url.map(|column| Ok(cell(column).into())),
        method: Ok(columns.method.map(cell).unwrap_or_default().into()),
        headers: header_json::parse(columns.headers.map(cell).unwrap_or_default()),
        body: Ok(body.map(Bytes::copy_from_slice)),
        cost: columns.cost.map(|column| (&*names[column], Ok(cell(column).into()))),
        cells: of_templates.map(|column| Cell::of_text(cell(*column))).collect(),
    };
    let mut row = values.row(ordinal, position, templates);
    for (index, column) in columns.kept.iter().enumerate() {
        let Some(bytes) = header.cell(fields, *column) else {
            kept.push(index, None);
            continue;
        };
        if let Err(error) = std::str::from_utf8(bytes) {
            add_defect(&mut row, position, not_utf8(&format!("the column {:?} is", names[*column]), bytes, error));
        }
        kept.push(index, Some(&String::from_utf8_lossy(bytes)));
    }
    row
}
