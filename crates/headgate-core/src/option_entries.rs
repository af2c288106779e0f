//! The options: each is one entry, which has its name, what kind of value it takes, its default and what is said of it.
//!
//! Python's keyword with its type, the flag with its help and completion, the docstrings and the tables of the documents follow
//! from the entry. A section is the unit in which the functions of Python take options: `headgate.jobs._options` names the
//! sections of each. The values are in `options.rs` and beside it.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::choices::{BodyCoding, Format, LimitBy, NetworkPolicy, RedirectPolicy, RowCost, SaveFormat, TlsMin};
use crate::defaults::{
    DEFAULT_CONCURRENCY, DEFAULT_CONNECT_TIMEOUT, DEFAULT_FAIL_ON, DEFAULT_GRACE, DEFAULT_HTTP2_STREAMS,
    DEFAULT_MAX_BODY_BYTES, DEFAULT_MAX_PAGE_BYTES, DEFAULT_MAX_REDIRECTS, DEFAULT_MAX_RETRY_AFTER, DEFAULT_PART_BYTES,
    DEFAULT_RESUME, DEFAULT_RETRIES, DEFAULT_RETRY_DELAY, DEFAULT_RETRY_MAX_DELAY, DEFAULT_RETRY_ON, DEFAULT_TIMEOUT,
    DEFAULT_URL_COLUMN, DEFAULT_USER_AGENT, DEFAULT_WINDOW,
};

/// The largest whole number that the columns of a result hold.
const MAX: u64 = i64::MAX as u64;
const MIB: u64 = 1024 * 1024;

/// What is known of an option.
#[derive(Debug, Serialize)]
pub struct OptionEntry {
    /// Python's keyword.
    pub name: &'static str,
    pub section: &'static str,
    #[serde(flatten)]
    pub kind: OptionKind,
    /// What it does, in sentences.
    pub help: &'static str,
    pub default: DefaultValue,
    /// The default in words, where its value does not say it.
    pub(crate) default_means: &'static str,
    /// What a number counts.
    pub unit: &'static str,
    /// The group of the command line's help in which its flag stands.
    pub group: &'static str,
    /// Its flags, where they are not the one of its name.
    pub flags: &'static [&'static str],
    /// What stands for the value in that help.
    pub(crate) metavar: &'static str,
    /// What that help says, where it is not the first sentence of `help`.
    pub(crate) flag_help: &'static str,
    /// A different value makes a different job: the option decides the rows, their requests, or the stored columns.
    pub of_job: bool,
    /// It can be set while a job runs.
    pub settable: bool,
    /// Its value may hold a secret.
    pub secret: bool,
}

/// What values an option takes.
#[derive(Debug, Serialize)]
#[serde(tag = "given_as", rename_all = "snake_case")]
pub enum OptionKind {
    Switch,
    /// A whole number within bounds.
    Whole {
        #[serde(skip)]
        range: RangeInclusive<u64>,
    },
    /// A number of bytes within bounds.
    Size {
        #[serde(skip)]
        range: RangeInclusive<u64>,
    },
    Seconds {
        #[serde(skip)]
        or_zero: bool,
    },
    Text,
    /// One of a few words.
    Choice {
        choices: &'static [&'static str],
    },
    Path,
    /// The body of a request.
    Data,
    Json,
    Selection,
    /// Names between commas.
    List,
    Headers,
    HeaderTemplates,
    Token,
    User,
    Names,
    Texts,
    Ports,
    Proxies,
    Columns,
    Statuses,
    /// Which failed rows are meant.
    Kinds,
    Failures,
    LimitPerHost,
    RatePerHost,
    Share,
}

