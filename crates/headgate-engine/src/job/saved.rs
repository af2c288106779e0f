//! Moves the files of saved bodies to their places.
//!
//! When a row is written, its file is complete in `tmp`, under the hash of its name. The commit that adds the row's part makes the
//! file durable first, and moves it to its place afterwards: before the part, so that no reader finds a row without its file.
//! The parts themselves list these files. If the machine stops in between, the steps are completed when the job is opened. Files
//! that no commit names are removed with the rest of `tmp`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use headgate_core::error::{JobError, cause};
use headgate_core::file_name::{OWN_DIRECTORY, is_of_jobs, is_of_results};
use headgate_core::files::{Directory, RefusedPath, SHARED};
use headgate_core::options::SaveFormat;
use headgate_http::save::paths::SavePaths;
use headgate_table::parts::name::{PartKind, PartName, UNPLACED};
use headgate_table::parts::paths::saved_paths;

use super::commit::Commit;
use super::results::{open_output, unplaced_path};
use super::shards::is_archive;
use super::storage::{Storage, remove_if_exists};

/// Returns the paths of saved bodies in this directory.
///
/// # Errors
/// `Output`: the directory can't be read.
pub(crate) fn save_places_of(
    root: &Path,
    format: SaveFormat,
    storage: Arc<dyn Storage>,
) -> Result<SavePaths, JobError> {
    Ok(save_places(&open_output(root)?, format).with_storage(storage))
}

pub(super) fn save_places(directory: &Directory, format: SaveFormat) -> SavePaths {
    let own = directory.path().join(OWN_DIRECTORY);
    SavePaths::new(directory.clone(), own.join("tmp"), own.join("names")).in_archives(format == SaveFormat::Tar)
}

/// Checks that a path in a part can be that of a saved body, and is not that of one of the job's own files.
///
/// # Errors
/// `InvalidData`: it can't be.
fn check_path(path: &str) -> io::Result<()> {
    let mut components = path.split('/');
    let is_name = |component: &str| !matches!(component, "" | "." | "..") && !component.contains('\0');
    let is_ours = components.clone().next().is_some_and(is_of_jobs) || is_of_results(path);
    if components.all(is_name) && !is_ours {
        return Ok(());
    }
    let problem = format!("it names {path:?}, which is not where a body is saved");
    Err(io::Error::new(io::ErrorKind::InvalidData, problem))
}

/// Moves the files of the rows that a commit adds to their places, as far as they are not there yet.
///
/// # Errors
/// `Output`, naming the file: it can't be moved.
pub(super) fn place_saved(
    directory: &Directory,
    commit: &Commit,
    format: SaveFormat,
    storage: &dyn Storage,
) -> Result<(), JobError> {
    // The files of merged parts were moved before.
    if commit.removes.iter().any(|name| is_part_of_succeeded(name)) {
        return Ok(());
    }
    let (root, places) = (directory.path(), save_places(directory, format));
    let mut archive = String::new();
    for part in commit.adds.iter().filter(|part| is_part_of_succeeded(&part.name)) {
        let written = unplaced_path(directory, &part.name);
        let was_placed = !directory.exists(&written).unwrap_or(false);
        let part = if was_placed { root.join(&part.name) } else { written };
        let mut failed = None;
        let read = saved_paths(directory, &part, |path| {
            check_path(path)?;
            let moved = match format {
                SaveFormat::Files => place(&places, path, storage),
                SaveFormat::Tar => place_archived(&places, path, &mut archive, storage),
            };
            // The files of a part are moved before the part: a user has removed this one since.
            let is_removed = |error: &io::Error| was_placed && error.kind() == io::ErrorKind::NotFound;
            let moved = moved.or_else(|error| if is_removed(&error) { Ok(()) } else { Err(error) });
            moved.map_err(|error| {
                let kind = error.kind();
                failed = Some(JobError::output(format!(
                    "can't move a saved file to {}: {}",
                    root.join(path).display(),
                    cause(&error)
                )));
                kind.into()
            })
        });
        if let Some(error) = failed {
            return Err(error);
        }
        read.map_err(|error| JobError::output(format!("can't read {}: {}", part.display(), cause(&error))))?;
    }
    Ok(())
}

fn place(places: &SavePaths, path: &str, storage: &dyn Storage) -> io::Result<()> {
    mark(places, path, storage)?;
    move_to(places, &places.claimed(path), &places.destination(path), storage)
}

