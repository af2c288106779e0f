//! Tells the module what it is built from: its version as Python spells it, the commit if that is known, and the target.
//!
//! In a checkout, a new commit alone builds nothing anew, because linking takes minutes: the commit is that of the last
//! build in which Rust code had changed. `make dist-wheel` sets `HEADGATE_COMMIT`, so that what is released has its own.

#![allow(clippy::print_stdout)] // this is how a build script talks to cargo

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn main() {
    let crate_directory = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    // Cargo writes 0.1.0-rc1 where Python writes 0.1.0rc1.
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default().replace('-', "");
    let commit = env::var("HEADGATE_COMMIT")
        .ok()
        .filter(|commit| !commit.is_empty())
        .or_else(|| checked_out(&crate_directory.join("../../.git")))
        .or_else(|| released(&crate_directory.join("commit")));
    println!("cargo::rerun-if-env-changed=HEADGATE_COMMIT");
    println!("cargo::rerun-if-changed=build.rs");
    for directory in fs::read_dir(crate_directory.join("..")).into_iter().flatten().flatten() {
        println!("cargo::rerun-if-changed={}", directory.path().join("src").display());
    }
    println!("cargo::rustc-env=HEADGATE_VERSION={version}");
    println!("cargo::rustc-env=HEADGATE_COMMIT={}", commit.unwrap_or_default());
    println!("cargo::rustc-env=HEADGATE_TARGET={}", env::var("TARGET").unwrap_or_default());
}

/// Returns the commit of the checkout. A repository around an unpacked sdist is ignored.
fn checked_out(repository: &Path) -> Option<String> {
    if !repository.exists() {
        return None;
    }
    let mut git = Command::new("git");
    let output = git.arg("--git-dir").arg(repository).args(["rev-parse", "--short=8", "HEAD"]).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Returns the commit that `make dist-sdist` has written into the sdist.
fn released(file: &Path) -> Option<String> {
    fs::read_to_string(file).ok().map(|commit| commit.trim().to_owned())
}
