//! Skipping rows yields the same rows as reading and discarding them.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use flate2::write::GzEncoder;
use headgate_core::error::JobErrorKind;
use headgate_core::options::SourceOptions;
use headgate_core::row::{MAX_URL_BYTES, Row};
use headgate_core::source_size::SourceSize;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use proptest::prelude::*;

use crate::{Files, drain, drain_from, open, options, rows, urls};

/// More rows than two batches have; every input here has at least this many.
const ROWS: u64 = 2500;

/// Returns an input of each format, with everything that makes its rows hard to count.
fn inputs(files: &Files) -> Vec<SourceOptions> {
    let text = text();
    let mut gzip = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text.as_bytes()).expect("in memory");
    let keep = |options| SourceOptions { keep: vec!["id".into()], ..options };
    vec![
        options("http://{a,b}.example/[0-1249]".as_ref()),
        files.write("urls.txt", &text),
        files.write("urls.txt.gz", gzip.finish().expect("in memory")),
        files.write("urls.txt.zst", zstd::encode_all(text.as_bytes(), 1).expect("in memory")),
        keep(files.write("urls.csv", csv())),
        keep(files.write("urls.ndjson", ndjson())),
        SourceOptions { keep: vec!["tags".into(), "id".into()], ..parquet(files) },
        keep(long_parquet(files)),
        several_texts(files),
        SourceOptions { keep: vec!["day".into(), "id".into()], ..several_csvs(files) },
        SourceOptions { keep: vec!["id".into(), "day".into()], ..several_parquets(files) },
    ]
}

/// Returns a directory of short and long files, some of them without a row, and one of them compressed.
fn several_texts(files: &Files) -> SourceOptions {
    std::fs::create_dir(files.path("texts")).expect("a directory");
    files.write("texts/0.txt", "\n");
    for file in 1..300 {
        let lines: Vec<String> = (0..file % 7).map(|row| format!("http://host/{file}/{row}\n")).collect();
        files.write(&format!("texts/{file}.txt"), lines.join("\n"));
    }
    files.write("texts/a.txt.zst", zstd::encode_all(text().as_bytes(), 1).expect("in memory"));
    files.write("texts/b.txt", text());
    options(&files.path("texts"))
}

/// Returns files below directories that are a column, each file with its own header.
fn several_csvs(files: &Files) -> SourceOptions {
    for day in ["1", "2", "__HIVE_DEFAULT_PARTITION__"] {
        std::fs::create_dir_all(files.path(&format!("csvs/day={day}"))).expect("a directory");
        files.write(&format!("csvs/day={day}/0.csv"), csv());
        files.write(&format!("csvs/day={day}/1.csv"), "");
        files.write(&format!("csvs/day={day}/2.csv"), "body,url,id\n,http://a/,5\n,http://b/\n");
    }
    SourceOptions { body_column: Some("body".into()), ..options(&files.path("csvs/*/*.csv")) }
}

fn several_parquets(files: &Files) -> SourceOptions {
    let paths = ["parquets/day=1/0.parquet", "parquets/day=1/1.parquet", "parquets/day=2/0.parquet"].map(|path| {
        let path = files.path(path);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        std::fs::copy(parquet(files).input, &path).expect("a file");
        path.display().to_string()
    });
    let [first, more @ ..] = paths;
    crate::naming_columns(SourceOptions { input: first, more_inputs: more.into(), ..SourceOptions::default() })
}

/// Returns blank lines, lines that end in CR LF, and lines that are too long, one of which has only blanks.
fn text() -> String {
    let mut text = "\u{feff}\n".to_owned();
    for row in 0..ROWS {
        match row % 100 {
            7 => text.push_str(" \t\r\n\n"),
            13 => text.push_str(&"\n".repeat(3)),
            _ => {}
        }
        match row {
            500 => text.push_str(&"x".repeat(300_000)),
            501 => text.push_str(&" ".repeat(MAX_URL_BYTES + 1)),
            _ => write!(text, "http://host/{row}").expect("in memory"),
        }
        text.push_str(if row % 3 == 0 { "\r\n" } else { "\n" });
    }
    // The last line has no line ending.
    text.push_str("\nhttp://host/last");
    text
}

