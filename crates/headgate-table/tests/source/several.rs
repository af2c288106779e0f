//! Several files as one input: which files these are, their order, and what must be equal in all of them.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use headgate_core::boundary_salt::BoundarySalt;
use headgate_core::error::{JobError, JobErrorKind};
use headgate_core::options::SourceOptions;
use headgate_core::row::Row;
use headgate_table::source::Source;
use headgate_table::source::content::Unread;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use parquet::arrow::ArrowWriter;

use crate::{Files, defects, drain, drain_from, open, open_error, options, rows, urls};

const KNOWN: &str = ".txt, .csv, .tsv, .ndjson, .jsonl (each also with .gz or .zst) and .parquet";

/// Writes text files, each with the URL of its own path.
fn with_own_paths(files: &Files, paths: &[&str]) {
    for path in paths {
        write_as(files, path, format!("http://{path}\n"));
    }
}

pub fn write_as(files: &Files, path: &str, bytes: impl AsRef<[u8]>) -> SourceOptions {
    fs::create_dir_all(files.path(path).parent().expect("a directory")).expect("directories");
    files.write(path, bytes)
}

/// Returns the rows of these inputs, in order.
pub fn inputs(files: &Files, inputs: &[&str]) -> SourceOptions {
    let mut inputs = inputs.iter().map(|input| files.path(input).display().to_string());
    let input = inputs.next().expect("an input");
    SourceOptions { input, more_inputs: inputs.collect(), ..SourceOptions::default() }
}

pub fn keeping(options: SourceOptions, names: &[&str]) -> SourceOptions {
    SourceOptions { keep: names.iter().map(ToString::to_string).collect(), ..options }
}

fn paths(options: &SourceOptions) -> Vec<String> {
    rows(options).iter().map(|row| row.url.replace("http://", "")).collect()
}

pub fn refusal(files: &Files, options: &SourceOptions) -> String {
    files.message(&open_error(options))
}

pub fn parquet(files: &Files, path: &str, columns: &[(&str, ArrayRef)]) {
    write_as(files, path, "");
    let columns = columns.iter().map(|(name, column)| (*name, column.clone(), true));
    let records = RecordBatch::try_from_iter_with_nullable(columns).expect("columns");
    let file = File::create(files.path(path)).expect("a file");
    let mut writer = ArrowWriter::try_new(file, records.schema(), None).expect("types");
    writer.write(&records).expect("rows");
    writer.close().expect("an end");
}

pub fn column<'a>(texts: impl IntoIterator<Item = &'a str>) -> ArrayRef {
    Arc::new(texts.into_iter().map(Some).collect::<StringArray>())
}

#[test]
fn files_are_read_in_the_given_order_and_those_of_a_directory_by_their_paths() {
    let files = Files::new();
    with_own_paths(
        &files,
        &["d/b.txt", "d/a/z.txt", "d/a-b/0.txt", "d/a.txt", "d/B.txt", "d/a/10.txt", "d/a/9.txt", "x.txt"],
    );
    let in_order = ["d/B.txt", "d/a/10.txt", "d/a/9.txt", "d/a/z.txt", "d/a-b/0.txt", "d/a.txt", "d/b.txt"];
    assert_eq!(in_order.as_slice(), paths(&inputs(&files, &["d"])));
    assert_eq!(in_order.as_slice(), paths(&inputs(&files, &["d/**/*.txt"])));
    let named = ["x.txt", "d/b.txt", "d/a/10.txt", "d/a/9.txt", "d/a/z.txt", "d/B.txt"];
    assert_eq!(named.as_slice(), paths(&inputs(&files, &["x.txt", "d/b.txt", "d/a", "d/B.txt"])));
    let whole = open(&inputs(&files, &["x.txt", "d"]));
    let bytes: usize = in_order.iter().chain(&["x.txt"]).map(|path| format!("http://{path}\n").len()).sum();
    assert_eq!((None, Some(bytes as u64)), (whole.size().rows, whole.size().bytes));
}

