//! The `authorization` header of a run, made of its options.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use http::header::AUTHORIZATION;

use crate::message::OptionName;
use crate::option_rules::Mistake;
use crate::options::RequestOptions;

/// Returns the options that set `authorization`.
pub fn sources(options: &RequestOptions) -> impl Iterator<Item = OptionName> {
    let in_headers = options.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(AUTHORIZATION.as_str()));
    let all = [
        (OptionName::Headers, in_headers),
        (OptionName::Bearer, options.bearer.is_some()),
        (OptionName::TokenCommand, options.token.source.is_some()),
        (OptionName::User, options.user.is_some()),
    ];
    all.into_iter().filter(|(_, is_given)| *is_given).map(|(option, _)| option)
}

/// Returns the header value for `bearer` or `user`.
///
/// # Errors
/// A token can't be sent.
pub fn authorization(options: &RequestOptions) -> Result<Option<HeaderValue>, Mistake> {
    if let Some(user) = &options.user {
        return Ok(Some(basic(user.expose())));
    }
    let bearer = options.bearer.as_ref().map(|token| HeaderValue::try_from(format!("Bearer {}", token.expose())));
    let message = "contains a control character";
    let bearer = bearer.transpose().map_err(|_| Mistake { option: OptionName::Bearer, message: message.into() })?;
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
    fn a_token_that_cannot_be_sent_is_refused_without_its_value() {
        let options = RequestOptions { bearer: Some("secret\n".into()), ..RequestOptions::default() };
        let mistake = authorization(&options).expect_err("a line break");
        let shown = (mistake.option, mistake.message.to_string());
        assert_eq!((OptionName::Bearer, "contains a control character".to_owned()), shown);
    }
}
