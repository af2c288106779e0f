"""Serves the report on a job while the job runs: the page, and its content as JSON for the page to update itself."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from http import HTTPStatus
from ipaddress import ip_address
from socket import getfqdn, gethostname
from threading import Lock
from typing import Any, Final, cast

from headgate._errors import HeadgateError
from headgate._message import Spell
from headgate.jobs import _page
from headgate.jobs._job import report_of
from headgate.jobs._local_server import LocalRequest, LocalServer

_MAX_AGE_S: Final = 1.0
_READING_S: Final = 2.0
_READING_EVERY_S: Final = 10.0
_READING_SHARE: Final = 0.1
"""Results are read for at most 2 s, at intervals of at least 10 s, in at most a tenth of the time."""

_READER_TIMEOUT_S: Final = 30.0
"""The results may have to be read for the response."""

_LOCALHOST: Final = "localhost"


class LiveReport:
    """The content of the page, which is not made more often than once a second, however many readers there are."""

    def __init__(self, output: str, spell: Spell) -> None:
        self._output = output
        self._spell = spell
        self._lock = Lock()
        self._content: dict[str, Any] = {}
        self._made_at = 0.0
        self._results: Any = None
        self._read_from = 0.0

    def content(self) -> dict[str, Any]:
        """Returns the current content.

        Raises:
            OutputError: As `Job.status`.
        """
        with self._lock:
            began = time.monotonic()
            if not self._content or began - self._made_at >= _MAX_AGE_S:
                is_due = began >= self._read_from
                report = report_of(self._output, reading_s=_READING_S if is_due else None, spell=self._spell)
                self._made_at = time.monotonic()
                if is_due:
                    self._results = report.results
                    took = self._made_at - began
                    self._read_from = self._made_at + max(_READING_EVERY_S, took / _READING_SHARE)
                self._content = _page.content(replace(report, results=self._results))
            return self._content


class ReportServer(LocalServer):
    """Listens from its creation on; `serve_until` serves the page."""

    reader_timeout_s: float = _READER_TIMEOUT_S

    def __init__(self, address: str, content: Callable[[], dict[str, Any]]) -> None:
        """Listens.

        Raises:
            UsageError: It can't listen at this address.
        """
        self.content = content
        super().__init__(address, _Request, "serve")

    def is_addressed_by(self, host: str) -> bool:
        """Returns whether a request with this `Host` is meant for this server.

        A page of another site whose name leads here is refused: it has neither an address nor a name of this machine.
        """
        name = (host if host.endswith("]") else host.rpartition(":")[0] or host).strip("[]").lower()
        try:
            ip_address(name)
        except ValueError:
            return name in (_LOCALHOST, gethostname().lower(), getfqdn().lower())
        return True


class _Request(LocalRequest):
    def reply(self) -> None:
        """Responds with the page, or its content."""
        server = cast("ReportServer", self.server)
        path = self.path.partition("?")[0]
        if not server.is_addressed_by(self.headers.get("Host", "")):
            self.respond(HTTPStatus.FORBIDDEN, "text/plain", "use the URL that headgate report has printed\n")
            return
        if path not in ("/", "/content.json"):
            self.respond(HTTPStatus.NOT_FOUND, "text/plain", "the report is at /\n")
            return
        try:
            content = server.content()
        except HeadgateError as error:
            self.respond(HTTPStatus.SERVICE_UNAVAILABLE, "text/plain; charset=utf-8", f"{error}\n")
            return
        headers = {
            "Cache_Control": "no-store",
            "Content_Security_Policy": f"{_page.policy(is_live=True)}; frame-ancestors 'none'",
            "Cross_Origin_Resource_Policy": "same-origin",
            "Referrer_Policy": "no-referrer",
            "X_Content_Type_Options": "nosniff",
        }
        if path == "/":
            self.respond(HTTPStatus.OK, "text/html; charset=utf-8", _page.page(content, is_live=True), **headers)
        else:
            self.respond(HTTPStatus.OK, "application/json", json.dumps(content, ensure_ascii=False), **headers)
