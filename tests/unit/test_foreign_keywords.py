"""Names of arguments in other libraries: each is accepted, or refused with the name that headgate has for it."""

import asyncio
import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any, Final

import pytest

import headgate
import headgate.testing
from headgate._foreign import ATTRIBUTES, MEANINGS, MEMBERS, UNSUPPORTED

URL: Final = "http://127.0.0.1:1/"
NOT_OPTIONS: Final = {"name", "q", "verify"}
"""Words before an equals sign in the messages that are no options of headgate."""
ACCEPTED: Final = ""

OF_CLIENTS = [
    ("httpx", "base_url", "http://127.0.0.1:1", ACCEPTED),
    ("httpx", "headers", {"X-Trace": "7"}, ACCEPTED),
    ("httpx", "timeout", 5, ACCEPTED),
    ("httpx", "max_redirects", 5, ACCEPTED),
    ("httpx", "proxy", "http://127.0.0.1:1", ACCEPTED),
    ("httpx", "verify", True, ACCEPTED),
    ("httpx", "verify", False, "insecure=True"),
    ("httpx", "verify", "ca.pem", "cacert='ca.pem'"),
    ("httpx", "params", {"page": 1}, ACCEPTED),
    ("httpx", "cookies", {}, ACCEPTED),
    ("httpx", "follow_redirects", True, ACCEPTED),
    ("httpx", "limits", None, "concurrency=256"),
    ("httpx", "http1", True, "http1_1=True"),
    ("httpx", "http2", True, ACCEPTED),
    ("httpx", "http2", False, "http1_1=True"),
    ("httpx", "trust_env", False, "proxy='env'"),
    ("httpx", "transport", None, "headgate.testing.mock"),
    ("httpx", "mounts", {}, "headgate.testing.mock"),
    ("httpx", "event_hooks", {}, "hooks={'request': function"),
    ("httpx", "default_encoding", "latin-1", "response.encoding = 'latin-1'"),
    ("httpx", "max_connections", 10, "concurrency=256"),
    ("httpx", "max_keepalive_connections", 10, "max_idle_connections=100"),
    ("httpx", "keepalive_expiry", 5, "max_idle_connections"),
    ("httpx", "pool_timeout", 5, ACCEPTED),
    ("requests", "allow_redirects", False, ACCEPTED),
    ("requests", "proxies", {}, "proxy='http://proxy.example:8080'"),
    ("requests", "max_retries", 3, "retries=3"),
    ("tenacity", "retry", 3, "retries=3, in addition to the first attempt"),
    ("backoff", "max_tries", 3, "retries=2, in addition to the first attempt"),
    ("aiolimiter", "rate_limit", 3, "rate='100/s'"),
    ("requests", "pool_connections", 10, "concurrency=256"),
    ("requests", "pool_maxsize", 10, "concurrency=256"),
    ("requests", "hooks", {}, ACCEPTED),
    ("urllib3", "retries", 3, ACCEPTED),
    ("urllib3", "backoff_factor", 0.1, "retry_delay=0.5"),
    ("urllib3", "status_forcelist", [503], "retry_on='429,503'"),
    ("urllib3", "source_address", ("192.0.2.1", 0), "local_address='192.0.2.1'"),
    ("aiohttp", "connector", None, "concurrency_per_host=8"),
    ("aiohttp", "limit", 10, "concurrency=256"),
    ("aiohttp", "limit_per_host", 10, "concurrency_per_host=8"),
    ("aiohttp", "cookie_jar", None, "cookies=True"),
    ("aiohttp", "raise_for_status", True, "response.raise_for_status()"),
    ("aiohttp", "auto_decompress", False, "decode=False"),
    ("aiohttp", "trace_configs", [], "hooks={'request': function"),
    ("aiohttp", "ssl", False, "insecure=True"),
    ("aiohttp", "proxy_auth", None, "proxy='http://name:password@proxy.example:8080'"),
]
"""Of each argument: the library, its name there, a value, and what the message must contain."""

