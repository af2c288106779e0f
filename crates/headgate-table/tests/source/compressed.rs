use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use headgate_core::source_size::SourceSize;

use crate::{Files, drain, open, open_error, rows, urls};

pub fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).expect("in memory");
    encoder.finish().expect("in memory")
}

pub fn zstandard(text: &[u8]) -> Vec<u8> {
    zstd::encode_all(text, 1).expect("in memory")
}

fn many_urls() -> String {
    let urls: Vec<String> = (0..20_000).map(|row| format!("http://host/{}\n", row * 7919 % 100_003)).collect();
    urls.concat()
}

#[test]
fn each_text_form_is_read_through_each_compression() {
    let files = Files::new();
    for (form, text) in
        [("txt", "\u{feff}http://a/\n"), ("csv", "\u{feff}url\nhttp://a/\n"), ("ndjson", "{\"url\":\"http://a/\"}\n")]
    {
        for (name, bytes) in [("gz", gzip(text.as_bytes())), ("zst", zstandard(text.as_bytes()))] {
            let rows = rows(&files.write(&format!("urls.{form}.{name}"), bytes));
            assert_eq!(["http://a/"].as_slice(), urls(&rows), "{form}.{name}");
        }
    }
}

#[test]
fn members_and_frames_may_end_within_a_line() {
    let files = Files::new();
    for (name, compress) in [("urls.txt.gz", gzip as fn(&[u8]) -> Vec<u8>), ("urls.TXT.ZST", zstandard)] {
        let bytes = [compress(b"http://a/\nhttp:"), compress(b""), compress(b"//b/\n")].concat();
        assert_eq!(["http://a/", "http://b/"].as_slice(), urls(&rows(&files.write(name, bytes))), "{name}");
    }
}

#[test]
fn compressed_data_without_rows_is_a_job_without_rows() {
    let files = Files::new();
    assert_eq!(0, rows(&files.write("urls.txt.gz", gzip(b""))).len());
    assert_eq!(0, rows(&files.write("urls.txt.zst", zstandard(b""))).len());
}

#[test]
fn an_empty_compressed_file_is_refused_when_it_is_opened() {
    let files = Files::new();
    for (name, kind) in
        [("urls.txt.gz", "gzip"), ("urls.csv.gz", "gzip"), ("urls.ndjson.zst", "zstd"), ("urls.csv.zst", "zstd")]
    {
        assert_eq!(
            format!("{name}: empty: {kind} data has some bytes even where it holds none; get the complete file"),
            files.message(&open_error(&files.write(name, b"")))
        );
    }
}

#[test]
fn zero_padding_of_a_gzip_file_is_skipped() {
    let files = Files::new();
    for zeros in [1, 7, 512, 300_000] {
        let bytes = [
            gzip(
                b"http://a/
",
            ),
            gzip(
                b"http://b/
",
            ),
            vec![0; zeros],
        ]
        .concat();
        let bytes_in_all = bytes.len() as u64;
        let mut source = open(&files.write("urls.txt.gz", bytes));
        let (rows, error) = drain(source.as_mut());
        assert_eq!((["http://a/", "http://b/"].as_slice(), None), (urls(&rows).as_slice(), error), "{zeros}");
        assert_eq!(bytes_in_all, source.size().bytes_read);
    }
}

/// gzip(1) warns about the bytes and ignores them, but they may be rows that are damaged or not compressed.
#[test]
fn trailing_bytes_after_gzip_data_are_an_error_after_the_rows_with_the_position() {
    let files = Files::new();
    let whole = gzip(
        b"http://a/
",
    );
    let place = whole.len();
    let zeros: &[u8] = &[0; 100];
    let behind_zeros = [zeros, b"x"].concat();
    let member_behind_zeros = [zeros, &gzip(b"http://b/\n")].concat();
    for (behind, zeros) in
        [(b"http://b/\n".as_slice(), 0), (b"x", 0), (&behind_zeros, 100), (&member_behind_zeros, 100)]
    {
        let (rows, error) = drain(open(&files.write("urls.txt.gz", [whole.as_slice(), behind].concat())).as_mut());
        assert_eq!(["http://a/"].as_slice(), urls(&rows));
        let (place, bytes) = (place + zeros, behind.len() - zeros);
        assert_eq!(
            format!(
                "urls.txt.gz: the last {bytes} bytes are not gzip data, after the end of the gzip data, at byte {place}, after 1 rows; get an intact copy, or cut them off (head -c {place}), and start over with if_exists=overwrite"
            ),
            files.message(&error.expect("an error"))
        );
    }
}

#[test]
fn a_truncated_second_gzip_member_is_reported_as_truncated() {
    let files = Files::new();
    let bytes = [
        gzip(
            b"http://a/
",
        ),
        gzip(
            b"http://b/
",
        )[..5]
            .to_vec(),
    ]
    .concat();
    let (rows, error) = drain(open(&files.write("urls.txt.gz", bytes)).as_mut());
    assert_eq!(["http://a/"].as_slice(), urls(&rows));
    let message = files.message(&error.expect("an error"));
    assert!(message.starts_with("urls.txt.gz: cut short: its gzip data is truncated, "), "{message}");
}

