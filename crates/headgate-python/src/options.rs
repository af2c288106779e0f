//! Converts the options of `headgate.jobs._job_options` to the engine's options. A missing option has the engine's default.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use headgate_core::limits::{CostOptions, HostBy, MaxFailures, NetworkDownAfter, PerHost, Retrying, RowCost};
use headgate_core::live::{Settings, mistakes_in};
use headgate_core::message::OptionName;
use headgate_core::network_options::{NetworkOptions, parse_net};
use headgate_core::option_entries::SECTIONS;
use headgate_core::option_rules::{self, Mistake, refuse};
use headgate_core::options::{Dns, JobOptions, Output, RequestOptions, RunOptions};
use headgate_core::secret::Secret;
use headgate_core::target::{host_key, origin_pattern};
use headgate_core::token_source::{SecretFile, TokenOptions, TokenSource};
use headgate_engine::{RetryOptions, host_address, mistakes, mistakes_of_input_and_output, mistakes_of_retry};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyString};
use serde_json::json;

use crate::error::to_python;
use crate::json::{to_json, to_objects};
use crate::mock::MockNetwork;
use crate::option_reader::{FromOption, List, OptionReader, kind_of};
use crate::token::PythonToken;

/// Converts `headgate.jobs._job_options.FetchOptions`.
///
/// # Errors
/// `UsageError`: it names all mistakes in the options.
pub(crate) fn fetch_options(options: &Bound<'_, PyAny>) -> PyResult<JobOptions> {
    let (mut job, found) = read_fetch(options);
    refuse(found).map_err(|error| to_python(options.py(), &error))?;
    use_mock(options, &mut job.request)?;
    Ok(job)
}

/// Converts `headgate.jobs._job_options.RetryOptions`.
///
/// # Errors
/// `UsageError`: it names all mistakes in the options.
pub(crate) fn retry_options(options: &Bound<'_, PyAny>) -> PyResult<RetryOptions> {
    let (mut retry, found) = read_retry(options);
    refuse(found).map_err(|error| to_python(options.py(), &error))?;
    use_mock(options, &mut retry.job.request)?;
    Ok(retry)
}

/// Returns all mistakes in `FetchOptions`, as JSON: a list of names of options, each with its message.
#[pyfunction]
pub(crate) fn mistakes_in_fetch(options: &Bound<'_, PyAny>) -> PyResult<String> {
    shown(options.py(), &read_fetch(options).1)
}

/// Returns all mistakes in `RetryOptions`, in the format of `mistakes_in_fetch`.
#[pyfunction]
pub(crate) fn mistakes_in_retry(options: &Bound<'_, PyAny>) -> PyResult<String> {
    shown(options.py(), &read_retry(options).1)
}

/// Returns all mistakes in options that are set while a job runs, from their names and their values as text, in the format
/// of `mistakes_in_fetch`.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 passes ownership of converted arguments")]
pub(crate) fn mistakes_in_settings(py: Python<'_>, settings: Settings) -> PyResult<String> {
    let found = mistakes_in(&settings).map_err(|error| to_python(py, &error))?;
    shown(py, &found)
}

/// Returns the sections of options with their descriptions, and the entries of all options as dictionaries.
#[pyfunction]
pub(crate) fn option_entries(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let entries: Vec<_> = OptionName::ALL.iter().map(|option| option.entry()).collect();
    to_objects(py, &json!([SECTIONS, entries]))
}

/// Parses a duration such as `30s`, `500ms` or `5m` into seconds; a bare number is seconds.
#[pyfunction]
pub(crate) fn parse_seconds(text: &str) -> PyResult<f64> {
    option_rules::parse_seconds(text).map_err(PyValueError::new_err)
}

/// Returns whether a header is a credential by its name.
#[pyfunction]
pub(crate) fn is_credential(header: &str) -> bool {
    headgate_core::credentials::is_credential(header, &[])
}

