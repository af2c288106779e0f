//! The origin of all rows of an input, where it is known before the first row is read.

use headgate_core::options::SourceOptions;
use headgate_core::origin::Origin;
use headgate_core::target::{authority_end, parse};

use super::form::Form;
use super::pattern::Pattern;
use super::template::parse::{Template, TemplatePiece};

/// Returns the origin, or `None` if rows, a column or a range determine the host.
pub fn only_origin(options: &SourceOptions) -> Option<Origin> {
    if let Some(template) = &options.url {
        let template = Template::parse(template).ok()?;
        let Some(TemplatePiece::Literal(beginning)) = template.pieces().first() else { return None };
        return origin_of(beginning, template.literal().is_some());
    }
    let is_pattern = options.more_inputs.is_empty() && Form::of(&options.input).is_ok_and(|form| form == Form::Pattern);
    if !is_pattern {
        return None;
    }
    let pattern = Pattern::parse(&options.input).ok()?;
    origin_of(pattern.beginning()?, pattern.is_one_url())
}

/// Returns the origin of URLs that begin with this text, which must contain the end of the host: what follows could belong
/// to it.
fn origin_of(beginning: &str, is_whole: bool) -> Option<Origin> {
    let url = if is_whole { beginning } else { &beginning[..authority_end(beginning)?] };
    parse(url).ok().map(|target| target.origin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_origin_of_a_range_or_a_template_is_known_if_only_its_path_varies() {
        let of = |input: &str, url: Option<&str>| {
            let options = SourceOptions { input: input.into(), url: url.map(Into::into), ..SourceOptions::default() };
            only_origin(&options).map(|origin| origin.to_string())
        };
        for (expected, input, url) in [
            (Some("https://api.example.com"), "https://api.example.com/v1/[1-9]", None),
            (Some("https://api.example.com"), "https://API.example.com:443", None),
            (Some("http://[::1]:8080"), "http://[::1]:8080/[1-9]", None),
            (Some("https://a"), "https://a?[1-9]", None),
            (None, "https://a[1-9]", None),
            (None, "https://a[1-9].example.com/", None),
            (None, "https://a.example.com:808[1-9]/", None),
            (None, "{http://a/,http://b/}", None),
            (None, "urls.txt", None),
            (Some("https://a"), "urls.csv", Some("https://a/{id}")),
            (Some("https://a"), "urls.csv", Some("https://a/")),
            (Some("https://a"), "urls.csv", Some("https://a\\{id}")),
            (None, "urls.csv", Some("https://a{path}")),
            (None, "urls.csv", Some("https://a@{host}/")),
            (None, "urls.csv", Some("https://a:{port}/")),
            (None, "urls.csv", Some("https://{host}/x")),
            (None, "urls.csv", Some("{url}")),
        ] {
            assert_eq!(expected, of(input, url).as_deref(), "{input} {url:?}");
        }
    }
}
