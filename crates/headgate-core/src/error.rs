//! Errors: of one request ([`Failure`]) and of the whole job ([`JobError`]).

use std::fmt::{self, Display};
use std::io;

use crate::message;
use crate::message::{Message, OptionName};
use crate::reason::Reason;

/// The evidence about its host of an attempt that ended with an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostEvidence {
    /// The host sent something: it is up, whatever became of the response.
    Responded,
    /// The response has a status that requests less load.
    Overloaded,
    /// The host could not be reached, or did not respond.
    Silent,
    Nothing,
}

impl HostEvidence {
    /// Returns whether the host may be unable to serve further requests.
    pub fn is_failure(self) -> bool {
        match self {
            Self::Overloaded | Self::Silent => true,
            Self::Responded | Self::Nothing => false,
        }
    }
}

/// The evidence about the network of an attempt that ended with an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkEvidence {
    /// A response status came.
    Response,
    /// A hostname does not exist, or TLS was refused: the network works.
    Works,
    /// The connection was refused: by the host, or by this machine.
    Refused,
    /// A DNS look-up, or connecting, failed.
    Unreachable,
    Nothing,
}

/// What an attempt shows about the load of its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadEvidence {
    /// A complete response came, and its status does not request less load.
    Responded,
    /// Too many requests at once may be the cause: the host refused with 429 or 503, timed out, or reset the connection.
    MaybeOverload,
    /// It failed for another reason.
    Neutral,
}

/// Whether the server may have acted on the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Processed {
    /// Nothing of it reached the server.
    No,
    Maybe,
}

/// Defines [`ErrorKind`] and everything that must name each kind, so that a new kind is one line.
macro_rules! error_kinds {
    ($($variant:ident = $name:literal
        ($host:ident, $network:ident, $load:ident, $processed:ident): $doc:literal),+ $(,)?) => {
        /// Why a request has no usable response. The names are the values of the `error` column.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum ErrorKind {
            $(#[doc = $doc] $variant),+
        }

        impl ErrorKind {
            /// Every kind, in the order of declaration: `ALL[kind as usize] == kind`.
            pub const ALL: &[ErrorKind] = &[$(ErrorKind::$variant),+];

            /// Returns the name in the `error` column and in the summary.
            pub const fn name(self) -> &'static str {
                match self {
                    $(ErrorKind::$variant => $name),+
                }
            }

            /// Returns the kind with this name.
            pub fn of_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|kind| kind.name() == name)
            }

            /// Returns one sentence for the user: when this kind occurs.
            pub const fn description(self) -> &'static str {
                match self {
                    $(ErrorKind::$variant => $doc),+
                }
            }

            /// Returns what an error of this kind shows about the host if no response status came.
            pub(crate) const fn host_evidence(self) -> HostEvidence {
                match self {
                    $(ErrorKind::$variant => HostEvidence::$host),+
                }
            }

            /// Returns what an error of this kind shows about the network if no response status came.
            pub const fn network_evidence(self) -> NetworkEvidence {
                match self {
                    $(ErrorKind::$variant => NetworkEvidence::$network),+
                }
            }

            /// Returns what an error of this kind shows about the load of the host.
            pub(crate) const fn load_evidence(self) -> LoadEvidence {
                match self {
                    $(ErrorKind::$variant => LoadEvidence::$load),+
                }
            }

            /// Returns whether the server may have acted on a request that ended with this kind.
            pub const fn processed(self) -> Processed {
                match self {
                    $(ErrorKind::$variant => Processed::$processed),+
                }
            }
        }
    };
}