#[test]
fn patterns_match_as_in_a_shell() {
    let files = Files::new();
    let all = ["a.txt", "b.txt", "ab.txt", "d/a.txt", "d/e/a.txt", "d/e/f/b.txt", "g/e/a.txt", "{x}.txt"];
    with_own_paths(&files, &all);
    for (pattern, expected) in [
        ("?.txt", "a.txt b.txt"),
        ("[!a].txt", "b.txt"),
        ("[ab]*.txt", "a.txt ab.txt b.txt"),
        ("{x}*", "{x}.txt"),
        ("*/a.txt", "d/a.txt"),
        ("*/e/*.txt", "d/e/a.txt g/e/a.txt"),
        ("**/a.txt", "a.txt d/a.txt d/e/a.txt g/e/a.txt"),
        ("d/**/b.txt", "d/e/f/b.txt"),
        ("**/e/**", "d/e/a.txt d/e/f/b.txt g/e/a.txt"),
        // A matching directory is read as a directory.
        ("*/e", "d/e/a.txt d/e/f/b.txt g/e/a.txt"),
        ("d/*", "d/a.txt d/e/a.txt d/e/f/b.txt"),
        ("d/e*/**/a.txt", "d/e/a.txt"),
    ] {
        assert_eq!(expected, paths(&inputs(&files, &[pattern])).join(" "), "{pattern}");
    }
    assert!(
        refusal(&files, &inputs(&files, &["[.txt"]))
            .starts_with("[.txt: no file has this name, and it is not a pattern: ")
    );
    assert_eq!("*.tsv: no file matches", refusal(&files, &inputs(&files, &["a.txt", "*.tsv"])));
}

#[test]
fn a_file_whose_name_looks_like_a_pattern_is_that_file() {
    let files = Files::new();
    with_own_paths(&files, &["[ab].txt", "a.txt", "b.txt"]);
    assert_eq!(["[ab].txt"].as_slice(), paths(&inputs(&files, &["[ab].txt"])));
    assert_eq!(["[ab].txt"].as_slice(), paths(&inputs(&files, &["[[]ab].txt"])));
    fs::remove_file(files.path("[ab].txt")).expect("a file");
    assert_eq!(["a.txt", "b.txt"].as_slice(), paths(&inputs(&files, &["[ab].txt"])));
}

#[test]
fn files_that_are_not_data_are_skipped_unless_the_pattern_names_them() {
    let files = Files::new();
    let hidden = ["d/_SUCCESS", "d/_x.txt", "d/.a.txt.crc", "d/.y.txt", "d/_headgate/job.txt", "d/.git/z.txt"];
    with_own_paths(&files, &hidden);
    with_own_paths(&files, &["d/a.txt", "d/README.md"]);
    assert_eq!(["d/a.txt"].as_slice(), paths(&inputs(&files, &["d"])));
    assert_eq!(["d/a.txt"].as_slice(), paths(&inputs(&files, &["d/*.txt"])));
    assert_eq!(["d/_x.txt"].as_slice(), paths(&inputs(&files, &["d/_*.txt"])));
    assert_eq!(["d/_headgate/job.txt"].as_slice(), paths(&inputs(&files, &["d/_head*/*"])));
    assert_eq!(["d/.git/z.txt"].as_slice(), paths(&inputs(&files, &["d/.git"])));
    assert_eq!(
        format!("d/README.md: unknown extension: headgate reads {KNOWN}"),
        refusal(&files, &inputs(&files, &["d/*"]))
    );
}

#[test]
fn a_directory_without_files_and_files_of_two_formats_are_refused() {
    let files = Files::new();
    fs::create_dir(files.path("empty")).expect("a directory");
    let expected = format!("empty: there is no file in this directory that can be read: headgate reads {KNOWN}");
    assert_eq!(expected, refusal(&files, &inputs(&files, &["empty"])));
    write_as(&files, "d/a.csv", "url\n");
    write_as(&files, "d/b.csv.zst", zstd::encode_all(&b"url\nhttp://b/\n"[..], 1).expect("in memory"));
    assert_eq!(["http://b/"].as_slice(), urls(&rows(&inputs(&files, &["d"]))));
    write_as(&files, "d/b.tsv", "url\n");
    let expected = "d/a.csv is read as CSV and d/b.tsv as TSV: all files of an input must have one form";
    assert_eq!(expected, refusal(&files, &inputs(&files, &["d"])));
    assert_eq!("none.csv: no such file", refusal(&files, &inputs(&files, &["d/a.csv", "none.csv"])));
}

