//! The options of a job: plain data. Each default is one named constant, used by code, help and docs.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::boundary_salt::BoundarySalt;
pub use crate::choices::{BodyEncoding, Format, IfExists, RedirectPolicy, SaveFormat, TlsMin};
use crate::cookie_jar::SharedCookieJar;
use crate::defaults::{
    DEFAULT_CONCURRENCY, DEFAULT_CONNECT_TIMEOUT, DEFAULT_FAIL_ON, DEFAULT_HTTP2_STREAMS, DEFAULT_MAX_BODY_SIZE,
    DEFAULT_MAX_PAGE_SIZE, DEFAULT_MAX_REDIRECTS, DEFAULT_PART_SIZE, DEFAULT_READ_AHEAD, DEFAULT_SHUTDOWN_TIMEOUT,
    DEFAULT_TIMEOUT, DEFAULT_URL_COLUMN, DEFAULT_USER_AGENT,
};
pub use crate::engine_options::{Dns, EngineOptions};
use crate::fail_on::FailOn;
use crate::limits::{Limits, MaxFailures, Retrying};
use crate::message::OptionName;
use crate::mock_transport::MockTransport;
use crate::network_options::NetworkOptions;
use crate::secret::Secret;
use crate::token_source::{SecretFile, TokenOptions};

/// The number of inputs that are named, if there are several.
const SHOWN_INPUTS: usize = 3;

/// Everything about one job.
#[derive(Debug, Clone, Default)]
pub struct JobOptions {
    pub source: SourceOptions,
    pub sink: SinkOptions,
    pub request: RequestOptions,
    pub selection: SelectionOptions,
    pub run: RunOptions,
    pub engine: EngineOptions,
}

/// Where rows come from. It identifies a job and is stored with it, except for the input, which may be moved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SourceOptions {
    /// A path, `-` for standard input, or a URL with curl-style ranges and sets.
    #[serde(skip)]
    pub input: String,
    /// Paths of further inputs, read after it.
    #[serde(skip)]
    pub more_inputs: Vec<String>,
    pub url_column: String,
    /// `None`: rows have no methods, headers or bodies of their own.
    pub method_column: Option<String>,
    pub headers_column: Option<String>,
    pub body_column: Option<String>,
    /// Columns that have the usual names of methods, headers and bodies, and that no option names, are not refused.
    pub url_only: bool,
    /// The column with paths of files whose contents are sent.
    pub body_file_column: Option<String>,
    /// The directory of the files that rows name. `None`: that of the input, or else the working directory.
    pub upload_root: Option<String>,
    /// The columns with values of `if-none-match` and `if-modified-since`.
    pub if_none_match_column: Option<String>,
    pub if_modified_since_column: Option<String>,
    /// The template of URLs; `None`: the column has them.
    pub url: Option<String>,
    /// The templates of other parts of requests. They may hold secrets: a job keeps hashes of them.
    #[serde(skip)]
    pub templates: Templates,
    /// The template of the names under which bodies are saved; `None`: bodies are a column of the result.
    pub save_to: Option<String>,
    pub save_format: SaveFormat,
    /// The column with SHA-256 checksums of the bodies.
    pub checksum_column: Option<String>,
    /// Input columns to carry into the result under their own names.
    pub keep: Vec<String>,
    /// The columns that `*` among them meant when the job began, in the order of the result: for an input whose lines each
    /// have their own columns. `None`: not known yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept_columns: Option<Vec<String>>,
    /// The number of rows to read, from the first. A later run may read more.
    #[serde(skip)]
    pub max_rows: Option<u64>,
    /// The salt of the boundaries of its multipart forms.
    #[serde(skip)]
    pub boundary_salt: BoundarySalt,
    /// The column with what each row uses of a limit on costs: a number of 0 or more, rounded up; a row without a value
    /// uses 1. It says how the work is done, and may change from run to run.
    #[serde(skip)]
    pub cost_column: Option<String>,
    /// The maximum decompressed size of a page of a Parquet file.
    #[serde(skip)]
    pub max_page_size: u64,
}

