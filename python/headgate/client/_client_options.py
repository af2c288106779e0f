"""The options of a client."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, ClassVar, Final

from headgate._checks import kind_of
from headgate._errors import UsageError
from headgate._foreign import OTHER_TIMEOUTS, SameMeaning, translated
from headgate._native import CookieJar as NativeJar
from headgate._option import OptionSet
from headgate.client._auth import AsyncClientAuthOption, ClientAuthOption
from headgate.client._cookies import ClientCookiesOption, of_option
from headgate.client._hooks import ClientHooksOption, hooks_of
from headgate.client._timeouts import CHANGED, ClientTimeoutOptions, of_calls_and_of_many
from headgate.client._url import text_of
from headgate.jobs import _keywords as keywords
from headgate.jobs._arguments import Arguments
from headgate.jobs._job_options import JobOptions
from headgate.jobs._options import ConnectionOptions, option_set


class _SharedKeywords(
    keywords.PolicyOptions,
    keywords.HeaderOptions,
    keywords.BearerOption,
    keywords.TokenOptions,
    ClientCookiesOption,
    ClientHooksOption,
    keywords.CompressOption,
    keywords.FollowOption,
    keywords.ReadOptions,
    keywords.SelectedOptions,
    ConnectionOptions,
    keywords.ConcurrencyOption,
    keywords.BodyLimitOptions,
    ClientTimeoutOptions,
    keywords.ResourceOptions,
    keywords.SettableRateOptions,
    keywords.HostByOption,
    keywords.CostRuleOptions,
    keywords.SettableRetryOptions,
    keywords.RetryableOptions,
    total=False,
):
    """The options of both clients: those of `headgate.fetch` that are not about its input and its output."""


class ClientKeywords(_SharedKeywords, ClientAuthOption, total=False):
    """The options of `headgate.Client`."""


class AsyncClientKeywords(_SharedKeywords, AsyncClientAuthOption, total=False):
    """The options of `headgate.AsyncClient`."""


class ClientArguments(ClientKeywords, SameMeaning, total=False):
    """The keyword arguments of a client: its options, and names of other libraries that have the same meaning."""


class AsyncClientArguments(AsyncClientKeywords, SameMeaning, total=False):
    """The keyword arguments of a client for event loops."""


CLIENT: Final = option_set(ClientKeywords, of="Client", **CHANGED)
OF_CONNECTIONS: Final = tuple(ConnectionOptions.__annotations__)
"""The names of the options of connections."""
ASYNC_CLIENT: Final = option_set(AsyncClientKeywords, of="AsyncClient", **CHANGED)


_UNBOUND: Final = (
    "is a credential, and nothing says which hosts may get it: give base_url, or name their origins with"
    " credentials_for='https://api.example.com'"
)


class ClientOptions(JobOptions):
    """The options of a client, as the engine reads them."""

    options: ClassVar[OptionSet[Any]] = CLIENT

    def __init__(
        self,
        *,
        base_url: str,
        params: Sequence[tuple[str, str]],
        app: object = None,
        **given: Any,  # noqa: ANN401 - what the entries say
    ) -> None:
        super().__init__(given)
        # Each request may have a cost. The caller gets each failure, so failures never stop the run.
        has_costs = self.cost_rate is not None and self.cost_estimate is None
        vars(self).update(
            of_calls_and_of_many(vars(self), given),
            base_url=base_url,
            params=params,
            app=app,
            cost_column="cost" if has_costs else None,
            max_failures="never",
        )

    @property
    def cookie_jar(self) -> NativeJar | None:
        """The jar of the cookies in this process."""
        return None if self.cookies is None else self.cookies.bound.native


def options_of(
    options: OptionSet[Any],
    given: dict[str, Any],
    base_url: str,
    params: Sequence[tuple[str, str]],
    app: object,
) -> ClientOptions:
    """Returns the complete options of a client.

    Raises:
        TypeError: There is no such option.
        UsageError: An option has an invalid value.
    """
    given = translated(given, options.entries, options.of)
    arguments = Arguments()
    if isinstance(given.get("cert"), tuple | list):
        arguments.wrong("cert", "must be one path: the private key has an option of its own, key='key.pem'")
    for name in ("timeout", "connect_timeout", "total_timeout", "pool_timeout"):
        if not isinstance(given.get(name), int | float | timedelta | None):
            kind = kind_of(given[name])
            arguments.wrong(name, f"must be a number of seconds, not {kind}: {OTHER_TIMEOUTS}")
    read = arguments.read(options, given)
    if given.get("auth") is not None and not base_url and not given.get("credentials_for"):
        arguments.wrong("auth", _UNBOUND)
    try:
        read["cookies"] = of_option(read.get("cookies"), base_url)
    except (TypeError, ValueError) as error:
        arguments.wrong("cookies", str(error).removeprefix("cookies "))
        read["cookies"] = None
    try:
        read["hooks"] = hooks_of(read.get("hooks"), may_be_async=options.of == ASYNC_CLIENT.of)
    except TypeError as error:
        arguments.wrong("hooks", str(error))
        read["hooks"] = None
    of_client = ClientOptions(base_url=base_url, params=params, app=app, **read)
    arguments.check(of_client)
    return of_client


def base_url_of(base_url: object) -> str:
    """Returns the checked `base_url`.

    Raises:
        UsageError: It is not a URL.
    """
    text = text_of(base_url)
    if text is None or (text and not text.startswith(("http://", "https://"))):
        raise UsageError(f"base_url must be a URL such as 'https://api.example.com/v1', not {base_url!r}")
    return text


def params_of(params: Any) -> Sequence[tuple[str, str]]:  # noqa: ANN401 - what callers give
    """Returns the parameters of a client as names and values.

    Raises:
        UsageError: They are no parameters.
    """
    if params is None:
        return ()
    from headgate.client._pairs import pairs_of  # noqa: PLC0415 - most clients have none

    try:
        return query_pairs(params) if isinstance(params, str) else pairs_of("params", params)
    except TypeError as error:
        raise UsageError(str(error)) from None


def query_pairs(query: str) -> list[tuple[str, str]]:
    """Returns the names and values in a query."""
    from urllib.parse import parse_qsl  # noqa: PLC0415 - as above

    return parse_qsl(query.removeprefix("?"), keep_blank_values=True)
