//! Files that another user puts into an output directory neither lead a job out of it nor stop it.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use headgate_core::error::JobErrorKind;
use headgate_core::files::Directory;
use headgate_core::files::storage::Storage;
use headgate_core::options::Format;
use headgate_engine::status::{parts, status};
use headgate_engine::testing::credentials_for;
use headgate_http::save::paths::SavePaths;
use headgate_table::parts::read::PartRows;
use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::{Value, json};
use twox_hash::XxHash3_128;

use crate::check::check_finished;
use crate::harness::{Bench, FORMATS, rewrite};
use crate::power::files_below;
use crate::storage::Recorder;

/// Creates a job with a commit of some of its rows.
fn begun(bench: Bench) -> Bench {
    bench.run_batches(&Recorder::new(), 1).result.unwrap();
    bench
}

/// Creates a directory outside of the output directory, with a file in it.
fn outside_directory(bench: &Bench) -> PathBuf {
    let victim = bench.parent.path().join("victim");
    fs::create_dir(&victim).unwrap();
    fs::write(victim.join("precious"), "precious").unwrap();
    victim
}

/// Returns the hash of a part's record, of which the sum of all parts is in a commit.
fn part_hash(part: &Value) -> u128 {
    let text = format!("{} {} {} {}", part["name"].as_str().unwrap(), part["rows"], part["bytes"], part["crc32"]);
    XxHash3_128::oneshot(text.as_bytes())
}

fn check_refused(bench: &Bench, named: &str) {
    let error = bench.run(&Recorder::new()).result.unwrap_err();
    assert!(matches!(error.kind, JobErrorKind::Output | JobErrorKind::Storage | JobErrorKind::Damage), "{error}");
    assert!(error.to_string().contains(named), "{named}: {error}");
}

fn newest_commit(bench: &Bench) -> PathBuf {
    files_below(&bench.out().join("_headgate/log")).pop().unwrap()
}

#[allow(clippy::print_stdout)]
fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("skipped: only root can act as another user");
    }
    is_root
}

#[test]
fn directories_of_a_job_that_are_symlinks_are_not_followed() {
    for name in ["_headgate", "_headgate/tmp", "_headgate/log"] {
        let bench = begun(Bench::new(Format::Ndjson));
        let (place, victim) = (bench.out().join(name), outside_directory(&bench));
        fs::rename(&place, bench.parent.path().join("moved")).unwrap();
        symlink(&victim, &place).unwrap();
        check_refused(&bench, name);
        assert_eq!(vec![victim.join("precious")], files_below(&victim), "{name}");
    }
}

#[test]
fn files_of_a_job_that_are_symlinks_or_pipes_are_not_opened() {
    for name in ["_headgate/lock", "_headgate/job.json", "_headgate/log/", "part-00000001.ndjson"] {
        let bench = begun(Bench::new(Format::Ndjson));
        let commit = newest_commit(&bench);
        let name = if name.ends_with('/') { commit.strip_prefix(bench.out()).unwrap().to_str().unwrap() } else { name };
        let (place, moved) = (bench.out().join(name), outside_directory(&bench).join("moved"));
        fs::rename(&place, &moved).unwrap();
        let before = fs::read(&moved).unwrap();
        symlink(&moved, &place).unwrap();
        check_refused(&bench, name);
        assert_eq!(before, fs::read(&moved).unwrap(), "{name}");
        fs::remove_file(&place).unwrap();
        mkfifoat(CWD, &place, Mode::RWXU).unwrap();
        check_refused(&bench, name);
        fs::remove_file(&place).unwrap();
        fs::rename(&moved, &place).unwrap();
        bench.run(&Recorder::new()).result.unwrap();
        check_finished(&bench);
    }
}

#[test]
fn settings_of_a_job_are_not_read_through_a_symlink_or_from_a_pipe() {
    let bench = begun(Bench::new(Format::Ndjson));
    let control = bench.out().join("_headgate/control.json");
    symlink(outside_directory(&bench).join("precious"), &control).unwrap();
    let expected = "can't read";
    assert!(status(&bench.out()).unwrap().note.is_some_and(|note| note.starts_with(expected)));
    fs::remove_file(&control).unwrap();
    mkfifoat(CWD, &control, Mode::RWXU).unwrap();
    assert!(status(&bench.out()).unwrap().note.is_some_and(|note| note.starts_with(expected)));
}

