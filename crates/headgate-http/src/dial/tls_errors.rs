//! Readable messages for errors of TLS and of certificates.
//!
//! rustls shows its errors as the names of its types, some with times that change each second. Here the message of a cause
//! never changes, and details are separate. An error without a message of its own is shown by the name that its standard or
//! rustls has for it, split into words.

use std::io;

use headgate_core::clock::second_text;
use headgate_core::error::{ErrorKind, Failure, cause};
use headgate_core::message::OptionName;
use headgate_core::options::TlsMin;
use headgate_core::reason::Reason;
use rustls::{AlertDescription, CertificateError, Error, PeerIncompatible};
use rustls_pki_types::UnixTime;

/// The bound of names of a certificate that are shown.
const MAX_SHOWN_NAMES: usize = 5;
/// The bound of one such name; no hostname is longer (RFC 1035 section 2.3.4).
const MAX_NAME_CHARS: usize = 253;

/// Returns the failure of a handshake in which we accept no version older than `min`.
pub(super) fn handshake_failure(error: &io::Error, min: TlsMin) -> Failure {
    let Some(error) = tls_error(error) else {
        let reason = match error.kind() {
            io::ErrorKind::UnexpectedEof => "the server closed the connection during the TLS handshake".into(),
            _ => Reason::new(format!("the connection failed during the TLS handshake: {}", cause(error))),
        };
        return Failure::new(ErrorKind::Tls, reason);
    };
    if min == TlsMin::V13 && is_version_mismatch(error) {
        return Failure::new(ErrorKind::Tls, "the server does not speak TLS 1.3")
            .with_option(OptionName::TlsMin)
            .refused(true);
    }
    let failure = Failure::new(ErrorKind::Tls, reason(error)).refused(true);
    match error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => failure.with_option(OptionName::Cacert),
        Error::InvalidCertificate(error) if is_authority(error) => failure.with_option(OptionName::Cacert),
        _ => failure,
    }
}

/// Returns whether there is no version of TLS that both sides accept.
fn is_version_mismatch(error: &Error) -> bool {
    matches!(
        error,
        Error::AlertReceived(AlertDescription::ProtocolVersion)
            | Error::PeerIncompatible(
                PeerIncompatible::ServerDoesNotSupportTls12Or13
                    | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig
            )
    )
}

/// Returns the TLS error that an error of the connection contains.
pub(crate) fn tls_error(error: &io::Error) -> Option<&Error> {
    error.get_ref()?.downcast_ref()
}

/// Returns the message of a TLS error.
pub(crate) fn reason(error: &Error) -> Reason {
    match error {
        Error::InvalidCertificate(error) => certificate_reason(error),
        Error::NoCertificatesPresented => "the server sent no certificate".into(),
        Error::InvalidMessage(what) => {
            Reason::new("what the server sent is not TLS, or is broken").with(words(&format!("{what:?}")))
        }
        Error::AlertReceived(AlertDescription::HandshakeFailure) => {
            "the server refused the TLS handshake, perhaps because it accepts none of headgate's ciphers or key exchanges, or \
             wants a client certificate"
                .into()
        }
        Error::AlertReceived(AlertDescription::ProtocolVersion) => {
            "the server refused the TLS handshake: it speaks neither TLS 1.2 nor 1.3".into()
        }
        Error::AlertReceived(AlertDescription::UnrecognisedName) => {
            "the server refused the TLS handshake: it does not know this hostname".into()
        }
        Error::AlertReceived(AlertDescription::CertificateRequired) => {
            "the server requires a client certificate".into()
        }
        // These alerts concern our certificate: the server does not check its own.
        Error::AlertReceived(
            alert @ (AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied),
        ) => {
            Reason::new(format!("the server does not accept the client certificate: {}", words(&format!("{alert:?}"))))
        }
        Error::AlertReceived(alert) => Reason::new(format!("the server ended TLS: {}", words(&format!("{alert:?}")))),
        Error::PeerIncompatible(PeerIncompatible::ServerDoesNotSupportTls12Or13) => {
            "the server speaks neither TLS 1.2 nor 1.3".into()
        }
        Error::PeerIncompatible(why) => {
            Reason::new(format!("the server's TLS is not compatible with headgate's: {}", words(&format!("{why:?}"))))
        }
        Error::PeerMisbehaved(why) => {
            Reason::new(format!("the server broke the rules of TLS: {}", words(&format!("{why:?}"))))
        }
        Error::InappropriateMessage { .. } | Error::InappropriateHandshakeMessage { .. } => {
            "the server sent a TLS message out of turn".into()
        }
        Error::DecryptError => "what the server sent can't be decrypted".into(),
        Error::PeerSentOversizedRecord => "the server sent a TLS record that is too large".into(),
        Error::NoApplicationProtocol => "the server supports none of headgate's protocols over TLS".into(),
        Error::General(what) => Reason::new("TLS failed").with(what.as_str()),
        other => Reason::new(format!("TLS failed: {}", words(&format!("{other:?}")))),
    }
}

