//! The `authorization` header of a run, made of its options.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use http::header::AUTHORIZATION;

use crate::error::JobError;
use crate::message;
use crate::message::OptionName;
use crate::options::RequestOptions;

/// Returns the options that set `authorization`.
pub fn sources(options: &RequestOptions) -> impl Iterator<Item = OptionName> {
    let in_headers = options.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(AUTHORIZATION.as_str()));
    let all = [
        (OptionName::Headers, in_headers),
        (OptionName::Bearer, options.bearer.is_some()),
        (OptionName::User, options.user.is_some()),
    ];
    all.into_iter().filter(|(_, is_given)| *is_given).map(|(option, _)| option)
}

/// Returns the header value for `bearer` or `user`.
///
/// # Errors
/// `Usage`: two options set it, or a token can't be sent.
pub fn authorization(options: &RequestOptions) -> Result<Option<HeaderValue>, JobError> {
    let mut sources = sources(options);
    if let (Some(one), Some(other)) = (sources.next(), sources.next()) {
        return Err(JobError::usage(message!(one, " and ", other, " both set Authorization: leave one of them out")));
    }
    if let Some(user) = &options.user {
        return Ok(Some(basic(user.expose())));
    }
    let bearer = options.bearer.as_ref().map(|token| HeaderValue::try_from(format!("Bearer {}", token.expose())));
    let bearer = bearer.transpose().map_err(|_| {
        JobError::usage(message!(OptionName::Bearer, ": has a character that can't be sent in a header"))
    })?;
    Ok(bearer.map(sensitive))
}

/// Returns the header value for `name:password` (RFC 7617).
pub fn basic(credentials: &[u8]) -> HeaderValue {
    let value = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(credentials)));
    sensitive(value.expect("base64 is ASCII"))
}

fn sensitive(mut value: HeaderValue) -> HeaderValue {
    value.set_sensitive(true);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_or_a_user_becomes_the_header() {
        let by = |bearer: Option<&str>, user: Option<&str>| {
            let (bearer, user) = (bearer.map(Into::into), user.map(Into::into));
            authorization(&RequestOptions { bearer, user, ..RequestOptions::default() }).expect("at most one is given")
        };
        assert_eq!(None, by(None, None));
        assert_eq!("Bearer abc", by(Some("abc"), None).expect("given"));
        assert_eq!("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==", by(None, Some("Aladdin:open sesame")).expect("given"));
    }

    #[test]
    fn two_options_for_credentials_are_refused_by_name_and_without_their_values() {
        let given = RequestOptions {
            headers: vec![("AUTHORIZATION".into(), "secret".into())],
            bearer: Some("secret\n".into()),
            user: Some("secret".into()),
            ..RequestOptions::default()
        };
        for (expected, options) in [
            ("headers and bearer both set Authorization: leave one of them out", given.clone()),
            (
                "bearer and user both set Authorization: leave one of them out",
                RequestOptions { headers: Vec::new(), ..given.clone() },
            ),
            (
                "bearer: has a character that can't be sent in a header",
                RequestOptions { headers: Vec::new(), user: None, ..given },
            ),
        ] {
            assert_eq!(expected, authorization(&options).expect_err(expected).to_string());
        }
    }
}
