//! Checks of options that open no file and no connection.

use headgate_core::authorization::authorization;
use headgate_core::error::JobError;
use headgate_core::message;
use headgate_core::message::{Message, OptionName};
use headgate_core::network_options::NetworkPolicy;
use headgate_core::option_rules::{Mistake, byte_range, has_control_character, is_token, refuse, seconds, whole};
use headgate_core::options::{
    Format, JobOptions, Output, RedirectPolicy, RequestOptions, ResponseOptions, RunOptions, SaveFormat, SourceOptions,
    Templates,
};
use headgate_core::secret::Secret;
use headgate_core::target;
use headgate_core::token_source::TokenOptions;
use headgate_http::defaults::RESERVED_HEADERS;
use headgate_http::dial::transport;
use headgate_http::idempotency_key::IDEMPOTENCY_KEY;
use headgate_http::method::HEAD_OR_GET;
use headgate_table::columns::select::Selection;
use headgate_table::source::first_that_holds;

use crate::engine::machine;
use crate::job::retry::RetryOptions;

const CONTROL: &str = "contains a control character";

pub(crate) fn check(options: &JobOptions) -> Result<(), JobError> {
    refuse(mistakes(options))
}

/// Checks a run that has no source and no sink of its own.
///
/// # Errors
/// `Usage`: all mistakes, each with its option.
pub(super) fn check_requests(request: &RequestOptions, run: &RunOptions) -> Result<(), JobError> {
    let mut found = Mistakes::default();
    found.check_request(request);
    found.check_run(request, run);
    refuse(found.all)
}

/// Returns all mistakes that can be found in the options of a run alone.
pub fn mistakes(options: &JobOptions) -> Vec<Mistake> {
    let mut found = Mistakes::default();
    found.check_work(options);
    found.check_output(options);
    found.check_selection(options);
    found.all
}

/// Returns all mistakes that can be found in the options of a retry alone. The job has its selection and its output.
pub fn mistakes_of_retry(options: &RetryOptions) -> Vec<Mistake> {
    let mut found = Mistakes::default();
    found.check_work(&options.job);
    found.all.extend(options.mistake());
    found.all
}

/// Returns all mistakes in the options of the input and the output. A plan needs no output.
pub fn mistakes_of_input_and_output(options: &JobOptions, needs_output: bool) -> Vec<Mistake> {
    let mut found = Mistakes::default();
    found.check_input(&options.source);
    match (options.sink.format, &options.sink.output) {
        (Format::None, Output::Directory(_) | Output::Stdout) => {
            found.add(OptionName::Output, "keeps nothing with the format none: leave one of them out");
        }
        (Format::Parquet | Format::Ndjson, Output::Nowhere) if needs_output => found.add(
            OptionName::Output,
            "is missing: name a directory for the results, or - for NDJSON on standard output",
        ),
        (Format::Parquet, Output::Stdout) => {
            found.add(OptionName::Format, "parquet can't go to standard output: use ndjson, or name a directory");
        }
        _ => {}
    }
    found.all
}

#[derive(Default)]
struct Mistakes {
    all: Vec<Mistake>,
}

impl Mistakes {
    fn add(&mut self, option: OptionName, message: impl Into<Message>) {
        self.all.push(Mistake { option, message: message.into() });
    }

    fn add_if(&mut self, is_wrong: bool, option: OptionName, message: impl Into<Message>) {
        if is_wrong {
            self.add(option, message);
        }
    }

    /// Adds the mistake of a rule, if it found one.
    fn add_error<T>(&mut self, option: OptionName, result: Result<T, String>) {
        if let Err(wrong) = result {
            self.add(option, wrong);
        }
    }

    /// Checks the options that a new job and a retry have in common.
    fn check_work(&mut self, options: &JobOptions) {
        self.check_columns(options);
        self.check_bodies(options);
        self.check_saving(options);
        self.check_header_templates(options);
        self.check_request(&options.request);
        self.check_redirects(&options.request);
        self.check_run(&options.request, &options.run);
    }

