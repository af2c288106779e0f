//! Makes rows of a record batch.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryViewArray};
use arrow_schema::{DataType, SchemaRef};
use bytes::Bytes;
use headgate_core::row::{Row, RowHeaders};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ArrowReaderMetadata;

use super::cells::RowPosition;
use super::columns::UsedColumns;
use super::header_column::{HeaderColumn, byte_column, value_column};
use super::template::bound::RequestTemplates;
use super::template::cell_column::CellColumn;
use super::values::RecordValues;

/// The columns that are read from a file.
pub(super) struct ReadColumns {
    /// Indices of top-level columns, ascending: the columns of a record batch, in its order.
    pub(super) roots: Vec<usize>,
    pub(super) projection: ProjectionMask,
    /// The columns that determine requests and kept values: their hash identifies rows. Costs only say how the work is
    /// done.
    pub(super) known_by: ProjectionMask,
    pub(super) columns: UsedColumns,
}

impl ReadColumns {
    /// Selects columns of a Parquet file, or without `metadata`, of record batches in memory.
    pub(super) fn new(columns: UsedColumns, metadata: Option<&ArrowReaderMetadata>) -> Self {
        let read = [columns.url, columns.method, columns.headers, columns.body].into_iter().flatten();
        let of_templates = columns.templates.iter().flat_map(|templates| &templates.columns).copied();
        let mut roots: Vec<usize> = read.chain(of_templates).chain(columns.kept.iter().copied()).collect();
        let mask = |roots: &[usize]| match metadata {
            None => ProjectionMask::all(),
            Some(metadata) => {
                // Columns after the file's own come from its directories.
                let own = metadata.schema().fields().len();
                let roots = roots.iter().copied().filter(|root| *root < own);
                ProjectionMask::roots(metadata.parquet_schema(), roots)
            }
        };
        let known_by = mask(&roots);
        roots.extend(columns.cost);
        roots.sort_unstable();
        roots.dedup();
        let projection = mask(&roots);
        Self { roots, projection, known_by, columns }
    }
}

pub(super) struct Chunk {
    rows: usize,
    url: Option<BinaryViewArray>,
    method: Option<BinaryViewArray>,
    headers: Option<HeaderColumn>,
    body: Option<BinaryViewArray>,
    /// The name of the cost column, and its values.
    cost: Option<(String, BinaryViewArray)>,
    /// The columns that templates need.
    cells: Vec<CellColumn>,
    pub(super) kept: Vec<ArrayRef>,
}

impl Chunk {
    /// Makes a chunk of `rows` rows of these columns of a record batch; `schema` is the file's.
    ///
    /// # Errors
    /// A column has an unsupported type.
    pub(super) fn new(
        used: &ReadColumns,
        schema: &SchemaRef,
        columns: &[ArrayRef],
        rows: usize,
    ) -> Result<Self, String> {
        let column = |index: usize| {
            let column = used.roots.binary_search(&index).ok().and_then(|position| columns.get(position));
            column.ok_or_else(|| format!("the column {:?} was not read", schema.field(index).name()))
        };
        let unfit = |index: usize, reason: &str| {
            let field = schema.field(index);
            format!("the column {:?} {reason}; its type is {}", field.name(), field.data_type())
        };
        let bytes =
            |index: usize| byte_column(column(index)?).ok_or_else(|| unfit(index, "is neither text nor binary"));
        let headers = |index: usize| {
            let reason = "can't be read as headers: it may be text (a JSON object), a map, a struct, or a list of structs of name and value";
            HeaderColumn::new(column(index)?).ok_or_else(|| unfit(index, reason))
        };
        let cost = |index: usize| {
            let costs = Some(column(index)?).filter(|column| *column.data_type() != DataType::Boolean);
            let reason = "can't be read as costs: they are numbers, or text with them";
            let costs = costs.and_then(value_column).ok_or_else(|| unfit(index, reason))?;
            Ok::<_, String>((schema.field(index).name().clone(), costs))
        };
        let cell_column = |index: &usize| {
            let made = CellColumn::new(&schema.fields()[*index], column(*index)?);
            made.map_err(|_| unfit(*index, "can't be part of a request"))
        };
        let of_templates = used.columns.templates.iter().flat_map(|templates| &templates.columns);
        Ok(Self {
            rows,
            url: used.columns.url.map(bytes).transpose()?,
            method: used.columns.method.map(bytes).transpose()?,
            headers: used.columns.headers.map(headers).transpose()?,
            body: used.columns.body.map(bytes).transpose()?,
            cost: used.columns.cost.map(cost).transpose()?,
            cells: of_templates.map(cell_column).collect::<Result<_, _>>()?,
            kept: used.columns.kept.iter().map(|index| column(*index).cloned()).collect::<Result<_, _>>()?,
        })
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn row(&self, ordinal: u64, at: usize, templates: Option<&RequestTemplates>) -> Row {
        let values = RecordValues {
            url: self.url.as_ref().map(|urls| cell(urls, at).map(Into::into).ok_or_else(|| "the URL is null".into())),
            method: Ok(self.method.as_ref().and_then(|methods| cell(methods, at)).unwrap_or_default().into()),
            headers: self.headers.as_ref().map_or(Ok(RowHeaders::new()), |headers| headers.get(at)),
            body: Ok(self.body.as_ref().and_then(|bodies| cell(bodies, at)).map(Bytes::copy_from_slice)),
            cost: self.cost.as_ref().and_then(|(name, costs)| Some((&**name, Ok(cell(costs, at)?.into())))),
            cells: self.cells.iter().map(|column| column.cell(at)).collect(),
        };
        values.row(ordinal, RowPosition::Row(ordinal), templates)
    }

    /// Returns the bytes of a row's kept text and binary values; other types are bounded by the size of a record batch.
    pub(super) fn kept_bytes(&self, at: usize) -> usize {
        let bytes = self.kept.iter().map(|column| match column.data_type() {
            DataType::Utf8View => column.as_string_view().value(at).len(),
            DataType::BinaryView => column.as_binary_view().value(at).len(),
            _ => 0,
        });
        bytes.sum()
    }
}

/// Returns the value, or `None` for null.
fn cell(column: &BinaryViewArray, at: usize) -> Option<&[u8]> {
    column.is_valid(at).then(|| column.value(at))
}
