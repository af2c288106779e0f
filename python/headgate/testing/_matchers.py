"""The conditions of a pattern, each made of one of its arguments."""

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from io import IOBase
from types import BuiltinFunctionType, CoroutineType, FunctionType, MethodType, NoneType
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from headgate._checks import kind_of
from headgate.client._pairs import LITERALS
from headgate.testing._calls import MockRequest
from headgate.testing._form import MockFile

Text: TypeAlias = str | re.Pattern[str]
"""A text that must be equal, or a regular expression that must match somewhere in it."""

RequestMatcher: TypeAlias = Callable[[MockRequest], Mapping[str, str] | None]
"""Returns the values of the named groups of a pattern for a request; `None` if the request does not match."""

_MATCHES: Final[Mapping[str, str]] = {}
_PORTS: Final = {"http": 80, "https": 443}
_NAMED: Final = re.compile(r"\{(\w+)\}")
_SAFE: Final = "/%:@!$&'()*+,;=~"
_FUNCTIONS: Final = (FunctionType, MethodType, BuiltinFunctionType, partial)
_PREDICATE: Final = "a function of the request is matches=function"
_OBJECTS: Final = "a regular expression or unittest.mock.ANY"
_NO_JSON: Final = (bytes, bytearray, memoryview, set, frozenset)
_NO_TEXT: Final = (*_NO_JSON, list, tuple, Mapping)
_NO_CONTENT: Final = (int, float, list, tuple, set, frozenset, Mapping, NoneType)


def of_method(method: object) -> RequestMatcher:
    """Returns the condition for a method.

    Raises:
        TypeError: It is not text.
    """
    return _equals(lambda request: request.method, _text("method", method).upper())


def of_url(base_url: str, url: object) -> Iterable[RequestMatcher]:
    """Returns the conditions for a URL.

    Raises:
        TypeError: It is neither text nor a regular expression.
        ValueError: No URL can match it.
    """
    if isinstance(url, re.Pattern):
        return (_text_matches(lambda request: request.url, _pattern("url", url)),)
    if not isinstance(url, str):
        raise TypeError(f"url must be text or a regular expression, not {kind_of(url)}")
    return tuple(_of_whole_url(joined(base_url, url)))


def of_prefix(base_url: str, prefix: object) -> RequestMatcher:
    """Returns the condition for the beginning of a URL. Raises as `of_url`."""
    whole = joined(base_url, _text("prefix", prefix))
    if not whole.startswith(("/", "http://", "https://")):
        raise ValueError(f"prefix must begin with http://, https:// or /, not {prefix!r}")
    return _starts_with((lambda request: request.path) if whole[0] == "/" else (lambda request: request.url), whole)


def joined(base_url: str, url: str) -> str:
    """Returns a URL: a path is below `base_url`."""
    return base_url.rstrip("/") + url if base_url and url.startswith("/") else url


def _text(name: str, given: object) -> str:
    if not isinstance(given, str):
        raise TypeError(f"{name} must be text, not {kind_of(given)}")
    return given


def _pattern(name: str, given: re.Pattern[Any]) -> re.Pattern[str]:
    if not isinstance(given.pattern, str):
        raise TypeError(f"{name} must be a regular expression for text, not for bytes")
    return given


def _text_or_pattern(name: str, given: object) -> Text:
    if isinstance(given, re.Pattern):
        return _pattern(name, given)
    if isinstance(given, str):
        return given
    raise TypeError(f"{name} must be text or a regular expression, not {kind_of(given)}")


def _mapping(name: str, given: object) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise TypeError(f"{name} must be a mapping of names and values, not {kind_of(given)}")
    for key in given:
        if not isinstance(key, str):
            raise TypeError(f"{name} must have names in text, not {kind_of(key)}")
    return given


def _check(name: str, given: object, kinds: str, wrong: tuple[type, ...], *, is_text: bool = False) -> None:
    """Checks that a value can equal one of a request: it has no `wrong` type, and compares itself, as `ANY` does.

    Raises:
        TypeError: It can't; `kinds` says what can.
    """
    if isinstance(given, _FUNCTIONS):
        raise TypeError(f"{name} must be a value, not a function: {_PREDICATE}")
    # Text may also equal what `str` returns, which is what the client sends.
    compares = type(given).__eq__ is not object.__eq__ or (is_text and type(given).__str__ is not object.__str__)
    if isinstance(given, wrong) or not (compares or given is None):
        raise TypeError(f"{name} must be {kinds}, not {kind_of(given)}")


def _check_text(name: str, given: object, *wrong: type) -> None:
    _check(name, given, f"text, a number, {_OBJECTS}", (*_NO_TEXT, *wrong), is_text=True)
    if isinstance(given, re.Pattern):
        _pattern(name, given)