#[test]
fn a_part_that_was_replaced_by_a_symlink_is_not_read() {
    let bench = begun(Bench::new(Format::Parquet));
    let mut parts = parts(&bench.out()).unwrap();
    // Otherwise, the file that was opened before is read.
    parts.files[0].held = None;
    let (place, moved) = (parts.files[0].path.clone(), outside_directory(&bench).join("moved"));
    fs::rename(&place, &moved).unwrap();
    symlink(&moved, &place).unwrap();
    let error = PartRows::new(parts.files, parts.schema).next().unwrap().unwrap_err();
    assert_eq!(format!("can't read {}: its path contains a symbolic link", place.display()), error.to_string());
}

#[test]
fn a_commit_that_names_other_files_than_parts_is_refused() {
    let name = |name: &str| json!({"name": name, "rows": 1, "bytes": 1, "crc32": 1});
    let changes: [fn(&mut Value, Value); 3] = [
        |commit, part| commit["adds"] = json!([part]),
        |commit, part| commit["removes"] = json!([part["name"]]),
        |commit, part| commit["parts"] = json!([part]),
    ];
    for foreign in ["../../.bashrc", "/etc/passwd", "_headgate/job.json", "notes.txt", "part-1.ndjson", ""] {
        for change in changes {
            let bench = begun(Bench::new(Format::Ndjson));
            let commit = newest_commit(&bench);
            rewrite(&commit, |record| change(record, name(foreign)));
            let expected =
                format!("{} is damaged (it names {foreign:?}, which is not the name of a part", commit.display());
            check_refused(&bench, &expected);
        }
    }
}

#[test]
fn a_checkpoint_adds_only_parts_that_it_lists_and_removes_none_of_them() {
    let changes: [fn(&mut Value); 2] = [
        |commit| commit["adds"] = json!([{"name": "part-00000099.ndjson", "rows": 1, "bytes": 1, "crc32": 1}]),
        |commit| commit["removes"] = json!([commit["parts"][0]["name"]]),
    ];
    for change in changes {
        let bench = Bench::new(Format::Ndjson);
        bench.run(&Recorder::new()).result.unwrap();
        let (commit, before) = (newest_commit(&bench), files_below(&bench.out()));
        rewrite(&commit, change);
        assert!(bench.open(&Recorder::new()).is_err());
        assert_eq!(before, files_below(&bench.out()));
    }
}

#[test]
fn the_path_in_a_row_cannot_save_outside_the_directory_or_replace_a_file() {
    // It is as long as the path that it replaces, so that the part keeps its length.
    for path in ["../victim.tx", "/tmp/victims", "_headgate/jo", "images/../vi", "images//v.tx", "part-1.jsonl"] {
        let bench = begun(Bench::saving(Format::Ndjson));
        let places = SavePaths::new(
            Arc::new(Directory::open(&bench.out()).unwrap()),
            bench.out().join("_headgate/tmp"),
            PathBuf::new(),
        );
        // The commit that ended the run is removed, so that the one before it is applied again.
        fs::remove_file(newest_commit(&bench)).unwrap();
        let part = bench.out().join("part-00000001.ndjson");
        let text = fs::read_to_string(&part).unwrap();
        assert!(text.contains("images/0.txt"));
        fs::write(&part, text.replace("images/0.txt", path)).unwrap();
        let crc32 = crc32fast::hash(&fs::read(&part).unwrap());
        rewrite(&newest_commit(&bench), |commit| {
            let adds = commit["adds"].as_array_mut().unwrap();
            let part = adds.iter_mut().find(|part| part["name"] == "part-00000001.ndjson").unwrap();
            let before = part_hash(part);
            part["crc32"] = crc32.into();
            let added = part_hash(part).wrapping_sub(before);
            let sum = u128::from_str_radix(commit["parts_sum"].as_str().unwrap(), 16).unwrap();
            commit["parts_sum"] = format!("{:032x}", sum.wrapping_add(added)).into();
        });
        let claimed = places.claimed(path);
        fs::write(&claimed, "crafted").unwrap();
        check_refused(&bench, "which is not where a body is saved");
        assert_eq!("crafted", fs::read_to_string(&claimed).unwrap(), "it was moved to {path}");
    }
}

#[test]
fn bodies_are_not_saved_through_a_symlink() {
    for format in FORMATS {
        let bench = Bench::saving(format);
        let victim = outside_directory(&bench);
        fs::create_dir(bench.out()).unwrap();
        bench.run_batches(&Recorder::new(), 0).result.unwrap();
        symlink(&victim, bench.out().join("images")).unwrap();
        check_refused(&bench, "its path contains a symbolic link");
        assert_eq!(vec![victim.join("precious")], files_below(&victim));
    }
}