#[test]
fn a_zstd_window_beyond_the_bound_is_an_error_with_the_remedy() {
    let files = Files::new();
    for (window_log, fits) in [(27, true), (28, false)] {
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).expect("in memory");
        encoder.window_log(window_log).expect("a window that the library knows");
        encoder
            .write_all(
                b"http://a/
",
            )
            .expect("in memory");
        let bytes = encoder.finish().expect("in memory");
        let (rows, error) = drain(open(&files.write("urls.txt.zst", bytes)).as_mut());
        if fits {
            assert_eq!((["http://a/"].as_slice(), None), (urls(&rows).as_slice(), error));
            continue;
        }
        let message = files.message(&error.expect("a window too large"));
        assert!(
            message
                .starts_with("urls.txt.zst: its zstd data needs a window of more than 128 MiB to be decoded, at byte "),
            "{message}"
        );
        assert!(message.contains("--long=27"), "{message}");
    }
}

#[test]
fn the_bytes_read_are_those_of_the_compressed_file() {
    let files = Files::new();
    for (name, bytes) in
        [("urls.txt.gz", gzip(many_urls().as_bytes())), ("urls.txt.zst", zstandard(many_urls().as_bytes()))]
    {
        let bytes_in_all = bytes.len() as u64;
        let mut source = open(&files.write(name, bytes));
        drain(source.as_mut());
        let expected = SourceSize { rows: Some(20_000), bytes: Some(bytes_in_all), bytes_read: bytes_in_all };
        assert_eq!(expected, source.size(), "{name}");
    }
}

/// The rows before the truncation are those of the whole file, and none of them is a partial line.
#[test]
fn a_truncated_file_yields_its_rows_and_then_an_error_with_the_position() {
    let files = Files::new();
    let text = many_urls();
    let whole: Vec<&str> = text.lines().collect();
    for (name, kind, bytes) in
        [("urls.txt.gz", "gzip", gzip(text.as_bytes())), ("urls.txt.zst", "zstd", zstandard(text.as_bytes()))]
    {
        let cut = bytes.len() * 3 / 4;
        let mut source = open(&files.write(name, &bytes[..cut]));
        let (rows, error) = drain(source.as_mut());
        let count = rows.len();
        assert!((10_000..20_000).contains(&count), "{name}: {count} rows");
        assert_eq!(&whole[..count], urls(&rows), "{name}");
        let error = error.expect("a truncated file");
        assert_eq!(
            format!(
                "{name}: cut short: its {kind} data is truncated, at byte {cut}, after {count} rows; get the complete file and start over with if_exists=overwrite"
            ),
            files.message(&error)
        );
        assert_eq!(Err(error), source.next_batch(), "the error stays");
    }
}

#[test]
fn a_file_that_is_truncated_in_its_csv_header_cannot_be_opened() {
    let files = Files::new();
    let bytes = gzip(b"id,url\n");
    let error = open_error(&files.write("urls.csv.gz", &bytes[..12]));
    assert_eq!(
        "urls.csv.gz: cut short: its gzip data is truncated, at byte 12, after 0 rows; get the complete file and start over with if_exists=overwrite",
        files.message(&error)
    );
}

#[test]
fn a_file_whose_format_contradicts_its_name_is_refused() {
    let files = Files::new();
    for content in ["http://a/\nhttp://b/\n", "\0\0\0"] {
        let message =
            "urls.txt.gz: it is not gzip data, although it is named like that: rename it, or get the right file";
        assert_eq!(message, files.message(&open_error(&files.write("urls.txt.gz", content))));
    }
    let (rows, error) = drain(open(&files.write("urls.txt.zst", "http://a/\nhttp://b/\n")).as_mut());
    assert_eq!(0, rows.len());
    let message = files.message(&error.expect("a damaged file"));
    let start =
        "urls.txt.zst: damaged: its zstd data can't be decoded any further (Unknown frame descriptor), at byte ";
    assert!(message.starts_with(start), "{message}");
    assert!(
        message.ends_with(", after 0 rows; get an intact copy and start over with if_exists=overwrite"),
        "{message}"
    );
}

#[test]
fn a_wrong_checksum_is_an_error_after_the_rows() {
    let files = Files::new();
    let mut bytes = gzip(b"http://a/\n");
    let checksum = bytes.len() - 8;
    bytes[checksum] ^= 1;
    let (rows, error) = drain(open(&files.write("urls.txt.gz", bytes)).as_mut());
    assert_eq!(["http://a/"].as_slice(), urls(&rows));
    assert!(files.message(&error.expect("a damaged file")).starts_with("urls.txt.gz: damaged: "));
}
