"""The options of a client."""

from typing import Any, ClassVar, Final

from headgate._errors import UsageError
from headgate._option import OptionSet
from headgate.jobs import _keywords as keywords
from headgate.jobs._arguments import Arguments
from headgate.jobs._job_options import JobOptions
from headgate.jobs._options import ConnectionOptions, RequestLimitOptions, option_set


class ClientKeywords(
    keywords.PolicyOptions,
    keywords.HeaderOptions,
    keywords.CompressOption,
    keywords.FollowOption,
    keywords.ReadOptions,
    keywords.SelectedOptions,
    ConnectionOptions,
    RequestLimitOptions,
    keywords.SettableRateOptions,
    keywords.LimitByOption,
    keywords.CostRuleOptions,
    keywords.SettableRetryOptions,
    keywords.RetryableOptions,
    total=False,
):
    """The options of `headgate.Client`: those of `headgate.fetch` that are not about its input and its output."""


CLIENT: Final = option_set(ClientKeywords, of="Client")

_FOREIGN_NAMES: Final = {
    "timeout": "timeout_s=30, seconds for each attempt, and connect_timeout_s",
    "verify": "insecure=True in place of verify=False, cacert='ca.pem' in place of a path",
    "follow_redirects": "redirects: 'follow', 'same-origin' or 'none'",
    "allow_redirects": "redirects: 'follow', 'same-origin' or 'none'",
    "auth": "user='name:password' or bearer='token'",
    "proxies": "proxy='http://...'",
    "limits": "concurrency=256 and concurrency_per_host",
    "pool_connections": "concurrency",
    "pool_maxsize": "concurrency",
    "connector": "concurrency=256 and concurrency_per_host",
    "max_retries": "retries=3",
    "http2": "http1_1=True for HTTP/1.1 only: HTTP/2 is used wherever a server offers it",
    "http1": "http1_1=True for HTTP/1.1 only",
    "trust_env": "proxy='env', which is not the default",
    "transport": "headgate.testing.mock, which answers requests in tests",
    "mounts": "headgate.testing.mock, which answers requests in tests",
    "event_hooks": "a function of yours that is called with each response",
    "ssl": "insecure=True in place of ssl=False, cacert='ca.pem' in place of a context",
    "cookie_jar": "headers={'Cookie': '...'}: cookies are kept within the redirects of one request only",
    "params": "params of each request",
}
"""Names that httpx, requests and aiohttp use for options that have another name here."""


class ClientOptions(JobOptions):
    """The options of a client, as the engine reads them."""

    options: ClassVar[OptionSet[Any]] = CLIENT

    def __init__(self, *, base_url: str = "", **given: Any) -> None:  # noqa: ANN401 - what the entries say
        super().__init__(given)
        # Each request may have a cost. The caller gets each failure, so failures never stop the run.
        has_costs = self.rate_cost is not None and self.cost_of is None
        vars(self).update(base_url=base_url, cost_column="cost" if has_costs else None, stop_when_failed="never")


def options_of(given: dict[str, Any], of: str, base_url: str) -> ClientOptions:
    """Returns the complete options of a client.

    Raises:
        TypeError: There is no such option.
        UsageError: An option has an invalid value.
    """
    for name in given:
        if name not in CLIENT.entries and name in _FOREIGN_NAMES:
            raise TypeError(f"{of}() has no {name!r}: here it is {_FOREIGN_NAMES[name]}")
    arguments = Arguments()
    options = ClientOptions(base_url=base_url, **arguments.read(CLIENT, given))
    arguments.check(options)
    return options


def base_url_of(base_url: object) -> str:
    """Returns the checked `base_url`.

    Raises:
        UsageError: It is not a URL.
    """
    if not isinstance(base_url, str) or (base_url and not base_url.startswith(("http://", "https://"))):
        raise UsageError(f"base_url must be a URL such as 'https://api.example.com/v1', not {base_url!r}")
    return base_url
