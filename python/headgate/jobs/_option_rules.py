"""What the options of a job may be, beyond what any argument may: each rule once.

What is text with a grammar of its own the engine reads, and says what is wrong with it.
"""

import re
from typing import Any, Final

from headgate import _checks
from headgate._checks import SECONDS, kind_of, number, text

NO_STATUS: Final = "none"
SYSTEM_NAMES: Final = "system"

LONGEST_WAIT_S: Final = 365 * 24 * 3600.0
"""No timeout is longer than a year: beyond it clocks overflow, and nobody waits."""

MOST: Final = 2**63 - 1
"""The largest whole number that crosses into the engine and its columns."""

# RFC 9110 section 5.6.2: what methods and names of headers are made of.
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# RFC 9110 section 15: three digits, the first of which names the class.
_STATUS: Final = re.compile(r"[1-9](?:[0-9]{2}|xx|XX)")
_WITH_PORT: Final = re.compile(r"(?:\[(?P<in_brackets>[^]]*)\]|(?P<bare>[^:]*))(?::(?P<port>[0-9]+))?")
_HIGHEST_PORT: Final = 65535
_DELETE: Final = 0x7F
# RFC 9110 section 14.1.1: the first and the last byte, or how many at the end.
_BYTE_RANGES: Final = re.compile(r"(?:\d+-\d*|-\d+)(?:,(?:\d+-\d*|-\d+))*")
_NOT_IN_A_HEADER: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")

at_least_0: Final = _checks.whole(0, MOST)
at_least_1: Final = _checks.whole(1, MOST)
burst: Final = _checks.whole(1, 2**32 - 1)
retries: Final = _checks.whole(0, 2**16 - 1)
redirects: Final = _checks.whole(1, 1000)
streams: Final = _checks.whole(1, 2**16 - 1)
connections_to_host: Final = _checks.whole(1, 2**16 - 1)
at_least_1_mib: Final = _checks.whole(1024**2, MOST)
time: Final = number(
    lambda seconds: 0 < seconds <= LONGEST_WAIT_S,
    f"more than 0 seconds and at most {LONGEST_WAIT_S:.0f}",
    kind=SECONDS,
)
time_or_none: Final = number(
    lambda seconds: 0 <= seconds <= LONGEST_WAIT_S,
    f"0 seconds or more and at most {LONGEST_WAIT_S:.0f}",
    kind=SECONDS,
)


def rate(value: str) -> None:
    """So many in a time: `100/s`."""
    if not isinstance(value, str):
        raise TypeError(f"must be text such as '100/s', not {kind_of(value)}")
    _ask_engine("rate", value)


def host_rate(value: tuple[tuple[str, str], ...]) -> None:
    """Rates of hosts; what their names may be depends on what counts as a host."""
    for _, text_of_one in value:
        _ask_engine("rate", text_of_one)


def host_concurrency(value: tuple[tuple[str, str], ...]) -> None:
    """Numbers of requests, or `auto`, of hosts; their names as above."""
    for _, text_of_one in value:
        _ask_engine("concurrency_per_host", text_of_one)


def failures(value: str) -> None:
    """Kinds of errors, statuses and classes, between commas."""
    text(value)
    _ask_engine("retry_on", value)


def share_of_failures(value: str) -> None:
    """A share, a number of rows, or `never`."""
    _ask_engine("stop_when_failed", value)


def host(value: str, *, limit_by: str) -> None:
    """A host, where hosts are told apart so."""
    from headgate import _native  # noqa: PLC0415 - not for the help

    text(value)
    _refuse(list(filter(None, [_native.mistake_in_host(value, limit_by)])))


def _ask_engine(option: str, value: str) -> None:
    from headgate import _native  # noqa: PLC0415 - not for the help

    text(value)
    _refuse(list(filter(None, [_native.mistake_in(option, value)])))


def origins(value: tuple[str, ...]) -> None:
    """Origins, each as the engine reads it."""
    for one in value:
        _ask_engine("credentials_for", one)


def column(value: str) -> None:
    """The name of a column."""
    text(value)
    if not value:
        raise ValueError("is empty: name a column of the input")