#[test]
fn the_output_directory_itself_may_be_a_symlink() {
    let bench = Bench::new(Format::Parquet);
    let elsewhere = bench.parent.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, bench.out()).unwrap();
    bench.run(&Recorder::new()).result.unwrap();
    check_finished(&bench);
}

/// Creates a world-writable directory, as `/tmp` is, and runs `command` in it as another user.
fn as_another_user(bench: &Bench, command: &[&str], path: &Path) {
    const OTHER_USER: u32 = 65534;
    fs::set_permissions(bench.parent.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir_all(bench.out()).unwrap();
    fs::set_permissions(bench.out(), fs::Permissions::from_mode(0o1777)).unwrap();
    let made = Command::new(command[0]).args(&command[1..]).arg(path).uid(OTHER_USER).gid(OTHER_USER).status().unwrap();
    assert!(made.success());
}

#[test]
fn a_control_directory_of_another_user_is_not_used() {
    if !is_root() {
        return;
    }
    let bench = Bench::new(Format::Parquet);
    let own = bench.out().join("_headgate");
    as_another_user(&bench, &["mkdir"], &own);
    as_another_user(&bench, &["touch"], &own.join("job.json"));
    let expected = format!(
        "{} belongs to user 65534, who is neither this user (0) nor the owner of the output directory",
        own.display()
    );
    check_refused(&bench, &expected);
    assert!(status(&bench.out()).unwrap_err().to_string().starts_with(&expected));
    assert!(credentials_for(&bench.out()).is_empty());
    assert_eq!(vec![own.join("job.json")], files_below(&bench.out()));
}

#[test]
fn a_control_directory_of_the_owner_of_the_output_directory_is_used() {
    if !is_root() {
        return;
    }
    let bench = Bench::new(Format::Parquet);
    let own = bench.out().join("_headgate");
    as_another_user(&bench, &["mkdir"], &own);
    std::os::unix::fs::chown(bench.out(), Some(65534), None).unwrap();
    bench.run(&Recorder::new()).result.unwrap();
    check_finished(&bench);
}

/// CWE-367: another user who may write to the output directory exchanges the control directory after it was checked.
#[test]
fn a_control_directory_that_is_replaced_after_the_check_is_not_used() {
    let bench = begun(Bench::new(Format::Parquet));
    let victim = outside_directory(&bench);
    let (own, aside) = (bench.out().join("_headgate"), bench.parent.path().join("aside"));
    let (from, to, target) = (own.clone(), aside.clone(), victim.clone());
    let replaced = move |directory| {
        fs::rename(&from, &to).unwrap();
        fs::create_dir(&from).unwrap();
        symlink(&target, from.join("tmp")).unwrap();
        symlink(&target, from.join("log")).unwrap();
        Arc::new(directory) as Arc<dyn Storage>
    };
    let error = bench.run(&replaced).result.unwrap_err().to_string();
    let expected = format!("{} was renamed or replaced while the job ran: ", own.display());
    assert!(error.starts_with(&expected), "{error}");
    assert_eq!(vec![victim.join("precious")], files_below(&victim));
    assert_eq!(2, fs::read_dir(&own).unwrap().count(), "nothing was written there");
    fs::remove_dir_all(&own).unwrap();
    fs::rename(aside, own).unwrap();
    bench.run(&Recorder::new()).result.unwrap();
    check_finished(&bench);
}

#[test]
fn a_world_writable_control_directory_is_not_used() {
    let bench = begun(Bench::new(Format::Parquet));
    let own = bench.out().join("_headgate");
    fs::set_permissions(&own, fs::Permissions::from_mode(0o777)).unwrap();
    check_refused(&bench, &format!("every user may write to {}", own.display()));
    fs::set_permissions(&own, fs::Permissions::from_mode(0o775)).unwrap();
    bench.run(&Recorder::new()).result.unwrap();
}

#[test]
fn files_that_may_hold_hashes_of_secrets_are_readable_only_by_their_owner() -> io::Result<()> {
    let bench = begun(Bench::new(Format::Parquet));
    assert_eq!(0o600, fs::metadata(bench.out().join("_headgate/job.json"))?.mode() & 0o777);
    assert_eq!(0, fs::metadata(bench.out().join("_headgate"))?.mode() & 0o002);
    assert_ne!(0o600, fs::metadata(bench.out().join("part-00000001.parquet"))?.mode() & 0o777);
    Ok(())
}
