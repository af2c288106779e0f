//! The options: each is one entry, which has its name, what kind of value it takes, its default and what is said of it.
//!
//! Python's keyword with its type, the flag with its help and completion, the docstrings and the tables of the documents follow
//! from the entry. A section is the unit in which the functions of Python take options: `headgate.jobs._options` names the
//! sections of each. The values are in `options.rs` and beside it.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::choices::{
    BodyEncoding, Format, HostBy, IfExists, NetworkPolicy, RedirectPolicy, RowCost, SaveFormat, TlsMin,
};
use crate::defaults::{
    DEFAULT_CONCURRENCY, DEFAULT_CONNECT_TIMEOUT, DEFAULT_FAIL_ON, DEFAULT_HTTP2_STREAMS, DEFAULT_MAX_BODY_SIZE,
    DEFAULT_MAX_PAGE_SIZE, DEFAULT_MAX_REDIRECTS, DEFAULT_PART_SIZE, DEFAULT_READ_AHEAD, DEFAULT_RETRIES,
    DEFAULT_RETRY_DELAY, DEFAULT_RETRY_MAX_DELAY, DEFAULT_RETRY_MAX_PAUSE, DEFAULT_RETRY_ON, DEFAULT_SHUTDOWN_TIMEOUT,
    DEFAULT_TIMEOUT, DEFAULT_TOKEN_TIMEOUT, DEFAULT_URL_COLUMN, DEFAULT_USER_AGENT,
};

/// The largest whole number that the columns of a result hold.
const MAX: u64 = i64::MAX as u64;
const MIB: u64 = 1024 * 1024;

