//! The address that a user has named, in the URL that is the input or that makes the URLs: it is allowed even if it would
//! be refused in a list.

use std::net::IpAddr;

use headgate_core::options::SourceOptions;
use headgate_core::target;

/// Returns the address that is the host of these rows, if the options name one.
pub(super) fn named_address(source: &SourceOptions) -> Option<IpAddr> {
    host_address(source.url.as_ref().unwrap_or(&source.input))
}

/// Returns the address that is the host of a URL, which may have ranges or columns in its path.
pub fn host_address(url: &str) -> Option<IpAddr> {
    let authority = url.split_once("://")?.1.split(['/', '?', '#']).next()?;
    target::parse(&format!("http://{authority}/")).ok()?.origin.name.address()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_an_address_in_any_spelling_and_a_name_or_a_range_names_none() {
        for (expected, url) in [
            (Some("169.254.169.254"), "http://169.254.169.254/latest/[1-9]"),
            (Some("169.254.169.254"), "http://0xa9fea9fe:8080/{id}"),
            (Some("169.254.169.254"), "https://me:secret@169.254.169.254?a"),
            (Some("fd00:ec2::254"), "http://[fd00:ec2::254]/"),
            (None, "http://169.254.169.[1-9]/"),
            (None, "http://{host}/"),
            (None, "http://example.com/169.254.169.254"),
            (None, "urls.txt"),
        ] {
            assert_eq!(expected.map(str::to_owned), host_address(url).map(|address| address.to_string()), "{url}");
        }
    }
}