impl SourceOptions {
    /// Returns all inputs, in order.
    pub fn inputs(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.input).chain(&self.more_inputs).map(String::as_str)
    }

    /// Returns the name of the input in messages.
    pub fn name(&self) -> Cow<'_, str> {
        if self.more_inputs.is_empty() {
            return self.input.as_str().into();
        }
        let mut shown: Vec<&str> = self.inputs().take(SHOWN_INPUTS).collect();
        if self.more_inputs.len() >= SHOWN_INPUTS {
            shown.push("…");
        }
        shown.join(", ").into()
    }
}

/// The parts of a request that are made of columns, where `{column}` is replaced by the value of a row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Templates {
    /// The name of each header and the template of its value.
    pub headers: Vec<(String, Secret<String>)>,
    /// Names of these that are credentials, beside those that are recognised by name.
    pub secret_headers: Vec<String>,
    /// The text of a JSON document.
    pub json: Option<String>,
    /// `name=value`, as a form in the URL encoding.
    pub data_urlencode: Vec<String>,
    /// `name=value` or `name=@path`, as a multipart form.
    pub form: Vec<String>,
}

impl Default for SourceOptions {
    fn default() -> Self {
        Self {
            input: String::new(),
            more_inputs: Vec::new(),
            url_column: DEFAULT_URL_COLUMN.into(),
            method_column: None,
            headers_column: None,
            body_column: None,
            url_only: false,
            body_file_column: None,
            upload_root: None,
            if_none_match_column: None,
            if_modified_since_column: None,
            url: None,
            templates: Templates::default(),
            save_to: None,
            save_format: SaveFormat::Files,
            checksum_column: None,
            keep: Vec::new(),
            kept_columns: None,
            max_rows: None,
            boundary_salt: BoundarySalt::default(),
            cost_column: None,
            max_page_size: DEFAULT_MAX_PAGE_SIZE,
        }
    }
}

/// The output of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SinkOptions {
    pub output: Output,
    pub format: Format,
    pub part_size: u64,
    /// The bytes that the job leaves free on the file system of its output. `None`: a share of it.
    pub min_free: Option<u64>,
    /// The longest time that results wait for a commit. `None`: [`DEFAULT_COMMIT_INTERVAL`], and longer in a run that takes
    /// hours.
    pub commit_interval: Option<Duration>,
    /// How long replaced parts stay for readers that began before.
    pub keep_replaced: Duration,
    pub if_exists: IfExists,
    /// Continues with an input that has only grown since.
    pub allow_append: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    Directory(PathBuf),
    Stdout,
    /// Only with [`Format::None`].
    Nowhere,
}

impl Output {
    /// Returns the format of results if the options name none.
    pub fn default_format(&self) -> Format {
        match self {
            Self::Stdout => Format::Ndjson,
            Self::Directory(_) | Self::Nowhere => Format::Parquet,
        }
    }
}

impl SinkOptions {
    /// Returns whether the job replaces what an earlier one left in the output directory.
    pub fn overwrites(&self) -> bool {
        self.if_exists == IfExists::Overwrite
    }
}

impl Default for SinkOptions {
    fn default() -> Self {
        Self {
            output: Output::Nowhere,
            format: Format::default(),
            part_size: DEFAULT_PART_SIZE,
            min_free: None,
            commit_interval: None,
            keep_replaced: Duration::ZERO,
            if_exists: IfExists::default(),
            allow_append: false,
        }
    }
}

