//! The order of the steps of a job: nothing that counts depends on data that is not durable.

use std::fs;
use std::path::PathBuf;

use headgate_core::options::Format;
use headgate_engine::testing::Commit;
use serde::Deserialize;

use crate::harness::{Bench, FORMATS};
use crate::storage::{Recorder, Step};

#[derive(Deserialize)]
struct Envelope {
    record: Commit,
}

/// Returns the commits in their order, each with its file and the length of the file.
fn commits(disk: &Recorder) -> Vec<(PathBuf, u64, Commit)> {
    let commit = |bytes: &[u8]| serde_json::from_slice::<Envelope>(bytes).unwrap().record;
    let linked =
        disk.linked().into_iter().filter(|(path, _)| path.parent().is_some_and(|log| log.ends_with("_headgate/log")));
    linked.map(|(path, bytes)| (path, bytes.len() as u64, commit(&bytes))).collect()
}

/// Returns the index of this step in `steps`, which must be between the two.
fn between(steps: &[Step], step: &Step, after: usize, before: usize) -> usize {
    let found = steps.iter().enumerate().position(|(index, taken)| after < index && index < before && taken == step);
    found.unwrap_or_else(|| panic!("{step:?} is not among {:#?}", &steps[after..=before]))
}

fn index_of(steps: &[Step], step: &Step) -> usize {
    between(steps, step, 0, steps.len() - 1)
}

#[test]
fn a_commit_is_written_after_its_files_are_durable_and_applied_after_it_is_durable() {
    for format in FORMATS {
        let bench = Bench::new(format);
        let disk = Recorder::new();
        bench.run(&disk).result.unwrap();
        let (out, steps) = (bench.out(), disk.steps());
        let (tmp, log) = (out.join("_headgate/tmp"), out.join("_headgate/log"));
        let commits = commits(&disk);
        assert_eq!(6, commits.len(), "three batches, the end of the run, the merge, and the end of the job");
        let (_, _, last) = commits.last().unwrap();
        assert!(last.finished && last.adds.is_empty() && last.removes.is_empty() && last.parts.is_some(), "{last:?}");
        assert!(commits[..5].iter().all(|(_, _, commit)| !commit.finished));

        let mut applied = 0;
        for (path, bytes, commit) in &commits {
            let written = tmp.join("commit.json");
            let link = index_of(&steps, &Step::Link(written.clone(), path.clone()));
            between(&steps, &Step::SyncFile(written, *bytes), applied, link);

            let mut synced = applied;
            for part in &commit.adds {
                let step = Step::SyncFile(tmp.join(format!("{}.tmp", part.name)), part.bytes);
                synced = synced.max(between(&steps, &step, applied, link));
            }
            if !commit.adds.is_empty() {
                between(&steps, &Step::SyncDirectory(tmp.clone()), synced, link);
            }

            let end = steps.len() - 1;
            let logged = between(&steps, &Step::SyncDirectory(log.clone()), link, end);
            let mut changed = logged;
            for part in &commit.adds {
                let step = Step::Rename(tmp.join(format!("{}.tmp", part.name)), out.join(&part.name));
                changed = changed.max(between(&steps, &step, changed, end));
            }
            applied = between(&steps, &Step::SyncDirectory(out.clone()), changed, end);
            if format == Format::Parquet {
                let version = out.join(format!("_delta_log/{:020}.json", commit.number));
                applied = between(&steps, &Step::Link(tmp.join("delta.json"), version), applied, end);
                applied = between(&steps, &Step::SyncDirectory(out.join("_delta_log")), applied, end);
            }
            for name in &commit.removes {
                changed = changed.max(between(&steps, &Step::Remove(out.join(name)), applied, end));
            }
            if !commit.removes.is_empty() {
                applied = between(&steps, &Step::SyncDirectory(out.clone()), changed, end);
            }
        }
        // A commit that needs no earlier one comes first.
        for (path, _, _) in &commits[..5] {
            between(&steps, &Step::Remove(path.clone()), applied, steps.len());
        }
    }
}

#[test]
fn the_options_of_a_job_are_durable_before_its_first_result() {
    let bench = Bench::new(FORMATS[0]);
    let disk = Recorder::new();
    bench.run(&disk).result.unwrap();
    let (out, steps) = (bench.out(), disk.steps());
    let own = out.join("_headgate");
    let first_part =
        steps.iter().position(|step| *step == Step::Create(own.join("tmp/part-00000001.parquet.tmp"))).unwrap();
    let named = (0..first_part)
        .rfind(|index| steps[*index] == Step::Rename(own.join("tmp/job.json"), own.join("job.json")))
        .unwrap();
    let written = fs::metadata(own.join("job.json")).unwrap().len();
    between(&steps, &Step::SyncFile(own.join("tmp/job.json"), written), 0, named);
    between(&steps, &Step::SyncDirectory(own), named, first_part);
    between(&steps, &Step::SyncDirectory(out.clone()), named, first_part);
    assert_eq!(Step::SyncDirectory(out.parent().unwrap().into()), steps[0], "the directory itself was made");
}
