//! Columns as Delta describes them.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use serde_json::{Value, json};

/// A column that Delta can't describe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undescribed {
    pub column: String,
    pub why: String,
}

/// Returns the columns as the text that metadata of a table has.
pub(super) fn describe(schema: &Schema) -> Result<String, Undescribed> {
    let mut names = HashSet::new();
    for field in schema.fields() {
        if !names.insert(field.name().to_lowercase()) {
            let why = "another column has this name, apart from the case of letters".into();
            return Err(Undescribed { column: field.name().clone(), why });
        }
        if let Err(kind) = described_field(field) {
            return Err(Undescribed { column: field.name().clone(), why: format!("its type is {kind}") });
        }
    }
    Ok(of_struct(schema.fields()).map_err(|kind| Undescribed { column: String::new(), why: kind })?.to_string())
}

fn of_struct(fields: &Fields) -> Result<Value, String> {
    let fields: Result<Vec<Value>, String> = fields.iter().map(|field| of_field(field)).collect();
    Ok(json!({"type": "struct", "fields": fields?}))
}

fn of_field(field: &Field) -> Result<Value, String> {
    let kind = described_field(field)?;
    Ok(json!({"name": field.name(), "type": kind, "nullable": field.is_nullable(), "metadata": {}}))
}

/// Returns the type as [`described`] does. Types beyond those of Arrow are not described: not every reader takes them for the type
/// that stores them.
fn described_field(field: &Field) -> Result<Value, String> {
    field.extension_type_name().map_or_else(|| described(field.data_type()), |name| Err(name.to_owned()))
}

/// Returns the type as Delta has it; an error has the type that Delta lacks. A type without a sign becomes the next larger one
/// with a sign, as readers of Parquet have it.
fn described(data_type: &DataType) -> Result<Value, String> {
    let name = match data_type {
        DataType::Boolean => "boolean",
        DataType::Int8 => "byte",
        DataType::Int16 | DataType::UInt8 => "short",
        DataType::Int32 | DataType::UInt16 => "integer",
        DataType::Int64 | DataType::UInt32 => "long",
        DataType::Float32 => "float",
        DataType::Float64 => "double",
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "string",
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => "binary",
        DataType::Date32 => "date",
        // A timestamp without a time zone needs a later version of the protocol, and nanoseconds have no type.
        DataType::Timestamp(TimeUnit::Microsecond | TimeUnit::Millisecond, Some(_)) => "timestamp",
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
            if *scale >= 0 =>
        {
            return Ok(json!(format!("decimal({precision},{scale})")));
        }
        DataType::Dictionary(_, values) => return described(values),
        // Not lists of a fixed size, which polars doesn't read as lists.
        DataType::List(item) | DataType::LargeList(item) | DataType::ListView(item) | DataType::LargeListView(item) => {
            let element = described_field(item)?;
            return Ok(json!({"type": "array", "elementType": element, "containsNull": item.is_nullable()}));
        }
        DataType::Struct(fields) => return of_struct(fields),
        DataType::Map(entries, _) => {
            let DataType::Struct(fields) = entries.data_type() else { return Err(data_type.to_string()) };
            let [key, value] = fields.as_ref() else { return Err(data_type.to_string()) };
            let (key_type, value_type) = (described_field(key)?, described_field(value)?);
            return Ok(json!({
                "type": "map", "keyType": key_type, "valueType": value_type, "valueContainsNull": value.is_nullable(),
            }));
        }
        other => return Err(other.to_string()),
    };
    Ok(json!(name))
}

/// Returns the columns of a checkpoint: one for each kind of action, of which each row has one.
pub(super) fn of_checkpoint() -> SchemaRef {
    let (text, long, flag) = (DataType::Utf8, DataType::Int64, DataType::Boolean);
    let fields = |fields: Vec<(&str, DataType)>| {
        DataType::Struct(fields.into_iter().map(|(name, kind)| Field::new(name, kind, true)).collect::<Fields>())
    };
    let entries = Fields::from(vec![Field::new("key", text.clone(), false), Field::new("value", text.clone(), true)]);
    let map = DataType::Map(Arc::new(Field::new("key_value", DataType::Struct(entries), false)), false);
    let list = DataType::List(Arc::new(Field::new("element", text.clone(), true)));
    let actions = vec![
        ("txn", fields(vec![("appId", text.clone()), ("version", long.clone()), ("lastUpdated", long.clone())])),
        (
            "add",
            fields(vec![
                ("path", text.clone()),
                ("partitionValues", map.clone()),
                ("size", long.clone()),
                ("modificationTime", long.clone()),
                ("dataChange", flag.clone()),
                ("stats", text.clone()),
            ]),
        ),
        ("remove", fields(vec![("path", text.clone()), ("deletionTimestamp", long.clone()), ("dataChange", flag)])),
        (
            "metaData",
            fields(vec![
                ("id", text.clone()),
                ("name", text.clone()),
                ("description", text.clone()),
                ("format", fields(vec![("provider", text.clone()), ("options", map.clone())])),
                ("schemaString", text),
                ("partitionColumns", list),
                ("createdTime", long),
                ("configuration", map),
            ]),
        ),
        ("protocol", fields(vec![("minReaderVersion", DataType::Int32), ("minWriterVersion", DataType::Int32)])),
    ];
    let columns = actions.into_iter().map(|(name, kind)| Field::new(name, kind, true));
    Arc::new(Schema::new(columns.collect::<Fields>()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::columns::schema::schema;

    fn with(kind: DataType) -> Result<String, Undescribed> {
        describe(&Schema::new(vec![Field::new("id", DataType::Int64, false), Field::new("kept", kind, true)]))
    }

    #[test]
    fn own_columns_are_described() {
        let text = describe(&schema(&Fields::empty())).expect("types that Delta has");
        for expected in [
            r#"{"metadata":{},"name":"status","nullable":true,"type":"short"}"#,
            r#""name":"started_at","nullable":false,"type":"timestamp""#,
            r#"{"metadata":{},"name":"value","nullable":false,"type":"binary"}"#,
        ] {
            assert!(text.contains(expected), "{text}");
        }
    }

    #[test]
    fn a_column_without_a_type_in_delta_is_named() {
        let nested = DataType::List(Arc::new(Field::new("item", DataType::UInt64, true)));
        let second = DataType::Timestamp(TimeUnit::Second, None);
        let two = DataType::FixedSizeList(Arc::new(Field::new("item", DataType::Int64, true)), 2);
        for (kind, why) in [
            (DataType::UInt64, "its type is UInt64"),
            (DataType::Duration(TimeUnit::Second), "its type is Duration(s)"),
            (nested, "its type is UInt64"),
            (second, "its type is Timestamp(s)"),
            (two, "its type is FixedSizeList(2 x Int64)"),
        ] {
            assert_eq!(Err(Undescribed { column: "kept".into(), why: why.into() }), with(kind));
        }
        assert!(with(DataType::UInt32).is_ok_and(|text| text.contains("long")));
    }

    #[test]
    fn names_that_differ_only_in_case_are_one_name_in_delta() {
        let fields = ["Id", "id"].map(|name| Field::new(name, DataType::Int64, true));
        assert_eq!("id", describe(&Schema::new(fields.to_vec())).expect_err("it was described").column);
    }
}
