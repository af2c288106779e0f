//! Opens files below a directory by paths that a row names.
//!
//! Each part of the path is opened by itself, relative to the directory before it, and none may be a symbolic link. So the
//! file that was checked is the file that is read, even if another process changes links meanwhile. (`openat2` with
//! `RESOLVE_BENEATH` and `RESOLVE_NO_SYMLINKS` does the same in one call, where the kernel and the container allow it.)

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{Mode, SFlag, fstatat};

/// Of the parts of a path but the last one.
#[cfg(target_os = "linux")]
const DIRECTORY: OFlag = OFlag::O_PATH.union(OFlag::O_DIRECTORY).union(OFlag::O_CLOEXEC);
#[cfg(not(target_os = "linux"))]
const DIRECTORY: OFlag = OFlag::O_DIRECTORY.union(OFlag::O_CLOEXEC);
/// If the path has become a pipe since the check, opening it does not wait for its other end.
const FILE: OFlag = OFlag::O_NONBLOCK.union(OFlag::O_NOCTTY).union(OFlag::O_CLOEXEC).union(OFlag::O_NOFOLLOW);

/// Why a file is not opened.
#[derive(Debug)]
pub(super) enum Refused {
    Outside,
    Link,
    /// It is a directory, or a pipe, a socket or a device.
    Irregular {
        is_directory: bool,
    },
    Unreadable(io::Error),
}

impl From<Errno> for Refused {
    fn from(error: Errno) -> Self {
        Self::Unreadable(error.into())
    }
}

/// Opens a regular file below `root`. An absolute path must begin with `root`, as that is written.
pub(super) fn open(root: &Path, path: &Path) -> Result<(File, Metadata), Refused> {
    let below = if path.is_absolute() { path.strip_prefix(root).map_err(|_| Refused::Outside)? } else { path };
    let mut parts = Vec::new();
    for component in below.components() {
        match component {
            Component::Normal(part) => parts.push(part.as_bytes()),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return Err(Refused::Outside),
        }
    }
    // The directory itself may be reached over links: it is the user's choice.
    let mut directory = nix::fcntl::open(root, DIRECTORY, Mode::empty())?;
    let Some((last, before)) = parts.split_last() else { return Err(Refused::Outside) };
    for part in before {
        if kind(&directory, part)? == SFlag::S_IFLNK {
            return Err(Refused::Link);
        }
        directory = openat(&directory, *part, DIRECTORY | OFlag::O_NOFOLLOW, Mode::empty())?;
    }
    // Before it is opened: that alone can set a device going.
    match kind(&directory, last)? {
        SFlag::S_IFREG => {}
        SFlag::S_IFLNK => return Err(Refused::Link),
        other => return Err(Refused::Irregular { is_directory: other == SFlag::S_IFDIR }),
    }
    let file = File::from(openat(&directory, *last, FILE, Mode::empty())?);
    let metadata = file.metadata().map_err(Refused::Unreadable)?;
    if metadata.is_file() { Ok((file, metadata)) } else { Err(Refused::Irregular { is_directory: metadata.is_dir() }) }
}

/// What there is of this name, as it is and not where it leads.
fn kind(directory: &OwnedFd, name: &[u8]) -> Result<SFlag, Errno> {
    let found = fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
    Ok(SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read as _;
    use std::os::unix::fs::symlink;

    use super::*;

    fn read(root: &Path, path: &str) -> Result<String, &'static str> {
        let mut text = String::new();
        match open(root, Path::new(path)) {
            Ok((mut file, _)) => file.read_to_string(&mut text).map(|_| text).map_err(|_| "unreadable"),
            Err(Refused::Outside) => Err("outside"),
            Err(Refused::Link) => Err("link"),
            Err(Refused::Irregular { is_directory: true }) => Err("directory"),
            Err(Refused::Irregular { is_directory: false }) => Err("irregular"),
            Err(Refused::Unreadable(_)) => Err("unreadable"),
        }
    }

    /// CWE-22 and CWE-59, as in CVE-2007-4559 of Python's tarfile: a path that leads out, by itself or over links.
    #[test]
    fn a_path_leads_nowhere_but_below_its_root() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path().join("root");
        fs::create_dir_all(root.join("a/b")).expect("directories");
        fs::write(root.join("a/b/file"), "inside").expect("a file");
        fs::write(directory.path().join("secret"), "secret").expect("a file");
        symlink("../secret", root.join("link")).expect("a link");
        symlink("..", root.join("up")).expect("a link");
        symlink("b", root.join("a/same")).expect("a link");
        let absolute = |path: &str| directory.path().join(path).display().to_string();
        for (expected, path) in [
            (Ok("inside"), "a/b/file"),
            (Ok("inside"), "./a//b/./file"),
            (Ok("inside"), &absolute("root/a/b/file")),
            (Err("outside"), &absolute("secret")),
            (Err("outside"), &absolute("root/../secret")),
            (Err("outside"), "../secret"),
            (Err("outside"), "a/../../secret"),
            (Err("outside"), "/etc/passwd"),
            (Err("outside"), ""),
            (Err("outside"), "."),
            (Err("link"), "link"),
            (Err("link"), "up/secret"),
            (Err("link"), "a/same/file"),
            (Err("directory"), "a/b"),
            (Err("unreadable"), "a/missing"),
            (Err("unreadable"), "a/b/file/more"),
        ] {
            assert_eq!(expected.map(str::to_owned), read(&root, path), "{path}");
        }
        // Where the directory itself is, is the user's choice.
        symlink(&root, directory.path().join("linked")).expect("a link");
        assert_eq!(Ok("inside".to_owned()), read(&directory.path().join("linked"), "a/b/file"));
    }

    #[test]
    fn what_is_no_file_is_not_opened() {
        let directory = tempfile::tempdir().expect("a directory");
        nix::unistd::mkfifo(&directory.path().join("pipe"), Mode::S_IRWXU).expect("a pipe");
        assert_eq!(Err("irregular"), read(directory.path(), "pipe"));
    }
}
