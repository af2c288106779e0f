//! A disk that fails: the job says which file, keeps what it has, and goes on when the cause is gone.

use headgate_engine::error::JobErrorKind;
use headgate_engine::options::Format;

use crate::check::check_goes_on;
use crate::harness::Bench;
use crate::storage::{Recorder, Step};

fn every_fault(format: Format) {
    for step in 0.. {
        let bench = Bench::new(format);
        let disk = Recorder::failing_at(step);
        let run = bench.run(disk.clone());
        let Some(failed) = disk.refused() else {
            run.result.unwrap();
            return;
        };
        let error = run.result.as_ref().expect_err("a fault that matters");
        assert_eq!(JobErrorKind::Output, error.kind, "{error}");
        let is_sync = matches!(failed, Step::SyncFile(..) | Step::SyncDirectory(_));
        let cause = if is_sync { "input/output error" } else { "no space left on device" };
        assert!(error.message.ends_with(cause), "{failed:?}: {error}");
        let shown = bench.out().display().to_string();
        assert!(error.message.contains(&shown), "{failed:?}: {error}");
        let written = match &failed {
            Step::Create(path) | Step::SyncFile(path, _) | Step::Link(path, _) => path.file_name().unwrap().to_str(),
            _ => None,
        };
        match written {
            Some("commit.json") => assert!(error.message.contains("_headgate/log/0000"), "{failed:?}: {error}"),
            None | Some("job.json") => {}
            Some(part) => assert!(error.message.contains(part), "{failed:?}: {error}"),
        }

        check_goes_on(&bench, &run);
    }
}

#[test]
fn a_disk_that_fails_once_costs_no_row_in_parquet() {
    every_fault(Format::Parquet);
}

#[test]
fn a_disk_that_fails_once_costs_no_row_in_ndjson() {
    every_fault(Format::Ndjson);
}
