"""The `Link` headers of a response (RFC 8288)."""

import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import urljoin

_LINK: Final = re.compile(r"""<([^<>]*)>((?:\s*;\s*[^\s=;,"<>]+(?:\s*=\s*(?:"(?:[^"\\]|\\.)*"|[^;,"<>]*))?|\s*;)*)""")
_PARAMETER: Final = re.compile(r""";\s*([^\s=;,"<>]+)(?:\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^;,"<>]*)))?""")
_ESCAPED: Final = re.compile(r"\\(.)")


def links_of(values: Iterable[str], base: str) -> dict[str, dict[str, str]]:
    """Returns the links by their relation types, or by their URLs if they have none; of several, the last.

    Args:
        values: The values of the headers. What is not a link in them is skipped.
        base: The URL to which the URLs are relative.
    """
    links: dict[str, dict[str, str]] = {}
    for value in values:
        for match in _LINK.finditer(value):
            link = {"url": _absolute(base, match[1].strip())}
            for name, quoted, plain in _PARAMETER.findall(match[2]):
                # Of a parameter that is repeated, the first one counts.
                link.setdefault(name.lower(), _ESCAPED.sub(r"\1", quoted) if quoted else plain.strip(" '"))
            # Case doesn't distinguish relation types (section 3.3).
            for relation in link.get("rel", "").lower().split() or [link["url"]]:
                links[relation] = link
    return links


def _absolute(base: str, url: str) -> str:
    try:
        return urljoin(base, url)
    except ValueError:  # such as that of an IPv6 address without an end
        return url