def _of_whole_url(url: str) -> Iterable[RequestMatcher]:
    if not url.startswith(("/", "http://", "https://")):
        raise ValueError(f"url must begin with http://, https:// or /, not {url!r}; prefix= takes the beginning of one")
    parts = urlsplit(url)
    if parts.scheme:
        port = parts.port or _PORTS[parts.scheme]
        authority = parts.scheme, _ascii(parts.hostname or ""), port
        yield _equals(lambda request: (request.scheme, request.host, request.port), authority)
    yield _path(parts.path or "/")
    if parts.query:
        query = sorted(parse_qsl(parts.query, keep_blank_values=True))
        yield _equals(lambda request: sorted(parse_qsl(request.query, keep_blank_values=True)), query)


def _ascii(host: str) -> str:
    """Returns the hostname as it is sent."""
    return host if host.isascii() else host.encode("idna").decode()


def _path(given: object) -> RequestMatcher:
    path = _text_or_pattern("path", given)
    if isinstance(path, re.Pattern):
        return _text_matches(lambda request: request.path, path)
    if not path.startswith("/"):
        raise ValueError(f"path must begin with /, not {path!r}")
    if not _NAMED.search(path):
        sent = quote(path, safe=_SAFE)
        return _equals(lambda request: quote(request.path, safe=_SAFE), sent)
    # Every second part is a name.
    parts = [
        f"(?P<{part}>[^/]+)" if number % 2 else re.escape(quote(part, safe=_SAFE))
        for number, part in enumerate(_NAMED.split(path))
    ]
    whole = re.compile("".join(parts))

    def check(request: MockRequest) -> Mapping[str, str] | None:
        found = whole.fullmatch(request.path)
        return {name: unquote(value) for name, value in found.groupdict().items()} if found else None

    return check


def _equals(part: Callable[[MockRequest], object], expected: object) -> RequestMatcher:
    return lambda request: _MATCHES if part(request) == expected else None


def _starts_with(part: Callable[[MockRequest], str], expected: str) -> RequestMatcher:
    return lambda request: _MATCHES if part(request).startswith(expected) else None


def _text_matches(part: Callable[[MockRequest], str], expected: Text) -> RequestMatcher:
    if isinstance(expected, str):
        return _equals(part, expected)

    def check(request: MockRequest) -> Mapping[str, str] | None:
        found = expected.search(part(request))
        return {name: value for name, value in found.groupdict().items() if value is not None} if found else None

    return check


def _matches_value(expected: object, found: str) -> bool:
    if isinstance(expected, re.Pattern):
        return expected.search(found) is not None
    # `unittest.mock.ANY` equals everything.
    return bool(expected == found) or str(expected) == found


def _has_values(name: str, given: object, part: Callable[[MockRequest], Mapping[str, Sequence[str]]]) -> RequestMatcher:
    """Returns the condition that a part of a request has some names with some values, as the client sends them."""
    expected: dict[str, list[Any]] = {}
    for key, values in _mapping(name, given).items():
        expected[key] = []
        for value in values if isinstance(values, list | tuple) else (values,):
            _check_text(f"{name}[{key!r}]", value)
            is_literal = value is None or isinstance(value, bool)
            expected[key].append(LITERALS[value] if is_literal else value)

    def check(request: MockRequest) -> Mapping[str, str] | None:
        found = part(request)
        for key, values in expected.items():
            if not all(any(_matches_value(value, text) for text in found.get(key, ())) for value in values):
                return None
        return _MATCHES

    return check


def _has_texts(name: str, given: object, part: Callable[[MockRequest], Mapping[str, str]]) -> RequestMatcher:
    """Returns the condition that a part of a request has some names, each with one value."""
    expected = dict(_mapping(name, given))
    for key, value in expected.items():
        _check_text(f"{name}[{key!r}]", value, bool, NoneType)

    def check(request: MockRequest) -> Mapping[str, str] | None:
        found = part(request)
        is_match = all(key in found and _matches_value(value, found[key]) for key, value in expected.items())
        return _MATCHES if is_match else None

    return check


def _has_files(given: object) -> RequestMatcher:
    expected = _mapping("files", given)
    for key, file in expected.items():
        name = f"files[{key!r}]"
        file_name, content, *kind = file if isinstance(file, tuple) and len(file) in {2, 3} else ("", file)
        for text in (file_name, *kind):
            _check_text(name, text, bool, NoneType)
        _check(
            name,
            content,
            f"bytes, text, {_OBJECTS}, or a tuple: (file name, content) or (file name, content, media type)",
            (*_NO_CONTENT, IOBase),
        )

    def check(request: MockRequest) -> Mapping[str, str] | None:
        found = request.files
        is_match = all(any(_is_file(file, one) for one in found.get(name, ())) for name, file in expected.items())
        return _MATCHES if is_match else None

    return check


