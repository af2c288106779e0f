//! The form of an input, which follows from its name alone, before anything is read.

use std::path::Path;

use headgate_core::error::JobError;

use super::compressed::Compression;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Stdin,
    Pattern,
    Text(Compression),
    /// The byte between fields, and the compression.
    Delimited(u8, Compression),
    Ndjson(Compression),
    Parquet,
}

pub(super) const KNOWN: &str = ".txt, .csv, .tsv, .ndjson, .jsonl (each also with .gz or .zst) and .parquet";

/// The schemes of URLs that can be requested.
const SCHEMES: [&str; 2] = ["http", "https"];

/// Returns the scheme that a text begins with, if it is one (RFC 3986 section 3.1) and not a set or range of several.
pub fn scheme_of(text: &str) -> Option<&str> {
    let (scheme, _) = text.split_once("://")?;
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    is_scheme.then_some(scheme)
}

impl Form {
    /// # Errors
    /// The file does not exist or is a directory, a URL has another scheme, or the extension is unknown.
    pub(super) fn of(input: &str) -> Result<Self, JobError> {
        if input == "-" {
            return Ok(Self::Stdin);
        }
        let is_supported = |scheme: &str| SCHEMES.iter().any(|scheme_name| scheme_name.eq_ignore_ascii_case(scheme));
        if scheme_of(input).is_some_and(|scheme| !is_supported(scheme)) {
            return Err(JobError::input(format!(
                "{input}: only http:// and https:// URLs can be fetched; to read a list of URLs, give the path of a local file, or pipe its lines into -"
            )));
        }
        if input.contains("://") {
            return Ok(Self::Pattern);
        }
        let form = Self::of_name(input);
        let reason = match std::fs::metadata(input) {
            Ok(metadata) if metadata.is_dir() => "is a directory, not a file".to_owned(),
            Ok(_) => match form {
                Some(form) => return Ok(form),
                None if is_compressed_parquet(input) => {
                    "Parquet is compressed inside and can't be read through a second compression: decompress it first"
                        .to_owned()
                }
                None => format!("unknown extension: headgate reads {KNOWN}"),
            },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && form.is_none() => {
                "no such file (a URL starts with its scheme, as in https://)".to_owned()
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => "no such file".to_owned(),
            Err(error) => format!("can't be opened: {error}"),
        };
        Err(JobError::input(format!("{input}: {reason}")))
    }

    /// Returns the form of a file, which need not exist, or `None` if it is unknown.
    pub(super) fn of_name(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        let (stem, compression) = stem(&name);
        match Path::new(stem).extension().and_then(|extension| extension.to_str())? {
            "txt" => Some(Self::Text(compression)),
            "csv" => Some(Self::Delimited(b',', compression)),
            "tsv" => Some(Self::Delimited(b'\t', compression)),
            "ndjson" | "jsonl" => Some(Self::Ndjson(compression)),
            "parquet" if compression == Compression::None => Some(Self::Parquet),
            _ => None,
        }
    }

    /// Returns what messages call the form.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Stdin => "standard input",
            Self::Pattern => "a URL with ranges",
            Self::Text(_) => "a list of URLs",
            Self::Delimited(b'\t', _) => "TSV",
            Self::Delimited(..) => "CSV",
            Self::Ndjson(_) => "NDJSON",
            Self::Parquet => "Parquet",
        }
    }

    /// Returns how the whole file is compressed. Parquet is compressed inside, which does not count.
    pub(super) fn compression(self) -> Compression {
        match self {
            Self::Text(compression) | Self::Delimited(_, compression) | Self::Ndjson(compression) => compression,
            Self::Stdin | Self::Pattern | Self::Parquet => Compression::None,
        }
    }

    /// Returns the form and its compression: `CSV, gzip`.
    pub(super) fn name_with_compression(self) -> String {
        match self.compression() {
            Compression::None => self.name().to_owned(),
            compression => format!("{}, {}", self.name(), compression.name()),
        }
    }

    pub(super) fn has_columns(self) -> bool {
        match self {
            Self::Stdin | Self::Pattern | Self::Text(_) => false,
            Self::Delimited(..) | Self::Ndjson(_) | Self::Parquet => true,
        }
    }
}

/// Returns a lower-case name without the extension of its compression, and the compression.
fn stem(name: &str) -> (&str, Compression) {
    if let Some(stem) = name.strip_suffix(".gz") {
        (stem, Compression::Gzip)
    } else if let Some(stem) = name.strip_suffix(".zst") {
        (stem, Compression::Zstd)
    } else {
        (name, Compression::None)
    }
}

fn is_compressed_parquet(name: &str) -> bool {
    stem(&name.to_ascii_lowercase()).0.ends_with(".parquet")
}