    fn check_input(&mut self, source: &SourceOptions) {
        if source.inputs().all(str::is_empty) {
            let missing = "is missing: name a file, a directory, a URL with ranges, or - for lines on standard input";
            return self.add(OptionName::Input, missing);
        }
        for input in source.inputs() {
            self.add_if(input.is_empty(), OptionName::Input, "must not have an empty path");
            let what = if input == "-" { input } else { "a URL" };
            let is_alone = (input == "-" || input.contains("://")) && !source.more_inputs.is_empty();
            self.add_if(
                is_alone,
                OptionName::Input,
                format!("{what} can't be combined with other inputs: only files can"),
            );
        }
    }

    /// Checks the names of columns, and that selected values can be read.
    fn check_columns(&mut self, options: &JobOptions) {
        let JobOptions { source, selection, request, .. } = options;
        let columns = [
            (OptionName::UrlColumn, Some(&source.url_column)),
            (OptionName::MethodColumn, source.method_column.as_ref()),
            (OptionName::HeadersColumn, source.headers_column.as_ref()),
            (OptionName::BodyColumn, source.body_column.as_ref()),
            (OptionName::BodyFileColumn, source.body_file_column.as_ref()),
            (OptionName::IfNoneMatchColumn, source.if_none_match_column.as_ref()),
            (OptionName::IfModifiedSinceColumn, source.if_modified_since_column.as_ref()),
            (OptionName::ChecksumColumn, source.checksum_column.as_ref()),
            (OptionName::CostColumn, source.cost_column.as_ref()),
            (OptionName::CostFromResponse, selection.cost_from_response.as_ref()),
        ];
        for (option, column) in columns {
            self.add_if(column.is_some_and(String::is_empty), option, "is empty: name a column of the input");
        }
        let texts = [
            (OptionName::Url, source.url.as_slice()),
            (OptionName::SaveTo, source.save_to.as_slice()),
            (OptionName::Interface, request.interface.as_slice()),
            (OptionName::Extract, &selection.extract),
            (OptionName::DataUrlencode, &source.templates.data_urlencode),
            (OptionName::Form, &source.templates.form),
        ];
        for (option, texts) in texts {
            self.add_if(texts.iter().any(String::is_empty), option, "is empty");
        }
        let is_chosen = source.url_column != SourceOptions::default().url_column;
        let made =
            message!("can't be combined with ", OptionName::Url, ", which makes the URLs: leave one of them out");
        self.add_if(source.url.is_some() && is_chosen, OptionName::UrlColumn, made);
    }

    /// Checks that a request has a single body. It is compressed as a whole, and one with files is never in memory as a
    /// whole.
    fn check_bodies(&mut self, options: &JobOptions) {
        let JobOptions { source, request, .. } = options;
        let Templates { json, data_urlencode, form, .. } = &source.templates;
        let instead_of_column = [
            (OptionName::Json, json.is_some()),
            (OptionName::DataUrlencode, !data_urlencode.is_empty()),
            (OptionName::Form, !form.is_empty()),
            (OptionName::BodyFileColumn, source.body_file_column.is_some()),
        ];
        let set_options = |(option, is_set): (OptionName, bool)| is_set.then_some(option);
        let one_body = |other: OptionName| message!("can't be combined with ", other, ": a request has one body");
        let data = (OptionName::Data, request.body.is_some());
        let mut bodies = [data].into_iter().chain(instead_of_column).filter_map(set_options);
        if let Some(first) = bodies.next() {
            bodies.for_each(|other| self.add(other, one_body(first)));
        }
        if let (Some(_), Some(made)) = (&source.body_column, instead_of_column.into_iter().find_map(set_options)) {
            self.add(OptionName::BodyColumn, one_body(made));
        }
        if request.compress_body.is_some() {
            let not_with = |what: Message| message!("can't be combined with ", what, ": files are sent as they are");
            let is_file = |field: &String| field.split_once('=').is_some_and(|(_, value)| value.starts_with('@'));
            let (option, files) = (OptionName::CompressBody, message!("files of ", OptionName::Form));
            self.add_if(source.body_file_column.is_some(), option, not_with(OptionName::BodyFileColumn.into()));
            self.add_if(form.iter().any(is_file), option, not_with(files));
        }
    }

