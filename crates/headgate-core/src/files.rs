//! Files below a directory that the user chose. A path can't leave this directory, or pass through a symbolic link.
//!
//! Each path is opened relative to the directory, in one call where the kernel and the container allow it (`openat2` with
//! `RESOLVE_BENEATH` and `RESOLVE_NO_SYMLINKS`), otherwise one directory after the other with `O_NOFOLLOW`. So the file that
//! was checked is the file that is used, even if another process changes links meanwhile. The directory itself may be reached
//! through links. Only regular files are opened: a pipe would block, and a device may act.

pub mod open_file;
pub mod storage;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, fstat, fstatvfs, fsync, linkat, mkdirat, openat, renameat, statat,
    unlinkat,
};
use rustix::io::Errno;

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// The flags for directories that are only traversed: this user may lack the permission to list them.
#[cfg(target_os = "linux")]
const TRAVERSED_DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const TRAVERSED_DIRECTORY: OFlags = DIRECTORY;
/// If the path has become a pipe since the check, opening it does not wait for its other end.
const FILE: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY).union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);
const NEW_FILE: OFlags = FILE.union(OFlags::RDWR).union(OFlags::CREATE).union(OFlags::EXCL);

/// The mode of a new file that all users may read, less the umask.
pub const SHARED: u32 = 0o666;
/// The mode of a new file that only its owner may read.
pub const PRIVATE: u32 = 0o600;
/// The mode of a new directory, less the umask.
const DIRECTORY_MODE: u32 = 0o775;

/// Why a path is not used, as the source of an [`io::Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusedPath {
    Outside,
    Link,
    /// It is a directory, or a pipe, a socket or a device.
    Irregular {
        is_directory: bool,
    },
}

impl fmt::Display for RefusedPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Outside => "it is outside of its directory",
            Self::Link => "its path contains a symbolic link",
            Self::Irregular { is_directory: true } => "it is a directory",
            Self::Irregular { is_directory: false } => "it is not a regular file",
        })
    }
}

impl std::error::Error for RefusedPath {}

impl From<RefusedPath> for io::Error {
    fn from(refused: RefusedPath) -> Self {
        Self::new(io::ErrorKind::InvalidInput, refused)
    }
}

/// An open directory. The paths that its methods accept begin with its own path.
#[derive(Debug, Clone)]
pub struct Directory {
    handle: Arc<OwnedFd>,
    path: Arc<Path>,
    /// The directory below that [`Directory::pin`] opened, with its name.
    pinned: Option<(&'static str, Arc<OwnedFd>)>,
}

/// A file, a directory or something else, and its length in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Metadata {
    pub kind: FileType,
    pub bytes: u64,
}

/// The space of a file system, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    pub total: u64,
    /// The space that users without privileges may use.
    pub free: u64,
}

/// The names in a directory, with their file types.
pub type Entries = Box<dyn Iterator<Item = io::Result<(OsString, FileType)>>>;

impl Directory {
    /// Opens a directory, whose path may have links.
    ///
    /// # Errors
    /// The directory is missing, not a directory, or not accessible.
    pub fn open(path: &Path) -> io::Result<Self> {
        let handle = Arc::new(open_directory(CWD, path.as_os_str(), OFlags::empty())?);
        Ok(Self { handle, path: path.into(), pinned: None })
    }