/// The value of an option that is not given.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(untagged)]
pub enum DefaultValue {
    Nothing,
    Empty([(); 0]),
    Switch(bool),
    Whole(u64),
    Seconds(#[serde(serialize_with = "in_seconds")] Duration),
    Text(&'static str),
}

fn in_seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

impl OptionKind {
    /// Returns the default of most options of this kind.
    const fn default_value(&self) -> DefaultValue {
        match self {
            Self::Switch => DefaultValue::Switch(false),
            Self::Selection
            | Self::List
            | Self::Headers
            | Self::HeaderTemplates
            | Self::Names
            | Self::Texts
            | Self::Ports
            | Self::Proxies
            | Self::Columns => DefaultValue::Empty([]),
            _ => DefaultValue::Nothing,
        }
    }
}

const BASE: OptionEntry = OptionEntry {
    name: "",
    section: "",
    kind: OptionKind::Text,
    help: "",
    default: DefaultValue::Nothing,
    default_means: "",
    unit: "",
    group: "",
    flags: &[],
    metavar: "",
    flag_help: "",
    of_job: false,
    settable: false,
    secret: false,
};

/// What the entries of a section share, where their kind has this default.
macro_rules! base {
    ($kind:expr, { $($field:tt)* }) => {
        OptionEntry { default: OptionKind::default_value($kind), $($field)*, ..BASE }
    };
}

/// Defines [`OptionName`] and its entries: of each section what it is and what its entries share, and of each entry the name,
/// the kind, the help and what else differs from [`BASE`].
macro_rules! options {
    ($($section:ident $about:literal $shared:tt [
        $($variant:ident $name:literal $kind:expr => $help:literal $({ $($field:tt)* })?)+
    ])+) => {
        /// An option by its name, which is Python's keyword for it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum OptionName {
            $($($variant),+),+
        }

        impl OptionName {
            pub const ALL: &[Self] = &[$($(Self::$variant),+),+];
        }

        const ENTRIES: &[OptionEntry] = &[$($(OptionEntry {
            name: $name,
            section: stringify!($section),
            kind: $kind,
            help: $help,
            $($($field)*,)?
            ..base!(&$kind, $shared)
        }),+),+];

        /// The sections that Python has, each with what it is.
        pub const SECTIONS: &[(&str, &str)] = &[$((stringify!($section), $about)),+];
    };
}

options! {
    RowOptions "The columns and templates that make requests of rows." { group: "input", of_job: true } [
        UrlColumn "url_column" OptionKind::Text => "The input column with URLs."
            { default: DefaultValue::Text(DEFAULT_URL_COLUMN), metavar: "NAME" }
        MethodColumn "method_column" OptionKind::Text => "The input column with methods."
            { default_means: "none", metavar: "COLUMN" }
        HeadersColumn "headers_column" OptionKind::Text => "The input column with headers."
            { default_means: "none", metavar: "COLUMN" }
        BodyColumn "body_column" OptionKind::Text => "The input column with request bodies."
            { default_means: "none", metavar: "COLUMN" }
        UrlOnly "url_only" OptionKind::Switch =>
            "Leave columns `method`, `headers` and `body` that no option names. Otherwise an input that has them is \
                refused: a row chooses its URL, and more only where you say so."
        BodyFileColumn "body_file_column" OptionKind::Text =>
            "The input column with paths of files, each of which is the body of its row's request."
            { default_means: "none", metavar: "COLUMN" }
        UploadRoot "upload_root" OptionKind::Path =>
            "The directory below which the files are that rows name (in `body_file_column`, or with `{column}` in the \
                path of a file in `form`). Symbolic links are not followed there."
            { default_means: "the directory of the input, or the working directory where the input is no file",
              metavar: "DIRECTORY" }
        IfNoneMatchColumn "if_none_match_column" OptionKind::Text =>
            "The input column with values of `If-None-Match`, such as the `ETag` of an earlier answer."
            { default_means: "none", metavar: "COLUMN" }
        IfModifiedSinceColumn "if_modified_since_column" OptionKind::Text =>
            "The input column with values of `If-Modified-Since`: times, or dates as HTTP has them."
            { default_means: "none", metavar: "COLUMN" }
        Url "url" OptionKind::Text =>
            "Template of the URLs, in place of a column with them: `{column}` stands for the value of a row, \
                percent-encoded."
            { default_means: "the URLs of `url_column`", metavar: "TEMPLATE" }
    ]
    SubsetOptions "The rows that are read, and the columns that are kept." { group: "input", of_job: true } [
        Keep "keep" OptionKind::Columns => "Columns of the input to copy into the results, or `\"*\"` for all."
            { metavar: "COLUMNS",
              flag_help: "copy these columns of the input into the results, as in a,b or '*'; can be repeated" }
        Head "head" OptionKind::Whole { range: 0..=MAX } => "Read only the first N rows."
            { default_means: "all", metavar: "N" }
    ]
    OutputOptions "How results are written." { group: "output" } [
        Format "format" OptionKind::Choice { choices: Format::NAMES } =>
            "`parquet`, `ndjson`, or `none` to count results without keeping them."
            { default_means: "`parquet`, or `ndjson` to standard output", metavar: "FORMAT", of_job: true }
        Fresh "fresh" OptionKind::Switch =>
            "Delete the results of an earlier job and start over, without asking. If the new input has no rows, the \
                results stay."
            { flag_help: "delete the results of an earlier job in OUT and start over; asks first on a terminal" }
        Resume "resume" OptionKind::Switch =>
            "Continue where an earlier run of the same job stopped; if `False`, raise `OutputError` instead."
            { default: DefaultValue::Switch(DEFAULT_RESUME), flag_help: "refuse if OUT already holds a job" }
        AllowGrown "allow_grown" OptionKind::Switch =>
            "Resume even if rows have been added to the end of the input, and do these too. The rows that were there \
                before must be unchanged."
            { flag_help: "resume even if rows were added to the end of INPUT, and do these too" }
        CommitEveryS "commit_every_s" OptionKind::Seconds { or_zero: false } =>
            "How often results are committed, and so how much work a crash can cost. The first commits come after 1, \
                2, 4, ... seconds, until that time is reached."
            { default_means: "10 seconds; in a run of more than 3 hours 0.1 % of its time so far, up to a minute",
              unit: "seconds", metavar: "SECONDS",
              flag_help: "longest time between commits, and so how much work a crash can cost" }
        Window "window" OptionKind::Whole { range: 1..=MAX } => "How many rows may be read beyond the oldest unfinished one."
            { default: DefaultValue::Whole(DEFAULT_WINDOW), unit: "rows", metavar: "ROWS" }
    ]
    MethodOption "The method of rows without their own." { group: "request", of_job: true } [
        Method "method" OptionKind::Text => "Method for rows without their own."
            { default_means: "`GET`, or `POST` for a request with a body", flags: &["-X", "--method"],
              metavar: "METHOD" }
    ]
    PolicyOptions "The user agent, and which rows fail." { group: "request", of_job: true } [
        UserAgent "user_agent" OptionKind::Text => "The `User-Agent` header."
            { default: DefaultValue::Text(DEFAULT_USER_AGENT), metavar: "TEXT" }
        FailOn "fail_on" OptionKind::Statuses =>
            "Statuses that make a row fail: it counts as failed and is in `failed-*`, with its whole answer. Codes and \
                classes, as in `\"429,5xx\"` or `[429, \"5xx\"]`; with `\"none\"` or `()`, every status is an answer."
            { default: DefaultValue::Text(DEFAULT_FAIL_ON), group: "output", metavar: "STATUSES",
              flag_help: "statuses that make a row fail, or none" }
        Robots "robots" OptionKind::Switch =>
            "Don't fetch what a host's robots.txt disallows (RFC 9309); such rows fail as `blocked_by_robots`."
    ]
    FollowOption "Which redirects are followed." { group: "request", of_job: true } [
        Redirects "redirects" OptionKind::Choice { choices: RedirectPolicy::NAMES } =>
            "Which redirects to follow: `follow` for all, `same-origin` for those to the scheme, host and port of the \
                request, `none` for none. A redirect that isn't followed is the response."
            { default: DefaultValue::Text(RedirectPolicy::NAMES[0]), metavar: "WHICH",
              flag_help: "redirects to follow: follow, same-origin or none; others are responses" }
        MaxRedirects "max_redirects" OptionKind::Whole { range: 1..=1000 } =>
            "Most redirects to follow for a row; one with more fails."
            { default: DefaultValue::Whole(DEFAULT_MAX_REDIRECTS as u64), metavar: "N" }
    ]
    RedirectChainOption "Whether redirects are kept." { group: "output", of_job: true } [
        KeepRedirects "keep_redirects" OptionKind::Switch =>
            "Keep the redirects of each row, with status and location, in the column `redirects`."
    ]
    ReadOptions "How responses are read." { group: "request", of_job: true } [
        Cookies "cookies" OptionKind::Switch =>
            "Send cookies that a server sets in a redirect along with the next one, separately for each row."
        Range "range" OptionKind::Text =>
            "Ask for a range of bytes, such as `\"0-499\"` or `\"-500\"`, or several separated by commas."
            { flags: &["-r", "--range"], metavar: "RANGE" }
        NoBody "no_body" OptionKind::Switch => "Keep status and headers only; bodies are not read."
            { group: "output", flags: &["--no-body"] }
        Raw "raw" OptionKind::Switch => "Keep bodies as they were sent, without decoding gzip and the like."
            { group: "output" }
    ]
    SelectedOptions "The columns that are made of responses." { group: "output", of_job: true } [
        Select "select" OptionKind::Selection =>
            "Columns to make of answers: `name=$.path` takes a value of a JSON body (RFC 9535), `name=header:name` a \
                header. `name:type=...` gives the column a type: `string`, `int64`, `float64`, `bool`, `timestamp` or \
                `json`. What is not there is null."
            { metavar: "NAME=PATH",
              flag_help: "make a column of a value in JSON answers, as in 'n:int64=$.n', or of header:NAME; can be \
                  repeated" }
        Require "require" OptionKind::List => "Selected columns without which a row fails as `unexpected_answer`."
            { metavar: "COLUMNS", flag_help: "selected columns without which a row fails; can be repeated" }
    ]
    OmitOption "The columns that are left out of the results." { group: "output", of_job: true } [
        Omit "omit" OptionKind::List => "Columns that the results are to go without, such as `body` and `headers`."
            { metavar: "COLUMNS",
              flag_help: "leave these columns out of the results, as in body,headers; can be repeated" }
    ]
    SaveOptions "How bodies are saved as files." { group: "output", of_job: true } [
        SaveTo "save_to" OptionKind::Text =>
            "Template of file names in the output directory: each body is saved there, and not in the results, which \
                have its `path` and `sha256`. Beside columns there are `{row}`, `{sha256}` and `{ext}`, which follows \
                from the type of the body."
            { default_means: "bodies are a column", metavar: "TEMPLATE",
              flag_help: "save bodies as files in OUT, with names such as 'images/{id}.{ext}'" }
        SaveFormat "save_format" OptionKind::Choice { choices: SaveFormat::NAMES } =>
            "`files`, or `tar` to save bodies in archives as WebDataset has them, of `part_bytes` each."
            { default: DefaultValue::Text(SaveFormat::NAMES[0]), metavar: "FORMAT" }
        ChecksumColumn "checksum_column" OptionKind::Text =>
            "The input column with SHA-256 checksums that saved bodies must have."
            { default_means: "none", metavar: "COLUMN" }
    ]
    HeaderOptions "The headers of requests." { group: "request" } [
        Headers "headers" OptionKind::Headers => "Headers to send with each request; a mapping, or pairs if a name repeats."
            { flags: &["-H", "--header"], metavar: "'NAME: VALUE'", of_job: true, secret: true,
              flag_help: "send this header, or those in @FILE, one per line; can be repeated" }
        Bearer "bearer" OptionKind::Token => "Token to send as `Authorization: Bearer`, or the path of a file with it."
            { metavar: "@FILE", secret: true,
              flag_help: "send the token in this file as Authorization: Bearer; @- reads standard input" }
        User "user" OptionKind::User => "`name:password` to send as `Authorization: Basic`, or the path of a file with it."
            { default_means: "that of the URL, if it has one", flags: &["-u", "--user"], metavar: "NAME:PASSWORD",
              secret: true, flag_help: "send these as Authorization: Basic; @FILE reads them" }
        SecretHeaders "secret_headers" OptionKind::Names =>
            "Names of headers that are credentials, in addition to `Authorization`, `Proxy-Authorization`, `Cookie` \
                and names such as `X-Api-Key` and `X-Auth-Token`: a job can be resumed and retried with other values \
                of these."
            { flags: &["--secret-header"], metavar: "NAME",
              flag_help: "this header is a credential, too: its value may change from run to run; can be repeated" }
        CredentialsFor "credentials_for" OptionKind::Texts =>
            "Origins that get the credentials: headers that are credentials, `bearer`, `user` and the client \
                certificate. `\"https://api.example.com\"` is one, `\"https://*.example.com\"` all hosts below a \
                domain, `\"*\"` every host. Requests to other origins are sent without."
            { default_means: "the origin that all requests go to, where the input says it; otherwise it is required",
              metavar: "ORIGIN",
              flag_help: "send credentials to this origin, as in https://*.example.com; can be repeated" }
    ]
    BodyOptions "The bodies of requests." { group: "request", of_job: true } [
        Data "data" OptionKind::Data => "Body for rows without their own. Text is sent as UTF-8."
            { flags: &["-d", "--data"], metavar: "DATA", secret: true,
              flag_help: "body for rows without their own; @FILE reads a file, @- standard input" }
        HeaderTemplates "header_templates" OptionKind::HeaderTemplates =>
            "Headers to send with each request, with templates as values: `{column}` stands for the value of a row; a \
                mapping, or pairs if a name repeats."
            { flags: &["--header-template"], metavar: "'NAME: TEMPLATE'", secret: true,
              flag_help: "send this header, where {column} stands for the value of a row; can be repeated" }
        Json "json" OptionKind::Json =>
            "JSON body, in whose strings `{column}` stands for the value of a row. A string that is nothing but \
                `{column}` becomes a value of the column's own type; `{column:string}` is always a string."
            { default_means: "none", metavar: "JSON", secret: true,
              flag_help: "JSON body, in whose strings {column} stands for the value of a row; @FILE reads it from a \
                  file" }
        DataUrlencode "data_urlencode" OptionKind::Texts =>
            "`name=template` pairs of a form in the URL encoding, which is the body."
            { metavar: "NAME=TEMPLATE", secret: true,
              flag_help: "form field of the body, URL-encoded, where {column} stands for the value of a row; can be \
                  repeated" }
        Form "form" OptionKind::Texts =>
            "`name=template` and `name=@path` fields of a multipart form, which is the body; a path names a file to \
                send."
            { flags: &["-F", "--form"], metavar: "NAME=TEMPLATE", secret: true,
              flag_help: "multipart form field of the body; NAME=@{path} sends a file for each row; can be repeated" }
    ]
    CompressOption "How bodies of requests are compressed." { group: "request" } [
        CompressBody "compress_body" OptionKind::Choice { choices: BodyCoding::NAMES } =>
            "Compress request bodies with `gzip` or `zstd`, and say so in `Content-Encoding`; the server must support \
                it."
            { metavar: "CODING" }
    ]
    TlsOptions "Certificates and versions of TLS." { group: "connections" } [
        Cacert "cacert" OptionKind::Path => "PEM file with the only certificates to trust."
            { default_means: "the system's, and Mozilla's", metavar: "FILE" }
        Insecure "insecure" OptionKind::Switch =>
            "Don't verify certificates: anyone on the network path can read and change everything."
            { flags: &["-k", "--insecure"] }
        Cert "cert" OptionKind::Path =>
            "PEM file with the client certificate to show to servers that ask for one, and its chain."
            { flags: &["-E", "--cert"], metavar: "FILE" }
        Key "key" OptionKind::Path => "PEM file with the private key of the client certificate."
            { default_means: "the file of the certificate", metavar: "FILE" }
        TlsMin "tls_min" OptionKind::Choice { choices: TlsMin::NAMES } => "The oldest version of TLS to accept, 1.2 or 1.3."
            { default: DefaultValue::Text(TlsMin::NAMES[0]), metavar: "VERSION" }
        Sni "sni" OptionKind::Text => "Server name for TLS: it is sent to every server, and certificates must be for it."
            { default_means: "the host of the URL", metavar: "NAME",
              flag_help: "server name for TLS, which certificates must be for" }
    ]
    AddressOptions "DNS, addresses and the local side of connections." { group: "connections" } [
        Dns "dns" OptionKind::Text =>
            "The name server to ask for addresses, such as `\"9.9.9.9\"` or `\"127.0.0.1:5353\"`; with `\"system\"`, \
                the system looks names up, with all its sources."
            { default_means: "the configured name servers", metavar: "SERVER",
              flag_help: "ask this name server (IP or IP:PORT), or let the system look names up (system)" }
        Resolve "resolve" OptionKind::Texts =>
            "Addresses for a host and port, in place of those that its name has, as curl writes them: \
                `\"HOST:PORT:ADDRESS\"`, with several addresses separated by commas, and `*` for any host."
            { metavar: "HOST:PORT:ADDRESS",
              flag_help: "connect to this address for this host and port; can be repeated" }
        Ipv4 "ipv4" OptionKind::Switch => "Use IPv4 addresses only."
            { flags: &["-4", "--ipv4"] }
        Ipv6 "ipv6" OptionKind::Switch => "Use IPv6 addresses only."
            { flags: &["-6", "--ipv6"] }
        LocalAddress "local_address" OptionKind::Texts =>
            "Local IP addresses to connect from, used in turn. Each has its own range of ports, so with several of \
                them, more connections to one address are possible."
            { metavar: "ADDRESS",
              flag_help: "connect from this local IP address; if repeated, the addresses are used in turn" }
        Interface "interface" OptionKind::Text => "Network interface to connect through, such as `eth1`."
            { metavar: "NAME" }
    ]
    NetworkOptions "The addresses that connections may be made to." { group: "connections", of_job: true } [
        Network "network" OptionKind::Choice { choices: NetworkPolicy::NAMES } =>
            "Which addresses may be connected to. `\"public\"` refuses all that are not public: loopback, private, \
                link-local, multicast, reserved. `\"any\"` refuses link-local addresses and metadata services of \
                clouds, unless the URL of the command line or a `base_url` has one for its host, and redirects from a \
                public address to one that is not."
            { default: DefaultValue::Text(NetworkPolicy::NAMES[0]), metavar: "WHICH",
              flag_help: "which addresses may be connected to, any (but link-local ones) or public" }
        AllowNet "allow_net" OptionKind::Texts =>
            "Networks, or addresses, that may be connected to although they are not public: `\"10.0.0.0/8\"`."
            { metavar: "CIDR", flag_help: "allow connections to this network, whatever it is; can be repeated" }
        DenyNet "deny_net" OptionKind::Texts =>
            "Networks, or addresses, that may not be connected to, also where `allow_net` has them."
            { metavar: "CIDR", flag_help: "refuse connections to this network, whatever allows it; can be repeated" }
        AllowPort "allow_port" OptionKind::Ports => "The only ports that may be connected to."
            { default_means: "all", metavar: "PORT",
              flag_help: "allow connections to this port, and to no others; can be repeated" }
        TrustProxy "trust_proxy" OptionKind::Switch =>
            "Leave it to proxies what they connect to, also with `network=\"public\"`."
            { of_job: false, flag_help: "leave it to proxies what they connect to, also with --network public" }
    ]
    ProxyOptions "Proxies." { group: "connections" } [
        Proxy "proxy" OptionKind::Proxies =>
            "Proxies, used in turn: URLs with `http://`, `https://` or `socks5h://`, with `user:password@` if needed; \
                or the path of a file with one on each line. With `\"env\"`, those that the environment variables \
                `http_proxy`, `https_proxy` and `all_proxy` name, except for hosts in `no_proxy`."
            { default_means: "none; environment variables are ignored", flags: &["-x", "--proxy"], metavar: "URL",
              secret: true,
              flag_help: "use this proxy, those in @FILE, or those of the environment (env); can be repeated" }
    ]
    VersionOptions "Versions of HTTP." { group: "connections" } [
        Http11 "http1_1" OptionKind::Switch => "Use HTTP/1.1 only, also where a server offers HTTP/2."
            { flags: &["--http1.1"] }
        Http2PriorKnowledge "http2_prior_knowledge" OptionKind::Switch =>
            "Use HTTP/2 without asking whether the server supports it, also without TLS, until it wants HTTP/1.1."
        Http2Streams "http2_streams" OptionKind::Whole { range: 1..=u16::MAX as u64 } =>
            "Most requests at once on one HTTP/2 connection; a server may allow fewer."
            { default: DefaultValue::Whole(DEFAULT_HTTP2_STREAMS as u64), metavar: "N" }
    ]
    PoolOptions "Limits of the connection pool." { group: "connections" } [
        MaxIdleConnections "max_idle_connections" OptionKind::Whole { range: 0..=MAX } =>
            "Most idle connections that are kept open for later requests, over all hosts. They take no more files than \
                connections in use leave, and hold no more memory than a quarter of `max_memory_bytes`, beside it."
            { default_means: "ten times the concurrency, within half of the files that the process can open",
              metavar: "N", flag_help: "most idle connections that are kept open for later requests, over all hosts" }
        MaxConnectionsPerHost "max_connections_per_host" OptionKind::Whole { range: 1..=u16::MAX as u64 } =>
            "Most connections to each host over HTTP/1.1, busy and idle, and most requests in flight to it. Over \
                HTTP/2, only the requests are bounded."
            { default_means: "`concurrency_per_host`, or else `concurrency`", metavar: "N" }
    ]
    ConcurrencyOption "Requests in flight; it can be set while a job runs." { group: "limits", settable: true } [
        Concurrency "concurrency" OptionKind::Whole { range: 1..=MAX } =>
            "Most requests in flight, over all threads and hosts."
            { default: DefaultValue::Whole(DEFAULT_CONCURRENCY as u64), flags: &["-c", "--concurrency"], metavar: "N" }
    ]
    BodyLimitOptions "Limits of response bodies." { group: "limits" } [
        MaxBodyBytes "max_body_bytes" OptionKind::Size { range: 0..=1 << 30 } =>
            "Longest response body, as received and as decoded; a row with a longer one fails."
            { default: DefaultValue::Whole(DEFAULT_MAX_BODY_BYTES), unit: "bytes", metavar: "SIZE",
              flag_help: "longest response body; a row with a longer one fails" }
        TruncateBody "truncate_body" OptionKind::Switch =>
            "Cut longer bodies off at `max_body_bytes`; such a row does not fail."
            { flag_help: "cut longer bodies off there; such a row does not fail" }
    ]
    ResourceOptions "Timeouts of requests, threads and memory." { group: "limits" } [
        Threads "threads" OptionKind::Whole { range: 1..=MAX } => "Worker threads."
            { default_means: "one for each core that this process can use", metavar: "N" }
        TimeoutS "timeout_s" OptionKind::Seconds { or_zero: false } =>
            "Longest time for an attempt, from connecting to the last byte."
            { default: DefaultValue::Seconds(DEFAULT_TIMEOUT), unit: "seconds", metavar: "SECONDS" }
        ConnectTimeoutS "connect_timeout_s" OptionKind::Seconds { or_zero: false } => "Longest time for connecting."
            { default: DefaultValue::Seconds(DEFAULT_CONNECT_TIMEOUT), unit: "seconds", metavar: "SECONDS" }
        FirstByteTimeoutS "first_byte_timeout_s" OptionKind::Seconds { or_zero: false } =>
            "Longest time from sending a request to the first byte of its answer."
            { default_means: "the time of the attempt", unit: "seconds", metavar: "SECONDS" }
        IdleTimeoutS "idle_timeout_s" OptionKind::Seconds { or_zero: false } =>
            "Longest time without a byte, in either direction, from the start of the request on."
            { default_means: "the time of the attempt", unit: "seconds", metavar: "SECONDS" }
        MaxMemoryBytes "max_memory_bytes" OptionKind::Size { range: MIB..=MAX } =>
            "Memory for responses (headers and bodies) until they are written, and for decoding them. When it is used \
                up, other responses wait. One body at a time may exceed it, so that there is always one that can \
                finish. Choose about a quarter of what the process may use: it needs memory for itself, for 8 KiB of \
                each request in flight, and for files and sockets."
            { default_means: "a quarter of the memory that is free and that the process may use (its cgroup can set a \
                  limit), between 16 MiB and 256 MiB", unit: "bytes", metavar: "SIZE",
              flag_help: "memory for responses until they are written; when it is used up, others wait" }
    ]
    RunLimitOptions "Limits of a run." { group: "limits" } [
        MaxPageBytes "max_page_bytes" OptionKind::Size { range: 1..=MAX } =>
            "The maximum size of a decompressed page of a Parquet input; the pages of the rows that are read at once may \
                have four times as much. A file with larger pages is refused."
            { default: DefaultValue::Whole(DEFAULT_MAX_PAGE_BYTES), unit: "bytes", metavar: "SIZE",
              flag_help: "maximum size of a decompressed page of a Parquet input" }
        GraceS "grace_s" OptionKind::Seconds { or_zero: true } =>
            "How long requests in flight may continue after an interrupt."
            { default: DefaultValue::Seconds(DEFAULT_GRACE), unit: "seconds", metavar: "SECONDS",
              flag_help: "how long requests in flight may continue after Ctrl-C" }
    ]
    SettableRateOptions "Rates and limits of hosts; these can be set meanwhile." { group: "rates", settable: true } [
        ConcurrencyPerHost "concurrency_per_host" OptionKind::LimitPerHost =>
            "Most requests in flight to each host. With `\"auto\"`, as many as bring the most answers, within \
                `concurrency`. A mapping such as `{\"slow.example\": 2, \"*\": \"auto\"}` limits hosts by their names, \
                `\"*\"` being all others."
            { default_means: "no limit but `concurrency`", metavar: "[HOST=]N",
              flag_help: "most requests in flight to each host, or to HOST, or auto; can be repeated" }
        Rate "rate" OptionKind::Text =>
            "Most requests in a time, over all hosts: `\"100/s\"`, `\"6000/m\"`, `\"5000/h\"`, `\"1/10s\"`. Each \
                attempt counts."
            { default_means: "no limit", metavar: "N/TIME",
              flag_help: "most requests in a time, such as 100/s, 6000/m or 1/10s" }
        RatePerHost "rate_per_host" OptionKind::RatePerHost =>
            "The same for each host. A mapping such as `{\"api.example.com\": \"5/s\", \"*\": \"10/s\"}` limits hosts \
                by their names, `\"*\"` being all others."
            { default_means: "no limit", metavar: "[HOST=]N/TIME",
              flag_help: "the same for each host, or for HOST; can be repeated" }
        Burst "burst" OptionKind::Whole { range: 1..=u32::MAX as u64 } =>
            "Requests that may start at once after a pause, where a rate limits them."
            { default_means: "as many as the rate allows in 10 ms, and at least 1", metavar: "N" }
        RateCost "rate_cost" OptionKind::Text =>
            "Most cost in a time, for servers that count something else than requests: `\"150000/m\"`. What a row \
                costs is in `cost_column`, or is the size of its body (`cost_of`)."
            { default_means: "no limit", metavar: "N/TIME",
              flag_help: "most cost in a time, such as 150000/m; each row needs a cost for it" }
    ]
    LimitByOption "What counts as one host." { group: "rates" } [
        LimitBy "limit_by" OptionKind::Choice { choices: LimitBy::NAMES } =>
            "What counts as one host: a `name`, whatever the scheme and port; an `origin`, which is a scheme, a name \
                and a port; or an `address`, whatever the names that lead there."
            { default: DefaultValue::Text(LimitBy::NAMES[0]), metavar: "WHAT",
              flag_help: "what counts as one host: name, origin or address" }
    ]
    CostColumnOption "The column with the cost of a row." { group: "rates" } [
        CostColumn "cost_column" OptionKind::Text => "The input column with the cost of each row, a number."
            { metavar: "NAME" }
    ]
    CostRuleOptions "The cost of rows without that column." { group: "rates" } [
        CostFrom "cost_from" OptionKind::Text =>
            "A selected column, of type `int64` or `float64`, that says what a row has cost in the end: what was \
                estimated by `cost_column` or `cost_of` is corrected by it."
            { metavar: "COLUMN", flag_help: "the selected column that says what a row has cost in the end" }
        CostOf "cost_of" OptionKind::Choice { choices: RowCost::NAMES } =>
            "What a row costs, if the input doesn't say it: `body-bytes` is the size of the request body."
            { metavar: "WHAT", flag_help: "what a row costs: body-bytes, the size of its request body" }
    ]
    SettableRetryOptions "Retries; these can be set while a job runs." { group: "retries", settable: true } [
        Retries "retries" OptionKind::Whole { range: 0..=u16::MAX as u64 } =>
            "How often a row is asked again in a run, after the first attempt. Methods that may do something twice, \
                such as `POST`, are repeated only if the request can't have arrived, or the server says that it has \
                done nothing; see `retry_unsafe` and `idempotency_key`."
            { default: DefaultValue::Whole(DEFAULT_RETRIES as u64), metavar: "N" }
        RetryDelayS "retry_delay_s" OptionKind::Seconds { or_zero: true } =>
            "Longest delay before the second attempt. It doubles with each further one; the actual delay is drawn \
                evenly from zero up to it."
            { default: DefaultValue::Seconds(DEFAULT_RETRY_DELAY), unit: "seconds", metavar: "SECONDS" }
        RetryMaxDelayS "retry_max_delay_s" OptionKind::Seconds { or_zero: true } => "Where that doubling ends."
            { default: DefaultValue::Seconds(DEFAULT_RETRY_MAX_DELAY), unit: "seconds", metavar: "SECONDS",
              flag_help: "longest delay before any attempt" }
        DeadlineS "deadline_s" OptionKind::Seconds { or_zero: false } =>
            "Longest time for a row, from its first attempt to the end of its last one."
            { default_means: "none", metavar: "SECONDS" }
        MaxRetryAfterS "max_retry_after_s" OptionKind::Seconds { or_zero: true } =>
            "Longest pause that a server may ask for, as with `Retry-After`. If one asks for more, the rows that wait \
                for it fail as `host_down`."
            { default: DefaultValue::Seconds(DEFAULT_MAX_RETRY_AFTER), unit: "seconds", metavar: "SECONDS" }
        HostDownAfterS "host_down_after_s" OptionKind::Seconds { or_zero: false } =>
            "How long a host may send no response before its rows fail as `host_down`. A host that has never sent one \
                has less time."
            { default_means: "900, or 30 for a host that has never responded", metavar: "SECONDS" }
    ]
    SettableStopOptions "When a job stops itself; these can be set meanwhile." { group: "retries", settable: true } [
        NetworkDownAfterS "network_down_after_s" OptionKind::Seconds { or_zero: false } =>
            "How long the network may be down before the job stops, with its rows not done. Meanwhile the job is \
                paused, and it continues by itself."
            { default_means: "300, or 30 if no host has ever responded", metavar: "SECONDS" }
        StopWhenFailed "stop_when_failed" OptionKind::Share =>
            "Stop the job when so many rows have failed, such as `1000`, or such a share of the last 1,000, as \
                `\"50%\"`; with `\"never\"`, whatever happens."
            { default_means: "if the first 1,000 rows all fail with one kind of error, of at least 10 hosts or an \
                  input of one host", metavar: "SHARE",
              flag_help: "stop the job when such a share of rows has failed, as 50%, or so many, as 1000, or never" }
    ]
    RetryableOptions "Which requests are retried." { group: "retries" } [
        RetryOn "retry_on" OptionKind::Failures =>
            "Which failures are worth another attempt: kinds of errors, statuses and classes, as in \
                `\"connect,timeout,429,5xx\"` or `[\"connect\", 429]`; `\"none\"` or `()`: no failure is. `timeout` \
                includes `connect_timeout`."
            { default: DefaultValue::Text(DEFAULT_RETRY_ON), metavar: "FAILURES",
              flag_help: "failures that are worth another attempt, or none" }
        RetryUnsafe "retry_unsafe" OptionKind::Switch =>
            "Also repeat requests that may have an effect twice, such as a `POST` that was not answered."
        IdempotencyKey "idempotency_key" OptionKind::Switch =>
            "Send an `Idempotency-Key` with each row that has none: a UUID that stays the same over attempts and runs, \
                by which a server can tell that it was asked before. Such rows are repeated whatever their method."
            { flag_help: "send an Idempotency-Key with each row, the same for all attempts, and repeat any method" }
    ]
    PartOptions "The size of part files." { group: "output" } [
        PartBytes "part_bytes" OptionKind::Size { range: 1..=MAX } =>
            "Size at which a file of results is closed and the next one started."
            { default: DefaultValue::Whole(DEFAULT_PART_BYTES), unit: "bytes", metavar: "SIZE",
              flag_help: "start a new file at this size" }
    ]
    OnlyOption "Which failed rows are retried." { group: "what to retry" } [
        Only "only" OptionKind::Kinds =>
            "Kinds of errors, as in the column `error`, and statuses: `\"timeout,status:503\"` or `[\"timeout\", \
                \"status:5xx\"]`. `timeout` includes `connect_timeout`."
            { default_means: "all but `invalid_request`", metavar: "KINDS",
              flag_help: "only failures of these kinds, such as timeout,status:503,status:5xx; can be repeated" }
    ]
    Arguments "Options without a flag of their name." { group: "" } [
        Input "input" OptionKind::Text => "" Output "output" OptionKind::Text => ""
        // Of the local server.
        Host "host" OptionKind::Text => ""
    ]
}

impl OptionName {
    pub const fn entry(self) -> &'static OptionEntry {
        &ENTRIES[self as usize]
    }

    pub const fn name(self) -> &'static str {
        self.entry().name
    }

    /// Returns the options that can be set while a job runs.
    pub fn settable() -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(|option| option.entry().settable)
    }
}
