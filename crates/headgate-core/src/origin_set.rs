//! Origins as a user names them: one, all below a domain, or all there are.
//!
//! Scheme, host and port must be equal. A hostname is compared as in URLs, in lower case and ASCII (punycode); the scheme's
//! own port may be omitted. `https://*.example.com` includes `https://a.example.com` and not `https://example.com`.

use std::fmt;

use crate::origin::{HostName, Origin};

/// See the top of this file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OriginPattern {
    Any,
    One(Origin),
    /// Hosts below the hostname that follows `*.`.
    Below(Origin),
}

/// Origins; there may be none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OriginSet(Vec<OriginPattern>);

impl OriginPattern {
    fn contains(&self, origin: &Origin) -> bool {
        match self {
            Self::Any => true,
            Self::One(one) => one == origin,
            Self::Below(above) => {
                let (HostName::Domain(above_name), HostName::Domain(name)) = (&above.name, &origin.name) else {
                    return false;
                };
                let labels = name.strip_suffix(&**above_name).and_then(|labels| labels.strip_suffix('.'));
                (above.https, above.port) == (origin.https, origin.port)
                    && labels.is_some_and(|labels| !labels.is_empty())
            }
        }
    }
}

impl fmt::Display for OriginPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::One(origin) => origin.fmt(f),
            Self::Below(above) => write!(f, "{}://*.{}", above.scheme(), above.authority()),
        }
    }
}

impl OriginSet {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn contains(&self, origin: &Origin) -> bool {
        self.0.iter().any(|pattern| pattern.contains(origin))
    }
}

impl FromIterator<OriginPattern> for OriginSet {
    fn from_iter<I: IntoIterator<Item = OriginPattern>>(patterns: I) -> Self {
        Self(patterns.into_iter().collect())
    }
}