/// Returns the engine's options as text. A test checks with it that the engine reads every option, and that the defaults of
/// Python and of the engine are equal.
#[pyfunction]
pub(crate) fn options_as_read(options: &Bound<'_, PyAny>) -> String {
    format!("{:?} {:?}", read_fetch(options).0, read_retry(options).0)
}

fn shown(py: Python<'_>, found: &[Mistake]) -> PyResult<String> {
    let pairs: Vec<_> = found.iter().map(|Mistake { option, message }| (option, message)).collect();
    to_json(py, &pairs)
}

fn read_fetch(options: &Bound<'_, PyAny>) -> (JobOptions, Vec<Mistake>) {
    let mut job = JobOptions::default();
    let reader = OptionReader::new(options);
    reader.read_work(&mut job);
    let JobOptions { source, sink, request, selection, run, .. } = &mut job;
    let mut inputs = Vec::new();
    reader.read_list(OptionName::Input, &mut inputs);
    let mut inputs = inputs.into_iter();
    source.input = inputs.next().unwrap_or_default();
    source.more_inputs = inputs.collect();
    reader.read(OptionName::BodyFileColumn, &mut source.body_file_column);
    reader.read(OptionName::Url, &mut source.url);
    reader.read(OptionName::IfNoneMatchColumn, &mut source.if_none_match_column);
    reader.read(OptionName::IfModifiedSinceColumn, &mut source.if_modified_since_column);
    reader.read(OptionName::SaveTo, &mut source.save_to);
    reader.read(OptionName::ChecksumColumn, &mut source.checksum_column);
    reader.read_list(OptionName::Extract, &mut selection.extract);
    reader.read_list(OptionName::Require, &mut selection.require);
    reader.read_list(OptionName::Drop, &mut selection.drop);
    reader.read_text(OptionName::SaveFormat, &mut source.save_format);
    reader.read(OptionName::UrlColumn, &mut source.url_column);
    reader.read(OptionName::MethodColumn, &mut source.method_column);
    reader.read(OptionName::HeadersColumn, &mut source.headers_column);
    reader.read(OptionName::BodyColumn, &mut source.body_column);
    reader.read(OptionName::UrlOnly, &mut source.url_only);
    reader.read(OptionName::UploadRoot, &mut source.upload_root);
    reader.read_list(OptionName::Keep, &mut source.keep);
    reader.read_whole_or_none(OptionName::MaxRows, &mut source.max_rows);
    reader.read_as(OptionName::Output, &mut sink.output, |path| Ok(output(path)));
    sink.format = sink.output.default_format();
    let default_format = sink.format;
    reader.read_as(OptionName::Format, &mut sink.format, |name: Option<String>| {
        name.map_or(Ok(default_format), |name| name.parse())
    });
    reader.read_text(OptionName::IfExists, &mut sink.if_exists);
    reader.read(OptionName::AllowAppend, &mut sink.allow_append);
    reader.read_seconds_or_none(OptionName::CommitInterval, &mut sink.commit_interval);
    reader.read(OptionName::Method, &mut request.method);
    reader.read(OptionName::UserAgent, &mut request.user_agent);
    reader.read_text(OptionName::FailOn, &mut request.fail_on);
    reader.read_text(OptionName::Redirects, &mut request.response.redirects);
    reader.read_whole(OptionName::MaxRedirects, &mut request.response.max_redirects);
    reader.read(OptionName::KeepRedirects, &mut request.response.keep_redirects);
    reader.read(OptionName::RedirectCookies, &mut request.response.redirect_cookies);
    reader.read(OptionName::Range, &mut request.response.range);
    reader.read(OptionName::NoBody, &mut request.response.no_body);
    reader.read(OptionName::Decode, &mut request.response.decode);
    reader.read_whole(OptionName::ReadAhead, &mut run.read_ahead);
    let needs_output = reader.attribute("needs_output").map(|needs_output| needs_output.extract().unwrap_or(true));
    let of_input_and_output =
        needs_output.map(|needs_output| mistakes_of_input_and_output(&job, needs_output)).unwrap_or_default();
    let found = with_mistakes(reader, of_input_and_output.into_iter().chain(mistakes(&job)));
    (job, found)
}