OF_CALLS = [
    ("httpx", "params", {"page": 1}, ACCEPTED),
    ("httpx", "headers", {"X-Trace": "7"}, ACCEPTED),
    ("httpx", "content", b"a", ACCEPTED),
    ("httpx", "data", {"a": "1"}, ACCEPTED),
    ("httpx", "files", {"a": b"1"}, ACCEPTED),
    ("httpx", "json", {"a": 1}, ACCEPTED),
    ("httpx", "auth", ("ann", "secret"), ACCEPTED),
    ("httpx", "timeout", 5, ACCEPTED),
    ("httpx", "follow_redirects", True, ACCEPTED),
    ("httpx", "cookies", {"a": "1"}, ACCEPTED),
    ("httpx", "extensions", {}, "an option of the client"),
    ("httpx", "verify", False, "the client has insecure=True"),
    ("httpx", "cert", "client.pem", "headgate.Client(cert=...)"),
    ("httpx", "proxy", "http://127.0.0.1:1", "headgate.Client(proxy=...)"),
    ("requests", "allow_redirects", False, ACCEPTED),
    ("requests", "proxies", {}, "the client has proxy="),
    ("requests", "stream", True, "client.stream(method, url)"),
    ("requests", "hooks", {}, "headgate.Client(hooks=...)"),
    ("urllib3", "body", b"a", "here it is content"),
    ("urllib3", "retries", 3, ACCEPTED),
    ("aiohttp", "max_redirects", 3, ACCEPTED),
    ("aiohttp", "raise_for_status", True, "response.raise_for_status()"),
    ("aiohttp", "compress", True, "the client has compress_body='gzip'"),
    ("aiohttp", "ssl", False, "the client has insecure=True"),
    ("aiohttp", "server_hostname", "a.example", "the client has tls_server_name="),
]

OF_JOBS = [
    ("httpx", "headers", {"X-Trace": "7"}, ACCEPTED),
    ("httpx", "json", {"a": 1}, ACCEPTED),
    ("httpx", "verify", False, "insecure=True"),
    ("httpx", "follow_redirects", False, "redirects='none'"),
    ("httpx", "auth", ("ann", "secret"), ACCEPTED),
    ("httpx", "limits", None, "concurrency=256"),
    ("httpx", "params", {"page": 1}, "url='https://host/?q={q}'"),
    ("httpx", "content", b"a", "here it is data"),
    ("httpx", "files", {}, "form=['name=@path']"),
    ("httpx", "base_url", "http://127.0.0.1:1", "url='https://api.example.com/{id}'"),
    ("requests", "proxies", {}, "proxy="),
    ("requests", "max_retries", 3, "retries=3"),
    ("tenacity", "retry", 3, "retries=3"),
    ("aiohttp", "raise_for_status", True, "fail_on='4xx,5xx'"),
    ("concurrent.futures", "max_workers", 10, "concurrency=256"),
]


def check(call: Any, message: str, library: str) -> None:
    """Calls a function, and checks the message of its `TypeError`; without a message, it must accept the argument."""
    if message == ACCEPTED:
        call()
        return
    with pytest.raises(TypeError) as raised:
        call()
    assert message in str(raised.value), f"for users of {library}"


@pytest.fixture(scope="module")
def client() -> Iterator[headgate.Client]:
    with headgate.Client(retries=0) as client:
        yield client


@pytest.mark.parametrize("kind", [headgate.Client, headgate.AsyncClient])
@pytest.mark.parametrize(("library", "name", "value", "message"), OF_CLIENTS)
def test_a_client_accepts_a_name_or_names_ours(kind: Any, library: str, name: str, value: object, message: str) -> None:
    def create() -> None:
        made = kind(**{name: value})
        made.close() if kind is headgate.Client else asyncio.run(made.aclose())

    check(create, message, library)


@pytest.mark.parametrize(("library", "name", "value", "message"), OF_CALLS)
def test_a_call_accepts_a_name_or_names_ours(
    client: headgate.Client, library: str, name: str, value: object, message: str
) -> None:
    def call() -> None:
        with pytest.raises(headgate.ConnectError):
            client.post(URL, **{name: value})  # type: ignore[arg-type] # some are mistakes

    check(call, message, library)


@pytest.mark.parametrize(("library", "name", "value", "message"), OF_JOBS)
def test_a_job_accepts_a_name_or_names_ours(library: str, name: str, value: object, message: str) -> None:
    options: Any = {name: value}
    check(lambda: headgate.plan("http://127.0.0.1:1/[1-3]", **options), message, library)


def test_the_message_names_the_function() -> None:
    with pytest.raises(TypeError, match=r"^AsyncClient\(\) takes verify=True only: here it is insecure=True"):
        headgate.AsyncClient(verify=False)  # type: ignore[arg-type] # the mistake
    with pytest.raises(
        TypeError, match=r"^fetch\(\) got an unexpected keyword argument 'limits': here it is concurrency"
    ):
        headgate.fetch(URL, "out", limits=5)  # type: ignore[call-arg] # the mistake