error_kinds! {
    // Kind, name (evidence about the host, about the network, about load; whether the server may have acted on the
    // request): when it occurs.
    InvalidRequest = "invalid_request" (Nothing, Nothing, Neutral, Maybe): "the row does not describe a request that can be sent: nothing was sent, unless a file of its body changed meanwhile",
    Dns = "dns" (Silent, Unreachable, Neutral, No): "the hostname has no address, or no DNS server responded in time",
    Connect = "connect" (Silent, Unreachable, MaybeOverload, No): "no TCP connection could be made to any address of the host",
    Tls = "tls" (Silent, Nothing, Neutral, No): "the TLS handshake failed: certificate, name, version or cipher",
    ConnectTimeout = "connect_timeout" (Silent, Unreachable, MaybeOverload, No): "no connection was made in time, TCP and TLS included; nothing was sent",
    Timeout = "timeout" (Silent, Nothing, MaybeOverload, Maybe): "the attempt did not end in time: no complete response arrived",
    TotalTimeout = "total_timeout" (Nothing, Nothing, Neutral, Maybe): "the total timeout of the row passed, over all attempts and waits",
    PoolTimeout = "pool_timeout" (Nothing, Nothing, Neutral, No): "a call of a client had no slot in time, over all threads and tasks: nothing was sent",
    ConnectionClosed = "connection_closed" (Silent, Nothing, MaybeOverload, Maybe): "the server closed or reset the connection before the response was complete",
    Protocol = "protocol" (Responded, Nothing, Neutral, Maybe): "what the server sent is not HTTP, or breaks its framing rules",
    BodyTooLarge = "body_too_large" (Nothing, Nothing, Neutral, Maybe): "the body is longer than the limit, as received or as decoded",
    Decode = "decode" (Nothing, Nothing, Neutral, Maybe): "the body is not what its content-encoding says, or ends in the middle of it",
    HostDown = "host_down" (Nothing, Nothing, Neutral, Maybe): "the host did not respond for too long, or requested too long a pause; the row was not retried again",
    Proxy = "proxy" (Nothing, Unreachable, Neutral, No): "the proxy could not be reached, or refused to connect to the host",
    TooManyRedirects = "too_many_redirects" (Nothing, Nothing, Neutral, Maybe): "there were more redirects than are followed",
    RedirectLoop = "redirect_loop" (Nothing, Nothing, Neutral, Maybe): "a redirect led back to a request that the row had made before",
    BlockedByRobots = "blocked_by_robots" (Nothing, Nothing, Neutral, Maybe): "the host's robots.txt disallows it: nothing was sent",
    BlockedByNetworkPolicy = "blocked_by_network_policy" (Nothing, Nothing, Neutral, Maybe): "its address may not be connected to: nothing was sent there",
    UnexpectedResponse = "unexpected_response" (Nothing, Nothing, Responded, Maybe): "the response lacks a required value",
    ChecksumMismatch = "checksum_mismatch" (Nothing, Nothing, Neutral, Maybe): "the body does not have the checksum of its row",
    DuplicateName = "duplicate_name" (Nothing, Nothing, Neutral, Maybe): "the body can't be saved: another row has the name of its file, or the file was there before",
    Credentials = "credentials" (Nothing, Nothing, Neutral, Maybe): "nothing was sent: the origin refuses the credentials, or there is no token for it",
    Cancelled = "cancelled" (Nothing, Nothing, Neutral, Maybe): "it was cancelled before a response arrived",
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why one request has no usable response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub kind: ErrorKind,
    /// The wording is not part of any contract. It is stored, and so it names no option.
    pub reason: Reason,
    /// The option that can help.
    pub option: Option<OptionName>,
    /// Whether a retry would end in the same failure.
    pub is_lasting: bool,
    /// Whether the host refused the connection, or either end the TLS handshake.
    pub is_refused: bool,
    /// Whether it waited for something of this process, and so shows nothing about its host.
    pub is_ours: bool,
}

impl Failure {
    pub fn new(kind: ErrorKind, reason: impl Into<Reason>) -> Self {
        Self { kind, reason: reason.into(), option: None, is_lasting: false, is_refused: false, is_ours: false }
    }

    /// Marks a failure that a retry would not change.
    #[must_use]
    pub fn lasting(mut self) -> Self {
        self.is_lasting = true;
        self
    }

    /// Marks a failure that a limit of this process caused.
    #[must_use]
    pub fn of_ours(mut self) -> Self {
        self.is_ours = true;
        self
    }