fn read_retry(options: &Bound<'_, PyAny>) -> (RetryOptions, Vec<Mistake>) {
    let mut retry = RetryOptions { output: PathBuf::new(), only: Vec::new(), job: JobOptions::default() };
    let reader = OptionReader::new(options);
    reader.read_work(&mut retry.job);
    reader.read(OptionName::Output, &mut retry.output);
    reader.read_as(OptionName::Only, &mut retry.only, |only: Option<List<String>>| match only {
        None => Ok(Vec::new()),
        // An empty list that a program computed does not mean all failures.
        Some(List(only)) if only.is_empty() => {
            Err("is empty: name error kinds or statuses, or leave it out to retry all failed rows".into())
        }
        Some(List(only)) => only.iter().map(|only| only.parse()).collect(),
    });
    let found = with_mistakes(reader, mistakes_of_retry(&retry).into_iter());
    (retry, found)
}

/// Returns the mistakes in options that could not be read, and those of `others` that concern options that could.
fn with_mistakes(reader: OptionReader<'_, '_>, others: impl Iterator<Item = Mistake>) -> Vec<Mistake> {
    let mut found = reader.mistakes();
    let unread: Vec<_> = found.iter().map(|mistake| mistake.option).collect();
    found.extend(others.filter(|mistake| !unread.contains(&mistake.option)));
    found
}