/// As [`place`], for a body in an archive. The archive is moved with the first of its members.
fn place_archived(places: &SavePaths, path: &str, archive: &mut String, storage: &dyn Storage) -> io::Result<()> {
    let Some((name, member)) = path.split_once('/').filter(|(name, _)| is_archive(name)) else {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it names no archive"));
    };
    if archive != name {
        move_to(places, &places.written(name), &places.destination(name), storage)?;
        name.clone_into(archive);
    }
    mark(places, member, storage)?;
    remove_if_exists(storage, places.directory(), &places.claimed(member))
}

/// Marks a name as used. This happens before its claim is removed, so that the name is never free.
fn mark(places: &SavePaths, path: &str, storage: &dyn Storage) -> io::Result<()> {
    let directory = places.directory();
    match places.mark(path) {
        Some(mark) if !directory.exists(&mark)? => {
            within_directories(directory, &mark, || storage.create(directory, &mark, SHARED).map(drop))
        }
        _ => Ok(()),
    }
}

fn move_to(places: &SavePaths, from: &Path, to: &Path, storage: &dyn Storage) -> io::Result<()> {
    let directory = places.directory();
    match within_directories(directory, to, || storage.rename(directory, from, to)) {
        // The file was moved before.
        Err(error) if error.kind() == io::ErrorKind::NotFound && directory.exists(to)? => Ok(()),
        moved => moved,
    }
}

/// Runs `step` on a file, and creates the directories of the file if they are missing.
fn within_directories(directory: &Directory, file: &Path, step: impl Fn() -> io::Result<()>) -> io::Result<()> {
    let above = file.parent().unwrap_or(file);
    match step() {
        Err(error)
            if error.kind() == io::ErrorKind::NotFound
                && above != directory.path()
                && !directory.is_directory(above) =>
        {
            directory.create_directories(above)?;
            step()
        }
        done => done,
    }
}

/// Removes the files of the rows of a part, and directories that are empty afterwards. The files of an unreadable part are
/// unknown and stay.
///
/// # Errors
/// A file can't be removed.
pub(super) fn remove_saved(directory: &Directory, part: &str, storage: &dyn Storage) -> io::Result<()> {
    if is_part_of_succeeded(part) { remove_named(directory, &directory.path().join(part), storage) } else { Ok(()) }
}

/// As [`remove_saved`], for the parts that are not in their places: after an interrupted commit, their files may be.
///
/// # Errors
/// A file can't be removed, or the parts can't be listed.
pub(super) fn remove_saved_unplaced(directory: &Directory, tmp: &Path, storage: &dyn Storage) -> io::Result<()> {
    for entry in directory.entries(tmp)? {
        let (name, _) = entry?;
        if name.to_str().is_some_and(|name| is_part_of_succeeded(name.strip_suffix(UNPLACED).unwrap_or(name))) {
            remove_named(directory, &tmp.join(name), storage)?;
        }
    }
    Ok(())
}

fn remove_named(directory: &Directory, part: &Path, storage: &dyn Storage) -> io::Result<()> {
    let mut failed = None;
    // A damaged part must not prevent the user from starting over.
    let _ = saved_paths(directory, part, |path| {
        if check_path(path).is_err() {
            return Ok(());
        }
        let file = file_of(directory, path);
        match storage.remove(directory, &file) {
            Err(error) if !is_foreign(&error) => {
                let kind = error.kind();
                failed = Some(error);
                return Err(kind.into());
            }
            _ => {}
        }
        let mut above = file.ancestors().skip(1).take_while(|path| *path != directory.path());
        // Up to the first directory that is not empty.
        let _ = above.try_for_each(|path| directory.remove_empty_directory(path));
        Ok(())
    });
    failed.map_or(Ok(()), Err)
}

/// Returns whether the error means that the path has no file, or passes through a symbolic link.
fn is_foreign(error: &io::Error) -> bool {
    let refused = error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<RefusedPath>);
    refused
        || matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory)
}

/// Returns the file or archive that has the body of a row.
fn file_of(directory: &Directory, path: &str) -> PathBuf {
    let archive = path.split_once('/').map(|(name, _)| name).filter(|name| is_archive(name));
    let archive = archive.map(|name| directory.path().join(name)).filter(|archive| !directory.is_directory(archive));
    archive.unwrap_or_else(|| directory.path().join(path))
}

fn is_part_of_succeeded(part: &str) -> bool {
    PartName::parse(part).is_some_and(|name| name.kind == PartKind::Succeeded)
}