    /// Sets [`Failure::is_refused`].
    #[must_use]
    pub fn refused(mut self, is_refused: bool) -> Self {
        self.is_refused = is_refused;
        self
    }

    /// Adds the part of the reason that varies.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<Box<str>>) -> Self {
        self.reason = self.reason.with(detail);
        self
    }

    /// Adds a position, before the part of the reason that varies.
    #[must_use]
    pub fn at(mut self, position: impl fmt::Display) -> Self {
        self.reason = self.reason.at(position);
        self
    }

    #[must_use]
    pub fn with_option(mut self, option: OptionName) -> Self {
        self.option = Some(option);
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.reason)
    }
}

/// The subject of a [`JobError`]; it determines the exit code and the Python exception.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobErrorKind {
    /// An option is invalid, or this machine can't satisfy it.
    Usage,
    /// The input can't be read, or can't be read further.
    Input,
    /// The output can't be used: it belongs to another user or job, or is no place for results.
    Output,
    /// A file of the output can't be read or written, or is damaged: an error of this machine, such as a full disk.
    Storage,
    /// As `Storage`: a file of the output is missing, or was read and is not what was written.
    Damage,
    /// A fault of headgate itself.
    Internal,
}

impl JobErrorKind {
    /// Returns the name in the summary.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Usage => "usage",
            Self::Input => "input",
            Self::Output => "output",
            Self::Storage | Self::Damage => "storage",
            Self::Internal => "internal",
        }
    }
}

/// Why a whole job can't start or continue. The message names the file, row or option, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct JobError {
    pub kind: JobErrorKind,
    pub message: Message,
}

impl JobError {
    pub fn usage(message: impl Into<Message>) -> Self {
        Self { kind: JobErrorKind::Usage, message: message.into() }
    }

    pub fn input(message: impl Into<Message>) -> Self {
        Self { kind: JobErrorKind::Input, message: message.into() }
    }

    pub fn output(message: impl Into<Message>) -> Self {
        Self { kind: JobErrorKind::Output, message: message.into() }
    }

    pub fn storage(message: impl Into<Message>) -> Self {
        Self { kind: JobErrorKind::Storage, message: message.into() }
    }

    pub fn damage(message: impl Into<Message>) -> Self {
        Self { kind: JobErrorKind::Damage, message: message.into() }
    }

    /// Returns the error of an operation on a file of the output; `operation` is such as `can't write`. If the path itself is
    /// the cause, as that of a file in place of a directory, the kind is `Output`.
    pub fn of_file(operation: &str, path: impl Display, error: &io::Error) -> Self {
        use io::ErrorKind::{AlreadyExists, InvalidFilename, InvalidInput, IsADirectory, NotADirectory, NotFound};
        let message = format!("{operation} {path}: {}", cause(error));
        let advice = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                message!("; free some space, and the same command continues")
            }
            io::ErrorKind::ReadOnlyFilesystem => message!("; make it writable, or choose another ", OptionName::Output),
            _ => message!(""),
        };
        let message = message!(message, advice);
        match error.kind() {
            AlreadyExists | InvalidFilename | InvalidInput | IsADirectory | NotADirectory | NotFound => {
                Self::output(message)
            }
            _ => Self::storage(message),
        }
    }

    /// Returns the error with the name of the file that it is about in front of its message.
    #[must_use]
    pub fn in_file(self, path: impl Display) -> Self {
        Self { kind: self.kind, message: message!("{path} ", self.message) }
    }

    pub fn internal(message: impl Into<Message>) -> Self {
        Self { kind: JobErrorKind::Internal, message: message.into() }
    }
}

/// Returns the cause of an I/O error as the end of a sentence: `no space left on device`.
pub fn cause(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut letters = text.chars();
    match (letters.next(), letters.clone().next()) {
        // An acronym keeps its capitals.
        (Some(first), Some(second)) if second.is_lowercase() => first.to_lowercase().chain(letters).collect(),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_at_its_own_index() {
        for (index, kind) in ErrorKind::ALL.iter().enumerate() {
            assert_eq!(index, *kind as usize, "{kind}");
        }
    }
}