/// Sets the mock transport of `headgate.testing` as the transport of requests, if one is active.
fn use_mock(options: &Bound<'_, PyAny>, request: &mut RequestOptions) -> PyResult<()> {
    let mock = options.getattr_opt("mock")?.filter(|mock| !mock.is_none());
    if let Some(mock) = mock {
        request.use_mock_transport(mock.extract::<PyRef<'_, MockNetwork>>()?.mock_transport());
    }
    Ok(())
}

impl OptionReader<'_, '_> {
    /// Reads the options that a new job and a retry have in common.
    fn read_work(&self, job: &mut JobOptions) {
        let JobOptions { source, sink, request, selection, run, engine } = job;
        self.read(OptionName::CostColumn, &mut source.cost_column);
        self.read_whole(OptionName::MaxPageSize, &mut source.max_page_size);
        self.read(OptionName::CostFromResponse, &mut selection.cost_from_response);
        self.read_headers(OptionName::HeaderTemplates, &mut source.templates.headers);
        self.read(OptionName::Json, &mut source.templates.json);
        self.read_list(OptionName::DataUrlencode, &mut source.templates.data_urlencode);
        self.read_list(OptionName::Form, &mut source.templates.form);
        self.read_whole(OptionName::Concurrency, &mut run.concurrency);
        self.read_whole_or_none(OptionName::Threads, &mut engine.threads);
        self.read_whole_or_none(OptionName::MaxIdleConnections, &mut engine.max_idle_connections);
        self.read_as(OptionName::DnsServer, &mut engine.dns, |dns: Option<String>| {
            dns.map_or(Ok(Dns::Configured), |dns| dns.parse())
        });
        self.read_seconds(OptionName::ShutdownTimeout, &mut run.shutdown_timeout);
        self.read_limits(run);
        self.read_given(run);
        self.read_seconds(OptionName::Timeout, &mut request.timeout);
        self.read_seconds(OptionName::ConnectTimeout, &mut request.connect_timeout);
        self.read_headers(OptionName::Headers, &mut request.headers);
        self.read_as(OptionName::Bearer, &mut request.bearer, |token: Option<String>| Ok(token.map(Secret::from)));
        self.read_as(OptionName::User, &mut request.user, |user: Option<Vec<u8>>| Ok(user.map(Secret::from)));
        self.read_token(&mut request.token);
        self.read_secret_files(&mut request.secret_files);
        self.read_list(OptionName::SecretHeaders, &mut request.secret_headers);
        self.read_as(OptionName::CredentialsFor, &mut request.credentials_for, |List(origins): List<String>| {
            origins.into_iter().map(|origin| origin_pattern(&origin).map(|_| origin)).collect()
        });
        self.read(OptionName::Data, &mut request.body);
        self.read_whole(OptionName::MaxBodySize, &mut request.max_body_size);
        self.read_whole_or_none(OptionName::MaxMemory, &mut engine.max_memory);
        self.read_seconds_or_none(OptionName::FirstByteTimeout, &mut request.first_byte_timeout);
        self.read_seconds_or_none(OptionName::IdleTimeout, &mut request.idle_timeout);
        self.read(OptionName::TruncateBody, &mut request.truncate_body);
        self.read(OptionName::ObeyRobots, &mut request.response.obey_robots);
        self.read_as(OptionName::CompressBody, &mut request.compress_body, |name: Option<String>| {
            name.map(|name| name.parse()).transpose()
        });
        self.read_connections(request);
        self.read_whole(OptionName::PartSize, &mut sink.part_size);
        self.read_whole_or_none(OptionName::MinFree, &mut sink.min_free);
        self.read_seconds(OptionName::KeepReplaced, &mut sink.keep_replaced);
    }

    /// Reads where tokens come from: a command, or a callable that returns one.
    fn read_token(&self, token: &mut TokenOptions) {
        self.read_as(OptionName::TokenCommand, &mut token.source, |command: Option<String>| {
            match command.as_deref().map(str::trim) {
                Some("") => Err("is empty: name a command that writes a token".into()),
                _ => Ok(command.map(TokenSource::Command)),
            }
        });
        if let Some(provider) = self.attribute("token_provider").filter(|provider| !provider.is_none()) {
            token.source = Some(TokenSource::Provider(Arc::new(PythonToken(provider.unbind()))));
        }
        self.read_seconds_or_none(OptionName::TokenTtl, &mut token.ttl);
        self.read_seconds(OptionName::TokenTimeout, &mut token.timeout);
    }

    /// Reads the names of options whose values are in files, with the paths of these.
    fn read_secret_files(&self, files: &mut Vec<SecretFile>) {
        let pairs = self.attribute("secret_files").and_then(|pairs| pairs.extract::<Vec<(String, PathBuf)>>().ok());
        files.extend(pairs.into_iter().flatten().filter_map(|(name, path)| {
            let option = OptionName::ALL.iter().copied().find(|option| option.name() == name)?;
            Some(SecretFile { option, path })
        }));
    }

    /// Reads the options of connections.
    fn read_connections(&self, request: &mut RequestOptions) {
        self.read(OptionName::Cacert, &mut request.cacert);
        self.read(OptionName::Insecure, &mut request.insecure);
        self.read(OptionName::Cert, &mut request.cert);
        self.read(OptionName::Key, &mut request.key);
        self.read_text(OptionName::TlsMin, &mut request.tls_min);
        self.read(OptionName::TlsServerName, &mut request.tls_server_name);
        self.read(OptionName::Http11, &mut request.http1_1);
        self.read(OptionName::Http2PriorKnowledge, &mut request.http2_prior_knowledge);
        self.read_whole(OptionName::Http2Streams, &mut request.http2_streams);
        self.read_as(OptionName::Proxy, &mut request.proxies, |List(proxies): List<String>| {
            proxies.into_iter().map(|proxy| not_empty(proxy).map(Secret::from)).collect()
        });
        self.read_list(OptionName::Resolve, &mut request.resolve);
        self.read(OptionName::Ipv4, &mut request.ipv4);
        self.read(OptionName::Ipv6, &mut request.ipv6);
        self.read_each(OptionName::LocalAddress, &mut request.local_addresses, address);
        self.read(OptionName::Interface, &mut request.interface);
        self.read_network(request);
    }

    /// Reads the options that restrict the addresses of connections.
    fn read_network(&self, request: &mut RequestOptions) {
        let NetworkOptions { network, allow_net, deny_net, allow_port } = &mut request.network;
        self.read_text(OptionName::Network, network);
        self.read_each(OptionName::AllowNet, allow_net, parse_net);
        self.read_each(OptionName::DenyNet, deny_net, parse_net);
        self.read_each(OptionName::AllowPort, allow_port, port);
        request.network.normalize();
        self.read(OptionName::ProxyAnyAddress, &mut request.proxy_any_address);
        if let Some(base_url) = self.attribute("base_url") {
            request.named_address = base_url.extract().ok().and_then(host_address);
        }
    }

    fn read_limits(&self, run: &mut RunOptions) {
        let host_by = &mut run.limits.host_by;
        self.read_text(OptionName::HostBy, host_by);
        let (by, before) = (*host_by, self.count());
        self.read_parsed(OptionName::Rate, &mut run.limits.rate);
        self.read_positive(OptionName::Burst, &mut run.limits.burst);
        self.read_per_host(OptionName::RatePerHost, &mut run.limits.rate_per_host, by);
        self.read_per_host(OptionName::ConcurrencyPerHost, &mut run.limits.concurrency_per_host, by);
        self.read_positive(OptionName::MaxConnectionsPerHost, &mut run.limits.max_connections_per_host);
        // A retry may inherit what these need.
        let is_retry = self.attribute(OptionName::Only.name()).is_some();
        let may_inherit =
            |mistake: &Mistake| is_retry && matches!(mistake.option, OptionName::Burst | OptionName::MaxCost);
        if self.count() == before {
            self.add(run.limits.mistakes().into_iter().filter(|mistake| !may_inherit(mistake)));
        }
        self.read_whole_or_none(OptionName::MaxRequests, &mut run.limits.max_requests);
        let (mut cost, before) = (CostOptions::default(), self.count());
        cost.may_have_budget = self.attribute(OptionName::MaxCost.name()).is_some();
        self.read_whole_or_none(OptionName::MaxCost, &mut run.limits.max_cost);
        cost.budget = run.limits.max_cost;
        self.read_parsed(OptionName::CostRate, &mut cost.rate);
        self.read(OptionName::CostColumn, &mut cost.column);
        self.read_as(OptionName::CostEstimate, &mut cost.of_body, |name: Option<String>| {
            name.map_or(Ok(false), |name| name.parse().map(|RowCost::BodyBytes| true))
        });
        self.read_as(OptionName::CostFromResponse, &mut cost.is_found, |column: Option<String>| Ok(column.is_some()));
        if self.count() == before {
            self.add(cost.mistakes().into_iter().filter(|mistake| !may_inherit(mistake)));
        }
        run.limits.cost = cost.limit();
        self.read_retrying(run);
    }

    /// Reads which options the user gave, of those that can be set while a job runs or that a retry inherits, and the values of
    /// the latter.
    fn read_given(&self, run: &mut RunOptions) {
        let names = self.attribute("given").and_then(|names| names.extract::<Vec<String>>().ok()).unwrap_or_default();
        let is_given = |option: &OptionName| names.iter().any(|name| name == option.name());
        let concerned = |option: &OptionName| option.entry().settable || option.entry().inherited;
        run.named_options.extend(OptionName::ALL.iter().copied().filter(concerned).filter(is_given));
        for option in run.named_options.iter().filter(|option| option.entry().inherited) {
            let value = self.attribute(option.name()).filter(|value| !value.is_none());
            let text = value.and_then(|value| match value.cast::<PyBool>() {
                Ok(switch) => Some(switch.is_true().to_string()),
                Err(_) => value.str().ok().map(|text| text.to_string()),
            });
            run.given.extend(text.map(|text| (option.name().to_owned(), text)));
        }
    }

    fn read_retrying(&self, run: &mut RunOptions) {
        let Retrying {
            on,
            retries,
            delay,
            max_delay,
            total_timeout,
            retry_max_pause,
            host_down_after,
            network_down_after,
            non_idempotent,
            idempotency_key,
        } = &mut run.retrying;
        self.read_whole(OptionName::Retries, retries);
        self.read_seconds(OptionName::RetryDelay, delay);
        self.read_seconds(OptionName::RetryMaxDelay, max_delay);
        self.read_seconds_or_none(OptionName::TotalTimeout, total_timeout);
        self.read_seconds(OptionName::RetryMaxPause, retry_max_pause);
        self.read_seconds_or_none(OptionName::HostDownAfter, host_down_after);
        let mut after = None;
        self.read_seconds_or_none(OptionName::NetworkDownAfter, &mut after);
        *network_down_after = after.map_or(NetworkDownAfter::Default, NetworkDownAfter::After);
        self.read_as(OptionName::MaxFailures, &mut run.max_failures, |text: Option<String>| {
            text.map_or_else(|| Ok(MaxFailures::default()), |text| text.parse())
        });
        self.read(OptionName::RetryNonIdempotent, non_idempotent);
        self.read(OptionName::IdempotencyKey, idempotency_key);
        self.read_text(OptionName::RetryOn, on);
    }

    /// Reads a whole number that the rules of the option require to be above 0.
    fn read_positive(&self, option: OptionName, target: &mut Option<NonZeroU32>) {
        let mut number = target.map(NonZeroU32::get);
        self.read_whole_or_none(option, &mut number);
        *target = number.and_then(NonZeroU32::new);
    }

    fn read_headers(&self, option: OptionName, target: &mut Vec<(String, Secret<String>)>) {
        self.read_as(option, target, |List(pairs): List<(String, String)>| {
            Ok(pairs.into_iter().map(|(name, value)| (name, value.into())).collect())
        });
    }

    fn read_text<T: FromStr<Err = String>>(&self, option: OptionName, target: &mut T) {
        self.read_as(option, target, |text: String| text.parse());
    }

    fn read_list(&self, option: OptionName, target: &mut Vec<String>) {
        self.read_as(option, target, |List(texts)| Ok(texts));
    }

    fn read_each<T>(&self, option: OptionName, target: &mut Vec<T>, convert: impl Fn(&str) -> Result<T, String>) {
        self.read_as(option, target, |List(texts): List<String>| texts.iter().map(|text| convert(text)).collect());
    }

    fn read_parsed<T: FromStr<Err = String>>(&self, option: OptionName, target: &mut Option<T>) {
        self.read_as(option, target, |text: Option<RateText>| text.map(|RateText(text)| text.parse()).transpose());
    }

    fn read_per_host<T: FromStr<Err = String>>(&self, option: OptionName, target: &mut PerHost<T>, by: HostBy) {
        self.read_as(option, target, |text: Option<String>| {
            text.map_or_else(|| Ok(PerHost::default()), |text| PerHost::parse(&text, |host| host_key(host, by)))
        });
    }
}

/// The text of a rate. Its error for other types says that a rate is text, not a number.
struct RateText(String);

impl FromOption for RateText {
    fn from_option(value: &Bound<'_, PyAny>) -> Result<Self, String> {
        if !value.is_instance_of::<PyString>() {
            return Err(format!("must be text such as '100/s', not {}", kind_of(value)));
        }
        String::from_option(value).map(Self)
    }
}

fn not_empty(text: String) -> Result<String, String> {
    if text.is_empty() { Err("is empty".into()) } else { Ok(text) }
}

fn port(text: &str) -> Result<u16, String> {
    text.parse().ok().filter(|port| *port > 0).ok_or_else(|| format!("'{text}' is not a port"))
}

fn address(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| format!("'{text}' is not an IP address"))
}

fn output(path: Option<PathBuf>) -> Output {
    match path {
        None => Output::Nowhere,
        Some(path) if path.as_os_str() == "-" => Output::Stdout,
        Some(path) => Output::Directory(path),
    }
}
