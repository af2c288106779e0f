//! The extension of a saved body, by its media type or its URL.

use headgate_core::headers::Headers;

/// The extension if neither the type nor the URL has one.
const UNKNOWN: &str = "bin";
/// The longest suffix of a URL that is taken for an extension.
const MAX_BYTES: usize = 5;
/// The longest extension of a type.
const MAX_BYTES_OF_TYPE: usize = 16;

/// Returns the extension by the header `content-type`, or else by the URL.
pub(super) fn extension(headers: &Headers, url: &str) -> String {
    let content_type = headers.get_all("content-type").next();
    content_type.and_then(of_type).or_else(|| of_url(url)).unwrap_or_else(|| UNKNOWN.into())
}

fn of_type(value: &[u8]) -> Option<String> {
    let essence = value.split(|byte| *byte == b';').next()?.trim_ascii().to_ascii_lowercase();
    let essence = std::str::from_utf8(&essence).ok()?;
    let extension = match essence {
        // Types for bytes of any kind.
        "application/octet-stream" | "binary/octet-stream" | "application/x-download" => return None,
        // Types that the table does not have, or for which it has a less usual extension.
        "image/jpeg" | "image/jpg" | "image/pjpeg" => "jpg",
        "image/tiff" => "tif",
        "audio/mpeg" | "audio/mp3" => "mp3",
        "audio/wav" | "audio/x-wav" | "audio/wave" => "wav",
        "video/quicktime" => "mov",
        "application/gzip" | "application/x-gzip" => "gz",
        "application/x-javascript" | "application/javascript" | "text/javascript" => "js",
        "text/xml" => "xml",
        _ => mime2ext::mime2ext(essence)?,
    };
    is_plain(extension, MAX_BYTES_OF_TYPE).then(|| extension.to_owned())
}

/// Returns the suffix of the path after its last dot.
fn of_url(url: &str) -> Option<String> {
    let (_, rest) = url.split_once("://")?;
    let rest = &rest[..rest.find(['?', '#']).unwrap_or(rest.len())];
    let (_, name) = rest.split_once('/')?.1.rsplit('/').next()?.rsplit_once('.')?;
    is_plain(name, MAX_BYTES).then(|| name.to_ascii_lowercase())
}

fn is_plain(extension: &str, max_bytes: usize) -> bool {
    (1..=max_bytes).contains(&extension.len()) && extension.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extension_depends_on_the_type_and_then_on_the_url() {
        for (expected, content_type, url) in [
            ("jpg", Some("image/jpeg"), "http://h/a.png"),
            ("png", Some("Image/PNG; charset=binary"), "http://h/"),
            ("html", Some("text/html; charset=utf-8"), "http://h/"),
            ("txt", Some("text/plain"), "http://h/"),
            ("json", Some("application/json"), "http://h/"),
            ("pdf", Some("application/pdf"), "http://h/"),
            ("webp", Some("image/webp"), "http://h/"),
            ("gif", Some("image/gif"), "http://h/"),
            ("svg", Some("image/svg+xml"), "http://h/"),
            ("mp4", Some("video/mp4"), "http://h/"),
            ("zip", Some("application/zip"), "http://h/"),
            ("csv", Some("text/csv"), "http://h/"),
            ("gz", Some("application/octet-stream"), "http://h/a.tar.GZ?x=a.b#c.d"),
            ("jpeg", None, "http://h/x/y.jpeg"),
            ("bin", None, "http://example.com"),
            ("bin", None, "http://h/a.b/c"),
            ("bin", None, "http://h/a.toolong"),
            ("bin", Some("../../x"), "http://h/a.%2e"),
            ("bin", Some("no/such"), "h/a.png"),
            ("bin", Some("\u{fffd};"), "http://h/.."),
        ] {
            let headers = content_type.map(|value| ("Content-Type", value.as_bytes()));
            assert_eq!(expected, extension(&Headers::from_iter(headers), url), "{content_type:?} {url}");
        }
    }
}