    /// Checks the names of saved bodies, and that bodies are read.
    fn check_saving(&mut self, options: &JobOptions) {
        let JobOptions { source, sink, request, .. } = options;
        let is_saved = source.save_to.is_some();
        let has_directory = matches!(sink.output, Output::Directory(_)) && sink.format != Format::None;
        let output = message!("saves bodies in the output directory: name one with ", OptionName::Output);
        self.add_if(is_saved && !has_directory, OptionName::SaveTo, output);
        let no_body = message!("can't be combined with ", OptionName::NoBody, ", which reads no bodies");
        self.add_if(is_saved && request.response.no_body, OptionName::SaveTo, no_body.clone());
        self.add_if(request.truncate_body && request.response.no_body, OptionName::TruncateBody, no_body);
        let save_to = message!("is for bodies that are saved: give ", OptionName::SaveTo, ", too");
        let has_checksums = source.checksum_column.is_some();
        self.add_if(!is_saved && has_checksums, OptionName::ChecksumColumn, save_to.clone());
        self.add_if(!is_saved && source.save_format != SaveFormat::Files, OptionName::SaveFormat, save_to);
    }

    /// Checks that the results would not be read as input.
    fn check_output(&mut self, options: &JobOptions) {
        let Output::Directory(path) = &options.sink.output else { return };
        if let Some(input) = first_that_holds(&options.source, path) {
            let why = "its results would be taken for input when the job is resumed; choose another directory";
            self.add(OptionName::Output, format!("lies within the input {input}: {why}"));
        }
    }

    /// Checks the selection, and that selected bodies are read and decoded.
    fn check_selection(&mut self, options: &JobOptions) {
        match Selection::new(&options.selection) {
            Ok(Some(selection)) if selection.reads_bodies() => {}
            Ok(_) => return,
            Err(mistakes) => return self.all.extend(mistakes),
        }
        let ResponseOptions { no_body, decode, .. } = options.request.response;
        let save_to = options.source.save_to.is_some();
        for (is_set, option, why) in [
            (no_body, OptionName::NoBody.set(true), "are not read"),
            (!decode, OptionName::Decode.set(false), "are not decoded"),
            (save_to, OptionName::SaveTo.into(), "go into files: extract values of headers only"),
        ] {
            let message = message!("can't have values of bodies with ", option, ", as bodies {why}");
            self.add_if(is_set, OptionName::Extract, message);
        }
    }

    fn check_request(&mut self, request: &RequestOptions) {
        self.check_headers(request);
        self.check_network(request);
        self.add_error(OptionName::MaxBodySize, number(OptionName::MaxBodySize, request.max_body_size));
        for (option, timeout) in
            [(OptionName::Timeout, request.timeout), (OptionName::ConnectTimeout, request.connect_timeout)]
        {
            self.add_error(option, seconds(option, timeout.as_secs_f64()));
        }
        if let Some(range) = &request.response.range {
            self.add_error(OptionName::Range, byte_range(range));
        }
        for (one, is_one, other, is_other) in [
            (OptionName::Ipv6, request.ipv6, OptionName::Ipv4, request.ipv4),
            (OptionName::Http2PriorKnowledge, request.http2_prior_knowledge, OptionName::Http11, request.http1_1),
        ] {
            let both = message!("can't be combined with ", other, ": leave one of them out");
            self.add_if(is_one && is_other, one, both);
        }
        let cert = message!("is the key of a client certificate: give ", OptionName::Cert, ", too");
        self.add_if(request.key.is_some() && request.cert.is_none(), OptionName::Key, cert);
    }

    /// Checks the options of connections, and refuses proxies in a public network, as only a proxy knows the addresses that
    /// it connects to.
    fn check_network(&mut self, request: &RequestOptions) {
        let is_public = request.network.network == NetworkPolicy::Public;
        let is_hidden = is_public && !request.proxies.is_empty() && !request.proxy_any_address;
        let behind_proxy = message!(
            "can't be public behind a proxy, which alone knows the addresses that it connects to: leave ",
            OptionName::Proxy,
            " out, or leave the addresses to the proxy with ",
            OptionName::ProxyAnyAddress.set(true)
        );
        self.add_if(is_hidden, OptionName::Network, behind_proxy);
        self.all.extend(transport::mistakes(request));
    }

