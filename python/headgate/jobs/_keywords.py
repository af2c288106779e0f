"""The types of the options that the engine has, for type checkers: written by `make docs`."""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Literal, TypedDict

from headgate.jobs._option_entry import Headers, Json, Selection, Statuses, StrPath


class RowOptions(TypedDict, total=False):
    """The columns and templates that make requests of rows."""

    url_column: str
    method_column: str | None
    headers_column: str | None
    body_column: str | None
    url_only: bool
    body_file_column: str | None
    upload_root: StrPath | None
    if_none_match_column: str | None
    if_modified_since_column: str | None
    url: str | None


class SubsetOptions(TypedDict, total=False):
    """The rows that are read, and the columns that are kept."""

    keep: str | Iterable[str]
    max_rows: int | None


class OutputOptions(TypedDict, total=False):
    """How results are written."""

    format: Literal["parquet", "ndjson", "none"] | None
    if_exists: Literal["resume", "overwrite", "error"]
    allow_append: bool
    commit_interval: float | timedelta | None
    read_ahead: int


class MethodOption(TypedDict, total=False):
    """The method of rows without their own."""

    method: str | None


class PolicyOptions(TypedDict, total=False):
    """The user agent, and which rows fail."""

    user_agent: str
    fail_on: Statuses
    obey_robots: bool


class FollowOption(TypedDict, total=False):
    """Which redirects are followed."""

    redirects: Literal["follow", "same-origin", "none"]
    max_redirects: int


class RedirectChainOption(TypedDict, total=False):
    """Whether redirects are kept."""

    keep_redirects: bool


class ReadOptions(TypedDict, total=False):
    """How responses are read."""

    redirect_cookies: bool
    range: str | None
    no_body: bool
    decode: bool


class SelectedOptions(TypedDict, total=False):
    """The columns that are made of responses."""

    extract: Selection
    require: str | Iterable[str]


class DropOption(TypedDict, total=False):
    """The columns that are left out of the results."""

    drop: str | Iterable[str]


class SaveOptions(TypedDict, total=False):
    """How bodies are saved as files."""

    save_to: str | None
    save_format: Literal["files", "tar"]
    checksum_column: str | None


class HeaderOptions(TypedDict, total=False):
    """The headers of requests."""

    headers: Headers
    user: StrPath | None
    secret_headers: str | Iterable[str]
    credentials_for: str | Iterable[str]


class BearerOption(TypedDict, total=False):
    """The token; another file with one can be set while a job runs."""

    bearer: StrPath | None


class TokenOptions(TypedDict, total=False):
    """Tokens that expire."""

    token_command: str | None
    token_ttl: float | timedelta | None
    token_timeout: float | timedelta


class BodyOptions(TypedDict, total=False):
    """The bodies of requests."""

    data: str | bytes | None
    header_templates: Headers
    json: Json | None
    data_urlencode: str | Iterable[str]
    form: str | Iterable[str]


class CompressOption(TypedDict, total=False):
    """How bodies of requests are compressed."""

    compress_body: Literal["gzip", "zstd"] | None


class TlsOptions(TypedDict, total=False):
    """Certificates and versions of TLS."""

    cacert: StrPath | None
    insecure: bool
    cert: StrPath | None
    key: StrPath | None
    tls_min: Literal["1.2", "1.3"]
    tls_server_name: str | None


class AddressOptions(TypedDict, total=False):
    """DNS, addresses and the local side of connections."""

    dns_server: str | None
    resolve: str | Iterable[str]
    ipv4: bool
    ipv6: bool
    local_address: str | Iterable[str]
    interface: str | None


class NetworkOptions(TypedDict, total=False):
    """The addresses that connections may be made to."""

    network: Literal["any", "public"]
    allow_net: str | Iterable[str]
    deny_net: str | Iterable[str]
    allow_port: int | str | Iterable[int | str]
    proxy_any_address: bool


class ProxyOptions(TypedDict, total=False):
    """Proxies."""

    proxy: StrPath | Iterable[str]


class VersionOptions(TypedDict, total=False):
    """Versions of HTTP."""

    http1_1: bool
    http2_prior_knowledge: bool
    http2_streams: int


class PoolOptions(TypedDict, total=False):
    """Limits of the connection pool."""

    max_idle_connections: int | None
    max_connections_per_host: int | None


class ConcurrencyOption(TypedDict, total=False):
    """Requests in flight; it can be set while a job runs."""

    concurrency: int


class BodyLimitOptions(TypedDict, total=False):
    """Limits of response bodies."""

    max_body_size: int
    truncate_body: bool


class AttemptTimeoutOptions(TypedDict, total=False):
    """Timeouts of an attempt."""

    timeout: float | timedelta
    connect_timeout: float | timedelta


class ResourceOptions(TypedDict, total=False):
    """Timeouts of responses, threads and memory."""

    threads: int | None
    first_byte_timeout: float | timedelta | None
    idle_timeout: float | timedelta | None
    max_memory: int | None


class RunLimitOptions(TypedDict, total=False):
    """Limits of a run."""

    max_page_size: int
    shutdown_timeout: float | timedelta


class SettableRateOptions(TypedDict, total=False):
    """Rates and limits of hosts; these can be set meanwhile."""

    concurrency_per_host: int | str | Mapping[str, int | str] | None
    rate: str | None
    rate_per_host: str | Mapping[str, str] | None
    burst: int | None
    cost_rate: str | None


class HostByOption(TypedDict, total=False):
    """What counts as one host."""

    host_by: Literal["name", "origin", "address"]


class CostColumnOption(TypedDict, total=False):
    """The column with the cost of a row."""

    cost_column: str | None


class CostRuleOptions(TypedDict, total=False):
    """The cost of rows without that column."""

    cost_from_response: str | None
    cost_estimate: Literal["body-bytes"] | None


class SettableRetryOptions(TypedDict, total=False):
    """Retries; these can be set while a job runs."""

    retries: int
    retry_delay: float | timedelta
    retry_max_delay: float | timedelta
    total_timeout: float | timedelta | None
    retry_max_pause: float | timedelta
    host_down_after: float | timedelta | None


class SettableStopOptions(TypedDict, total=False):
    """When a job stops itself; these can be set meanwhile."""

    network_down_after: float | timedelta | None
    max_failures: str | int | None
    max_requests: int | None
    max_cost: int | None


class RetryableOptions(TypedDict, total=False):
    """Which requests are retried."""

    retry_on: str | Iterable[str | int]
    retry_non_idempotent: bool
    idempotency_key: bool


class PartOptions(TypedDict, total=False):
    """The size of part files, and the space that they leave."""

    part_size: int
    min_free: int | None
    keep_replaced: float | timedelta


class OnlyOption(TypedDict, total=False):
    """Which rows are retried."""

    only: str | Iterable[str | int] | None
