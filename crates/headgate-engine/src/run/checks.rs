//! What of a job can be refused before anything is opened.

use crate::columns::select::Selection;
use crate::engine::machine;
use crate::http::authorization::authorization;
use crate::http::defaults::OURS;
use crate::http::header_lines::checked;
use crate::http::target;
use crate::message;
use crate::model::error::JobError;
use crate::model::message::{Message, OptionName};
use crate::model::network_options::Network;
use crate::model::options::{Format, JobOptions, Output, RequestOptions, RunOptions, SaveFormat, SourceOptions};
use crate::source::first_that_holds;

/// The largest body that fits a column of a batch, with room for others beside it.
const MAX_MAX_BODY_BYTES: u64 = 1 << 30;

pub(crate) fn check(options: &JobOptions) -> Result<(), JobError> {
    check_run(&options.run)?;
    check_saving(options)?;
    check_request(&options.request)?;
    check_places(options)?;
    check_header_templates(options)?;
    check_selection(options)
}

/// Results are no input.
fn check_places(options: &JobOptions) -> Result<(), JobError> {
    let Output::Directory(path) = &options.sink.output else { return Ok(()) };
    let Some(input) = first_that_holds(&options.source, path) else { return Ok(()) };
    let shown = path.display();
    Err(JobError::usage(message!(
        OptionName::Output,
        ": {shown} lies within the input {input}: its results would be taken for input when the job is resumed; choose another directory"
    )))
}

/// Values are taken from bodies that are read, and decoded.
fn check_selection(options: &JobOptions) -> Result<(), JobError> {
    let Some(selection) = Selection::new(&options.answer)? else { return Ok(()) };
    let RequestOptions { no_body, raw, .. } = options.request;
    let (option, why) = if no_body {
        (message!(OptionName::NoBody.set(true)), "are not read")
    } else if raw {
        (message!(OptionName::Raw.set(true)), "are not decoded")
    } else if options.source.save_to.is_some() {
        (message!(OptionName::SaveTo), "go into files; those of headers can")
    } else {
        return Ok(());
    };
    if !selection.asks_for_bodies() {
        return Ok(());
    }
    Err(JobError::usage(message!(
        OptionName::Select,
        ": values of bodies can't be selected with ",
        option,
        ", as bodies {why}"
    )))
}

/// Of each name there is one header: a row's takes the place of the run's.
fn check_header_templates(options: &JobOptions) -> Result<(), JobError> {
    let refused = |message: Message| JobError::usage(message!(OptionName::HeaderTemplates, ": ", message));
    let templates = &options.source.templates.headers;
    checked(templates.iter().map(|(name, _)| (name.as_str(), &b""[..])))
        .map_err(|reason| refused(reason.to_string().into()))?;
    for (name, _) in templates {
        if OURS.iter().any(|ours| ours.as_str().eq_ignore_ascii_case(name)) {
            let trouble = format!("`{name}` is set by headgate, which decides on bodies and connections");
            return Err(refused(trouble.into()));
        }
        if options.request.headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)) {
            return Err(refused(message!(
                "`{name}` is in ",
                OptionName::Headers,
                ", too, and can't be both: leave one of them out"
            )));
        }
        if let Some((_, option)) = headers_of_options(options).find(|(other, _)| name.eq_ignore_ascii_case(other)) {
            return Err(refused(message!("`{name}` is what ", option, " sets: leave one of them out")));
        }
    }
    let run_headers = &options.request.headers;
    let twice = headers_of_columns(options)
        .find(|(name, _)| run_headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)));
    if let Some((name, option)) = twice {
        return Err(JobError::usage(message!(
            option,
            " and ",
            OptionName::Headers,
            " both set {name}: leave one of them out"
        )));
    }
    Ok(())
}