@pytest.mark.parametrize("name", ["follow_redirects", "allow_redirects"])
def test_names_of_other_libraries_turn_redirects_on_and_off(name: str) -> None:
    on: dict[str, Any] = {name: True}
    off: dict[str, Any] = {name: False}
    with headgate.testing.mock() as server, headgate.Client(**off) as without, headgate.Client(**on) as client:
        server.get("/from").respond(302, headers={"Location": "/to"})
        server.get("/to").respond(204)
        assert 302 == without.get("http://a.example/from").status_code
        assert 204 == without.get("http://a.example/from", **on).status_code
        assert 204 == client.get("http://a.example/from").status_code
        assert 302 == client.get("http://a.example/from", **off).status_code
        assert 302 == headgate.get("http://a.example/from", verify=True, **off).status_code


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"redirects": "none", "follow_redirects": True}, "redirects and follow_redirects: give one of them"),
        ({"follow_redirects": 1}, "follow_redirects must be True or False, not 1: here it is redirects='follow'"),
    ],
)
def test_a_redirect_option_that_is_given_twice_or_is_no_switch_is_refused(
    client: headgate.Client, options: dict[str, Any], message: str
) -> None:
    for call in (headgate.Client, partial(client.get, URL), partial(headgate.get, URL)):
        with pytest.raises(TypeError, match=message):
            call(**options)


def test_an_option_and_its_opposite_are_refused() -> None:
    with pytest.raises(TypeError, match="verify=True and insecure=True: give one of them"):
        headgate.Client(verify=True, insecure=True)
    with pytest.raises(TypeError, match="http2=True and http1_1=True: give one of them"):
        headgate.Client(http2=True, http1_1=True)


MESSAGES: Final = {
    **{name: text for name, text in UNSUPPORTED.items() if name[0].isupper()},
    **{name: f"here it is {text}" for name, text in ATTRIBUTES.items()},
}


@pytest.mark.parametrize(("name", "message"), MESSAGES.items())
def test_a_name_of_another_library_in_the_module_is_refused_with_ours(name: str, message: str) -> None:
    assert name not in dir(headgate)
    assert {found for found in re.findall(r"headgate\.(\w+)", message) if not hasattr(headgate, found)} == set()
    with pytest.raises(AttributeError) as raised:
        getattr(headgate, name)
    assert f"module 'headgate' has no attribute '{name}': {message}" == str(raised.value)


OF_TASKS = [
    ("concurrency", "limit=100"),
    ("max_concurrency", "limit=100"),
    ("max_workers", "limit=100"),
    ("semaphore", "limit=100, or a headgate.ConcurrencyLimit(100)"),
    ("retries", "retry=headgate.Retry(4), which makes 4 attempts, the first one included"),
    ("max_retries", "retry=headgate.Retry(4)"),
    ("attempts", "retry=headgate.Retry(3)"),
    ("rate_limit", "rate=headgate.Rate(100)"),
]


def for_each_at_once(*given: Any, **options: Any) -> None:
    asyncio.run(headgate.for_each(*given, **options))


@pytest.mark.parametrize("function", [headgate.amap, headgate.map, for_each_at_once])
@pytest.mark.parametrize(("name", "ours"), OF_TASKS)
def test_the_functions_for_tasks_name_their_options(function: Any, name: str, ours: str) -> None:
    with pytest.raises(TypeError) as raised:
        function(asyncio.sleep, [0], limit=1, **{name: 5})
    assert f"here it is {ours}" in str(raised.value)


def test_errors_that_are_returned_have_another_option_where_results_are_not() -> None:
    given: Any = {"return_exceptions": True}
    with pytest.raises(TypeError, match="errors='yield'"):
        headgate.amap(asyncio.sleep, [0], limit=1, **given)
    with pytest.raises(TypeError, match="errors='skip'"):
        for_each_at_once(asyncio.sleep, [0], limit=1, **given)


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("max_attempts", "attempts=3, the first one included"),
        ("tries", "attempts=3"),
        ("stop", "attempts=3"),
        ("wait", "backoff=0.1"),
        ("retry", "on=(ConnectionError, TimeoutError)"),
        ("max_wait", "max_backoff=60"),
    ],
)
def test_a_retry_names_its_arguments(name: str, ours: str) -> None:
    options: Any = {name: 3}
    with pytest.raises(TypeError) as raised:
        headgate.Retry(**options)
    assert f"Retry() got an unexpected keyword argument '{name}': here it is {ours}" in str(raised.value)