fn certificate_reason(error: &CertificateError) -> Reason {
    let expired = "the server's certificate has expired";
    let not_yet = "the server's certificate is not valid yet";
    let other_name = "the server's certificate is for another name";
    #[expect(deprecated, reason = "older variants are matched, too")]
    match error {
        CertificateError::Expired => expired.into(),
        CertificateError::ExpiredContext { not_after, .. } => {
            Reason::new(expired).with(format!("it was valid until {}", moment(*not_after)))
        }
        CertificateError::NotValidYet => not_yet.into(),
        CertificateError::NotValidYetContext { not_before, .. } => {
            Reason::new(not_yet).with(format!("it is valid from {}", moment(*not_before)))
        }
        CertificateError::NotValidForName => other_name.into(),
        CertificateError::NotValidForNameContext { presented, .. } if presented.is_empty() => {
            "the server's certificate names no host (it has no subjectAltName; its common name does not count)".into()
        }
        CertificateError::NotValidForNameContext { presented, .. } => {
            let mut names = presented.iter().filter_map(|name| name_of(name));
            let shown: Vec<String> = names.by_ref().take(MAX_SHOWN_NAMES).collect();
            if shown.is_empty() {
                return other_name.into();
            }
            let more = if names.next().is_some() { ", …" } else { "" };
            Reason::new(other_name).with(format!("for {}{more}", shown.join(", ")))
        }
        CertificateError::UnknownIssuer => {
            "the server's certificate is not trusted: it is self-signed, or from an unknown authority".into()
        }
        CertificateError::BadSignature => {
            "the server's certificate is not signed by the authority that it names".into()
        }
        CertificateError::BadEncoding => "the server's certificate is broken".into(),
        CertificateError::Revoked => "the server's certificate has been revoked".into(),
        CertificateError::UnhandledCriticalExtension => {
            "the server's certificate has a critical extension that is not supported".into()
        }
        CertificateError::UnsupportedSignatureAlgorithm
        | CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "the server's certificate is signed with an algorithm that is not supported".into()
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "the server's certificate is not meant for servers".into()
        }
        other if is_authority(other) => {
            "the server's certificate is not trusted: it is self-signed, or an authority's own".into()
        }
        CertificateError::Other(other) => {
            let cause = other.0.downcast_ref::<webpki::Error>().map(|error| words(&format!("{error:?}")));
            Reason::new(format!(
                "the server's certificate is not valid: {}",
                cause.as_deref().unwrap_or("unknown reason")
            ))
        }
        other => Reason::new(format!("the server's certificate is not valid: {}", words(&format!("{other:?}")))),
    }
}

/// Returns whether a certificate was refused because it is that of an authority.
pub(super) fn is_authority(error: &CertificateError) -> bool {
    let CertificateError::Other(other) = error else { return false };
    matches!(other.0.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
}

/// Returns the name in rustls' `DnsName("a.example")` or `IpAddress(10.0.0.1)`, or `None` if it is not a host's.
fn name_of(text: &str) -> Option<String> {
    let (kind, name) = text.strip_suffix(')')?.split_once('(')?;
    // The server chooses the bytes, so they are bounded and escaped.
    let name: String = name.trim_matches('"').chars().take(MAX_NAME_CHARS).collect();
    matches!(kind, "DnsName" | "IpAddress").then(|| name.escape_default().to_string())
}

/// Splits the name of a variant such as `NoCipherSuitesInCommon` into words, and omits its fields.
fn words(variant: &str) -> String {
    let name = variant.split(['(', '{', ' ']).next().unwrap_or_default();
    let mut words = String::with_capacity(name.len() + 8);
    let mut before = '_';
    for letter in name.chars() {
        if letter.is_uppercase() && (before.is_lowercase() || before.is_ascii_digit()) {
            words.push(' ');
        }
        words.extend(letter.to_lowercase());
        before = letter;
    }
    words
}

fn moment(time: UnixTime) -> String {
    second_text(time.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_certificate_are_shown_without_types_and_escaped() {
        for (expected, text) in [
            (Some("*.a.example"), r#"DnsName("*.a.example")"#),
            (Some("10.0.0.1"), "IpAddress(10.0.0.1)"),
            (Some(r"a\u{1b}[2J"), "DnsName(\"a\u{1b}[2J\")"),
            (None, "Unsupported(0x01)"),
            (None, "DirectoryName"),
            (None, r#"UniformResourceIdentifier("http://a/")"#),
        ] {
            assert_eq!(expected, name_of(text).as_deref());
        }
        let long = format!("DnsName(\"{}\")", "x".repeat(70_000));
        assert_eq!(Some(MAX_NAME_CHARS), name_of(&long).as_deref().map(str::len));
    }
}
