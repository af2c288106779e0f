//! The options that choose among a few values, each with a name.

use serde::{Deserialize, Serialize};

/// Gives the values of an enum their names, in the order in which they are named; the first is the default.
macro_rules! choices {
    ($choice:ident { $($variant:ident = $name:literal),+ }) => {
        impl $choice {
            pub(crate) const NAMES: &[&str] = &[$($name),+];

            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name),+
                }
            }
        }

        impl std::str::FromStr for $choice {
            type Err = String;

            fn from_str(name: &str) -> Result<Self, String> {
                match name {
                    $($name => Ok(Self::$variant),)+
                    _ => Err(format!("must be one of {}, not '{name}'", Self::NAMES.join(", "))),
                }
            }
        }
    };
}

/// The form of the results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    #[default]
    Parquet,
    Ndjson,
    /// Count and drop: for measuring.
    None,
}

choices!(Format { Parquet = "parquet", Ndjson = "ndjson", None = "none" });

/// What a job does if its output directory contains one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IfExists {
    /// It continues the same job, and refuses another one.
    #[default]
    Resume,
    /// It deletes the results and starts over.
    Overwrite,
    /// It refuses any.
    Error,
}

choices!(IfExists { Resume = "resume", Overwrite = "overwrite", Error = "error" });

/// The format of saved bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SaveFormat {
    #[default]
    Files,
    /// Archives of them, as `WebDataset` has them.
    Tar,
}

choices!(SaveFormat { Files = "files", Tar = "tar" });

/// The redirects that are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RedirectPolicy {
    #[default]
    Follow,
    /// Those that stay at the origin of the request.
    SameOrigin,
    None,
}

choices!(RedirectPolicy { Follow = "follow", SameOrigin = "same-origin", None = "none" });

/// The content encoding of a request body (RFC 9110 section 8.4.1, RFC 8878).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyEncoding {
    Gzip,
    Zstd,
}

choices!(BodyEncoding { Gzip = "gzip", Zstd = "zstd" });

/// The oldest version of TLS that is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TlsMin {
    #[default]
    V12,
    V13,
}

choices!(TlsMin { V12 = "1.2", V13 = "1.3" });

/// The identity of a host: what its limits belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HostBy {
    /// A name, whatever the scheme and port.
    #[default]
    Name,
    /// Scheme, name and port.
    Origin,
    /// An address, whatever the names that lead there.
    Address,
}

choices!(HostBy { Name = "name", Origin = "origin", Address = "address" });

/// The part of a request that states the cost of its row, as an option names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowCost {
    BodyBytes,
}

choices!(RowCost { BodyBytes = "body-bytes" });

/// The addresses to which connections may lead.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkPolicy {
    /// All but link-local addresses and metadata services.
    #[default]
    Any,
    /// Public addresses only.
    Public,
}

choices!(NetworkPolicy { Any = "any", Public = "public" });