#[test]
fn inputs_that_are_not_files_cannot_be_combined_with_files() {
    let files = Files::new();
    files.write("a.txt", "http://a/\n");
    for (what, input) in [("standard input", "-"), ("a URL", "http://me:secret@host/[1-9]")] {
        let first = SourceOptions { more_inputs: vec![input.into()], ..options(&files.path("a.txt")) };
        let second = SourceOptions { input: input.into(), more_inputs: vec![first.input.clone()], ..first.clone() };
        for options in [first, second] {
            let error = open_error(&options);
            assert_eq!(JobErrorKind::Usage, error.kind);
            let expected = format!("{what} can't be combined with other inputs: only files can");
            assert_eq!(expected, error.to_string());
        }
    }
    mkfifo(&files.path("fifo.txt"), Mode::S_IRWXU).expect("a FIFO");
    // A writer is needed: without one, opening the pipe would block.
    let _writer = File::options().read(true).write(true).open(files.path("fifo.txt")).expect("a FIFO");
    let expected = "fifo.txt: is not a regular file: what can be read only once can't be combined with other files";
    assert_eq!(expected, refusal(&files, &inputs(&files, &["a.txt", "fifo.txt"])));
}

#[test]
fn symlinks_are_followed_without_cycles_and_no_file_is_read_twice() {
    let files = Files::new();
    with_own_paths(&files, &["d/a.txt", "e/b.txt"]);
    symlink(files.path("d"), files.path("d/again")).expect("a link");
    symlink(files.path("e"), files.path("d/e")).expect("a link");
    symlink("nowhere", files.path("d/lost")).expect("a link");
    assert_eq!(["d/a.txt", "e/b.txt"].as_slice(), paths(&inputs(&files, &["d"])));
    assert_eq!(["d/a.txt", "e/b.txt"].as_slice(), paths(&inputs(&files, &["d/**/*.txt"])));

    for (again, is) in [("d/a.txt", "is named twice"), ("e/../d/a.txt", "is the same file as d/a.txt")] {
        let expected = format!("{again}: {is}: its rows would be requested twice");
        assert_eq!(expected, refusal(&files, &inputs(&files, &["d/a.txt", again])));
    }
    let expected = "e/b.txt: is the same file as d/e/b.txt: its rows would be requested twice";
    assert_eq!(expected, refusal(&files, &inputs(&files, &["d", "e"])));
    // A snapshot may have one file under two names.
    fs::hard_link(files.path("d/a.txt"), files.path("c.txt")).expect("a link");
    assert_eq!(["d/a.txt", "d/a.txt"].as_slice(), paths(&inputs(&files, &["c.txt", "d/a.txt"])));
    symlink("nowhere", files.path("d/lost.txt")).expect("a link");
    assert!(refusal(&files, &inputs(&files, &["d"])).starts_with("d/lost.txt: can't be read: No such file"));
}

#[test]
fn positions_of_rows_and_errors_are_those_in_their_own_file() {
    let files = Files::new();
    write_as(&files, "d/a.csv", "url\nhttp://a/\n");
    write_as(&files, "d/b.csv", "url\nhttp://b/\nhttp://c/,2\n");
    write_as(&files, "d/c.csv.zst", zstd::encode_all(&b"url\n\xff\nhttp://d/\n"[..], 1).expect("in memory"));
    let whole = inputs(&files, &["d"]);
    let (read, _) = drain(open(&whole).as_mut());
    let found: Vec<_> = defects(&read).into_iter().flatten().map(|defect| files.without_directory(defect)).collect();
    let expected = [
        "the line has more or fewer fields than the first line names columns (d/b.csv: line 3: 2, not 1)",
        "the URL is not UTF-8 (d/c.csv.zst: line 2: byte 0xFF after 0 valid ones)",
    ];
    assert_eq!(expected.as_slice(), found);

    let noise: Vec<String> = (0..50_000_u64).map(|row| row.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_string()).collect();
    let noise = noise.join("\n");
    let compressed = zstd::encode_all(format!("url\n{noise}").as_bytes(), 1).expect("in memory");
    write_as(&files, "d/c.csv.zst", &compressed[..compressed.len() - 5]);
    let (read, error) = drain(open(&whole).as_mut());
    let message = files.message(&error.expect("it is cut short"));
    let after = format!(", after {} rows; get the complete file", read.len() - 3);
    assert!(message.starts_with("d/c.csv.zst: cut short: ") && message.contains(&after), "{message}: {}", read.len());
}