/// Headers that other options than those for headers set.
fn headers_of_options(options: &JobOptions) -> impl Iterator<Item = (&'static str, OptionName)> {
    let RequestOptions { range, bearer, user, .. } = &options.request;
    let all = [
        ("Range", OptionName::Range, range.is_some()),
        ("Authorization", OptionName::Bearer, bearer.is_some()),
        ("Authorization", OptionName::User, user.is_some()),
    ];
    let given = all.into_iter().filter(|(_, _, is_given)| *is_given).map(|(name, option, _)| (name, option));
    given.chain(headers_of_columns(options))
}

/// Those of a second pass.
fn headers_of_columns(options: &JobOptions) -> impl Iterator<Item = (&'static str, OptionName)> {
    let SourceOptions { if_none_match_column, if_modified_since_column, .. } = &options.source;
    let all = [
        ("If-None-Match", OptionName::IfNoneMatchColumn, if_none_match_column.is_some()),
        ("If-Modified-Since", OptionName::IfModifiedSinceColumn, if_modified_since_column.is_some()),
    ];
    all.into_iter().filter(|(_, _, is_given)| *is_given).map(|(name, option, _)| (name, option))
}

/// Where bodies are saved, and that there are some.
fn check_saving(options: &JobOptions) -> Result<(), JobError> {
    let JobOptions { source, sink, request, .. } = options;
    let has_directory = matches!(sink.output, Output::Directory(_)) && sink.format != Format::None;
    Err(JobError::usage(match &source.save_to {
        Some(_) if !has_directory => {
            message!(OptionName::SaveTo, " saves bodies in the output directory: name one with ", OptionName::Output)
        }
        Some(_) if request.no_body => {
            message!(OptionName::SaveTo, " can't be combined with ", OptionName::NoBody, ", which reads no bodies")
        }
        None if source.checksum_column.is_some() => {
            message!(OptionName::ChecksumColumn, " is for bodies that are saved: give ", OptionName::SaveTo, ", too")
        }
        None if source.save_format != SaveFormat::Files => {
            message!(OptionName::SaveFormat, " is for bodies that are saved: give ", OptionName::SaveTo, ", too")
        }
        _ => return Ok(()),
    }))
}

pub(super) fn check_run(run: &RunOptions) -> Result<(), JobError> {
    if run.concurrency == 0 {
        return Err(JobError::usage(message!(
            OptionName::Concurrency.set(0_u64),
            ": at least 1 request must be in flight"
        )));
    }
    if run.window == 0 {
        return Err(JobError::usage(message!(
            OptionName::Window.set(0_u64),
            ": at least 1 row must be read beyond those that are done"
        )));
    }
    Ok(())
}

pub(super) fn check_request(request: &RequestOptions) -> Result<(), JobError> {
    if request.timeout.is_zero() || request.connect_timeout.is_zero() {
        return Err(JobError::usage(message!(
            OptionName::TimeoutS,
            " and ",
            OptionName::ConnectTimeoutS,
            " must be above 0"
        )));
    }
    if request.max_body_bytes > MAX_MAX_BODY_BYTES {
        return Err(JobError::usage(message!(
            OptionName::MaxBodyBytes.set(request.max_body_bytes),
            ": the largest body a column can hold is {MAX_MAX_BODY_BYTES} bytes (1 GiB)"
        )));
    }
    if request.network.network == Network::Public && !request.proxies.is_empty() && !request.trust_proxy {
        return Err(JobError::usage(message!(
            OptionName::Network.set("public"),
            " can't be kept behind a proxy, which alone knows the addresses that it connects to: leave ",
            OptionName::Proxy,
            " out, or leave the addresses to the proxy with ",
            OptionName::TrustProxy.set(true)
        )));
    }
    authorization(request).map(drop)
}

/// A window that the requests in flight alone would fill.
pub(crate) fn note_window(run: &RunOptions) -> Option<Message> {
    let RunOptions { window, concurrency, .. } = run;
    (*window < *concurrency as u64).then(|| {
        message!(
            "with ",
            OptionName::Window.set(*window),
            " no more than {window} of {concurrency} requests can be in flight"
        )
    })
}