/// Returns line endings and delimiters within quotes, ragged records and invalid ones.
fn csv() -> String {
    let mut text = "id,url,body\n".to_owned();
    for row in 0..ROWS {
        match row % 50 {
            5 => writeln!(text, "{row},http://host/{row},\"two\r\nlines, \"\"quoted\"\"\n\"\n"),
            6 => writeln!(text, "{row}"),
            7 => writeln!(text, "{row},\"http://host/\" {row},"),
            _ => writeln!(text, "{row},http://host/{row},"),
        }
        .expect("in memory");
    }
    text
}

fn ndjson() -> String {
    let mut text = String::new();
    for row in 0..ROWS {
        match row % 50 {
            5 => writeln!(text, "\n {{\"url\":\"http://host/{row}\",\"body\":\"a\\nb\",\"id\":[{row}]}} \r\n\t"),
            6 => writeln!(text, "no json"),
            _ => writeln!(text, "{{\"url\":\"http://host/{row}\",\"id\":{row}}}"),
        }
        .expect("in memory");
    }
    text
}

/// Writes row groups of 700 rows in pages of 50, with a nested column that is kept and some large rows.
pub fn parquet(files: &Files) -> SourceOptions {
    let mut tags = ListBuilder::new(StringBuilder::new());
    for row in 0..ROWS {
        tags.append_option((row % 5 > 0).then(|| (0..row % 4).map(|tag| Some(format!("{row}.{tag}")))));
    }
    let ids: Int64Array = (0..ROWS).map(|row| (row % 7 > 0).then_some(row as i64)).collect();
    let url: StringArray = (0..ROWS).map(|row| (row % 11 > 0).then(|| format!("http://host/{row}"))).collect();
    // A dictionary stores one large value once, so batches end within a record batch.
    let large = "x".repeat(200_000);
    let body: StringArray = (0..ROWS).map(|row| (900..920).contains(&row).then_some(large.as_str())).collect();
    let columns: [(&str, ArrayRef); 4] =
        [("tags", Arc::new(tags.finish())), ("id", Arc::new(ids)), ("url", Arc::new(url)), ("body", Arc::new(body))];
    write_parquet(&files.path("urls.parquet"), &columns, 700)
}

/// Returns one row group with many record batches.
fn long_parquet(files: &Files) -> SourceOptions {
    let rows = 8 * ROWS;
    let ids: ArrayRef = Arc::new((0..rows).map(|row| Some(row as i64)).collect::<Int64Array>());
    let url: ArrayRef = Arc::new((0..rows).map(|row| Some(format!("http://host/{row}"))).collect::<StringArray>());
    write_parquet(&files.path("long.parquet"), &[("id", ids), ("url", url)], rows as usize)
}

fn write_parquet(path: &Path, columns: &[(&str, ArrayRef)], group_rows: usize) -> SourceOptions {
    let columns = columns.iter().map(|(name, array)| (*name, array.clone(), true));
    let records = RecordBatch::try_from_iter_with_nullable(columns).expect("columns");
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(group_rows))
        .set_data_page_row_count_limit(50)
        .set_write_batch_size(50)
        .build();
    let file = File::create(path).expect("a file");
    let mut writer = ArrowWriter::try_new(file, records.schema(), Some(properties)).expect("a schema");
    writer.write(&records).expect("rows");
    writer.close().expect("an end");
    options(path)
}

pub struct Whole {
    pub options: SourceOptions,
    pub rows: Vec<Row>,
    size: SourceSize,
}

pub fn read_plainly(files: &Files) -> Vec<Whole> {
    let whole = |options| {
        let mut source = open(&options);
        let (rows, error) = drain(source.as_mut());
        assert_eq!(None, error);
        Whole { size: source.size(), options, rows }
    };
    inputs(files).into_iter().map(whole).collect()
}

