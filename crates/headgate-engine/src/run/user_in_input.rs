//! A user and password in the URL that is the input: they are credentials, and are neither stored nor shown.

use std::borrow::Cow;

use headgate_core::authorization;
use headgate_core::error::JobError;
use headgate_core::message;
use headgate_core::message::OptionName;
use headgate_core::options::JobOptions;

const SCHEME_END: &str = "://";

/// Returns the options with the user as an option of its own.
///
/// # Errors
/// `Usage`: another option names a user, too, or the input has several users.
pub(crate) fn extract_user(options: &JobOptions) -> Result<Cow<'_, JobOptions>, JobError> {
    let input = &options.source.input;
    // A set may begin with several authorities. Otherwise later ones are part of the path or query, for the server.
    let urls = if input.starts_with('{') { usize::MAX } else { 1 };
    let mut authorities = input.match_indices(SCHEME_END).take(urls).map(|(at, _)| at + SCHEME_END.len());
    let Some((start, end)) = authorities.find_map(|start| user_range(input, start)) else {
        return Ok(Cow::Borrowed(options));
    };
    if input[..end].contains(['[', ']', '{', '}', '\\']) {
        return Err(JobError::usage(message!(
            "a URL with ranges can't have a user and password in a range or set: give them with ",
            OptionName::User
        )));
    }
    if let Some(other) = authorization::sources(&options.request).next() {
        return Err(JobError::usage(message!(
            "the URL has a user and password, and ",
            other,
            " sets Authorization, too: leave one of them out"
        )));
    }
    let mut options = options.clone();
    let (name, password) = input[start..end - 1].split_once(':').unwrap_or((&input[start..end - 1], ""));
    if !(name.is_empty() && password.is_empty()) {
        let decoded = |text| percent_encoding::percent_decode_str(text).collect::<Vec<u8>>();
        options.request.user = Some([decoded(name), decoded(password)].join(&b':').into());
    }
    options.source.input.replace_range(start..end, "");
    Ok(Cow::Owned(options))
}

/// Returns the range of the user in an authority that begins at `start`, including the `@` after it. A backslash does not
/// end it: ranges have it before a literal bracket.
fn user_range(input: &str, start: usize) -> Option<(usize, usize)> {
    let end = input[start..].find(['/', '?', '#']).map_or(input.len(), |length| start + length);
    input[start..end].rfind('@').map(|at| (start, start + at + 1))
}

#[cfg(test)]
mod tests {
    use headgate_core::options::{RequestOptions, SourceOptions};

    use super::*;

    fn options(input: &str) -> JobOptions {
        JobOptions {
            source: SourceOptions { input: input.into(), ..SourceOptions::default() },
            ..JobOptions::default()
        }
    }

    #[test]
    fn the_user_becomes_an_option_and_the_input_has_none() {
        for (expected, user, input) in [
            ("http://host/[1-9]", Some("me:p@ss"), "http://me:p%40ss@host/[1-9]"),
            ("http://{a,b}.host/[1-9]", Some("me:a@b"), "http://me:a@b@{a,b}.host/[1-9]"),
            ("http://host", Some("me:"), "http://me@host"),
            ("http://host/", None, "http://@host/"),
            ("http://host/[1-9]@x?u=http://me:p@other/", None, "http://host/[1-9]@x?u=http://me:p@other/"),
            ("a@b.txt", None, "a@b.txt"),
        ] {
            let options = options(input);
            let without = extract_user(&options).expect(input);
            assert_eq!(
                (expected, user.map(str::as_bytes)),
                (&*without.source.input, without.request.user.as_ref().map(|user| &**user.expose()))
            );
        }
    }

    #[test]
    fn several_users_are_refused_without_showing_a_password() {
        let within = "a URL with ranges can't have a user and password in a range or set: give them with user";
        for input in [
            "http://me:secret[1-9]@host/",
            "http://{me:secret@a,b}/",
            "http://{a,me:secret@b}/",
            "{http://me:secret@a,http://b}/",
            "{http://a,http://me:secret@b}/",
            "http://me:secret\\[@host/",
        ] {
            assert_eq!(within, extract_user(&options(input)).expect_err(input).to_string());
        }
        let request = RequestOptions { bearer: Some("secret".into()), ..RequestOptions::default() };
        let twice = JobOptions { request, ..options("http://me:secret@host/") };
        assert_eq!(
            "the URL has a user and password, and bearer sets Authorization, too: leave one of them out",
            extract_user(&twice).expect_err("twice").to_string()
        );
    }
}
