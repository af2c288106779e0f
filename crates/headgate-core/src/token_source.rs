//! Credentials that are renewed while a run goes on: where tokens come from, and which files hold secrets.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::defaults::DEFAULT_TOKEN_TIMEOUT;
use crate::message::OptionName;

/// Provides tokens to a run, one call at a time.
pub trait ProvideToken: Send + Sync {
    /// Returns the current token. Called from a thread of its own, so it may take its time.
    ///
    /// # Errors
    /// Why there is none, for the user.
    fn token(&self) -> Result<String, String>;
}

/// Where tokens come from.
#[derive(Clone)]
pub enum TokenSource {
    /// A command for the shell, which writes the token to its standard output.
    Command(String),
    Provider(Arc<dyn ProvideToken>),
}

/// The tokens of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenOptions {
    /// `None`: no tokens, or one that does not expire.
    pub source: Option<TokenSource>,
    /// The time after which the next token is fetched; `None`: after a response with status 401 only.
    pub ttl: Option<Duration>,
    /// How long fetching a token may fail.
    pub timeout: Duration,
}

/// A file that holds the value of an option. It is read again when it changes, and after a response with status 401.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretFile {
    /// `Bearer`, `User`, or `Headers`: a header on each line.
    pub option: OptionName,
    pub path: PathBuf,
}

impl Default for TokenOptions {
    fn default() -> Self {
        Self { source: None, ttl: None, timeout: DEFAULT_TOKEN_TIMEOUT }
    }
}

impl PartialEq for TokenSource {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Command(one), Self::Command(other)) => one == other,
            (Self::Provider(one), Self::Provider(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

impl fmt::Debug for TokenSource {
    /// Shows nothing of the command, which may have a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Command(_) => "Command",
            Self::Provider(_) => "Provider",
        })
    }
}