#[derive(Debug, Clone)]
enum Step {
    ReadBatch,
    Skip(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let skip = prop_oneof![0_u64..4, 0..ROWS + 100, 0..9 * ROWS].prop_map(Step::Skip);
    proptest::collection::vec(prop_oneof![Just(Step::ReadBatch), skip], 1..6)
}

#[test]
fn rows_between_any_skips_are_those_of_a_plain_read() {
    let files = Files::new();
    let wholes = read_plainly(&files);
    proptest!(ProptestConfig::with_cases(64), |(steps in steps(), peek: bool)| {
        for Whole { options, rows, size } in &wholes {
            let mut source = open(options);
            if peek {
                source.peek().expect("a good input");
            }
            let mut next = 0;
            for step in &steps {
                match step {
                    Step::ReadBatch => {
                        let batch = source.next_batch().expect("a good input").unwrap_or_default();
                        prop_assert_eq!(&rows[next..next + batch.len()], batch.as_slice(), "{}", options.input);
                        next += batch.len();
                    }
                    Step::Skip(count) => {
                        source.skip_to(next as u64 + count).expect("a good input");
                        next = rows.len().min(next + *count as usize);
                    }
                }
            }
            let (rest, error) = drain_from(source.as_mut(), next as u64);
            prop_assert_eq!(None, error);
            prop_assert_eq!(&rows[next..], rest.as_slice(), "{}", options.input);
            prop_assert_eq!(*size, source.size(), "{}", options.input);
        }
    });
}

#[test]
fn a_skip_beyond_the_end_leaves_no_rows_and_reports_the_size_of_a_full_read() {
    let files = Files::new();
    for Whole { options, rows, size } in read_plainly(&files) {
        let mut source = open(&options);
        source.skip_to(rows.len() as u64 + 5).expect("a good input");
        assert_eq!(size, source.size(), "{}", options.input);
        assert_eq!(Ok(None), source.next_batch(), "{}", options.input);
    }
    let mut empty = open(&files.write("empty.csv", ""));
    empty.skip_to(5).expect("a good input");
    assert_eq!(Ok(None), empty.next_batch());
}

#[test]
fn a_skip_back_to_an_earlier_row_is_refused() {
    let files = Files::new();
    let options = files.write("urls.txt", "http://a/\n".repeat(5));
    let mut peeked = open(&options);
    peeked.peek().expect("a good input");
    for mut source in [open(&options), peeked] {
        source.skip_to(3).expect("a good input");
        let error = source.skip_to(2).expect_err("it can't skip backwards");
        assert_eq!(JobErrorKind::Internal, error.kind);
        assert_eq!("row 2 was requested, but the next one is row 3: an input is read forward only", error.to_string());
    }
}

#[test]
fn a_skip_in_a_pattern_takes_constant_time() {
    let options = options("http://h/[0-18446744073709551614]".as_ref());
    let mut source = open(&options);
    source.skip_to(u64::MAX - 1).expect("a pattern");
    assert_eq!(["http://h/18446744073709551614"].as_slice(), urls(&drain_from(source.as_mut(), u64::MAX - 1).0));
}

#[test]
fn row_groups_are_skipped_without_being_read_and_count_as_read() {
    let files = Files::new();
    let options = parquet(&files);
    let expected = rows(&options);
    let mut plain = open(&options);
    let mut read = 0;
    while read < 1400 {
        read += plain.next_batch().expect("a good file").expect("more rows").len();
    }

    let bytes = std::fs::read(&options.input).expect("a file");
    let first = bytes.windows(13).position(|window| window == b"http://host/1").expect("its first value");
    let mut damaged = bytes;
    damaged[4..first].fill(0xFF);
    let options = files.write("damaged.parquet", damaged);
    let mut source = open(&options);
    source.skip_to(1400).expect("a footer that is whole");
    let (rows, error) = drain_from(source.as_mut(), 1400);
    assert_eq!(None, error);
    assert_eq!(urls(&expected[1400..]), urls(&rows));

    let mut source = open(&options);
    source.skip_to(1401).expect("a footer that is whole");
    // The plain read notices the end of the second row group when it requests the third.
    plain.next_batch().expect("a good file");
    assert_eq!(plain.size(), source.size());
}

#[test]
fn an_error_during_a_skip_is_that_of_a_plain_read_and_persists() {
    let files = Files::new();
    let mut gzip = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    for row in 0..20_000 {
        writeln!(gzip, "http://host/{}", row * 7919 % 100_003).expect("in memory");
    }
    let bytes = gzip.finish().expect("in memory");
    let options = files.write("urls.txt.gz", &bytes[..bytes.len() / 2]);
    let (rows, expected) = drain(open(&options).as_mut());
    assert!(rows.len() > 1000, "{}", rows.len());

    let mut source = open(&options);
    source.skip_to(1000).expect("a good beginning");
    let error = source.skip_to(20_000).err();
    assert_eq!(expected, error);
    assert_eq!(error, source.next_batch().err());
    assert_eq!(error, source.skip_to(20_000).err());
}