def name_server(value: str) -> None:
    """Who is asked for addresses: `system`, or an IP address with or without a port."""
    from ipaddress import ip_address  # noqa: PLC0415 - not for the help

    text(value)
    found = _WITH_PORT.fullmatch(value)
    host, port = (found["in_brackets"] or found["bare"], found["port"]) if found else (value, None)
    try:
        if value != SYSTEM_NAMES:
            ip_address(host)
        is_right = port is None or 0 < int(port) <= _HIGHEST_PORT
    except ValueError:
        is_right = False
    if not is_right:
        raise ValueError(f"must be the IP address of a name server, with or without a port, or system, not {value!r}")


def text_that_is_there(value: str) -> None:
    """Some text."""
    text(value)
    if not value:
        raise ValueError("is empty")


def texts(value: tuple[str, ...]) -> None:
    """Texts with a grammar of their own, which is for the engine to read."""
    for one in value:
        text_that_is_there(one)


def addresses(value: tuple[str, ...]) -> None:
    """IP addresses."""
    from ipaddress import ip_address  # noqa: PLC0415 - not for the help

    wrong = []
    for one in value:
        try:
            ip_address(one)
        except ValueError:
            wrong.append(f"{one!r} is not an IP address")
    _refuse(wrong)


def networks_to_allow(value: tuple[str, ...]) -> None:
    """Networks, as `10.0.0.0/8`, and addresses."""
    for one in value:
        _ask_engine("allow_net", one)


def networks_to_deny(value: tuple[str, ...]) -> None:
    """As above."""
    for one in value:
        _ask_engine("deny_net", one)


def ports(value: tuple[str, ...]) -> None:
    """Numbers of ports."""
    is_port = re.compile(r"[0-9]{1,5}").fullmatch
    _refuse([f"{one!r} is no port" for one in value if not (is_port(one) and 0 < int(one) <= _HIGHEST_PORT)])


def byte_range(value: str) -> None:
    """Ranges of bytes."""
    text(value)
    plain = value.replace(" ", "")
    if not _BYTE_RANGES.fullmatch(plain):
        raise ValueError(f"{value!r} is not a range of bytes: write 0-499, 500- or -500")
    for first, last in (part.split("-") for part in plain.split(",")):
        if first and last and int(first) > int(last):
            raise ValueError(f"{value!r} ends before it begins")


def columns(value: tuple[str, ...]) -> None:
    """Names of columns; whether the input has them is for the engine to say."""
    for name in value:
        text(name)


def method(value: str) -> None:
    """An HTTP method."""
    text(value)
    if not _TOKEN.fullmatch(value):
        raise ValueError(f"{value!r} is not an HTTP method")


def header_value(value: str) -> None:
    """What a header may hold."""
    text(value)
    if _NOT_IN_A_HEADER.search(value):
        raise ValueError("holds a control character")


def headers(value: Any) -> None:  # noqa: ANN401 - pairs of text, which the faces have made of what was given
    """Headers, as pairs."""
    wrong = []
    for name, words in value:
        if not _TOKEN.fullmatch(name):
            wrong.append(f"{name!r} is not a header name")
            continue
        try:
            header_value(words)
        except ValueError as error:
            wrong.append(f"{name} {error}")
    _refuse(wrong)


def header_names(value: tuple[str, ...]) -> None:
    """Names of headers."""
    _refuse([f"{name!r} is not a header name" for name in value if not _TOKEN.fullmatch(name)])


def token(value: str) -> None:
    """What is sent as `Bearer`."""
    if not value:
        raise ValueError("is empty")
    header_value(value)


def user(value: bytes) -> None:
    """A name and a password, as RFC 7617 has them."""
    if b":" not in value:
        raise ValueError("has no password: write NAME:PASSWORD, or NAME: where it is empty")
    if any(byte < ord(" ") or byte == _DELETE for byte in value):
        raise ValueError("holds a control character")


def statuses(value: str) -> None:
    """Statuses and classes of them, between commas."""
    text(value)
    if value.strip() not in ("", NO_STATUS):
        parts = [part for part in map(str.strip, value.split(",")) if not _STATUS.fullmatch(part)]
        _refuse([f"{part!r} is not a status: write codes and classes, such as 429,5xx, or none" for part in parts])


def kinds(value: tuple[str, ...]) -> None:
    """Kinds of failures; whether there are such is for the engine to say."""
    for kind in value:
        text(kind)
        if not kind:
            raise ValueError("names an empty kind: write kinds such as timeout,status:503")


def _refuse(wrong: list[str]) -> None:
    if wrong:
        raise ValueError("; ".join(wrong))
