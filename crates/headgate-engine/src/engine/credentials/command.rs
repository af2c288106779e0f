//! Runs the command that writes a token.

use std::io::{self, Read};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use headgate_core::error::cause;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// The bound of a token; servers accept far less.
const MAX_BYTES: u64 = 64 * 1024;
/// The end of what the command writes to standard error that is shown.
const SHOWN_BYTES: usize = 300;
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// How long the output is read after the command has ended: a process that it has left behind may keep it open.
const OUTPUT_TIME: Duration = Duration::from_secs(1);

/// Why a command has written no token.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CommandFailure {
    pub(super) why: String,
    /// The last line that it wrote to standard error.
    pub(super) last_line: Option<String>,
    /// The shell can't find or run it, and will not be able to later.
    pub(super) is_lasting: bool,
}

impl From<String> for CommandFailure {
    fn from(why: String) -> Self {
        Self { why, last_line: None, is_lasting: false }
    }
}

/// Returns the token that a command writes to its standard output. The command is killed, with all that it has started, when
/// `timeout` has passed or `has_ended` returns true.
///
/// # Errors
/// Why there is no token.
pub(super) fn token(command: &str, timeout: Duration, has_ended: impl Fn() -> bool) -> Result<String, CommandFailure> {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = shell.spawn().map_err(|error| format!("it can't be started: {}", cause(&error)))?;
    let (output, errors) = (read(child.stdout.take()), read(child.stderr.take()));
    let status = wait(&mut child, Instant::now() + timeout, has_ended)?;
    let until = Instant::now() + OUTPUT_TIME;
    if !status.success() {
        let errors = collect(&errors, until);
        let errors = String::from_utf8_lossy(&errors[errors.len().saturating_sub(SHOWN_BYTES)..]);
        let last_line = errors.trim().lines().next_back().map(str::to_owned);
        let is_lasting = matches!(status.code(), Some(126 | 127));
        return Err(CommandFailure { why: format!("it failed with {status}"), last_line, is_lasting });
    }
    let output = collect(&output, until);
    if output.len() as u64 > MAX_BYTES {
        return Err(format!("it wrote more than {MAX_BYTES} bytes").into());
    }
    let token = String::from_utf8(output).map_err(|_| "what it wrote is not UTF-8".to_owned())?;
    let token = token.trim();
    match token {
        "" => Err("it wrote nothing to its standard output".to_owned().into()),
        _ if token.contains('\n') => {
            Err("it wrote several lines: the output must be the token alone".to_owned().into())
        }
        _ => Ok(token.to_owned()),
    }
}

fn wait(child: &mut Child, until: Instant, has_ended: impl Fn() -> bool) -> Result<ExitStatus, String> {
    let waiting = |error: io::Error| format!("waiting for it failed: {}", cause(&error));
    loop {
        if let Some(status) = child.try_wait().map_err(waiting)? {
            return Ok(status);
        }
        let is_over = has_ended();
        if is_over || Instant::now() >= until {
            let _ = killpg(Pid::from_raw(child.id().cast_signed()), Signal::SIGKILL);
            child.wait().map_err(waiting)?;
            return Err(if is_over { "the run has ended" } else { "it took too long and was killed" }.to_owned());
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// Reads from a pipe in a thread, so that the command never waits for a full one.
fn read(pipe: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    if let Some(mut pipe) = pipe {
        thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(length @ 1..) = pipe.read(&mut piece) {
                if sender.send(piece[..length].to_vec()).is_err() {
                    // It is no longer wanted.
                    return;
                }
            }
        });
    }
    receiver
}

/// Returns what was read up to the end of the pipe, or until then, and little more than [`MAX_BYTES`] of it.
fn collect(pieces: &Receiver<Vec<u8>>, until: Instant) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() as u64 <= MAX_BYTES
        && let Ok(piece) = pieces.recv_timeout(until.saturating_duration_since(Instant::now()))
    {
        bytes.extend(piece);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(command: &str) -> Result<String, String> {
        token(command, Duration::from_secs(60), || false).map_err(|CommandFailure { why, last_line, .. }| {
            last_line.map_or_else(|| why.clone(), |line| format!("{why}: {line}"))
        })
    }

    #[test]
    fn the_output_is_the_token() {
        assert_eq!(Ok("abc".to_owned()), run("echo noise >&2; echo abc"));
        // What it leaves behind may keep its output open.
        assert_eq!(Ok("abc".to_owned()), run("printf abc; sleep 60 &"));
    }

    #[test]
    fn a_failure_is_explained_by_the_last_line_of_standard_error() {
        for (expected, command) in [
            ("it failed with exit status: 3: no session", "echo first >&2; echo no session >&2; exit 3"),
            ("it wrote nothing to its standard output", "true"),
            ("it wrote several lines: the output must be the token alone", "printf 'a\\nb\\n'"),
            ("it wrote more than 65536 bytes", "head -c 100000 /dev/zero | tr '\\0' a"),
        ] {
            assert_eq!(Err(expected.to_owned()), run(command), "{command}");
        }
        let missing = token("headgate-no-such-command", Duration::from_secs(60), || false).expect_err("missing");
        assert!(missing.is_lasting, "{}", missing.why);
    }

    #[test]
    fn a_command_that_takes_too_long_is_killed_with_all_that_it_has_started() {
        let killed = token("sleep 600 | sleep 600", Duration::from_millis(50), || false).expect_err("too long");
        assert_eq!("it took too long and was killed", killed.why);
        let ended = token("sleep 600", Duration::from_secs(600), || true).expect_err("ended");
        assert_eq!("the run has ended", ended.why);
    }
}