    /// Reports options without an effect. A client always keeps redirects.
    fn check_redirects(&mut self, request: &RequestOptions) {
        let follows_none = request.response.redirects == RedirectPolicy::None;
        let no_effect = message!("has no effect with ", OptionName::Redirects.set("none"));
        self.add_if(follows_none && request.response.keep_redirects, OptionName::KeepRedirects, no_effect.clone());
        self.add_if(follows_none && request.response.redirect_cookies, OptionName::RedirectCookies, no_effect);
    }

    fn check_headers(&mut self, request: &RequestOptions) {
        if let Some(method) = request.method.as_ref().filter(|method| !is_token(method) && *method != HEAD_OR_GET) {
            let only = if method.contains(',') {
                ": the only list is HEAD,GET, which sends GET where HEAD is refused"
            } else {
                ""
            };
            self.add(OptionName::Method, format!("'{method}' is not an HTTP method{only}"));
        }
        self.add_if(has_control_character(&request.user_agent), OptionName::UserAgent, CONTROL);
        self.check_pairs(OptionName::Headers, &request.headers);
        self.check_headers_once(headers_of_request(request), request);
        for name in request.secret_headers.iter().filter(|name| !is_token(name)) {
            self.add(OptionName::SecretHeaders, format!("'{name}' is not a header name"));
        }
        let bearer = request.bearer.as_ref().map(|token| token.expose().as_str());
        self.add_if(bearer.is_some_and(str::is_empty), OptionName::Bearer, "is empty");
        self.all.extend(authorization(request).err());
        let is_twice = bearer.is_some() && request.user.is_some();
        self.add_if(is_twice, OptionName::Bearer, both_set(OptionName::User, "Authorization"));
        let TokenOptions { source, ttl, .. } = &request.token;
        for (other, is_set) in [(OptionName::Bearer, bearer.is_some()), (OptionName::User, request.user.is_some())] {
            self.add_if(is_set && source.is_some(), OptionName::TokenCommand, both_set(other, "Authorization"));
        }
        if ttl.is_some() && source.is_none() {
            self.add(OptionName::TokenTtl, message!("has no effect without ", OptionName::TokenCommand));
        }
        if let Some(user) = request.user.as_ref().map(Secret::expose) {
            // RFC 7617 section 2: a name, a colon, and a password.
            let no_password = "has no password: write NAME:PASSWORD, or NAME: where it is empty";
            self.add_if(!user.contains(&b':'), OptionName::User, no_password);
            self.add_if(user.iter().any(u8::is_ascii_control), OptionName::User, CONTROL);
        }
    }

    /// Checks that each header has one source: a row's header replaces the run's.
    fn check_header_templates(&mut self, options: &JobOptions) {
        let JobOptions { source, request, .. } = options;
        let templates = &source.templates.headers;
        self.check_pairs(OptionName::HeaderTemplates, templates);
        for (name, _) in templates {
            let of_options = headers_of_request(request).chain(headers_of_columns(source));
            let others = of_options.filter(|(other, _)| name.eq_ignore_ascii_case(other)).map(|(_, option)| option);
            for other in others.chain(has_header(request, name).then_some(OptionName::Headers)) {
                let twice = message!("can't set `{name}`, which ", other, " sets, too: leave one of them out");
                self.add(OptionName::HeaderTemplates, twice);
            }
        }
        self.check_headers_once(headers_of_columns(source), request);
    }

