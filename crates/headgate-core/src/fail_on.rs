//! The statuses that make a row fail, as the option `fail_on` names them.

use std::fmt;
use std::str::FromStr;

use crate::status_set::StatusSet;

/// Names 401 and 407 of origins that get credentials.
const UNAUTHORIZED: &str = "unauthorized";

/// Statuses that make a row fail. Two texts of the same statuses are equal once parsed, and are written alike.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FailOn {
    statuses: StatusSet,
    /// 401 and 407 make a row fail whose origin gets credentials: without them, they are what a server has to say.
    unauthorized: bool,
}

impl FailOn {
    /// Returns the statuses that make a row fail, whether or not its origin gets credentials.
    pub fn statuses(&self) -> &StatusSet {
        &self.statuses
    }

    /// Returns whether a response with this status makes its row fail; `has_credentials`: its origin gets credentials.
    pub fn contains(&self, status: u16, has_credentials: impl FnOnce() -> bool) -> bool {
        self.statuses.contains(status) || self.unauthorized && is_unauthorized(status) && has_credentials()
    }

    /// Returns whether rows with some of these statuses may succeed; `has_credentials`: the job sends credentials.
    pub fn lacks_some_of(&self, statuses: &StatusSet, has_credentials: bool) -> bool {
        let mut failing = self.statuses.clone();
        if self.unauthorized && has_credentials {
            for status in ["401", "407"] {
                failing.set(status, true).expect("a code");
            }
        }
        statuses.exceeds(&failing)
    }
}

/// Returns whether a status refuses credentials (RFC 9110 sections 15.5.2 and 15.5.8).
pub fn is_unauthorized(status: u16) -> bool {
    matches!(status, 401 | 407)
}

impl FromStr for FailOn {
    type Err = String;

    /// Parses codes, classes and `unauthorized` between commas; `none` or an empty text is the empty set.
    fn from_str(text: &str) -> Result<Self, String> {
        let parts = || text.split(',').map(str::trim);
        let statuses: Vec<&str> = parts().filter(|part| *part != UNAUTHORIZED).collect();
        let unauthorized = statuses.len() < parts().count();
        let statuses = statuses.join(",").parse();
        let statuses = statuses.map_err(|error: String| error.replacen("429,5xx", "unauthorized,429,5xx", 1))?;
        Ok(Self { statuses, unauthorized })
    }
}

impl fmt::Display for FailOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.unauthorized, self.statuses.is_empty()) {
            (false, _) => self.statuses.fmt(f),
            (true, true) => f.write_str(UNAUTHORIZED),
            (true, false) => write!(f, "{UNAUTHORIZED},{}", self.statuses),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::defaults::DEFAULT_FAIL_ON;

    fn fail_on(text: &str) -> FailOn {
        text.parse().expect("statuses")
    }

    #[test]
    fn each_text_is_written_in_one_form() {
        for (canonical, text) in [
            (DEFAULT_FAIL_ON, DEFAULT_FAIL_ON),
            ("unauthorized,408", "408, unauthorized"),
            ("unauthorized", "unauthorized"),
            ("none", "none"),
            ("none", ""),
            ("404,5xx", "5xx,404"),
        ] {
            assert_eq!(canonical, fail_on(text).to_string(), "{text}");
        }
        let refused = "unauthorised".parse::<FailOn>().expect_err("misspelt");
        assert!(refused.contains("such as unauthorized,429,5xx"), "{refused}");
    }

    #[test]
    fn a_refusal_fails_a_row_only_where_credentials_are_sent() {
        let default = fail_on(DEFAULT_FAIL_ON);
        for (expected, status, has_credentials) in
            [(true, 401, true), (false, 401, false), (true, 407, true), (false, 403, true), (true, 503, false)]
        {
            assert_eq!(expected, default.contains(status, || has_credentials), "{status}");
        }
        assert!(!fail_on("5xx").contains(401, || true));
        let set = |text: &str| text.parse::<StatusSet>().expect("statuses");
        assert!(default.lacks_some_of(&set("401"), false) && !default.lacks_some_of(&set("401"), true));
        assert!(default.lacks_some_of(&set("404"), true));
    }
}
