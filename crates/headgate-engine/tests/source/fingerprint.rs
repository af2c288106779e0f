use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use headgate_engine::model::options::SourceOptions;
use headgate_engine::source;
use headgate_engine::source::fingerprint::Fingerprint;
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

/// The fingerprint of a file that was changed at `THEN` and some time.
fn written(files: &Files, name: &str, bytes: &[u8], later: Duration) -> Fingerprint {
    let options = files.write(name, bytes);
    set_changed(&options.input, THEN + later);
    of(&options)
}

#[test]
fn an_input_that_was_not_touched_is_the_same_also_after_it_was_written_as_json() {
    let files = Files::new();
    for whole in read_plainly(&files) {
        let then = of(&whole.options);
        let json = serde_json::to_string(&then).expect("in memory");
        let then: Fingerprint = serde_json::from_str(&json).expect("what was written");
        let now = of(&whole.options);
        assert_eq!(then, now, "{json}");
        assert_eq!(Vec::<String>::new(), then.differences(&now, &whole.options.input), "{json}");
    }
}

/// Or a job whose input grows between the two could never be gone on with.
#[test]
fn the_fingerprint_of_a_source_is_that_of_the_file_when_it_was_opened() {
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
fn a_file_may_be_moved() {
    let files = Files::new();
    for options in [files.write("urls.txt", "http://a/\n"), parquet(&files)] {
        let then = of(&options);
        let moved = options.input.replace("urls.", "moved.");
        fs::rename(&options.input, &moved).expect("a file to move");
        assert_eq!(then, of(&crate::options(moved.as_ref())));
    }
}

#[test]
fn what_cannot_be_read_a_second_time_has_no_fingerprint() {
    let files = Files::new();
    let fifo = files.path("urls.txt");
    mkfifo(&fifo, Mode::S_IRWXU).expect("a FIFO");
    // Nobody writes to it: to open it would never end.
    for input in [fifo.as_path(), "-".as_ref()] {
        assert_eq!(Ok(None), Fingerprint::of(&options(input)), "{}", input.display());
    }
}

#[test]
fn each_difference_of_a_text_file_has_its_phrase() {
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
    let head = "first 64 KiB differ";
    let tail = "last 64 KiB differ";
    let size = "size: 204,800 bytes then, 204,801 now";
    let time = "changed at 2026-05-14T09:30:00.000042Z then, 2026-05-14T09:30:01.000042Z now";
    let only_time = "changed at 2026-05-14T09:30:00.000042Z then, 2026-05-14T09:30:01.000042Z now; if the content is the same, put the time back: touch -d @1778751000.000042007 urls.txt";
    let cases: [(Vec<u8>, Duration, &[&str]); 9] = [
        (then_bytes.clone(), Duration::ZERO, &[]),
        (changed_at(0), Duration::ZERO, &[head]),
        (changed_at(64 * 1024 - 1), Duration::ZERO, &[head]),
        (changed_at(end - 1), Duration::ZERO, &[tail]),
        (changed_at(end - 64 * 1024), Duration::ZERO, &[tail]),
        (changed_at(64 * 1024), SECOND, &[only_time]),
        (changed_at(end - 64 * 1024 - 1), SECOND, &[only_time]),
        (changed_at(end - 1), SECOND, &[time, tail]),
        ([changed_at(0).as_slice(), b"z"].concat(), SECOND, &[size, time, head, tail]),
    ];
    for (index, (bytes, later, expected)) in cases.into_iter().enumerate() {
        let now = written(&files, "urls.txt", &bytes, later);
        assert_eq!(expected, then.differences(&now, "urls.txt"), "case {index}");
    }
}

#[test]
fn a_file_of_less_than_64_kib_has_no_tail_of_its_own() {
    let files = Files::new();
    let then = written(&files, "urls.txt", b"http://a/\n", Duration::ZERO);
    let now = written(&files, "urls.txt", b"http://b/\n", Duration::ZERO);
    assert_eq!(vec!["first 64 KiB differ"], then.differences(&now, "urls.txt"));
}

#[test]
fn times_are_shown_as_exactly_as_they_must_be_to_differ() {
    let files = Files::new();
    let then = written(&files, "urls.txt", b"", Duration::ZERO);
    let cases = [
        (Duration::from_nanos(1), "2026-05-14T09:30:00.000042007Z then, 2026-05-14T09:30:00.000042008Z now"),
        (Duration::from_micros(1), "2026-05-14T09:30:00.000042Z then, 2026-05-14T09:30:00.000043Z now"),
    ];
    for (later, expected) in cases {
        let phrase = then.differences(&written(&files, "urls.txt", b"", later), "urls.txt").concat();
        assert!(phrase.starts_with(&format!("changed at {expected};")), "{phrase}");
    }
}

/// A person copies the command from the message: it must do what it says, whatever the file is called.
#[test]
fn the_command_that_puts_the_time_back_does() {
    let files = Files::new();
    let before_1970 = SystemTime::UNIX_EPOCH - Duration::from_millis(1500);
    for name in ["urls.txt", "it's \"mine\" & $HOME.txt", "-d.txt", "é.txt"] {
        for time in [SystemTime::UNIX_EPOCH + THEN, before_1970] {
            let options = files.write(name, "http://a/\n");
            let file = File::options().append(true).open(&options.input).expect("a file");
            file.set_modified(time).expect("a time");
            let then = of(&options);
            file.set_modified(SystemTime::UNIX_EPOCH).expect("a time");

            let phrases = then.differences(&of(&options), name);
            let [phrase] = phrases.as_slice() else { panic!("{phrases:?}") };
            let (_, command) = phrase.split_once("put the time back: ").expect("a command");
            let status = Command::new("sh").args(["-c", command]).current_dir(files.path("")).status();
            assert!(status.expect("a shell").success(), "{command}");
            assert_eq!(then, of(&options), "{command}");
        }
    }
}

#[test]
fn a_file_that_is_read_as_something_else_is_another_input() {
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
        assert_eq!(vec![expected], then.differences(&now, name));
    }
    let now = of(&parquet(&files));
    assert_eq!(vec!["read as a list of URLs then, as Parquet now"], then.differences(&now, "urls.parquet"));
    let now = of(&options("http://h/[1-3]".as_ref()));
    assert_eq!(vec!["read as a list of URLs then, as a URL with ranges now"], then.differences(&now, "http://h/[1-3]"));
}

