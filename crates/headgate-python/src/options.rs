//! The options of `headgate.jobs._job_options` as the engine's: each is read by its name, and what is not there is as
//! the engine has it.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use headgate_engine::job::retry::RetryOptions;
use headgate_engine::message;
use headgate_engine::model::error::JobError;
use headgate_engine::model::message::OptionName;
use headgate_engine::model::network_options::{IpNet, Network, NetworkOptions, parse_net};
use headgate_engine::model::options::{
    BodyCoding, Dns, Format, JobOptions, Output, RedirectPolicy, RequestOptions, SaveFormat, TlsMin,
};
use headgate_engine::model::secret::Secret;
use headgate_engine::run::named_address::host_address;
use pyo3::prelude::*;

use crate::error::to_python;
use crate::mock::MockNetwork;

/// A year is the longest time that any option makes sense with, and far from what a clock can hold.
const MAX_SECONDS: f64 = 365.0 * 86_400.0;

/// What `headgate.jobs._job_options.FetchOptions` asks for.
pub fn fetch_options(options: &Bound<'_, PyAny>) -> PyResult<JobOptions> {
    let mut job = JobOptions::default();
    let asked = Asked(options);
    asked.read_work(&mut job)?;
    let JobOptions { source, sink, request, answer, run, .. } = &mut job;
    let mut inputs = Vec::new();
    asked.read(OptionName::Input, &mut inputs)?;
    let mut inputs = inputs.into_iter();
    source.input = inputs.next().unwrap_or_default();
    source.more_inputs = inputs.collect();
    asked.read(OptionName::BodyFileColumn, &mut source.body_file_column)?;
    asked.read(OptionName::Url, &mut source.url)?;
    asked.read(OptionName::IfNoneMatchColumn, &mut source.if_none_match_column)?;
    asked.read(OptionName::IfModifiedSinceColumn, &mut source.if_modified_since_column)?;
    asked.read(OptionName::SaveTo, &mut source.save_to)?;
    asked.read(OptionName::ChecksumColumn, &mut source.checksum_column)?;
    asked.read(OptionName::Select, &mut answer.select)?;
    asked.read(OptionName::Require, &mut answer.require)?;
    asked.read(OptionName::Omit, &mut answer.omit)?;
    asked.read_as(OptionName::SaveFormat, &mut source.save_format, |name: String| save_format(&name))?;
    asked.read(OptionName::UrlColumn, &mut source.url_column)?;
    asked.read(OptionName::MethodColumn, &mut source.method_column)?;
    asked.read(OptionName::HeadersColumn, &mut source.headers_column)?;
    asked.read(OptionName::BodyColumn, &mut source.body_column)?;
    asked.read(OptionName::UrlOnly, &mut source.url_only)?;
    asked.read(OptionName::UploadRoot, &mut source.upload_root)?;
    asked.read(OptionName::Keep, &mut source.keep)?;
    asked.read(OptionName::Head, &mut source.head)?;
    asked.read_as(OptionName::Output, &mut sink.output, |path| Ok(output(path)))?;
    asked.read_as(OptionName::Format, &mut sink.format, |name: String| format(&name))?;
    asked.read(OptionName::Fresh, &mut sink.fresh)?;
    asked.read(OptionName::Resume, &mut sink.resume)?;
    asked.read(OptionName::AllowGrown, &mut sink.allow_grown)?;
    asked.read_seconds_or_none(OptionName::CommitEveryS, &mut sink.commit_every)?;
    asked.read(OptionName::Method, &mut request.method)?;
    asked.read(OptionName::UserAgent, &mut request.user_agent)?;
    asked.read_as(OptionName::FailOn, &mut request.fail_on, |text: String| text.parse())?;
    asked.read_as(OptionName::Redirects, &mut request.redirects, |name: String| redirect_policy(&name))?;
    asked.read(OptionName::MaxRedirects, &mut request.max_redirects)?;
    asked.read(OptionName::KeepRedirects, &mut request.keep_redirects)?;
    asked.read(OptionName::Cookies, &mut request.cookies)?;
    asked.read(OptionName::Range, &mut request.range)?;
    asked.read(OptionName::NoBody, &mut request.no_body)?;
    asked.read(OptionName::Raw, &mut request.raw)?;
    asked.read(OptionName::Window, &mut run.window)?;
    Ok(job)
}