    /// Returns the directory with the directory `name` below it open, and the metadata of that one. All paths through `name`
    /// then lead to the directory that was open when its metadata was read, even if another one gets its name.
    ///
    /// # Errors
    /// `NotFound`: there is no such directory. `NotADirectory`: a file or a link has this name.
    pub fn pin(self, name: &'static str) -> io::Result<(Self, Stat)> {
        let handle = match open_directory(&self.handle, OsStr::new(name), OFlags::NOFOLLOW) {
            Err(Errno::LOOP) => Err(Errno::NOTDIR),
            opened => opened,
        }?;
        let stat = fstat(&handle)?;
        Ok((Self { pinned: Some((name, Arc::new(handle))), ..self }, stat))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the owner, the mode and the like of the directory itself.
    ///
    /// # Errors
    /// Those of the system.
    pub fn stat(&self) -> io::Result<Stat> {
        Ok(fstat(&self.handle)?)
    }

    /// Returns the space of its file system. `None`: the file system does not report it.
    pub fn space(&self) -> Option<Space> {
        let found = fstatvfs(&self.handle).ok().filter(|found| found.f_blocks > 0)?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        Some(Space { total: bytes(found.f_blocks), free: bytes(found.f_bavail) })
    }

    /// Returns the path of this directory, or of the pinned one, if it no longer leads to the directory that is open: an open
    /// directory can be renamed.
    ///
    /// # Errors
    /// Those of the system.
    pub fn find_moved(&self) -> io::Result<Option<PathBuf>> {
        if !is_same(rustix::fs::stat(&*self.path), &self.stat()?)? {
            return Ok(Some(self.path.to_path_buf()));
        }
        let Some((name, handle)) = &self.pinned else { return Ok(None) };
        let now = statat(&self.handle, *name, AtFlags::SYMLINK_NOFOLLOW);
        Ok((!is_same(now, &fstat(handle)?)?).then(|| self.path.join(name)))
    }

    /// Opens a regular file to read it.
    ///
    /// # Errors
    /// [`RefusedPath`], or an error of the system. This applies to the following methods, too.
    pub fn file(&self, path: &Path) -> io::Result<File> {
        self.open_file(path, OFlags::RDONLY)
    }

    /// Opens a regular file to read it and write to it.
    pub(crate) fn file_to_change(&self, path: &Path) -> io::Result<File> {
        self.open_file(path, OFlags::RDWR)
    }

    /// Opens a regular file to read it and write to its end.
    pub(crate) fn file_to_append(&self, path: &Path) -> io::Result<File> {
        self.open_file(path, OFlags::RDWR | OFlags::APPEND)
    }

    fn open_file(&self, path: &Path, access: OFlags) -> io::Result<File> {
        self.within(path, |directory, name| {
            // Checked before the file is opened, because merely opening a device can make it act.
            check_regular(&statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?)?;
            let file = openat(directory, name, FILE | access, Mode::empty())?;
            check_regular(&fstat(&file)?)?;
            Ok(file.into())
        })
    }

    /// Opens a new file to read it and write to it.
    ///
    /// # Errors
    /// `AlreadyExists`: a file, a directory or a link has this name.
    pub fn create_new(&self, path: &Path, mode: u32) -> io::Result<File> {
        self.within(path, |directory, name| Ok(openat(directory, name, NEW_FILE, Mode::from_raw_mode(mode))?.into()))
    }

    /// Opens a regular file to read it and write to it, and creates it if it is missing.
    pub fn open_or_create(&self, path: &Path, mode: u32) -> io::Result<File> {
        match self.create_new(path, mode) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.file_to_change(path),
            created => created,
        }
    }

