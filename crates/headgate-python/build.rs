//! Tells the module what it is built from: its version as Python spells it, the commit if that is known, and the target.

#![allow(clippy::print_stdout)] // this is how a build script talks to cargo

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn main() {
    let crate_directory = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let version = version.replace("-alpha.", "a").replace("-beta.", "b").replace("-rc.", "rc");
    let commit = checked_out(&crate_directory.join("../../.git")).or_else(|| released(&crate_directory.join("commit")));
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-env=HEADGATE_VERSION={version}");
    println!("cargo::rustc-env=HEADGATE_COMMIT={}", commit.unwrap_or_default());
    println!("cargo::rustc-env=HEADGATE_TARGET={}", env::var("TARGET").unwrap_or_default());
}

/// Returns the commit of the checkout. Another repository that an sdist was unpacked in is not looked at.
fn checked_out(repository: &Path) -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").arg("--git-dir").arg(repository).args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = repository.exists().then(|| git(&["rev-parse", "--short=8", "HEAD"]))??;
    // It has a line for everything that changes which commit that is.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| Path::new(log).exists()) {
        println!("cargo::rerun-if-changed={log}");
    }
    Some(commit)
}

/// Returns the commit that `make dist-sdist` has written into the sdist.
fn released(file: &Path) -> Option<String> {
    let commit = fs::read_to_string(file).ok()?;
    println!("cargo::rerun-if-changed={}", file.display());
    Some(commit.trim().to_owned())
}