/// What `headgate.jobs._job_options.RetryOptions` asks for.
pub fn retry_options(options: &Bound<'_, PyAny>) -> PyResult<RetryOptions> {
    let mut retry = RetryOptions { output: PathBuf::new(), only: Vec::new(), job: JobOptions::default() };
    let asked = Asked(options);
    asked.read_work(&mut retry.job)?;
    asked.read(OptionName::Output, &mut retry.output)?;
    asked.read_as(OptionName::Only, &mut retry.only, |only: Vec<String>| {
        only.iter().map(|only| only.parse()).collect()
    })?;
    Ok(retry)
}

/// What the engine makes of options, in its own words: a test sees by it that each is read, and that the defaults on
/// both sides are the same.
#[pyfunction]
pub fn options_as_read(options: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(format!("{:?} {:?}", fetch_options(options)?, retry_options(options)?))
}

pub struct Asked<'a, 'py>(pub &'a Bound<'py, PyAny>);

impl Asked<'_, '_> {
    /// How the work is done: what a new job and a retry of one have in common.
    fn read_work(&self, job: &mut JobOptions) -> PyResult<()> {
        let JobOptions { source, sink, request, answer, run, engine } = job;
        self.read(OptionName::CostColumn, &mut source.cost_column)?;
        self.read(OptionName::MaxPageBytes, &mut source.max_page_bytes)?;
        self.read(OptionName::CostFrom, &mut answer.cost_from)?;
        self.read_as(OptionName::HeaderTemplates, &mut source.templates.headers, |pairs| Ok(secret_values(pairs)))?;
        self.read(OptionName::Json, &mut source.templates.json)?;
        self.read(OptionName::DataUrlencode, &mut source.templates.data_urlencode)?;
        self.read(OptionName::Form, &mut source.templates.form)?;
        self.read(OptionName::Concurrency, &mut run.concurrency)?;
        self.read(OptionName::Threads, &mut engine.threads)?;
        self.read(OptionName::MaxIdleConnections, &mut engine.max_idle_connections)?;
        self.read_as(OptionName::Dns, &mut engine.dns, |dns: Option<String>| name_server(dns.as_deref()))?;
        self.read_seconds(OptionName::GraceS, &mut run.grace)?;
        self.read_limits(run)?;
        self.read_given(&mut run.given)?;
        self.read_seconds(OptionName::TimeoutS, &mut request.timeout)?;
        self.read_seconds(OptionName::ConnectTimeoutS, &mut request.connect_timeout)?;
        self.read_as(OptionName::Headers, &mut request.headers, |pairs| Ok(secret_values(pairs)))?;
        self.read_as(OptionName::Bearer, &mut request.bearer, |token: Option<String>| Ok(token.map(Secret::from)))?;
        self.read_as(OptionName::User, &mut request.user, |user: Option<Vec<u8>>| Ok(user.map(Secret::from)))?;
        self.read(OptionName::SecretHeaders, &mut request.secret_headers)?;
        self.read(OptionName::CredentialsFor, &mut request.credentials_for)?;
        self.read(OptionName::Data, &mut request.body)?;
        self.read(OptionName::MaxBodyBytes, &mut request.max_body_bytes)?;
        self.read(OptionName::MaxMemoryBytes, &mut engine.max_memory_bytes)?;
        self.read_seconds_or_none(OptionName::FirstByteTimeoutS, &mut request.first_byte_timeout)?;
        self.read_seconds_or_none(OptionName::IdleTimeoutS, &mut request.idle_timeout)?;
        self.read(OptionName::TruncateBody, &mut request.truncate_body)?;
        self.read(OptionName::Robots, &mut request.robots)?;
        self.read_as(OptionName::CompressBody, &mut request.compress_body, |name: Option<String>| {
            name.map(|name| body_coding(&name)).transpose()
        })?;
        self.read_connections(request)?;
        self.read_mock(request)?;
        self.read(OptionName::PartBytes, &mut sink.part_bytes)
    }