/// The parts of a request that its row does not set.
#[expect(clippy::struct_excessive_bools, reason = "options, each by itself")]
#[derive(Debug, Clone, PartialEq)]
pub struct RequestOptions {
    /// `None`: a request with a body is a POST, and any other a GET.
    pub method: Option<String>,
    pub headers: Vec<(String, Secret<String>)>,
    /// The token of `authorization: Bearer`.
    pub bearer: Option<Secret<String>>,
    /// `name:password`, for `authorization: Basic`.
    pub user: Option<Secret<Vec<u8>>>,
    /// The source of tokens that expire: a token is sent as `bearer` is.
    pub token: TokenOptions,
    /// The files that hold `bearer`, `user` or headers, and are read again when they change.
    pub secret_files: Vec<SecretFile>,
    /// Names of headers, in any case, that are credentials, beside those that are recognised by name.
    pub secret_headers: Vec<String>,
    /// Origins that get credentials, including the client certificate; see `OriginSet`. If there are none, a job whose
    /// requests all go to one origin sends them there.
    pub credentials_for: Vec<String>,
    pub body: Option<Vec<u8>>,
    /// How bodies are compressed before they are sent; `None`: not at all.
    pub compress_body: Option<BodyEncoding>,
    pub user_agent: String,
    pub timeout: Duration,
    pub connect_timeout: Duration,
    /// The time from the end of a request to the first byte of its response.
    pub first_byte_timeout: Option<Duration>,
    /// The time between two reads or writes of one exchange.
    pub idle_timeout: Option<Duration>,
    pub max_body_size: u64,
    /// A longer body is truncated, and not refused.
    pub truncate_body: bool,
    /// What makes the result.
    pub response: ResponseOptions,
    /// Statuses with which a row fails.
    pub fail_on: FailOn,
    /// PEM file of certificates to trust instead of the system's and the bundled ones.
    pub cacert: Option<PathBuf>,
    /// Do not verify certificates.
    pub insecure: bool,
    /// PEM file with the client certificate, and its chain.
    pub cert: Option<PathBuf>,
    /// PEM file with the private key of `cert`; `None`: it is in the same file.
    pub key: Option<PathBuf>,
    pub tls_min: TlsMin,
    /// The server's name for TLS, instead of that in the URL.
    pub tls_server_name: Option<String>,
    /// Never HTTP/2.
    pub http1_1: bool,
    /// HTTP/2 without negotiation, also without TLS.
    pub http2_prior_knowledge: bool,
    /// The maximum number of simultaneous requests on one HTTP/2 connection; at least 1.
    pub http2_streams: u32,
    /// URLs of proxies, which may have a password, used in turn; or `env`: those of the environment.
    pub proxies: Vec<Secret<String>>,
    /// `host:port:address[,address]`: where to connect for a host and a port.
    pub resolve: Vec<String>,
    /// Only addresses of this family.
    pub ipv4: bool,
    pub ipv6: bool,
    /// The local addresses of connections, used in turn.
    pub local_addresses: Vec<IpAddr>,
    /// The network interface that connections go through.
    pub interface: Option<String>,
    /// The addresses that may be connected to.
    pub network: NetworkOptions,
    /// The address that the URL of the command line or a client's base has for a host.
    pub named_address: Option<IpAddr>,
    /// Allows proxies to connect to any address, although only public addresses may be connected to.
    pub proxy_any_address: bool,
    /// The mock transport; `None`: the network, as always outside of tests.
    pub mock_transport: Option<MockTransport>,
    /// The cookie jar of the client; `None`: it keeps no cookies.
    pub cookies: Option<SharedCookieJar>,
}

/// Which response is the result of a row, and what of it. It belongs to a job.
#[expect(clippy::struct_excessive_bools, reason = "options, each by itself")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResponseOptions {
    /// Which redirects are followed; the others are responses.
    pub redirects: RedirectPolicy,
    /// Redirects of a row that are followed; at least 1.
    #[serde(with = "max_redirects")]
    pub max_redirects: u32,
    /// The redirects of a row are part of its result.
    pub keep_redirects: bool,
    /// Cookies that servers set in a redirect are sent along with the next one.
    pub redirect_cookies: bool,
    /// Bytes to request, as the `range` header has them: `0-499,-500`.
    pub range: Option<String>,
    /// Bodies are not read.
    pub no_body: bool,
    /// Bodies are kept as they were sent, encodings and all.
    pub decode: bool,
    /// Requests that a host's robots.txt disallows are not sent. A blocked row stays blocked when it is retried.
    pub obey_robots: bool,
}

impl Default for ResponseOptions {
    fn default() -> Self {
        Self {
            redirects: RedirectPolicy::default(),
            max_redirects: DEFAULT_MAX_REDIRECTS,
            keep_redirects: false,
            redirect_cookies: false,
            range: None,
            no_body: false,
            decode: true,
            obey_robots: false,
        }
    }
}