def _is_file(expected: object, found: MockFile) -> bool:
    if not isinstance(expected, tuple):
        return _is_content(expected, found.content)
    name, content, *kind = expected
    has_kind = not kind or _matches_value(kind[0], found.content_type)
    return has_kind and _matches_value(name, found.name) and _is_content(content, found.content)


def _is_content(expected: object, found: bytes) -> bool:
    if isinstance(expected, re.Pattern):
        return (
            expected.search(found if isinstance(expected.pattern, bytes) else found.decode(errors="replace"))
            is not None
        )
    return bool(expected == found) or (isinstance(expected, str) and expected.encode() == found)


def _has_json(expected: object) -> RequestMatcher:
    _check_json("json_body", expected)

    def check(request: MockRequest) -> Mapping[str, str] | None:
        try:
            found = request.json()
        except ValueError:
            return None
        return _MATCHES if _is_same_json(expected, found) else None

    return check


def _check_json(name: str, given: object) -> None:
    """Raises an error for what is no value of JSON, and no object that compares itself."""
    if isinstance(given, Mapping):
        for key, value in given.items():
            if not isinstance(key, str):
                raise TypeError(f"{name} must have names in text, not {kind_of(key)}")
            _check_json(f"{name}[{key!r}]", value)
    elif isinstance(given, list | tuple):
        for number, value in enumerate(given):
            _check_json(f"{name}[{number}]", value)
    else:
        _check(name, given, "a value of JSON", _NO_JSON)


def _is_same_json(expected: object, found: object) -> bool:
    """Returns whether the values are equal; `true` and 1, which are equal in Python, are not."""
    if isinstance(expected, Mapping) and isinstance(found, dict):
        return expected.keys() == found.keys() and all(_is_same_json(expected[name], found[name]) for name in found)
    if isinstance(expected, list | tuple) and isinstance(found, list):
        return len(expected) == len(found) and all(map(_is_same_json, expected, found))
    if isinstance(expected, re.Pattern):
        return isinstance(found, str) and expected.search(found) is not None
    is_bool = isinstance(expected, bool), isinstance(found, bool)
    return bool(expected == found) and (all(is_bool) or not (any(is_bool) and isinstance(expected, int | float)))


def _has_body(expected: object) -> RequestMatcher:
    if isinstance(expected, bytes | bytearray):
        return _equals(lambda request: request.content, bytes(expected))
    if not isinstance(expected, str | re.Pattern):
        raise TypeError(f"body must be bytes, text or a regular expression, not {kind_of(expected)}")
    return _text_matches(lambda request: request.text, _text_or_pattern("body", expected))


def _matches(predicate: object) -> RequestMatcher:
    if not callable(predicate) or inspect.iscoroutinefunction(predicate):
        kind = "an asynchronous one" if callable(predicate) else kind_of(predicate)
        raise TypeError(f"matches must be a plain function of a request, not {kind}")

    def check(request: MockRequest) -> Mapping[str, str] | None:
        found = predicate(request)
        if isinstance(found, Awaitable):
            if isinstance(found, CoroutineType):
                found.close()
            raise TypeError("matches must be a plain function of a request: this one has returned an awaitable")
        return _MATCHES if found else None

    return check


def _port(port: object) -> RequestMatcher:
    if isinstance(port, bool) or not isinstance(port, int):
        raise TypeError(f"port must be a number, not {kind_of(port)}")
    return _equals(lambda request: request.port, port)


MATCHERS: Final[Mapping[str, Callable[[Any], RequestMatcher]]] = {
    "scheme": lambda scheme: _equals(lambda request: request.scheme, _text("scheme", scheme).lower()),
    "host": lambda host: _text_matches(lambda request: request.host, _text_or_pattern("host", host)),
    "port": _port,
    "path": _path,
    "params": lambda given: _has_values("params", given, lambda request: request.params),
    "headers": lambda given: _has_texts("headers", given, lambda request: request.headers),
    "cookies": lambda given: _has_texts("cookies", given, lambda request: request.cookies),
    "json_body": _has_json,
    "body": _has_body,
    "data": lambda given: _has_values("data", given, lambda request: request.form),
    "files": _has_files,
    "matches": _matches,
}
"""Makes a condition of each argument of a pattern, besides `prefix`. Raises a `TypeError` for one of the wrong type."""