/// Local ports for connections to one host, where the system tells: each local address has them all for each address that is
/// connected to, and so for each proxy.
pub(crate) fn local_ports(request: &RequestOptions) -> Option<u64> {
    let pairs = request.local_addresses.len().max(1) * request.proxies.len().max(1);
    machine::local_ports().map(|ports| ports * pairs as u64)
}

/// Whether the connections find local ports. A URL with ranges in its path alone goes to one address, and is refused if they do
/// not; of other inputs nobody knows before they are read, and the user is told.
pub(crate) fn check_ports(options: &JobOptions, concurrency: usize) -> Result<Option<Message>, JobError> {
    let Some(ports) = local_ports(&options.request) else { return Ok(None) };
    let authority = options.source.input.split_once("://").and_then(|(_, rest)| rest.split(['/', '?', '#']).next());
    match authority {
        // With a range in it, it is no host that can be parsed; an IPv6 address in brackets is.
        Some(authority) if target::parse(&format!("http://{authority}/")).is_ok() => {
            machine::check_ports(concurrency, authority, ports)?;
            Ok(None)
        }
        _ if concurrency as u64 > ports => Ok(Some(message!(
            "if all rows go to one address, {ports} connections fit, not {concurrency}: that many local ports there are"
        ))),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_that_is_made_of_columns_is_no_other_ones() {
        let told = |name: &str| {
            let mut options = JobOptions::default();
            options.request.headers = vec![("X-Tenant".into(), "a".into())];
            options.source.templates.headers = vec![("X-Other".into(), "{a}".into()), (name.into(), "{a}".into())];
            check(&options).map_err(|error| error.to_string())
        };
        let ours = "header_templates: `Content-length` is set by headgate, which decides on bodies and connections";
        let twice = "header_templates: `x-tenant` is in headers, too, and can't be both: leave one of them out";
        assert_eq!(Ok(()), told("X-Other"));
        assert_eq!(Err(ours.to_owned()), told("Content-length"));
        assert_eq!(Err(twice.to_owned()), told("x-tenant"));
        assert_eq!(Err("header_templates: a header has a name that can't be sent (`a b`)".to_owned()), told("a b"));
    }

    #[test]
    fn a_header_is_set_by_one_option() {
        let mut options = JobOptions::default();
        options.request.range = Some("0-1".into());
        options.request.user = Some("a:b".into());
        options.source.if_none_match_column = Some("etag".into());
        for (expected, name) in [
            ("header_templates: `range` is what range sets: leave one of them out", "range"),
            ("header_templates: `Authorization` is what user sets: leave one of them out", "Authorization"),
            (
                "header_templates: `If-None-Match` is what if_none_match_column sets: leave one of them out",
                "If-None-Match",
            ),
        ] {
            options.source.templates.headers = vec![(name.into(), "{a}".into())];
            assert_eq!(Err(expected.to_owned()), check(&options).map_err(|error| error.to_string()));
        }
        options.source.templates.headers.clear();
        assert_eq!(Ok(()), check(&options));
        options.request.headers = vec![("if-none-match".into(), "x".into())];
        let expected = "if_none_match_column and headers both set If-None-Match: leave one of them out";
        assert_eq!(Err(expected.to_owned()), check(&options).map_err(|error| error.to_string()));
    }

    #[test]
    fn each_local_address_and_each_proxy_has_all_ports() {
        let Some(ports) = machine::local_ports() else { return };
        let addresses = |count| vec![std::net::Ipv4Addr::LOCALHOST.into(); count];
        for (times, local_addresses, proxies) in [(1, 0, 0), (1, 1, 1), (3, 3, 0), (2, 0, 2), (6, 3, 2)] {
            let proxies = vec!["http://p:1".into(); proxies];
            let request =
                RequestOptions { local_addresses: addresses(local_addresses), proxies, ..RequestOptions::default() };
            assert_eq!(Some(ports * times), local_ports(&request));
        }
    }
}