#[test]
fn a_pattern_is_its_text() {
    let then = of(&options("http://h/[1-3]".as_ref()));
    assert_eq!(Vec::<String>::new(), then.differences(&then, "http://h/[1-3]"));
    let now = of(&options("http://h/[1-4]".as_ref()));
    assert_eq!(vec!["http://h/[1-3] then, http://h/[1-4] now"], then.differences(&now, "http://h/[1-4]"));
}

#[test]
fn a_parquet_file_is_known_by_what_any_file_is_and_by_its_footer() {
    let files = Files::new();
    let bytes = fs::read(parquet(&files).input).expect("a file");
    let name = "urls.parquet";
    let then = written(&files, name, &bytes, Duration::ZERO);
    assert_eq!(Vec::<String>::new(), then.differences(&written(&files, name, &bytes, Duration::ZERO), name));

    let mut other_value = bytes.clone();
    other_value[20] ^= 1;
    assert_eq!(
        vec!["first 64 KiB differ"],
        then.differences(&written(&files, name, &other_value, Duration::ZERO), name)
    );
    let mut other_footer = bytes.clone();
    let in_footer = bytes.len() - 20;
    other_footer[in_footer] ^= 1;
    assert_eq!(
        vec!["last 64 KiB differ", "footer differs"],
        then.differences(&written(&files, name, &other_footer, Duration::ZERO), name)
    );
    let later = then.differences(&written(&files, name, &bytes, Duration::from_secs(1)), name);
    assert!(later[0].starts_with("changed at 2026-05-14T09:30:00."), "{later:?}");
    assert_eq!(1, later.len());
}

#[test]
fn what_is_no_whole_parquet_file_or_not_there_is_told() {
    let files = Files::new();
    let whole = fs::read(parquet(&files).input).expect("a file");
    let mut long_footer = whole.clone();
    let length = whole.len() - 8;
    long_footer[length..length + 4].fill(0xFF);
    for bytes in [&[], &whole[..whole.len() - 1], &long_footer] {
        let error = Fingerprint::of(&files.write("cut.parquet", bytes)).expect_err("half a file");
        assert_eq!("cut.parquet: can't be read: not a complete Parquet file", files.message(&error));
    }
    let error = Fingerprint::of(&options(&files.path("none.txt"))).expect_err("no file");
    assert_eq!("none.txt: no such file", files.message(&error));
}