    /// Creates a file, and removes a file or link that had this name.
    pub fn create(&self, path: &Path, mode: u32) -> io::Result<File> {
        match self.create_new(path, mode) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.remove(path)?;
                self.create_new(path, mode)
            }
            created => created,
        }
    }

    /// Creates a directory if it is missing. Its parent must exist.
    pub fn create_directory(&self, path: &Path) -> io::Result<()> {
        let make = |directory: BorrowedFd<'_>, name: &OsStr| {
            Ok(mkdirat(directory, name, Mode::from_raw_mode(DIRECTORY_MODE))?)
        };
        match self.within(path, make) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if self.metadata(path)?.kind == FileType::Directory {
                    return Ok(());
                }
                let problem = format!("{} is not a directory", path.display());
                Err(io::Error::new(io::ErrorKind::NotADirectory, problem))
            }
            created => created,
        }
    }

    /// Removes a file or a link.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        self.within(path, |directory, name| Ok(unlinkat(directory, name, AtFlags::empty())?))
    }

    pub fn remove_empty_directory(&self, path: &Path) -> io::Result<()> {
        self.within(path, |directory, name| Ok(unlinkat(directory, name, AtFlags::REMOVEDIR)?))
    }

    /// Moves a file, and replaces a file that had the new name.
    pub fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.within_both(from, to, |(from, old), (to, new)| renameat(from, old, to, new))
    }

    /// Moves a file, unless the new name exists: then the error is `AlreadyExists`. A file system that has neither such a
    /// rename nor hard links causes an error for which [`has_no_links`] returns `true`.
    #[cfg(target_os = "linux")]
    pub fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        use rustix::fs::{RenameFlags, renameat_with};
        let renamed = self.within_both(from, to, |(from, old), (to, new)| {
            match renameat_with(from, old, to, new, RenameFlags::NOREPLACE) {
                // Not every file system supports it.
                Err(Errno::INVAL | Errno::NOSYS) => Ok(false),
                renamed => renamed.map(|()| true),
            }
        })?;
        if renamed { Ok(()) } else { self.link(from, to).and_then(|()| self.remove(from)) }
    }

    #[cfg(not(target_os = "linux"))]
    pub fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.link(from, to).and_then(|()| self.remove(from))
    }

    /// Adds a second name to a file, unless that name exists.
    pub fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.within_both(from, to, |(from, old), (to, new)| linkat(from, old, to, new, AtFlags::empty()))
    }

    /// Returns what the system has about a path. A link is not followed.
    pub fn stat_of(&self, path: &Path) -> io::Result<Stat> {
        self.within(path, |directory, name| Ok(statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?))
    }

    /// Returns the metadata of a path. A link is not followed.
    pub fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        let stat = self.stat_of(path)?;
        Ok(Metadata { kind: kind(&stat), bytes: u64::try_from(stat.st_size).unwrap_or_default() })
    }

    /// Returns the names in a directory, with their file types.
    pub fn entries(&self, path: &Path) -> io::Result<Entries> {
        let (directory, listed) = (self.clone(), path.to_owned());
        let entries = Dir::new(self.directory(path)?)?.filter_map(move |entry| {
            let entry = match entry {
                Ok(entry) if matches!(entry.file_name().to_bytes(), b"." | b"..") => return None,
                Ok(entry) => entry,
                Err(error) => return Some(Err(error.into())),
            };
            let name = OsString::from_vec(entry.file_name().to_bytes().to_vec());
            let kind = match entry.file_type() {
                // Some file systems do not report the type.
                FileType::Unknown => directory.metadata(&listed.join(&name)).map(|found| found.kind),
                kind => Ok(kind),
            };
            Some(kind.map(|kind| (name, kind)))
        });
        Ok(Box::new(entries))
    }

    /// Makes the names in a directory durable.
    pub fn sync(&self, path: &Path) -> io::Result<()> {
        Ok(fsync(self.directory(path)?)?)
    }

    /// Makes everything durable that was written to the file system of this directory since it was opened, bytes and names.
    pub fn sync_file_system(&self) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        rustix::fs::syncfs(&self.handle)?;
        #[cfg(not(target_os = "linux"))]
        rustix::fs::sync();
        Ok(())
    }

    /// Opens a directory, to lock it.
    pub fn open_to_lock(&self, path: &Path) -> io::Result<File> {
        self.directory(path).map(File::from)
    }

    fn directory(&self, path: &Path) -> io::Result<OwnedFd> {
        self.walk(&self.below(path)?, DIRECTORY)
    }

    /// Calls `act` with the last name of a path, and the open directory that the rest of the path leads to.
    fn within<T>(&self, path: &Path, act: impl FnOnce(BorrowedFd<'_>, &OsStr) -> io::Result<T>) -> io::Result<T> {
        let below = self.below(path)?;
        let (Some(name), Some(before)) = (below.file_name(), below.parent()) else {
            return Err(RefusedPath::Outside.into());
        };
        match self.start(before) {
            (start, rest) if rest.as_os_str().is_empty() => act(start, name),
            _ => act(self.walk(before, TRAVERSED_DIRECTORY)?.as_fd(), name),
        }
    }

    fn within_both<T>(
        &self,
        from: &Path,
        to: &Path,
        act: impl FnOnce((BorrowedFd<'_>, &OsStr), (BorrowedFd<'_>, &OsStr)) -> rustix::io::Result<T>,
    ) -> io::Result<T> {
        self.within(from, |from, old| self.within(to, |to, new| Ok(act((from, old), (to, new))?)))
    }

    /// Returns the path relative to this directory. It has normal components only.
    fn below(&self, path: &Path) -> Result<PathBuf, RefusedPath> {
        let mut below = PathBuf::new();
        for component in path.strip_prefix(&self.path).map_err(|_| RefusedPath::Outside)?.components() {
            match component {
                Component::Normal(name) => below.push(name),
                Component::CurDir => {}
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => return Err(RefusedPath::Outside),
            }
        }
        Ok(below)
    }

    /// Opens a directory. `below` has normal components only.
    fn walk(&self, below: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{ResolveFlags, openat2};
            let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
            let (start, rest) = self.start(below);
            let rest = if rest.as_os_str().is_empty() { Path::new(".") } else { rest };
            match openat2(start, rest, flags, Mode::empty(), how) {
                // The kernel does not support it, or the container does not allow it.
                Err(Errno::NOSYS | Errno::PERM) => {}
                Err(Errno::LOOP) => return Err(RefusedPath::Link.into()),
                opened => return Ok(opened?),
            }
        }
        self.walk_by_steps(below, flags)
    }

    fn walk_by_steps(&self, below: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let (start, rest) = self.start(below);
        let mut directory =
            openat(start, ".", if rest.as_os_str().is_empty() { flags } else { TRAVERSED_DIRECTORY }, Mode::empty())?;
        for name in rest {
            let opened = openat(&directory, name, flags | OFlags::NOFOLLOW, Mode::empty()).map_err(|error| {
                let found = statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW);
                let is_link = found.is_ok_and(|stat| kind(&stat) == FileType::Symlink);
                if is_link { RefusedPath::Link.into() } else { io::Error::from(error) }
            });
            directory = opened?;
        }
        Ok(directory)
    }

    /// Returns the open directory that a path begins with, and the rest of the path.
    fn start<'a>(&'a self, below: &'a Path) -> (BorrowedFd<'a>, &'a Path) {
        let through =
            self.pinned.as_ref().and_then(|(name, handle)| Some((handle.as_fd(), below.strip_prefix(name).ok()?)));
        through.unwrap_or((self.handle.as_fd(), below))
    }
}