    /// How servers are reached.
    fn read_connections(&self, request: &mut RequestOptions) -> PyResult<()> {
        self.read(OptionName::Cacert, &mut request.cacert)?;
        self.read(OptionName::Insecure, &mut request.insecure)?;
        self.read(OptionName::Cert, &mut request.cert)?;
        self.read(OptionName::Key, &mut request.key)?;
        self.read_as(OptionName::TlsMin, &mut request.tls_min, |name: String| tls_version(&name))?;
        self.read(OptionName::Sni, &mut request.sni)?;
        self.read(OptionName::Http11, &mut request.http1_1)?;
        self.read(OptionName::Http2PriorKnowledge, &mut request.http2_prior_knowledge)?;
        self.read(OptionName::Http2Streams, &mut request.http2_streams)?;
        self.read_as(OptionName::Proxy, &mut request.proxies, |proxies: Vec<String>| {
            Ok(proxies.into_iter().map(Secret::from).collect())
        })?;
        self.read(OptionName::Resolve, &mut request.resolve)?;
        self.read(OptionName::Ipv4, &mut request.ipv4)?;
        self.read(OptionName::Ipv6, &mut request.ipv6)?;
        self.read_as(OptionName::LocalAddress, &mut request.local_addresses, |texts: Vec<String>| {
            texts.iter().map(|text| address(text)).collect()
        })?;
        self.read(OptionName::Interface, &mut request.interface)?;
        self.read_network(request)
    }

    /// Where connections may lead.
    fn read_network(&self, request: &mut RequestOptions) -> PyResult<()> {
        let NetworkOptions { network, allow_net, deny_net, allow_port } = &mut request.network;
        self.read_as(OptionName::Network, network, |name: String| {
            one_of(OptionName::Network, &name, [("any", Network::Any), ("public", Network::Public)])
        })?;
        self.read_as(OptionName::AllowNet, allow_net, |texts: Vec<String>| nets(OptionName::AllowNet, &texts))?;
        self.read_as(OptionName::DenyNet, deny_net, |texts: Vec<String>| nets(OptionName::DenyNet, &texts))?;
        self.read_as(OptionName::AllowPort, allow_port, |texts: Vec<String>| ports(&texts))?;
        request.network.normalize();
        self.read(OptionName::TrustProxy, &mut request.trust_proxy)?;
        if let Some(base_url) = self.0.getattr_opt("base_url")? {
            request.named_address = host_address(base_url.extract()?);
        }
        Ok(())
    }

