//! Decides which headers are credentials.
//!
//! Values of credentials change (a token is renewed) and do not identify a job.

use std::iter;

use crate::error::JobError;
use crate::message;
use crate::message::OptionName;
use crate::options::{JobOptions, RequestOptions};

pub const AUTHORIZATION: &str = "authorization";

/// Conventional last words of the names of headers with credentials: `X-Api-Key`, `X-CMC_PRO_API_KEY`, `Access-Token`.
const LAST_WORDS: [&str; 8] = ["key", "auth", "pwd", "jwt", "session", "sign", "credential", "credentials"];

/// Endings of such a last word: `X-ApiKey`, `AccessToken`.
const ENDINGS: [&str; 10] = [
    "apikey",
    "accesskey",
    "token",
    "secret",
    "password",
    "passphrase",
    "authorization",
    "authentication",
    "signature",
    "cookie",
];

/// Keys that are not secret.
const HARMLESS: [&str; 3] = ["idempotency-key", "sec-websocket-key", "surrogate-key"];

/// Returns whether a header of this name is a credential, by its name or because `secret_headers` has it.
pub fn is_credential(name: &str, secret_headers: &[String]) -> bool {
    let name = name.to_ascii_lowercase();
    let without_id = name.strip_suffix("-id").filter(|name| name.ends_with("session")).unwrap_or(&name);
    let last_word = without_id.rsplit(['-', '_']).next().unwrap_or_default();
    let looks_secret = LAST_WORDS.contains(&last_word) || ENDINGS.iter().any(|ending| last_word.ends_with(ending));
    looks_secret && !HARMLESS.contains(&&*name) || secret_headers.iter().any(|known| known.eq_ignore_ascii_case(&name))
}

/// Returns the options that give credentials to a job's run.
pub fn credential_options(options: &JobOptions) -> impl Iterator<Item = OptionName> {
    let secrets = &options.request.secret_headers;
    let in_templates = options.source.templates.headers.iter().any(|(name, _)| is_credential(name, secrets));
    let of_templates = in_templates.then_some(OptionName::HeaderTemplates);
    credential_options_of(&options.request).chain(of_templates)
}

/// Returns the options that give credentials to all requests of a run.
pub fn credential_options_of(request: &RequestOptions) -> impl Iterator<Item = OptionName> {
    let in_headers = request.headers.iter().any(|(name, _)| is_credential(name, &request.secret_headers));
    let all = [
        (OptionName::Bearer, request.bearer.is_some()),
        (OptionName::TokenCommand, request.token.source.is_some()),
        (OptionName::User, request.user.is_some()),
        (OptionName::Headers, in_headers),
        (OptionName::Cert, request.cert.is_some()),
    ];
    all.into_iter().filter(|(_, is_set)| *is_set).map(|(option, _)| option)
}

/// Returns the error of a credential without an origin.
pub fn unbound(credential: OptionName) -> JobError {
    JobError::usage(message!(
        credential,
        " is a credential, and nothing says which hosts may get it: name their origins with ",
        OptionName::CredentialsFor.set("https://api.example.com"),
        " (or https://*.example.com for all hosts of a domain, or * for every host)"
    ))
}

/// Returns the names of all headers that the options set, in lower case: case does not distinguish them (RFC 9110 section
/// 5.1).
pub fn header_names(options: &RequestOptions) -> Vec<String> {
    let is_set = options.bearer.is_some() || options.user.is_some() || options.token.source.is_some();
    let from_others = is_set.then(|| AUTHORIZATION.to_owned());
    let from_headers = options.headers.iter().map(|(name, _)| name.to_ascii_lowercase());
    iter::chain(from_headers, from_others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_with_names_like_keys_are_credentials_without_being_listed() {
        let named = vec!["X-Mine".to_owned()];
        for name in [
            "Authorization",
            "COOKIE",
            "X-Api-Key",
            "x-goog-api-key",
            "X-Auth-Token",
            "x-mine",
            "Ocp-Apim-Subscription-Key",
            "X-RapidAPI-Key",
            "X-CMC_PRO_API_KEY",
            "DD-APPLICATION-KEY",
            "Secret-Key",
            "ApiKey",
            "accesstoken",
            "X-Auth",
            "X-Session-Id",
            "OK-ACCESS-SIGN",
            "X-Hub-Signature",
        ] {
            assert!(is_credential(name, &named), "{name}");
        }
        for name in [
            "Accept",
            "Idempotency-Key",
            "X-Trace",
            "Content-Type",
            "X-Mine-Too",
            "ü-token-ü",
            "X-Keyboard",
            "X-Author",
        ] {
            assert!(!is_credential(name, &named), "{name}");
        }
    }
}
