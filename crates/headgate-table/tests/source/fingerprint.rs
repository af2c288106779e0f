use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use headgate_core::options::SourceOptions;
use headgate_table::source;
use headgate_table::source::fingerprint::Fingerprint;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::skip::{parquet, read_plainly};
use crate::{Files, open, options};

/// 2026-05-14T09:30:00.000042007Z
const THEN: Duration = Duration::from_nanos(1_778_751_000_000_042_007);

fn of(options: &SourceOptions) -> Fingerprint {
    source::open::fingerprint(options).expect("a good input").expect("an input that can be read again")
}

fn set_changed(path: impl AsRef<Path>, since_1970: Duration) {
    let file = File::options().append(true).open(path).expect("a file");
    file.set_modified(SystemTime::UNIX_EPOCH + since_1970).expect("a time that the file system can hold");
}

/// Returns the fingerprint of a file that was modified at `THEN` plus this duration.
fn written(files: &Files, name: &str, bytes: &[u8], later: Duration) -> Fingerprint {
    let options = files.write(name, bytes);
    set_changed(&options.input, THEN + later);
    of(&options)
}

#[test]
fn the_fingerprint_of_an_unchanged_input_survives_json() {
    let files = Files::new();
    for whole in read_plainly(&files) {
        let then = of(&whole.options);
        let json = serde_json::to_string(&then).expect("in memory");
        let then: Fingerprint = serde_json::from_str(&json).expect("what was written");
        let now = of(&whole.options);
        assert_eq!(then, now, "{json}");
    }
}

/// Otherwise, a job whose input grows between the two steps could never be resumed.
#[test]
fn the_fingerprint_of_a_source_is_that_of_its_file_when_opened() {
    let files = Files::new();
    for whole in read_plainly(&files) {
        let then = of(&whole.options);
        let source = open(&whole.options);
        if let Ok(mut file) = File::options().append(true).open(&whole.options.input) {
            file.write_all(b"\nhttp://late/\n").expect("room");
        }
        assert_eq!(Some(then), source.fingerprint(), "{}", whole.options.input);
    }
}

#[test]
fn a_moved_file_has_the_same_fingerprint() {
    let files = Files::new();
    for options in [files.write("urls.txt", "http://a/\n"), parquet(&files)] {
        let then = of(&options);
        let moved = options.input.replace("urls.", "moved.");
        fs::rename(&options.input, &moved).expect("a file to move");
        assert_eq!(then, of(&crate::options(moved.as_ref())));
    }
}

#[test]
fn an_input_that_cannot_be_read_again_has_no_fingerprint() {
    let files = Files::new();
    let fifo = files.path("urls.txt");
    mkfifo(&fifo, Mode::S_IRWXU).expect("a FIFO");
    // The pipe has no writer, so opening it would block.
    for input in [fifo.as_path(), "-".as_ref()] {
        assert_eq!(Ok(None), source::open::fingerprint(&options(input)), "{}", input.display());
    }
}

#[test]
fn the_fingerprint_of_a_file_has_its_size_its_time_and_both_of_its_ends() {
    const SECOND: Duration = Duration::from_secs(1);
    let files = Files::new();
    let then_bytes = vec![b'x'; 200 * 1024];
    let then = written(&files, "urls.txt", &then_bytes, Duration::ZERO);
    let changed_at = |place: usize| {
        let mut bytes = then_bytes.clone();
        bytes[place] = b'y';
        bytes
    };
    let end = then_bytes.len();
    let cases: [(bool, Vec<u8>, Duration); 9] = [
        (true, then_bytes.clone(), Duration::ZERO),
        (false, changed_at(0), Duration::ZERO),
        (false, changed_at(64 * 1024 - 1), Duration::ZERO),
        (false, changed_at(end - 1), Duration::ZERO),
        (false, changed_at(end - 64 * 1024), Duration::ZERO),
        (false, changed_at(64 * 1024), SECOND),
        (false, changed_at(end - 64 * 1024 - 1), Duration::from_nanos(1)),
        (false, [then_bytes.as_slice(), b"x"].concat(), Duration::ZERO),
        (false, then_bytes.clone(), Duration::from_nanos(1)),
    ];
    for (index, (is_same, bytes, later)) in cases.into_iter().enumerate() {
        assert_eq!(is_same, then == written(&files, "urls.txt", &bytes, later), "case {index}");
    }
    let short = written(&files, "urls.txt", b"http://a/\n", Duration::ZERO);
    assert_ne!(short, written(&files, "urls.txt", b"http://b/\n", Duration::ZERO));
}

#[test]
fn a_file_that_is_read_in_another_format_is_another_input() {
    let files = Files::new();
    let text = b"url\nhttp://a/\n";
    let then = written(&files, "urls.txt", text, Duration::ZERO);
    let cases = [
        ("urls.csv", "read as a list of URLs then, as CSV now"),
        ("urls.tsv", "read as a list of URLs then, as TSV now"),
        ("urls.jsonl", "read as a list of URLs then, as NDJSON now"),
        ("urls.txt.gz", "read as a list of URLs then, as a list of URLs, gzip now"),
    ];
    for (name, expected) in cases {
        let now = written(&files, name, text, Duration::ZERO);
        assert_eq!(Some(expected), then.difference_of_form(&now).as_deref());
    }
    let now = of(&parquet(&files));
    assert_eq!(Some("read as a list of URLs then, as Parquet now"), then.difference_of_form(&now).as_deref());
    let now = of(&options("http://h/[1-3]".as_ref()));
    let expected = Some("read as a list of URLs then, as a URL with ranges now");
    assert_eq!(expected, then.difference_of_form(&now).as_deref());
}

#[test]
fn the_fingerprint_of_a_pattern_is_its_text() {
    let then = of(&options("http://h/[1-3]".as_ref()));
    assert_eq!(None, then.difference_of_form(&then));
    let now = of(&options("http://h/[1-4]".as_ref()));
    assert_eq!(Some("http://h/[1-3] then, http://h/[1-4] now"), then.difference_of_form(&now).as_deref());
}

#[test]
fn the_fingerprint_of_a_parquet_file_is_like_that_of_any_file() {
    let files = Files::new();
    let bytes = fs::read(parquet(&files).input).expect("a file");
    let name = "urls.parquet";
    let then = written(&files, name, &bytes, Duration::ZERO);
    assert_eq!(then, written(&files, name, &bytes, Duration::ZERO));
    for changed in [20, bytes.len() - 20] {
        let mut other = bytes.clone();
        other[changed] ^= 1;
        assert_ne!(then, written(&files, name, &other, Duration::ZERO));
    }
    assert_ne!(then, written(&files, name, &bytes, Duration::from_secs(1)));
}

#[test]
fn a_missing_file_is_an_error() {
    let files = Files::new();
    let error = source::open::fingerprint(&options(&files.path("none.txt"))).expect_err("no file");
    assert_eq!("none.txt: no such file", files.message(&error));
}
