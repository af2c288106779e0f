//! The request headers in the record of a job: their names, and hashes that show whether the values are the same.
//!
//! Credentials do not identify a job. Only their names are stored, so that none is forgotten when the job is resumed.

use std::collections::BTreeSet;

use headgate_core::credentials::{AUTHORIZATION, header_names, is_credential};
use headgate_core::message;
use headgate_core::message::{Message, OptionName};
use headgate_core::options::RequestOptions;
use serde::{Deserialize, Serialize};

use super::value_hash::ValueHasher;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HeaderRecord {
    /// Header names in lower case, without credentials.
    #[serde(rename = "headers")]
    names: Vec<String>,
    /// A hash for each of them.
    #[serde(rename = "headers_hash")]
    hashes: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    credentials: BTreeSet<String>,
}

/// A header name in lower case, and its value.
type Pair<'a> = (String, &'a str);

impl HeaderRecord {
    pub(super) fn new(request: &RequestOptions, hasher: &ValueHasher) -> Self {
        let own: Vec<Pair> = pairs(request).filter(|(name, _)| !is_credential(name, &request.secret_headers)).collect();
        Self {
            hashes: own.iter().map(|pair| hash(hasher, pair)).collect(),
            names: own.into_iter().map(|(name, _)| name).collect(),
            credentials: header_names(request)
                .into_iter()
                .filter(|name| is_credential(name, &request.secret_headers))
                .collect(),
        }
    }

    /// Returns the names of all headers.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().chain(&self.credentials).map(String::as_str)
    }

    /// Returns one phrase for each credential that the job had and `request` does not have.
    pub(super) fn missing_credentials(&self, request: &RequestOptions) -> Vec<Message> {
        let given = header_names(request);
        let is_secret = |name: &&String| is_credential(name, &request.secret_headers);
        let had = self.names.iter().filter(is_secret).chain(&self.credentials);
        let missing: BTreeSet<&String> = had.filter(|name| !given.contains(name)).collect();
        let phrase = |name: &String| {
            let options = if name == AUTHORIZATION {
                message!(
                    OptionName::User,
                    ", ",
                    OptionName::Bearer,
                    ", ",
                    OptionName::TokenCommand,
                    " or ",
                    OptionName::Headers
                )
            } else {
                OptionName::Headers.into()
            };
            message!("the header {name} is missing, and its value isn't stored: give it with ", options)
        };
        missing.into_iter().map(phrase).collect()
    }

    /// Returns one phrase for each difference between the headers of `request` and those of the job, credentials aside.
    pub(super) fn differences(&self, request: &RequestOptions, hasher: &ValueHasher) -> Vec<Message> {
        let is_secret = |name: &String| is_credential(name, &request.secret_headers) || self.credentials.contains(name);
        let given: Vec<Pair> = pairs(request).collect();
        let own: Vec<&Pair> = given.iter().filter(|(name, _)| !is_secret(name)).collect();
        let then: Vec<&String> = self.names.iter().filter(|name| !is_secret(name)).collect();
        let now: Vec<&String> = own.iter().map(|(name, _)| name).collect();
        if then != now {
            let (before, after) = (shown(&then), shown(&now));
            return vec![message!(OptionName::Headers, " was {before}, now it is {after}")];
        }
        let stored = self.names.iter().zip(&self.hashes).filter(|(name, _)| !is_secret(name));
        let is_other = |((_, then), now): &((&String, &String), &&Pair)| **then != hash(hasher, now);
        let phrase = |name: &String| {
            message!(
                "the value of ",
                OptionName::Headers,
                " {name} has changed (if it is a credential, say so with ",
                OptionName::SecretHeaders.set(name.as_str()),
                ")"
            )
        };
        stored.zip(&own).filter(is_other).map(|((name, _), _)| phrase(name)).collect()
    }
}

fn pairs(request: &RequestOptions) -> impl Iterator<Item = Pair<'_>> {
    request.headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.expose().as_str()))
}

fn hash(hasher: &ValueHasher, (name, value): &Pair) -> String {
    hasher.hash([name.as_bytes(), value.as_bytes()])
}

fn shown(names: &[&String]) -> String {
    if names.is_empty() {
        return "not given".into();
    }
    names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hasher() -> ValueHasher {
        ValueHasher::new(b"sixteen bytes it")
    }

    fn request(headers: &[(&str, &str)], secret: &[&str]) -> RequestOptions {
        RequestOptions {
            headers: headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
            secret_headers: secret.iter().map(|name| (*name).into()).collect(),
            ..RequestOptions::default()
        }
    }

    fn phrases(then: &HeaderRecord, now: &RequestOptions) -> Vec<String> {
        let messages = then.missing_credentials(now).into_iter().chain(then.differences(now, &hasher()));
        messages.map(|message| message.to_string()).collect()
    }

    #[test]
    fn credentials_may_be_renewed_and_added_and_other_values_may_not() {
        let begun = [("X-A", "1"), ("Authorization", "old"), ("cookie", "old"), ("X-Key", "old")];
        let then = HeaderRecord::new(&request(&begun, &["x-key"]), &hasher());
        let stored = serde_json::to_string(&then).expect("JSON");
        assert!(!stored.contains("old"), "{stored}");
        let then: HeaderRecord = serde_json::from_str(&stored).expect("what was stored");

        let renewed =
            [("X-A", "1"), ("Authorization", "new"), ("Cookie", "new"), ("x-key", "new"), ("Proxy-Authorization", "n")];
        assert_eq!(Vec::<String>::new(), phrases(&then, &request(&renewed, &[])));
        let with_bearer =
            RequestOptions { bearer: Some("new".into()), ..request(&[renewed[0], renewed[2], renewed[3]], &[]) };
        assert_eq!(Vec::<String>::new(), phrases(&then, &with_bearer));

        let other = request(&[("X-A", "2"), renewed[1], renewed[2], renewed[3]], &[]);
        let other_value =
            "the value of headers x-a has changed (if it is a credential, say so with secret_headers=x-a)";
        assert_eq!(vec![other_value], phrases(&then, &other));
        assert_eq!(
            vec!["headers was x-a, now it is x-a, x-b"],
            phrases(&then, &request(&[("X-A", "1"), ("X-B", ""), renewed[1], renewed[2], renewed[3]], &[]))
        );
    }

    #[test]
    fn a_credential_that_the_job_had_and_the_request_lacks_is_reported() {
        let then =
            HeaderRecord::new(&request(&[("X-A", "1"), ("Authorization", "a"), ("X-Key", "b")], &["X-Key"]), &hasher());
        assert_eq!(
            vec![
                "the header authorization is missing, and its value isn't stored: give it with user, bearer, token_command or headers",
                "the header x-key is missing, and its value isn't stored: give it with headers",
            ],
            phrases(&then, &request(&[("X-A", "1")], &[]))
        );
    }

    #[test]
    fn a_header_that_is_named_a_credential_only_on_resume_may_be_renewed() {
        let then = HeaderRecord::new(&request(&[("X-A", "1"), ("X-Mine", "old")], &[]), &hasher());
        let now = [("X-A", "1"), ("X-Mine", "new")];
        assert_eq!(1, phrases(&then, &request(&now, &[])).len());
        assert_eq!(Vec::<String>::new(), phrases(&then, &request(&now, &["X-MINE"])));
    }
}