/// Returns the files below the directory that this process has open.
fn open_files(files: &Files) -> usize {
    let directory = files.path("").canonicalize().expect("a directory");
    let descriptors = fs::read_dir("/proc/self/fd").expect("descriptors").flatten();
    descriptors.filter(|link| fs::read_link(link.path()).is_ok_and(|path| path.starts_with(&directory))).count()
}

#[test]
fn each_reader_has_one_of_many_files_open_at_a_time() {
    let files = Files::new();
    let many = 10_000;
    for file in 0..many {
        write_as(&files, &format!("d/{}/{file}.csv", file % 10), format!("id,url\n{file},http://a/{file}\n"));
    }
    let whole = keeping(inputs(&files, &["d"]), &["id"]);
    let mut source = open(&whole);
    assert_eq!(0, open_files(&files));
    let mut again = source.reopener().expect("files").open().expect("the same files");
    let mut ahead = drain_first(again.as_mut());
    assert!(open_files(&files) <= 1);
    let mut read = Vec::new();
    while let Some(batch) = source.next_batch().expect("good files") {
        assert!(open_files(&files) <= 2);
        read.extend(batch);
    }
    let (rest, error) = drain_from(again.as_mut(), ahead.len() as u64);
    ahead.extend(rest);
    assert_eq!((None, many), (error, read.len()));
    assert!(ahead == read);
    assert_eq!(("http://a/0", "http://a/9999"), (&*read[0].url, &*read[many - 1].url));
}

fn drain_first(source: &mut dyn Source) -> Vec<headgate_core::row::Row> {
    source.next_batch().expect("good files").expect("rows")
}

#[test]
fn parquet_files_are_skipped_without_being_opened() {
    let files = Files::new();
    for file in ["0", "1", "2"] {
        let urls = ["a", "b"].map(|row| format!("http://{file}{row}/"));
        parquet(&files, &format!("d/{file}.parquet"), &[("url", column(urls.iter().map(String::as_str)))]);
    }
    let mut source = open(&inputs(&files, &["d"]));
    assert_eq!(Some(6), source.size().rows);
    fs::remove_file(files.path("d/0.parquet")).expect("a file");
    fs::remove_file(files.path("d/1.parquet")).expect("a file");
    source.skip_to(4).expect("rows that are known");
    let (read, error) = drain_from(source.as_mut(), 4);
    assert_eq!((None, ["http://2a/", "http://2b/"].as_slice()), (error, urls(&read).as_slice()));
    let mut again = source.reopener().expect("files").open().expect("files that are not listed again");
    assert_eq!(
        "d/0.parquet: can't be opened: No such file or directory (os error 2)",
        files.message(&ended(again.as_mut()))
    );
}

fn ended(source: &mut dyn Source) -> JobError {
    drain(source).1.expect("it can't be read")
}

#[test]
fn rows_are_those_that_existed_when_the_job_began() {
    let files = Files::new();
    write_as(&files, "d/a.txt", "http://a/\n");
    let b = write_as(&files, "d/b.txt", "http://b/\n").input;
    let c = write_as(&files, "d/c.txt", "http://c/\n").input;
    let whole = inputs(&files, &["d"]);
    let append =
        |path: &str| File::options().append(true).open(path).and_then(|mut file| file.write_all(b"http://x/\n"));

    let mut source = open(&whole);
    append(&b).expect("appended");
    append(&c).expect("appended");
    write_as(&files, "d/d.txt", "http://d/\n");
    let (read, error) = drain(source.as_mut());
    assert_eq!((None, ["http://a/", "http://b/", "http://c/"].as_slice()), (error, urls(&read).as_slice()));
    let note = files.without_directory(&source.note().expect("they have grown").to_string());
    let expected = "d/b.txt grew while it was read, from 10 to 20 bytes: the rows are those that were there when it was opened; the same holds for 1 other file";
    assert_eq!(expected, note);

    let mut source = open(&whole);
    write_as(&files, "d/b.txt", "http://y/\nhttp://x/\n");
    let error = ended(source.as_mut());
    let expected = "d/b.txt: changed while it was read (first 64 KiB differ), before its first row; restore the file to resume, or start over with if_exists=overwrite";
    assert_eq!(expected, files.message(&error));
}