/// What is known of an option.
#[expect(clippy::struct_excessive_bools, reason = "properties, each by itself")]
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
    /// A retry has it from its job.
    pub inherited: bool,
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
    inherited: false,
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
            "The input column with values of `If-None-Match`, such as the `ETag` of an earlier response."
            { default_means: "none", metavar: "COLUMN" }
        IfModifiedSinceColumn "if_modified_since_column" OptionKind::Text =>
            "The input column with values of `If-Modified-Since`: times, or dates as HTTP has them."
            { default_means: "none", metavar: "COLUMN" }
        Url "url" OptionKind::Text =>
            "Template of the URLs, in place of a column with them: `{column}` stands for the value of a row, \
                percent-encoded."
            { default_means: "the URLs of `url_column`", metavar: "TEMPLATE",
              group: "request", flag_help: "template of the URLs, such as 'http://host/{id}'" }
    ]
    SubsetOptions "The rows that are read, and the columns that are kept." { group: "input", of_job: true } [
        Keep "keep" OptionKind::Columns => "Columns of the input to copy into the results, or `\"*\"` for all."
            { metavar: "COLUMNS",
              flag_help: "copy columns of the input, as in a,b or '*'; can be repeated", group: "columns" }
        MaxRows "max_rows" OptionKind::Whole { range: 1..=MAX } =>
            "Read only the first N rows. The same job continues in the same output with a larger N, or without."
            { default_means: "all", metavar: "N", of_job: false }
    ]
    OutputOptions "How results are written." { group: "output" } [
        Format "format" OptionKind::Choice { choices: Format::NAMES } =>
            "`parquet`, `ndjson`, or `none` to count results without keeping them."
            { default_means: "`parquet`, or `ndjson` to standard output", metavar: "FORMAT", of_job: true }
        IfExists "if_exists" OptionKind::Choice { choices: IfExists::NAMES } =>
            "What to do if the output directory contains a job: `resume` continues the same job and refuses another one, \
                `overwrite` deletes its results and starts over, and `error` refuses any. If a new input has no rows, \
                `overwrite` keeps the results."
            { default: DefaultValue::Text(IfExists::NAMES[0]), metavar: "ACTION",
              flag_help: "for a job in OUT: resume, overwrite or error" }
        AllowAppend "allow_append" OptionKind::Switch =>
            "Resume even if rows have been added to the end of the input, and do these too. The rows that were there \
                before must be unchanged."
            { flag_help: "resume even if rows were added to the end of INPUT, and do these too" }
        CommitInterval "commit_interval" OptionKind::Seconds { or_zero: false } =>
            "How often results are committed, and so how much work a crash can cost. The first commits come after 1, \
                2, 4, ... seconds, until that time is reached."
            { default_means: "10 seconds; in a run of more than 3 hours 0.1 % of its time so far, up to a minute",
              unit: "seconds", metavar: "TIME",
              flag_help: "longest time between commits, and so how much work a crash can cost" }
        ReadAhead "read_ahead" OptionKind::Whole { range: 1..=MAX } => "How many rows may be read beyond the oldest unfinished one."
            { default: DefaultValue::Whole(DEFAULT_READ_AHEAD), unit: "rows", metavar: "ROWS", group: "resources" }
    ]
    MethodOption "The method of rows without their own." { group: "request", of_job: true } [
        Method "method" OptionKind::Text =>
            "Method for rows without their own. `HEAD,GET` sends HEAD, and GET where the server refuses that with 405 or 501."
            { default_means: "`GET`, or `POST` for a request with a body", flags: &["-X", "--request", "--method"],
              metavar: "METHOD", flag_help: "method for rows without their own, or HEAD,GET to fall back to GET" }
    ]
    PolicyOptions "The user agent, and which rows fail." { group: "request", of_job: true } [
        UserAgent "user_agent" OptionKind::Text => "The `User-Agent` header."
            { default: DefaultValue::Text(DEFAULT_USER_AGENT), metavar: "TEXT" }
        FailOn "fail_on" OptionKind::Statuses =>
            "Statuses that make a row fail: it counts as failed and is in `failed-*`, with its whole response. Codes and \
                classes, as in `\"429,5xx\"` or `[429, \"5xx\"]`; `unauthorized` are 401 and 407 from origins that get \
                credentials; with `\"none\"` or `()`, a row succeeds with any status."
            { default: DefaultValue::Text(DEFAULT_FAIL_ON), group: "responses", metavar: "STATUSES",
              flag_help: "statuses that make a row fail, or none" }
        ObeyRobots "obey_robots" OptionKind::Switch =>
            "Don't fetch what a host's robots.txt disallows (RFC 9309); such rows fail as `blocked_by_robots`."
    ]
    FollowOption "Which redirects are followed." { group: "redirects", of_job: true } [
        Redirects "redirects" OptionKind::Choice { choices: RedirectPolicy::NAMES } =>
            "Which redirects to follow: `follow` for all, `same-origin` for those to the scheme, host and port of the \
                request, `none` for none. A redirect that isn't followed is the response."
            { default: DefaultValue::Text(RedirectPolicy::NAMES[0]), metavar: "WHICH",
              flag_help: "redirects to follow: follow, same-origin or none; others are responses" }
        MaxRedirects "max_redirects" OptionKind::Whole { range: 1..=1000 } =>
            "Most redirects to follow for a row; one with more fails."
            { default: DefaultValue::Whole(DEFAULT_MAX_REDIRECTS as u64), flags: &["--max-redirs", "--max-redirects"],
              metavar: "N" }
    ]
    RedirectChainOption "Whether redirects are kept." { group: "redirects", of_job: true } [
        KeepRedirects "keep_redirects" OptionKind::Switch =>
            "Keep the redirects of each row, with status and location, in the column `redirects`."
    ]
    ReadOptions "How responses are read." { group: "responses", of_job: true } [
        RedirectCookies "redirect_cookies" OptionKind::Switch =>
            "Send cookies that a server sets in a redirect along with the next one, separately for each row."
            { group: "redirects" }
        Range "range" OptionKind::Text =>
            "Request a range of bytes, such as `\"0-499\"` or `\"-500\"`, or several separated by commas."
            { flags: &["-r", "--range"], metavar: "RANGE", group: "request" }
        NoBody "no_body" OptionKind::Switch => "Keep status and headers only; bodies are not read."
        Decode "decode" OptionKind::Switch =>
            "Decode bodies with a content encoding such as gzip; otherwise they are kept as they were sent."
            { default: DefaultValue::Switch(true),
              flag_help: "keep bodies as they were sent, without decoding gzip and the like" }
    ]
    SelectedOptions "The columns that are made of responses." { group: "columns", of_job: true } [
        Extract "extract" OptionKind::Selection =>
            "Columns to make of responses: `name=$.path` takes a value of a JSON body (RFC 9535), `name=header:name` a \
                header. `name:type=...` gives the column a type: `string`, `int64`, `float64`, `bool`, \
                `decimal(20,2)` (precision and scale), `timestamp` or `json`. What is not there is null."
            { metavar: "NAME=PATH",
              flag_help: "make a column of a JSON value or a header; can be repeated" }
        Require "require" OptionKind::List => "Extracted columns without which a row fails as `unexpected_response`. Only responses with a status 2xx need \
                them."
            { metavar: "COLUMNS",
              flag_help: "extracted columns without which a row fails (if its status is 2xx); can be repeated" }
    ]
    DropOption "The columns that are left out of the results." { group: "columns", of_job: true } [
        Drop "drop" OptionKind::List => "Columns to leave out of the results, such as `body` and `headers`."
            { metavar: "COLUMNS",
              flag_help: "leave these columns out of the results, as in body,headers; can be repeated" }
    ]
    SaveOptions "How bodies are saved as files." { group: "saving", of_job: true } [
        SaveTo "save_to" OptionKind::Text =>
            "Template of file names in the output directory: each body is saved there, and not in the results, which \
                have its `path` and `sha256`. Beside columns there are `{row}`, `{sha256}` and `{ext}`, which follows \
                from the type of the body."
            { default_means: "bodies are a column", metavar: "TEMPLATE",
              flag_help: "save bodies as files in OUT, with names such as 'images/{id}.{ext}'" }
        SaveFormat "save_format" OptionKind::Choice { choices: SaveFormat::NAMES } =>
            "`files`, or `tar` to save bodies in archives as WebDataset has them, of `part_size` each."
            { default: DefaultValue::Text(SaveFormat::NAMES[0]), metavar: "FORMAT" }
        ChecksumColumn "checksum_column" OptionKind::Text =>
            "The input column with SHA-256 checksums that saved bodies must have."
            { default_means: "none", metavar: "COLUMN" }
    ]
    HeaderOptions "The headers of requests." { group: "credentials" } [
        Headers "headers" OptionKind::Headers => "Headers to send with each request; a mapping, or pairs if a name repeats."
            { flags: &["-H", "--header"], metavar: "'NAME: VALUE'", of_job: true, secret: true,
              flag_help: "send this header, or those in @FILE; can be repeated", group: "request" }
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
    BearerOption "The token; another file with one can be set while a job runs." { group: "credentials", settable: true } [
        Bearer "bearer" OptionKind::Token =>
            "Token to send as `Authorization: Bearer`, or the path of a file with it. The file is read again when it \
                changes, and after a response with status 401."
            { metavar: "@FILE", secret: true,
              flag_help: "send the token in this file as Authorization: Bearer" }
    ]
    TokenOptions "Tokens that expire." { group: "credentials" } [
        TokenCommand "token_command" OptionKind::Text =>
            "Command for the shell that writes a token to its standard output, which is sent as `Authorization: \
                Bearer`. It runs at the start, after `token_ttl`, and after a response with status 401, never twice at \
                once; a request that got 401 is retried once with the new token, whatever its method."
            { metavar: "COMMAND", secret: true,
              flag_help: "send the output of this command as a token; it runs again after a 401" }
        TokenTtl "token_ttl" OptionKind::Seconds { or_zero: false } =>
            "Time after which `token_command` runs again, somewhat less than a token is valid."
            { default_means: "only after a response with status 401", unit: "seconds", metavar: "TIME",
              flag_help: "run the token command again after this time" }
        TokenTimeout "token_timeout" OptionKind::Seconds { or_zero: false } =>
            "How long `token_command` may fail before the job stops. Meanwhile it is tried again, and no request that \
                needs a token starts."
            { default: DefaultValue::Seconds(DEFAULT_TOKEN_TIMEOUT), unit: "seconds", metavar: "TIME",
              flag_help: "how long the token command may fail before the job stops" }
    ]
    BodyOptions "The bodies of requests." { group: "bodies", of_job: true } [
        Data "data" OptionKind::Data => "Body for rows without their own. Text is sent as UTF-8."
            { flags: &["-d", "--data"], metavar: "DATA", secret: true,
              flag_help: "body for rows without their own, or @FILE" }
        HeaderTemplates "header_templates" OptionKind::HeaderTemplates =>
            "Headers to send with each request, with templates as values: `{column}` stands for the value of a row; a \
                mapping, or pairs if a name repeats."
            { flags: &["--header-template"], metavar: "'NAME: TEMPLATE'", secret: true,
              flag_help: "send this header, where {column} stands for the value of a row; can be repeated",
              group: "request" }
        Json "json" OptionKind::Json =>
            "JSON body, in whose strings `{column}` stands for the value of a row. A string that is nothing but \
                `{column}` becomes a value of the column's own type; `{column:string}` is always a string."
            { default_means: "none", metavar: "JSON", secret: true,
              flag_help: "JSON body, where {column} is a value, or @FILE" }
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
    CompressOption "How bodies of requests are compressed." { group: "bodies" } [
        CompressBody "compress_body" OptionKind::Choice { choices: BodyEncoding::NAMES } =>
            "Compress request bodies with `gzip` or `zstd`, and say so in `Content-Encoding`; the server must support \
                it."
            { metavar: "ENCODING" }
    ]
    TlsOptions "Certificates and versions of TLS." { group: "tls" } [
        Cacert "cacert" OptionKind::Path => "PEM file with the only certificates to trust."
            { default_means: "the system's, and Mozilla's", metavar: "FILE" }
        Insecure "insecure" OptionKind::Switch =>
            "Don't verify certificates: anyone on the network path can read and change everything."
            { flags: &["-k", "--insecure"] }
        Cert "cert" OptionKind::Path =>
            "PEM file with the client certificate to show to servers that request one, and its chain."
            { flags: &["-E", "--cert"], metavar: "FILE" }
        Key "key" OptionKind::Path => "PEM file with the private key of the client certificate."
            { default_means: "the file of the certificate", metavar: "FILE" }
        TlsMin "tls_min" OptionKind::Choice { choices: TlsMin::NAMES } => "The oldest version of TLS to accept, 1.2 or 1.3."
            { default: DefaultValue::Text(TlsMin::NAMES[0]), metavar: "VERSION" }
        TlsServerName "tls_server_name" OptionKind::Text => "Server name for TLS: it is sent to every server, and certificates must be for it."
            { default_means: "the host of the URL", metavar: "NAME",
              flag_help: "server name for TLS, which certificates must be for" }
    ]
    AddressOptions "DNS, addresses and the local side of connections." { group: "network" } [
        DnsServer "dns_server" OptionKind::Text =>
            "The DNS server to send queries to, such as `\"9.9.9.9\"` or `\"127.0.0.1:5353\"`; with `\"system\"`, the \
                system resolves hostnames, with all its sources."
            { default_means: "the configured DNS servers", metavar: "SERVER",
              flag_help: "use this DNS server (IP or IP:PORT), or have the system resolve hostnames (system)" }
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
    NetworkOptions "The addresses that connections may be made to." { group: "network", of_job: true } [
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
        ProxyAnyAddress "proxy_any_address" OptionKind::Switch =>
            "Let proxies connect to any address, also with `network=\"public\"`."
            { of_job: false, flag_help: "let proxies connect to any address, also with --network public",
              group: "proxies" }
    ]
    ProxyOptions "Proxies." { group: "proxies" } [
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
            "Use HTTP/2 without negotiation, also without TLS, until it wants HTTP/1.1."
        Http2Streams "http2_streams" OptionKind::Whole { range: 1..=u16::MAX as u64 } =>
            "Most requests at once on one HTTP/2 connection; a server may allow fewer."
            { default: DefaultValue::Whole(DEFAULT_HTTP2_STREAMS as u64), metavar: "N" }
    ]
    PoolOptions "Limits of the connection pool." { group: "connections" } [
        MaxIdleConnections "max_idle_connections" OptionKind::Whole { range: 0..=MAX } =>
            "Most idle connections that are kept open for later requests, over all hosts. They take no more files than \
                connections in use leave, and hold no more memory than a quarter of `max_memory`, beside it."
            { default_means: "ten times the concurrency, within half of the files that the process can open",
              metavar: "N", flag_help: "most idle connections that are kept open for later requests, over all hosts" }
        MaxConnectionsPerHost "max_connections_per_host" OptionKind::Whole { range: 1..=u16::MAX as u64 } =>
            "Most connections to each host over HTTP/1.1, busy and idle, and most requests in flight to it. Over \
                HTTP/2, only the requests are bounded."
            { default_means: "`concurrency_per_host`, or else `concurrency`", metavar: "N", inherited: true }
    ]
    ConcurrencyOption "Requests in flight; it can be set while a job runs." { group: "limits", settable: true, inherited: true } [
        Concurrency "concurrency" OptionKind::Whole { range: 1..=MAX } =>
            "Most requests in flight, over all threads and hosts."
            { default: DefaultValue::Whole(DEFAULT_CONCURRENCY as u64), flags: &["-c", "--concurrency"], metavar: "N",
              flag_help: "most requests in flight, over all hosts" }
    ]
    BodyLimitOptions "Limits of response bodies." { group: "responses" } [
        MaxBodySize "max_body_size" OptionKind::Size { range: 0..=1 << 30 } =>
            "Longest response body, as received and as decoded; a row with a longer one fails."
            { default: DefaultValue::Whole(DEFAULT_MAX_BODY_SIZE), unit: "bytes", metavar: "SIZE",
              flag_help: "longest response body; a row with a longer one fails" }
        TruncateBody "truncate_body" OptionKind::Switch =>
            "Cut longer bodies off at `max_body_size`; such a row does not fail."
            { flag_help: "cut longer bodies off there; such a row does not fail" }
    ]
    AttemptTimeoutOptions "Timeouts of an attempt." { group: "timeouts" } [
        Timeout "timeout" OptionKind::Seconds { or_zero: false } =>
            "Longest time for an attempt, from connecting to the last byte."
            { default: DefaultValue::Seconds(DEFAULT_TIMEOUT), unit: "seconds", metavar: "TIME", inherited: true,
              flag_help: "longest time for an attempt, to its last byte" }
        ConnectTimeout "connect_timeout" OptionKind::Seconds { or_zero: false } => "Longest time for connecting."
            { default: DefaultValue::Seconds(DEFAULT_CONNECT_TIMEOUT), unit: "seconds", metavar: "TIME", inherited: true }
    ]
    ResourceOptions "Timeouts of responses, threads and memory." { group: "timeouts" } [
        Threads "threads" OptionKind::Whole { range: 1..=MAX } => "Worker threads."
            { default_means: "one for each core that this process can use", metavar: "N", group: "resources" }
        FirstByteTimeout "first_byte_timeout" OptionKind::Seconds { or_zero: false } =>
            "Longest time from sending a request to the first byte of the response."
            { default_means: "the time of the attempt", unit: "seconds", metavar: "TIME" }
        IdleTimeout "idle_timeout" OptionKind::Seconds { or_zero: false } =>
            "Longest time without a byte, in either direction, from the start of the request on."
            { default_means: "the time of the attempt", unit: "seconds", metavar: "TIME" }
        MaxMemory "max_memory" OptionKind::Size { range: MIB..=MAX } =>
            "Memory for responses (headers and bodies) until they are written, and for decoding them. When it is used \
                up, other responses wait. One body at a time may exceed it, so that there is always one that can \
                finish. Choose about a quarter of what the process may use: it needs memory for itself, for 8 KiB of \
                each request in flight, and for files and sockets."
            { default_means: "a quarter of the memory that is free and that the process may use (its cgroup can set a \
                  limit), between 16 MiB and 256 MiB", unit: "bytes", metavar: "SIZE",
              flag_help: "memory for responses until they are written; when it is used up, further responses wait",
              group: "resources" }
    ]
    RunLimitOptions "Limits of a run." { group: "resources" } [
        MaxPageSize "max_page_size" OptionKind::Size { range: 1..=MAX } =>
            "The maximum size of a decompressed page of a Parquet input; the pages of the rows that are read at once may \
                have four times as much. A file with larger pages is refused."
            { default: DefaultValue::Whole(DEFAULT_MAX_PAGE_SIZE), unit: "bytes", metavar: "SIZE",
              flag_help: "maximum size of a decompressed page of a Parquet input" }
        ShutdownTimeout "shutdown_timeout" OptionKind::Seconds { or_zero: true } =>
            "How long requests in flight may continue after an interrupt."
            { default: DefaultValue::Seconds(DEFAULT_SHUTDOWN_TIMEOUT), unit: "seconds", metavar: "TIME",
              flag_help: "how long requests in flight may continue after Ctrl-C", group: "timeouts" }
    ]
    SettableRateOptions "Rates and limits of hosts; these can be set meanwhile." { group: "limits", settable: true, inherited: true } [
        ConcurrencyPerHost "concurrency_per_host" OptionKind::LimitPerHost =>
            "Most requests in flight to each host. With `\"auto\"`, as many as bring the most responses, within \
                `concurrency`. A mapping such as `{\"slow.example\": 2, \"*\": \"auto\"}` limits hosts by their names, \
                `\"*\"` being every other host."
            { default_means: "no limit but `concurrency`", metavar: "[HOST=]N",
              flag_help: "most requests in flight to each host, or auto; can be repeated" }
        Rate "rate" OptionKind::Text =>
            "Most requests in a time, over all hosts: `\"100/s\"`, `\"6000/m\"`, `\"5000/h\"`, `\"1/10s\"`. Each \
                attempt counts."
            { default_means: "no limit", metavar: "N/TIME",
              flag_help: "most requests in a time, such as 100/s, 6000/m or 1/10s" }
        RatePerHost "rate_per_host" OptionKind::RatePerHost =>
            "The same for each host. A mapping such as `{\"api.example.com\": \"5/s\", \"*\": \"10/s\"}` limits hosts \
                by their names, `\"*\"` being every other host."
            { default_means: "no limit", metavar: "[HOST=]N/TIME",
              flag_help: "the same for each host, or for HOST; can be repeated" }
        Burst "burst" OptionKind::Whole { range: 1..=u32::MAX as u64 } =>
            "Requests that may start at once after a pause, where a rate limits them."
            { default_means: "as many as the rate allows in 10 ms, and at least 1", metavar: "N" }
        CostRate "cost_rate" OptionKind::Text =>
            "Most cost in a time, for servers that count something other than requests: `\"150000/m\"`. What a row \
                costs is in `cost_column`, or is the size of its body (`cost_estimate`)."
            { default_means: "no limit", metavar: "N/TIME",
              flag_help: "most cost in a time, such as 150000/m; each row needs a cost for it", group: "costs" }
    ]
    HostByOption "What counts as one host." { group: "limits", inherited: true } [
        HostBy "host_by" OptionKind::Choice { choices: HostBy::NAMES } =>
            "What counts as one host: a `name`, whatever the scheme and port; an `origin`, which is a scheme, a name \
                and a port; or an `address`, whatever the names that lead there."
            { default: DefaultValue::Text(HostBy::NAMES[0]), metavar: "WHAT",
              flag_help: "what counts as one host: name, origin or address" }
    ]
    CostColumnOption "The column with the cost of a row." { group: "costs", inherited: true } [
        CostColumn "cost_column" OptionKind::Text => "The input column with the cost of each row, a number."
            { metavar: "NAME" }
    ]
    CostRuleOptions "The cost of rows without that column." { group: "costs", inherited: true } [
        CostFromResponse "cost_from_response" OptionKind::Text =>
            "An extracted column of numbers (`int64`, `float64`, `decimal`) that says what a row has cost in the end: what was \
                estimated by `cost_column` or `cost_estimate` is corrected by it."
            { metavar: "COLUMN", flag_help: "the extracted column that says what a row has cost in the end" }
        CostEstimate "cost_estimate" OptionKind::Choice { choices: RowCost::NAMES } =>
            "What a row costs, if the input doesn't say it: `body-bytes` is the size of the request body."
            { metavar: "WHAT", flag_help: "what a row costs: body-bytes, the size of its request body" }
    ]
    SettableRetryOptions "Retries; these can be set while a job runs." { group: "retries", settable: true, inherited: true } [
        Retries "retries" OptionKind::Whole { range: 0..=u16::MAX as u64 } =>
            "Retries of a row in a run, after the first attempt. Methods that may have an effect twice, such as \
                `POST`, are retried only if the request can't have arrived, or the server says that it has not \
                processed it; see `retry_non_idempotent` and `idempotency_key`."
            { default: DefaultValue::Whole(DEFAULT_RETRIES as u64), metavar: "N",
              flag_help: "most retries of a row, after the first attempt" }
        RetryDelay "retry_delay" OptionKind::Seconds { or_zero: true } =>
            "Longest delay before the second attempt. It doubles with each further one; the actual delay is drawn \
                evenly from zero up to it."
            { default: DefaultValue::Seconds(DEFAULT_RETRY_DELAY), unit: "seconds", metavar: "TIME" }
        RetryMaxDelay "retry_max_delay" OptionKind::Seconds { or_zero: true } => "The longest delay before a retry."
            { default: DefaultValue::Seconds(DEFAULT_RETRY_MAX_DELAY), unit: "seconds", metavar: "TIME",
              flag_help: "longest delay before any attempt" }
        TotalTimeout "total_timeout" OptionKind::Seconds { or_zero: false } =>
            "Timeout of a row over all attempts and the waits between them."
            { default_means: "none", metavar: "TIME", group: "timeouts" }
        RetryMaxPause "retry_max_pause" OptionKind::Seconds { or_zero: true } =>
            "Longest pause that a server may request, as with `Retry-After`. If a server requests more, the rows that \
                wait for it fail as `host_down`."
            { default: DefaultValue::Seconds(DEFAULT_RETRY_MAX_PAUSE), unit: "seconds", metavar: "TIME" }
        HostDownAfter "host_down_after" OptionKind::Seconds { or_zero: false } =>
            "How long a host may send no response before its rows fail as `host_down`. A host that has never sent one \
                has less time."
            { default_means: "15m, or 30s for a host that has never responded", metavar: "TIME" }
    ]
    SettableStopOptions "When a job stops itself; these can be set meanwhile." { group: "stopping", settable: true, inherited: true } [
        NetworkDownAfter "network_down_after" OptionKind::Seconds { or_zero: false } =>
            "How long the network may be down before the job stops, with its rows not done. Meanwhile the job is \
                paused, and it continues by itself."
            { default_means: "5m, or 30s if no host has ever responded", metavar: "TIME" }
        MaxFailures "max_failures" OptionKind::Share =>
            "Stop the job when more rows than this have failed, such as `1000`, or when at least this share of the last \
                1,000 rows has failed, such as `\"50%\"`; with `\"never\"`, whatever happens."
            { default_means: "if the first 1,000 rows all fail with one kind of error, of at least 10 hosts or an \
                  input of one host", metavar: "N|SHARE",
              flag_help: "stop the job when more rows have failed, as 1000, or a share of the last 1,000, as 50%; or never" }
        MaxRequests "max_requests" OptionKind::Whole { range: 1..=MAX } =>
            "Stop the job when it has sent this many requests, in all of its runs and retries. Each attempt counts, also \
                one that could not connect, and so does each redirect and each request that is sent a second time \
                because its connection was closed; requests for robots.txt don't. A larger number continues the job."
            { default_means: "no limit", unit: "requests", metavar: "N",
              flag_help: "stop the job when it has sent so many requests, over all of its runs" }
        MaxCost "max_cost" OptionKind::Whole { range: 1..=MAX } =>
            "Stop the job before its requests have cost more than this, in all of its runs and retries. What a row costs \
                is in `cost_column`, is the size of its body (`cost_estimate`), or is 1 until its response has another \
                cost (`cost_from_response`). Each attempt costs as much. A larger number continues the job."
            { default_means: "no limit", metavar: "N", group: "costs",
              flag_help: "stop the job before it has cost more, over all of its runs; each row needs a cost for it" }
    ]
    RetryableOptions "Which requests are retried." { group: "retries", inherited: true } [
        RetryOn "retry_on" OptionKind::Failures =>
            "Which failures are retried: error kinds, statuses and classes, as in `\"connect,timeout,429,5xx\"` or \
                `[\"connect\", 429]`; `\"none\"` or `()`: no failure is. With signs, as in `\"+protocol,-429\"`, \
                the default list is changed. `timeout` includes `connect_timeout`."
            { default: DefaultValue::Text(DEFAULT_RETRY_ON), metavar: "FAILURES",
              flag_help: "failures that are retried, as in 429,5xx; with signs a change of the default, as in +404,-429; or none" }
        RetryNonIdempotent "retry_non_idempotent" OptionKind::Switch =>
            "Also retry requests that may have an effect twice, such as a `POST` without a response."
        IdempotencyKey "idempotency_key" OptionKind::Switch =>
            "Send an `Idempotency-Key` with each row that has none: a UUID that stays the same over attempts and runs, \
                by which a server recognises a retry. Such rows are retried whatever their method."
            { flag_help: "send an Idempotency-Key with each row, the same for all attempts, and retry any method" }
    ]
    PartOptions "The size of part files, and the space that they leave." { group: "output" } [
        PartSize "part_size" OptionKind::Size { range: 1..=MAX } =>
            "Size at which a file of results is closed and the next one started."
            { default: DefaultValue::Whole(DEFAULT_PART_SIZE), unit: "bytes", metavar: "SIZE",
              flag_help: "start a new file at this size" }
        MinFree "min_free" OptionKind::Size { range: 0..=MAX } =>
            "Stop the job before less than this is free on the file system of the output: no more requests are started, \
                and everything received so far is committed. A job that finds less is not started. With `0`, it runs \
                until the disk is full."
            { default_means: "1 % of the file system, at most 1 GiB", unit: "bytes", metavar: "SIZE",
              flag_help: "stop before less than this is free on the disk of OUT, such as 1GiB" }
        KeepReplaced "keep_replaced" OptionKind::Seconds { or_zero: true } =>
            "How long files stay that a retry or the final merge has replaced, for programs that began to read before. The \
                job ends when they are removed. An interrupt ends that wait, and `headgate clean` removes the files."
            { default: DefaultValue::Seconds(Duration::ZERO), default_means: "they are removed at once", unit: "seconds",
              metavar: "TIME", flag_help: "keep replaced files for this long, such as 5m, and end then" }
    ]
    OnlyOption "Which rows are retried." { group: "what to retry" } [
        Only "only" OptionKind::Kinds =>
            "Error kinds, as in the column `error`, and statuses: `\"timeout,503\"` or `[\"timeout\", \"5xx\"]`. A status \
                selects rows that succeeded with it as well, such as `404`; the new outcome replaces the old one. \
                `timeout` includes `connect_timeout` and `total_timeout`."
            { default_means: "failed rows, except `invalid_request`", metavar: "KINDS",
              flag_help: "only rows with these error kinds and statuses, such as timeout,503,5xx; can be repeated" }
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
