"""What a call of a client takes, beside the method and the URL."""

from collections.abc import Iterable, Mapping
from typing import Any, TypedDict

from headgate.client._body import Files, Pairs
from headgate.jobs._option_entry import Redirects


class RequestKeywords(TypedDict, total=False):
    """As `headgate.Request` describes them."""

    headers: Mapping[str, str] | Iterable[tuple[str, str]] | None
    params: Pairs | str | None
    content: bytes | str | None
    data: Pairs | bytes | str | None
    files: Files | None
    json: Any
    timeout_s: float | None
    auth: tuple[str, str] | None
    redirects: Redirects | None
    cost: float | None
