use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Int16Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array as _, ArrayRef, Int64Array};
use arrow_schema::{DataType, Field, Fields};
use headgate_core::error::{ErrorKind, Failure};
use headgate_core::headers::Headers;
use headgate_core::memory::{MemoryBudget, Reservation};
use headgate_core::response::{Body, Response};
use headgate_core::row::{Outcome, Row, RowExtra};
use http::Version;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::builder::{BATCH_BYTES, OutcomeBatch, OutcomeBuilder};
use super::kept::KeptCodec;
use super::result::ResultColumns;
use super::schema::schema;

/// The status, headers and body of a response.
type ChosenResponse = (u16, Vec<(String, Vec<u8>)>, Option<Vec<u8>>);

/// The parts of an outcome that a test chooses.
#[derive(Debug, Clone)]
struct Chosen {
    method: &'static str,
    number: i64,
    response: Option<ChosenResponse>,
    failure: Option<String>,
    kept: Option<i64>,
    failed: bool,
}

fn chosen() -> impl Strategy<Value = Chosen> {
    let header = ("[A-Za-z-]{1,8}", vec(any::<u8>(), 0..6));
    let response = (100..999_u16, vec(header, 0..4), option::of(vec(any::<u8>(), 0..20)));
    let method = prop_oneof![9 => Just("GET"), 1 => Just("POST")];
    (method, 0..1_i64 << 40, option::of(response), option::of("[a-z ]{0,80}"), option::of(any::<i64>()), any::<bool>())
        .prop_map(|(method, number, response, failure, kept, failed)| Chosen {
            method,
            number,
            response,
            failure,
            kept,
            failed,
        })
}

fn kept_fields() -> Fields {
    Fields::from(vec![Field::new("id", DataType::Int64, true)])
}

fn outcome(ordinal: u64, chosen: &Chosen, codec: &KeptCodec) -> Outcome {
    let kept = chosen.kept.map(|kept| {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![kept]));
        codec.encode(&[column]).expect("a number").remove(0)
    });
    let extra = kept.map(|kept| Box::new(RowExtra { kept: Some(kept), ..RowExtra::default() }));
    let response = chosen.response.clone().map(|(status, headers, body)| Response {
        status,
        version: if status % 2 == 0 { Version::HTTP_11 } else { Version::HTTP_10 },
        headers: headers.iter().map(|(name, value)| (&name[..], &value[..])).collect(),
        memory: Reservation::default(),
        body_encoding: (status % 3 == 0).then(|| "gzip".into()),
        body_truncated: status % 5 == 0,
        ttfb_us: chosen.number as u64 / 2,
        received_bytes: chosen.number as u64 / 3,
        saved: None,
        body: body.map(|bytes| Body { bytes, ..Body::default() }),
    });
    Outcome {
        row: Row { extra, ..Row::new(ordinal, format!("http://{ordinal}/{}", chosen.number)) },
        method: chosen.method.into(),
        attempts: (chosen.number % 7) as u16,
        started_at_us: chosen.number,
        elapsed_us: chosen.number as u64 + 1,
        remote_addr: (chosen.number % 4 > 0).then(|| format!("127.0.0.{}:80", chosen.number % 3).into()),
        response,
        selected: None,
        failure: chosen.failure.clone().map(|message| Failure::new(ErrorKind::Timeout, message)),
    }
}

/// Returns each row as a text that has all of its values.
fn shown(batch: &OutcomeBatch) -> Vec<String> {
    let column = |name: &str| batch.records.column_by_name(name).expect("a column of every result");
    let text = |name, row| column(name).is_valid(row).then(|| column(name).as_string::<i32>().value(row).to_owned());
    let long = |name, row| column(name).is_valid(row).then(|| column(name).as_primitive::<Int64Type>().value(row));
    let short = |name, row| column(name).is_valid(row).then(|| column(name).as_primitive::<Int16Type>().value(row));
    let headers = |row| {
        column("headers").is_valid(row).then(|| {
            let pairs = column("headers").as_list::<i32>().value(row);
            let (names, values) = (pairs.as_struct().column(0), pairs.as_struct().column(1));
            let pairs = names.as_string::<i32>().iter().zip(values.as_binary::<i32>());
            pairs.map(|(name, value)| format!("{name:?} {value:?}")).collect::<Vec<_>>()
        })
    };
    let body = |row| column("body").is_valid(row).then(|| column("body").as_binary::<i32>().value(row));
    let started_at = column("started_at").as_primitive::<TimestampMicrosecondType>();
    let failed = |row| {
        let is_failed = batch.failed.as_ref().is_some_and(|failed| failed.value(row));
        assert_eq!(is_failed, column("failed").as_boolean().value(row));
        is_failed
    };
    let texts = ["url", "method", "error", "error_message", "error_detail", "final_url", "http_version", "remote_addr"];
    let shown = |row| {
        format!(
            "{:?} {:?} {:?} {:?} {:?} {} {}",
            texts.map(|name| text(name, row)),
            ["row", "received_bytes", "elapsed_us", "ttfb_us", "id"].map(|name| long(name, row)),
            ["status", "attempts"].map(|name| short(name, row)),
            headers(row),
            body(row),
            started_at.value(row),
            failed(row),
        )
    };
    (0..batch.records.num_rows()).map(shown).collect()
}