    /// Checks that the headers of other options are not among those of the run.
    fn check_headers_once(
        &mut self,
        of_options: impl Iterator<Item = (&'static str, OptionName)>,
        run: &RequestOptions,
    ) {
        for (name, option) in of_options {
            self.add_if(has_header(run, name), option, both_set(OptionName::Headers, name));
        }
    }

    fn check_pairs(&mut self, option: OptionName, headers: &[(String, Secret<String>)]) {
        for (name, value) in headers {
            if !is_token(name) {
                self.add(option, format!("'{name}' is not a header name"));
            } else if has_control_character(value.expose()) {
                self.add(option, format!("{name} {CONTROL}"));
            } else if RESERVED_HEADERS.iter().any(|reserved| reserved.as_str().eq_ignore_ascii_case(name)) {
                let why = "it decides on bodies and connections";
                self.add(option, format!("can't set `{name}`, which headgate sets: {why}"));
            }
        }
    }

    fn check_run(&mut self, request: &RequestOptions, run: &RunOptions) {
        let one_key = has_header(request, IDEMPOTENCY_KEY.as_str()) && run.retrying.idempotency_key;
        let message = message!(
            "makes a key for each row, and ",
            OptionName::Headers,
            " gives the same one to all: leave one of them out"
        );
        self.add_if(one_key, OptionName::IdempotencyKey, message);
        self.add_error(OptionName::Concurrency, number(OptionName::Concurrency, run.concurrency as u64));
        self.add_error(OptionName::ReadAhead, number(OptionName::ReadAhead, run.read_ahead));
    }
}

fn number(option: OptionName, value: u64) -> Result<u64, String> {
    whole(option, value.into(), value)
}

fn has_header(run: &RequestOptions, name: &str) -> bool {
    run.headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name))
}

fn both_set(other: OptionName, header: &str) -> Message {
    message!("and ", other, " both set {header}: leave one of them out")
}

/// Returns the headers that are set by options of requests other than those for headers.
fn headers_of_request(request: &RequestOptions) -> impl Iterator<Item = (&'static str, OptionName)> {
    let RequestOptions { response: ResponseOptions { range, .. }, bearer, user, token, .. } = request;
    let all = [
        ("Range", OptionName::Range, range.is_some()),
        ("Authorization", OptionName::Bearer, bearer.is_some()),
        ("Authorization", OptionName::User, user.is_some()),
        ("Authorization", OptionName::TokenCommand, token.source.is_some()),
    ];
    all.into_iter().filter(|(_, _, is_set)| *is_set).map(|(name, option, _)| (name, option))
}

/// Returns the headers of conditional requests that are read from columns.
fn headers_of_columns(source: &SourceOptions) -> impl Iterator<Item = (&'static str, OptionName)> {
    let all = [
        ("If-None-Match", OptionName::IfNoneMatchColumn, source.if_none_match_column.is_some()),
        ("If-Modified-Since", OptionName::IfModifiedSinceColumn, source.if_modified_since_column.is_some()),
    ];
    all.into_iter().filter(|(_, _, is_set)| *is_set).map(|(name, option, _)| (name, option))
}

/// Returns a note if the requests in flight alone would fill the window.
pub(crate) fn note_window(run: &RunOptions) -> Option<Message> {
    let RunOptions { read_ahead, concurrency, .. } = run;
    (*read_ahead < *concurrency as u64).then(|| {
        message!(
            "with ",
            OptionName::ReadAhead.set(*read_ahead),
            " no more than {read_ahead} of {concurrency} requests can be in flight"
        )
    })
}

/// Returns the number of local ports for connections to one host, if the system reports it: each pair of a local address
/// and a remote address, and so each proxy, has all of them.
pub(crate) fn local_ports(request: &RequestOptions) -> Option<u64> {
    let pairs = request.local_addresses.len().max(1) * request.proxies.len().max(1);
    machine::local_ports().map(|ports| ports * pairs as u64)
}