/// A job remembers a default as none: the next version may have another.
mod max_redirects {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use super::DEFAULT_MAX_REDIRECTS;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
    pub(super) fn serialize<S: Serializer>(max: &u32, serializer: S) -> Result<S::Ok, S::Error> {
        (*max != DEFAULT_MAX_REDIRECTS).then_some(*max).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
        Ok(Option::deserialize(deserializer)?.unwrap_or(DEFAULT_MAX_REDIRECTS))
    }
}

/// The options for the columns that are selected from responses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SelectionOptions {
    /// Columns of the result: `name[:type]=$.path`, or `name[:type]=header:name`.
    pub extract: Vec<String>,
    /// Names of columns without which a row fails.
    pub require: Vec<String>,
    /// Columns that the result omits.
    pub drop: Vec<String>,
    /// The selected column that says what a row has cost in the end; `None`: it costs what was estimated. It says how the
    /// work is done, and may change from run to run.
    #[serde(skip)]
    pub cost_from_response: Option<String>,
}

impl RequestOptions {
    /// Replaces the network by a mock transport, without proxies and without HTTP/2.
    pub fn use_mock_transport(&mut self, mock_transport: MockTransport) {
        self.proxies = Vec::new();
        (self.http1_1, self.http2_prior_knowledge) = (true, false);
        self.mock_transport = Some(mock_transport);
    }

    /// Returns the size of the body of rows without one of their own.
    pub fn body_bytes(&self) -> u64 {
        self.body.as_ref().map_or(0, |body| body.len() as u64)
    }
}

impl Default for RequestOptions {
    fn default() -> Self {
        Self {
            method: None,
            headers: Vec::new(),
            bearer: None,
            user: None,
            token: TokenOptions::default(),
            secret_files: Vec::new(),
            secret_headers: Vec::new(),
            credentials_for: Vec::new(),
            body: None,
            compress_body: None,
            user_agent: DEFAULT_USER_AGENT.into(),
            timeout: DEFAULT_TIMEOUT,
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            first_byte_timeout: None,
            idle_timeout: None,
            max_body_size: DEFAULT_MAX_BODY_SIZE,
            truncate_body: false,
            response: ResponseOptions::default(),
            fail_on: DEFAULT_FAIL_ON.parse().expect("the default is a set of statuses"),
            cacert: None,
            insecure: false,
            cert: None,
            key: None,
            tls_min: TlsMin::default(),
            tls_server_name: None,
            http1_1: false,
            http2_prior_knowledge: false,
            http2_streams: DEFAULT_HTTP2_STREAMS,
            proxies: Vec::new(),
            resolve: Vec::new(),
            ipv4: false,
            ipv6: false,
            local_addresses: Vec::new(),
            interface: None,
            network: NetworkOptions::default(),
            named_address: None,
            proxy_any_address: false,
            mock_transport: None,
            cookies: None,
        }
    }
}

/// How the work is done.
#[derive(Debug, Clone, PartialEq)]
pub struct RunOptions {
    /// The maximum number of attempts in flight, over all workers; at least 1.
    pub concurrency: usize,
    /// The longest time that requests in flight may take after a stop.
    pub shutdown_timeout: Duration,
    /// The maximum number of rows between the oldest that is not done and the newest that was read; at least 1.
    pub read_ahead: u64,
    pub limits: Limits,
    pub retrying: Retrying,
    pub max_failures: MaxFailures,
    /// The options that were named for this run: they replace what was set of an earlier run meanwhile.
    pub named_options: Vec<OptionName>,
    /// The values of those that a retry of the job inherits, by their names.
    pub given: BTreeMap<String, String>,
}

impl RunOptions {
    /// Returns the options with a single attempt for each row, whatever its result.
    #[must_use]
    pub fn without_retries(mut self) -> Self {
        self.retrying.retries = 0;
        self.max_failures = MaxFailures::Never;
        self
    }
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            concurrency: DEFAULT_CONCURRENCY,
            shutdown_timeout: DEFAULT_SHUTDOWN_TIMEOUT,
            read_ahead: DEFAULT_READ_AHEAD,
            limits: Limits::default(),
            retrying: Retrying::default(),
            max_failures: MaxFailures::default(),
            named_options: Vec::new(),
            given: BTreeMap::new(),
        }
    }
}