fn expected(outcome: &Outcome, chosen: &Chosen) -> String {
    let (response, failure) = (outcome.response.as_ref(), outcome.failure.as_ref());
    let version = |response: &Response| if response.version == Version::HTTP_11 { "HTTP/1.1" } else { "HTTP/1.0" };
    let headers = |headers: &Headers| {
        headers.iter().map(|(name, value)| format!("{:?} {:?}", Some(name), Some(value))).collect::<Vec<_>>()
    };
    let texts = [
        Some(outcome.row.url.to_string()),
        Some(outcome.method.to_string()),
        failure.map(|failure| failure.kind.name().to_owned()),
        failure.map(|failure| failure.reason.message.to_string()),
        failure.and_then(|failure| failure.reason.detail.as_ref()).map(ToString::to_string),
        None,
        response.map(version).map(str::to_owned),
        outcome.remote_addr.as_ref().map(ToString::to_string),
    ];
    let longs = [
        Some(outcome.row.ordinal as i64),
        Some(response.map_or(0, |response| response.received_bytes as i64)),
        Some(outcome.elapsed_us as i64),
        response.map(|response| response.ttfb_us as i64),
        chosen.kept,
    ];
    format!(
        "{texts:?} {longs:?} {:?} {:?} {:?} {} {}",
        [response.map(|response| response.status as i16), Some(outcome.attempts as i16)],
        response.map(|response| headers(&response.headers)),
        response.and_then(|response| response.body.as_ref()).map(|body| &body.bytes),
        outcome.started_at_us,
        chosen.failed,
    )
}

proptest! {
    #[test]
    fn a_batch_has_the_pushed_rows_whatever_the_batch_before_had(batches in vec(vec(chosen(), 1..40), 1..4)) {
        let codec = KeptCodec::new(&kept_fields()).expect("a number");
        let mut builder = OutcomeBuilder::new(&ResultColumns::of_kept(kept_fields()), MemoryBudget::new(0)).expect("a number");
        for batch in &batches {
            let mut rows = Vec::new();
            for (ordinal, chosen) in (0..).zip(batch) {
                let outcome = outcome(ordinal, chosen, &codec);
                rows.push(expected(&outcome, chosen));
                builder.push(outcome.as_ref(), chosen.failed);
            }
            let batch = builder.finish_batch().expect("columns");
            prop_assert_eq!(schema(&kept_fields()), batch.records.schema());
            prop_assert_eq!(rows, shown(&batch));
            prop_assert!(builder.is_empty());
        }
    }
}

fn with_body(ordinal: u64, bytes: Vec<u8>) -> Outcome {
    Outcome::for_tests(ordinal, 200, Some(bytes))
}

fn plain_builder() -> OutcomeBuilder {
    OutcomeBuilder::new(&ResultColumns::default(), MemoryBudget::new(0)).expect("nothing is kept")
}

#[test]
fn a_large_body_becomes_a_column_without_being_copied() {
    let body = vec![b'x'; BATCH_BYTES];
    let lies_at = body.as_ptr();
    let mut builder = plain_builder();
    builder.push_owned(with_body(7, body), false);

    assert!(builder.is_full());
    let records = builder.finish_batch().expect("columns").records;
    let column = records.column_by_name("body").expect("bodies").as_binary::<i32>();
    assert_eq!((lies_at, BATCH_BYTES), (column.value(0).as_ptr(), column.value(0).len()));

    builder.push_owned(with_body(8, b"small".to_vec()), false);
    let records = builder.finish_batch().expect("columns").records;
    assert_eq!(b"small", records.column_by_name("body").expect("bodies").as_binary::<i32>().value(0));
}

#[test]
fn a_row_that_fills_a_batch_fits_only_into_an_empty_one() {
    let mut builder = plain_builder();
    assert!(builder.has_capacity_for(1 << 30));
    builder.push(with_body(0, vec![0; 10]).as_ref(), false);
    assert_eq!((true, false), (builder.has_capacity_for(BATCH_BYTES - 1), builder.has_capacity_for(BATCH_BYTES)));
    builder.push(with_body(1, vec![0; BATCH_BYTES - 1]).as_ref(), false);
    assert!(!builder.has_capacity_for(1), "it is full");
}
