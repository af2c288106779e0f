//! The memory that a sink uses in addition to large bodies themselves.

use std::env;
use std::process::Command;

use headgate_core::memory::MemoryBudget;
use headgate_core::options::Format;
use headgate_table::columns::builder::OutcomeBuilder;
use headgate_table::columns::result::ResultColumns;

use crate::outcomes::{options, succeeded, write};
use crate::parts::noise;

const BODY_BYTES: usize = 64 * 1024 * 1024;
/// Memory for everything else.
const BESIDE_BYTES: usize = 12 * 1024 * 1024;
const FORMAT: &str = "TEST_FORMAT";

#[test]
fn a_large_body_is_copied_at_most_once_while_it_is_written() {
    for format in ["parquet", "ndjson"] {
        let mut alone = Command::new(env::current_exe().unwrap());
        alone.args(["--ignored", "--exact", "memory::a_process_that_writes_a_large_body"]).env(FORMAT, format);
        let output = alone.output().unwrap();
        assert!(output.status.success(), "{format}: {}", String::from_utf8_lossy(&output.stdout));
    }
}

#[test]
#[ignore = "it needs a process of its own, and gets it from the test above"]
fn a_process_that_writes_a_large_body() {
    let (format, copies) =
        if env::var(FORMAT).unwrap() == "parquet" { (Format::Parquet, 1) } else { (Format::Ndjson, 0) };
    let directory = tempfile::tempdir().unwrap();
    let mut builder = OutcomeBuilder::new(&ResultColumns::default(), MemoryBudget::new(0)).unwrap();
    builder.push_owned(succeeded(0, &noise(0, BODY_BYTES)), false);
    let batch = builder.finish_batch().unwrap();
    let before = resident("VmRSS:");
    // The peak is measured from here.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();

    write(&options(directory.path(), format), [batch]);

    let more = resident("VmHWM:").saturating_sub(before);
    assert!(more <= copies * BODY_BYTES + BESIDE_BYTES, "{more} bytes more than the body itself");
}

/// Returns a figure of this process, in bytes.
fn resident(field: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}