/// Checks that the connections find local ports. A URL with ranges only in its path goes to one address, and is refused if
/// they do not. The addresses of other inputs are unknown before they are read, and the user gets a note.
pub(crate) fn check_ports(options: &JobOptions, concurrency: usize) -> Result<Option<Message>, JobError> {
    let Some(ports) = local_ports(&options.request) else { return Ok(None) };
    let authority = options.source.input.split_once("://").and_then(|(_, rest)| rest.split(['/', '?', '#']).next());
    match authority {
        // A host with a range can't be parsed; an IPv6 address in brackets can.
        Some(authority) if target::parse(&format!("http://{authority}/")).is_ok() => {
            machine::check_ports(concurrency, authority, ports)?;
            Ok(None)
        }
        _ if concurrency as u64 > ports => Ok(Some(message!(
            "if all rows go to one address, {ports} connections fit, not {concurrency}: this machine has no more local ports"
        ))),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(options: &JobOptions) -> String {
        check(options).expect_err("a mistake").to_string()
    }

    #[test]
    fn mistakes_of_different_checks_are_found_together() {
        let mut options = JobOptions::default();
        options.request.network.network = NetworkPolicy::Public;
        options.request.proxies = vec!["http://p:1".into()];
        options.request.headers = vec![("authorization".into(), "a".into())];
        options.request.bearer = Some("b".into());
        options.request.response.no_body = true;
        options.request.response.decode = false;
        options.selection.extract = vec!["a=$.a".into()];
        let expected = "bearer and headers both set authorization: leave one of them out; \
             network can't be public behind a proxy, which alone knows the addresses that it connects to: leave proxy out, \
             or leave the addresses to the proxy with proxy_any_address=true; \
             extract can't have values of bodies with no_body=true, as bodies are not read; \
             extract can't have values of bodies with decode=false, as bodies are not decoded";
        assert_eq!(expected.replace("authorization", "Authorization"), error_of(&options));
    }

    #[test]
    fn a_header_that_is_made_of_columns_has_no_second_source() {
        let checked = |name: &str| {
            let mut options = JobOptions::default();
            options.request.headers = vec![("X-Tenant".into(), "a".into())];
            options.source.templates.headers = vec![("X-Other".into(), "{a}".into()), (name.into(), "{a}".into())];
            check(&options).map_err(|error| error.to_string())
        };
        let ours =
            "header_templates can't set `Content-length`, which headgate sets: it decides on bodies and connections";
        let twice = "header_templates can't set `x-tenant`, which headers sets, too: leave one of them out";
        assert_eq!(Ok(()), checked("X-Other"));
        assert_eq!(Err(ours.to_owned()), checked("Content-length"));
        assert_eq!(Err(twice.to_owned()), checked("x-tenant"));
        assert_eq!(Err("header_templates 'a b' is not a header name".to_owned()), checked("a b"));
    }

    #[test]
    fn a_header_is_set_by_one_option() {
        let mut options = JobOptions::default();
        options.request.response.range = Some("0-1".into());
        options.request.user = Some("a:b".into());
        options.source.if_none_match_column = Some("etag".into());
        for (option, name) in [("range", "range"), ("user", "Authorization"), ("if_none_match_column", "If-None-Match")]
        {
            options.source.templates.headers = vec![(name.into(), "{a}".into())];
            let expected =
                format!("header_templates can't set `{name}`, which {option} sets, too: leave one of them out");
            assert_eq!(expected, error_of(&options));
        }
        options.source.templates.headers.clear();
        assert_eq!(Ok(()), check(&options));
        for (option, name) in [("range", "Range"), ("user", "Authorization"), ("if_none_match_column", "If-None-Match")]
        {
            options.request.headers = vec![(name.to_lowercase(), "x".into())];
            let expected = format!("{option} and headers both set {name}: leave one of them out");
            assert_eq!(expected, error_of(&options));
        }
        options.request.headers.clear();
        options.request.bearer = Some("a".into());
        assert_eq!("bearer and user both set Authorization: leave one of them out", error_of(&options));
    }

    #[test]
    fn headers_that_headgate_sets_for_each_request_are_refused() {
        let mut options = JobOptions::default();
        options.request.headers = vec![("content-Length".into(), "3".into()), ("idempotency-key".into(), "1".into())];
        options.run.retrying.idempotency_key = true;
        let expected = "headers can't set `content-Length`, which headgate sets: it decides on bodies and connections; \
             idempotency_key makes a key for each row, and headers gives the same one to all: leave one of them out";
        assert_eq!(expected, error_of(&options));
        assert_eq!(Err(expected.to_owned()), check_requests(&options.request, &options.run).map_err(|e| e.to_string()));
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