def test_a_call_for_many_requests_names_the_option_of_the_client(client: headgate.Client) -> None:
    given: Any = {"concurrency": 5}
    message = r"fetch_many\(\) got .* 'concurrency': it is an option of the client, headgate.Client\(concurrency="
    with pytest.raises(TypeError, match=message):
        client.fetch_many([URL], **given)
    with pytest.raises(TypeError, match=message):
        headgate.AsyncClient().fetch_many([URL], **given)


class Timeout:
    """Like that of httpx."""


@pytest.mark.parametrize("timeout", [Timeout(), (3.05, 27)])
def test_a_value_with_several_timeouts_is_refused_with_the_options_for_them(timeout: Any) -> None:
    with pytest.raises(headgate.UsageError, match=r"a number of seconds, not .* connect_timeout, first_byte_timeout"):
        headgate.Client(timeout=timeout)


@pytest.mark.parametrize("timeout", [Timeout(), (3.05, 27)])
def test_a_call_refuses_such_a_value_too(client: headgate.Client, timeout: Any) -> None:
    with pytest.raises(
        headgate.InvalidRequest, match=r"a number of seconds, not .* connect_timeout, first_byte_timeout"
    ):
        client.get(URL, timeout=timeout)


def test_a_certificate_and_its_key_are_two_options() -> None:
    with pytest.raises(headgate.UsageError, match=r"cert must be one path: .* key='key.pem'"):
        headgate.Client(cert=("client.pem", "key.pem"))  # type: ignore[arg-type] # the mistake


def test_a_call_for_a_token_names_the_option(client: headgate.Client) -> None:
    with pytest.raises(headgate.InvalidRequest, match="bearer='token'"):
        client.get(URL, auth=object())  # type: ignore[arg-type] # the mistake


def an_object(kind: str) -> object:
    """Returns an object of a class that has the attributes of this entry."""
    response = headgate.Response(
        headgate.Request(URL), SimpleNamespace(final_url=URL, elapsed_us=0, attempts=1, status=404)
    )
    objects: dict[str, Callable[[], object]] = {
        "AsyncClient": headgate.AsyncClient,
        "Client": headgate.Client,
        "EngineClient": headgate.Client,
        "RequestError": lambda: headgate.ConnectError("refused"),
        "Response": lambda: response,
        "StatusError": lambda: headgate.StatusError("not found", response),
    }
    # A streamed response is made by a stream alone; its attributes are not read here.
    return objects[kind]() if kind in objects else object.__new__(getattr(headgate, kind))


@pytest.mark.parametrize(
    ("kind", "there", "here"), [(kind, there, here) for kind, names in MEMBERS.items() for there, here in names.items()]
)
def test_an_attribute_of_an_object_of_another_library_is_refused_with_ours(kind: str, there: str, here: str) -> None:
    owner = an_object(kind)
    with pytest.raises(AttributeError) as raised:
        getattr(owner, there)
    assert f"'{type(owner).__name__}' object has no attribute '{there}': here it is {here}" == str(raised.value)
    if re.fullmatch(r"\w+\(\)", here):
        assert hasattr(type(owner), here.removesuffix("()"))
    assert not hasattr(owner, "unknown")


def test_a_client_in_the_block_of_the_other_one_names_it() -> None:
    async def wrong() -> None:
        async with headgate.Client():  # type: ignore[attr-defined] # the mistake
            pass

    with pytest.raises(TypeError, match="for `async with`, there is"):
        asyncio.run(wrong())
    with (
        pytest.raises(TypeError, match="for `with`, there is"),
        headgate.AsyncClient(),  # type: ignore[attr-defined] # the mistake
    ):
        pass


def test_each_name_in_the_table_leads_to_an_option_that_exists() -> None:
    functions: list[Any] = [headgate.Client, headgate.fetch, headgate.amap, headgate.Retry]
    known = {name for function in functions for name in inspect.signature(function).parameters}
    known |= {field.name for field in dataclasses.fields(headgate.Request)}
    for name, meanings in MEANINGS.items():
        for option, text in meanings.items():
            assert option in known, name
            assert [] == [ours for ours in re.findall(r"\b(\w+)=", text) if ours not in known | NOT_OPTIONS]