/// Opens a directory, or only for access to the files in it where this user may not list them.
fn open_directory(at: impl AsFd, path: &OsStr, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    match openat(&at, path, DIRECTORY | flags, Mode::empty()) {
        Err(Errno::ACCESS) => openat(at, path, TRAVERSED_DIRECTORY | flags, Mode::empty()),
        opened => opened,
    }
}

/// Opens a regular file that the user named, whose path may have links.
///
/// # Errors
/// [`RefusedPath`]: it is a directory, a pipe or a device. Or an error of the system.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let file = openat(CWD, path, FILE.difference(OFlags::NOFOLLOW), Mode::empty())?;
    check_regular(&fstat(&file)?)?;
    Ok(file.into())
}

/// Returns whether a path leads to the directory that is open.
fn is_same(now: rustix::io::Result<Stat>, opened: &Stat) -> io::Result<bool> {
    match now {
        Ok(now) => Ok((now.st_dev, now.st_ino) == (opened.st_dev, opened.st_ino)),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Returns whether the error may mean that the file system has no hard links, or none between two directories. File systems
/// report it in many ways.
pub fn has_no_links(error: &io::Error) -> bool {
    const REPORTED: [Errno; 7] =
        [Errno::PERM, Errno::NOTSUP, Errno::NOSYS, Errno::MLINK, Errno::XDEV, Errno::INVAL, Errno::IO];
    Errno::from_io_error(error).is_some_and(|error| REPORTED.contains(&error))
}

fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

fn check_regular(stat: &Stat) -> Result<(), RefusedPath> {
    match kind(stat) {
        FileType::RegularFile => Ok(()),
        FileType::Symlink => Err(RefusedPath::Link),
        other => Err(RefusedPath::Irregular { is_directory: other == FileType::Directory }),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read as _;
    use std::os::unix::fs::symlink;

    use super::*;

    fn read(root: &Path, path: &str) -> Result<String, &'static str> {
        let mut text = String::new();
        let opened = Directory::open(root).and_then(|directory| directory.file(&root.join(path)));
        match opened.map_err(io::Error::downcast::<RefusedPath>) {
            Ok(mut file) => file.read_to_string(&mut text).map(|_| text).map_err(|_| "unreadable"),
            Err(Ok(RefusedPath::Outside)) => Err("outside"),
            Err(Ok(RefusedPath::Link)) => Err("link"),
            Err(Ok(RefusedPath::Irregular { is_directory: true })) => Err("directory"),
            Err(Ok(RefusedPath::Irregular { is_directory: false })) => Err("irregular"),
            Err(Err(_)) => Err("unreadable"),
        }
    }

    #[test]
    fn no_link_is_followed_with_openat2_or_without_it() {
        let parent = tempfile::tempdir().expect("a directory");
        fs::create_dir_all(parent.path().join("root/a/b")).expect("directories");
        symlink("a", parent.path().join("root/link")).expect("a link");
        let directory = Directory::open(&parent.path().join("root")).expect("a directory");
        for walk in [Directory::walk, Directory::walk_by_steps] {
            assert!(walk(&directory, Path::new("a/b"), TRAVERSED_DIRECTORY).is_ok());
            let refused = walk(&directory, Path::new("link/b"), TRAVERSED_DIRECTORY).expect_err("a link");
            assert_eq!(Some(RefusedPath::Link), refused.downcast::<RefusedPath>().ok());
            let missing = walk(&directory, Path::new("a/c"), TRAVERSED_DIRECTORY).expect_err("nothing");
            assert_eq!(io::ErrorKind::NotFound, missing.kind());
        }
    }

    /// CWE-22 and CWE-59, as in CVE-2007-4559 of Python's tarfile: a path that leads out, by itself or over links.
    #[test]
    fn a_path_does_not_leave_its_root() {
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
        // The user chose the path of the directory itself, so it may have links.
        symlink(&root, directory.path().join("linked")).expect("a link");
        assert_eq!(Ok("inside".to_owned()), read(&directory.path().join("linked"), "a/b/file"));
    }

    #[test]
    fn a_pipe_is_not_opened() {
        let directory = tempfile::tempdir().expect("a directory");
        rustix::fs::mkfifoat(CWD, directory.path().join("pipe"), Mode::RWXU).expect("a pipe");
        assert_eq!(Err("irregular"), read(directory.path(), "pipe"));
        let refused = open_regular(&directory.path().join("pipe")).expect_err("a pipe");
        assert_eq!(Some(RefusedPath::Irregular { is_directory: false }), refused.downcast::<RefusedPath>().ok());
    }
}
