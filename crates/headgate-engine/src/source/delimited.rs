//! `.csv` and `.tsv`: the first record names the columns.

use arrow_schema::Fields as ArrowFields;
use bytes::Bytes;

use super::MAX_RECORD_BYTES;
use super::batches::Rows;
use super::cells::{Place, add_defect, defect_row, not_utf8, set_headers, set_method, url_row};
use super::columns::Columns;
use super::content::Passing;
use super::cost::set_cost;
use super::fingerprint::Fingerprint;
use super::header_json;
use super::input::{Input, Reader};
use super::keep::{self, KeptText};
use super::partition::Partition;
use super::records::{Fields, Record, Records};
use super::template::cell::Cell;
use crate::model::error::JobError;
use crate::model::message::Message;
use crate::model::options::SourceOptions;
use crate::model::reason::Reason;
use crate::model::row::{Row, RowBatch};
use crate::model::source_size::SourceSize;

pub(super) struct Delimited {
    input: Input,
    records: Records<Reader>,
    /// `None`: an empty file, which has no header either.
    header: Option<Header>,
    kept: KeptText,
}

struct Header {
    columns: Columns,
    /// Those of the records, and behind them those that the directories of the file say.
    names: Vec<String>,
    fields: usize,
    partition: Partition,
    hash: u128,
}

impl Header {
    /// `None`: the record has no such field, or a directory says that it is null.
    fn cell<'a>(&'a self, fields: &'a Fields, column: usize) -> Option<&'a [u8]> {
        match column.checked_sub(self.fields) {
            None => fields.get(column),
            Some(at) => self.partition.value(at).map(str::as_bytes),
        }
    }
}

impl Delimited {
    pub(super) fn new(
        (input, reader): (Input, Reader),
        options: &SourceOptions,
        delimiter: u8,
        partition: Partition,
    ) -> Result<Self, JobError> {
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
                let columns = Columns::find(options, &keep, names.iter().map(String::as_str))?;
                Some(Header { columns, names, fields: fields.len(), partition, hash })
            }
            Some((line, Record::Broken(trouble))) => {
                return Err(JobError::input(format!(
                    "{}: line {line}, which should name the columns: {trouble}",
                    input.name
                )));
            }
        };
        let kept = KeptText::new(&options.input, &keep)?;
        Ok(Self { input, records, header, kept })
    }
}

impl Rows for Delimited {
    fn next_row(&mut self, ordinal: u64, passing: Option<&mut Passing>) -> Result<Option<Row>, JobError> {
        let Some(header) = &self.header else { return Ok(None) };
        let mut hash = 0;
        let row = match self.records.next_record(passing.is_some().then_some(&mut hash)) {
            Ok(Some((line, Record::Fields(fields)))) => row(ordinal, Place::Line(line), header, fields, &mut self.kept),
            Ok(Some((line, Record::Broken(trouble)))) => {
                self.kept.push_nulls();
                defect_row(ordinal, Place::Line(line), trouble)
            }
            Ok(None) => return Ok(None),
            Err(error) => return self.input.ended_by(&error, ordinal).map(|()| None),
        };
        if let Some(passing) = passing {
            passing.add(hash);
        }
        Ok(Some(row))
    }

    fn skip(&mut self, ordinal: u64, count: u64, mut passing: Option<&mut Passing>) -> Result<u64, JobError> {
        if self.header.is_none() {
            return Ok(0);
        }
        for skipped in 0..count {
            let mut hash = 0;
            match self.records.next_record(passing.is_some().then_some(&mut hash)) {
                Ok(Some(_)) => {}
                Ok(None) => return Ok(skipped),
                Err(error) => return self.input.ended_by(&error, ordinal + skipped).map(|()| skipped),
            }
            if let Some(passing) = &mut passing {
                passing.add(hash);
            }
        }
        Ok(count)
    }

    fn header(&self) -> u128 {
        self.header.as_ref().map_or(0, |header| header.hash)
    }

    fn begin_behind(&mut self, rows: u64) {
        self.header.iter_mut().for_each(|header| header.columns.begin_behind(rows));
    }

    fn size(&self) -> SourceSize {
        self.input.size()
    }

    fn fingerprint(&self) -> Option<Fingerprint> {
        self.input.fingerprint()
    }

    fn note(&self) -> Option<Message> {
        self.input.note()
    }

    fn kept_fields(&self) -> ArrowFields {
        self.kept.fields().clone()
    }

    fn kept_bytes(&self) -> usize {
        self.kept.bytes()
    }

    fn attach_kept(&mut self, batch: &mut RowBatch) -> Result<(), JobError> {
        self.kept.attach(batch)
    }
}

fn row(ordinal: u64, place: Place, header: &Header, fields: &Fields, kept: &mut KeptText) -> Row {
    let Header { columns, names, .. } = header;
    let url = columns.url.and_then(|column| header.cell(fields, column));
    if fields.len() != header.fields {
        kept.push_nulls();
        let mut row = Row::new(ordinal, String::from_utf8_lossy(url.unwrap_or_default()));
        let reason = Reason::new("the line has more or fewer fields than the first line names columns");
        add_defect(&mut row, place, reason.with(format!("{}, not {}", fields.len(), header.fields)));
        return row;
    }
    let cell = |column: Option<usize>| column.and_then(|column| header.cell(fields, column)).unwrap_or_default();
    let templates = columns.templates.as_ref().map(|templates| {
        let cells = templates.columns.iter().map(|column| Cell::of_text(cell(Some(*column))));
        (templates, cells.collect::<Vec<_>>())
    });
    let mut row = match &templates {
        Some((templates, cells)) if templates.make_urls() => templates.row(ordinal, place, cells),
        _ => url_row(ordinal, place, url.unwrap_or_default()),
    };
    set_method(&mut row, place, cell(columns.method));
    set_headers(&mut row, place, header_json::parse(cell(columns.headers)));
    let body = cell(columns.body);
    if !body.is_empty() {
        row.extra.get_or_insert_default().body = Some(Bytes::copy_from_slice(body).into());
    }
    if let Some(column) = columns.cost {
        set_cost(&mut row, place, &names[column], cell(columns.cost));
    }
    if let Some((templates, cells)) = &templates {
        templates.fill(&mut row, place, cells);
    }
    for (index, column) in columns.kept.iter().enumerate() {
        let Some(bytes) = header.cell(fields, *column) else {
            kept.push(index, None);
            continue;
        };
        if let Err(error) = std::str::from_utf8(bytes) {
            add_defect(&mut row, place, not_utf8(&format!("the column {:?} is", names[*column]), bytes, error));
        }
        kept.push(index, Some(&String::from_utf8_lossy(bytes)));
    }
    row
}