    /// Who answers in place of the network, where `headgate.testing` has somebody do so.
    fn read_mock(&self, request: &mut RequestOptions) -> PyResult<()> {
        let mock = self.0.getattr_opt("mock")?.filter(|mock| !mock.is_none());
        if let Some(mock) = mock {
            request.answered_by(mock.extract::<PyRef<'_, MockNetwork>>()?.stand_in());
        }
        Ok(())
    }

    pub fn read<T>(&self, option: OptionName, place: &mut T) -> PyResult<()>
    where
        T: for<'a, 'py> FromPyObject<'a, 'py, Error: Into<PyErr>>,
    {
        self.read_as(option, place, Ok)
    }

    pub fn read_seconds(&self, option: OptionName, place: &mut Duration) -> PyResult<()> {
        self.read_as(option, place, |value| seconds(option, value))
    }

    pub fn read_seconds_or_none(&self, option: OptionName, place: &mut Option<Duration>) -> PyResult<()> {
        self.read_as(option, place, |value: Option<f64>| value.map(|value| seconds(option, value)).transpose())
    }

    /// Puts an option, made of what Python has, into its place.
    pub fn read_as<P, T>(
        &self,
        option: OptionName,
        place: &mut T,
        make: impl FnOnce(P) -> Result<T, JobError>,
    ) -> PyResult<()>
    where
        P: for<'a, 'py> FromPyObject<'a, 'py, Error: Into<PyErr>>,
    {
        if let Some(value) = self.0.getattr_opt(option.name())? {
            *place = make(value.extract().map_err(Into::into)?).map_err(|error| to_python(self.0.py(), &error))?;
        }
        Ok(())
    }
}

fn seconds(option: OptionName, value: f64) -> Result<Duration, JobError> {
    if (0.0..=MAX_SECONDS).contains(&value) {
        return Ok(Duration::from_secs_f64(value));
    }
    Err(JobError::usage(message!(option, ": must be between 0 and {MAX_SECONDS} seconds, not {value}")))
}

fn one_of<T, const N: usize>(option: OptionName, name: &str, all: [(&str, T); N]) -> Result<T, JobError> {
    let names = all.each_ref().map(|(name, _)| *name).join(", ");
    let found = all.into_iter().find(|(other, _)| *other == name).map(|(_, value)| value);
    found.ok_or_else(|| JobError::usage(message!(option.set(name), ": it is one of {names}")))
}

fn body_coding(name: &str) -> Result<BodyCoding, JobError> {
    one_of(OptionName::CompressBody, name, [("gzip", BodyCoding::Gzip), ("zstd", BodyCoding::Zstd)])
}

/// Which redirects are followed, by the name that Python has for it.
pub fn redirect_policy(name: &str) -> Result<RedirectPolicy, JobError> {
    let policies = [
        ("follow", RedirectPolicy::Follow),
        ("same-origin", RedirectPolicy::SameOrigin),
        ("none", RedirectPolicy::None),
    ];
    one_of(OptionName::Redirects, name, policies)
}

fn secret_values(pairs: Vec<(String, String)>) -> Vec<(String, Secret<String>)> {
    pairs.into_iter().map(|(name, value)| (name, value.into())).collect()
}

fn save_format(name: &str) -> Result<SaveFormat, JobError> {
    one_of(OptionName::SaveFormat, name, [("files", SaveFormat::Files), ("tar", SaveFormat::Tar)])
}

fn tls_version(name: &str) -> Result<TlsMin, JobError> {
    one_of(OptionName::TlsMin, name, [("1.2", TlsMin::V12), ("1.3", TlsMin::V13)])
}

fn ports(texts: &[String]) -> Result<Vec<u16>, JobError> {
    let port = |text: &String| {
        let port = text.parse().ok().filter(|port| *port > 0);
        port.ok_or_else(|| JobError::usage(message!(OptionName::AllowPort, " '{text}' is no port")))
    };
    texts.iter().map(port).collect()
}

fn nets(option: OptionName, texts: &[String]) -> Result<Vec<IpNet>, JobError> {
    let parsed = texts.iter().map(|text| parse_net(text));
    parsed.collect::<Result<_, _>>().map_err(|why| JobError::usage(message!(option, " {why}")))
}

fn address(text: &str) -> Result<IpAddr, JobError> {
    text.parse().map_err(|_| JobError::usage(message!(OptionName::LocalAddress, ": '{text}' is not an IP address")))
}

fn output(path: Option<PathBuf>) -> Output {
    match path {
        None => Output::Nowhere,
        Some(path) if path.as_os_str() == "-" => Output::Stdout,
        Some(path) => Output::Directory(path),
    }
}

fn name_server(text: Option<&str>) -> Result<Dns, JobError> {
    let told = text.map_or(Ok(Dns::Configured), str::parse);
    told.map_err(|error| JobError::usage(message!(OptionName::Dns, " {error}")))
}

fn format(name: &str) -> Result<Format, JobError> {
    match name {
        "parquet" => Ok(Format::Parquet),
        "ndjson" => Ok(Format::Ndjson),
        "none" => Ok(Format::None),
        other => Err(JobError::usage(message!(OptionName::Format.set(other), ": it is one of parquet, ndjson, none"))),
    }
}