#[test]
fn the_fingerprint_of_files_does_not_depend_on_their_location() {
    let files = Files::new();
    let of = |inputs: &SourceOptions| open(inputs).fingerprint().expect("files");
    write_as(&files, "d/x=1/a.csv", "url\nhttp://a/\n");
    write_as(&files, "d/x=1/b.csv", "url\nhttp://b/\n");
    let then = of(&inputs(&files, &["d"]));
    assert_eq!("2 files: d", then.shown("d"));
    let stored = serde_json::to_string(&then).expect("JSON");
    assert_eq!(then, serde_json::from_str(&stored).expect("what was stored"));

    fs::create_dir(files.path("other")).expect("a directory");
    fs::rename(files.path("d"), files.path("other/e")).expect("moved");
    let moved = inputs(&files, &["other/e"]);
    assert_eq!(then, of(&moved));
    // Directory columns count if they are used.
    assert_ne!(then, of(&keeping(moved.clone(), &["x"])));
    write_as(&files, "other/e/x=2/c.csv", "url\n");
    assert_ne!(then, of(&moved));
    write_as(&files, "other/e/x=1/b.csv", "url\nhttp://c/\n");
    fs::remove_file(files.path("other/e/x=2/c.csv")).expect("a file");
    assert_ne!(then, of(&moved));
    assert_eq!(None, then.difference_of_form(&of(&moved)));
    let one = of(&options(&files.path("other/e/x=1/b.csv")));
    assert_eq!(Some("read as several files of CSV then, as CSV now"), then.difference_of_form(&one).as_deref());
}

#[test]
fn a_long_list_of_inputs_is_shortened_in_messages() {
    let files = Files::new();
    with_own_paths(&files, &["a.txt", "b.txt", "c.txt", "d.txt"]);
    let mut whole = inputs(&files, &["a.txt", "b.txt", "c.txt", "d.txt"]);
    assert_eq!("a.txt, b.txt, c.txt, …", files.without_directory(&whole.name()));
    whole.more_inputs.pop();
    assert_eq!("a.txt, b.txt, c.txt", files.without_directory(&whole.name()));
    let mut source = open(&whole);
    source.track(&whole.name(), None, Unread::Trusted).expect("the first time");
    assert_eq!(3, drain(source.as_mut()).0.len());
    assert!(Path::new(&whole.input).exists());
}

#[test]
fn the_row_number_in_a_file_name_and_the_multipart_boundary_are_unique_across_files() {
    for form in ["csv", "ndjson", "txt"] {
        let files = Files::new();
        for name in ["a", "b"] {
            write_as(
                &files,
                &format!("{name}.{form}"),
                match form {
                    "csv" => "url\nhttp://h/1\nhttp://h/2\n",
                    "ndjson" => "{\"url\":\"http://h/1\"}\n{\"url\":\"http://h/2\"}\n",
                    _ => "http://h/1\nhttp://h/2\n",
                },
            );
        }
        let mut options = inputs(&files, &[&format!("a.{form}"), &format!("b.{form}")]);
        options.save_to = Some("{row}".into());
        options.templates.form = vec!["field=value".into()];
        options.boundary_salt.set([7; 16]);
        let of = |options: &SourceOptions| {
            let extra = |row: Row| *row.extra.expect("a body");
            rows(options).into_iter().map(extra).collect::<Vec<_>>()
        };
        let found = of(&options);
        let names: Vec<String> =
            found.iter().map(|row| format!("{:?}", row.save_as.as_ref().expect("a name").name)).collect();
        for (number, name) in names.iter().enumerate() {
            assert!(name.contains(&format!("\"{number}\"")), "{form}: {names:?}");
        }
        let boundaries: HashSet<_> = found.iter().map(|row| row.body_type.clone()).collect();
        assert_eq!(4, boundaries.len(), "{form}");
        assert_eq!(found, of(&options));
        let other = SourceOptions { boundary_salt: BoundarySalt::default(), ..options };
        assert!(of(&other).iter().all(|row| !boundaries.contains(&row.body_type)));
    }
}
