"""Three well-known programs, each as one command: the steps of their page, with its servers."""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.console import Console
from support.documents import Command, Example, Step, steps
from support.run import serving

PAGE = "docs/programs.md"
FILES = ("range(20000)) TO 'images", "range(2000)) TO 'images")
"""The number of downloads on the page and here, where the disk is busy."""


class Servers(Console):
    """A console that replaces the ports of the page by those of other servers."""

    longest_s = 240

    def __init__(self, directory: Path, plain: str, tls: str, api: str) -> None:
        super().__init__(directory, plain)
        self._ports = {port: url.rpartition(":")[2] for port, url in {"8080": plain, "8443": tls, "8081": api}.items()}

    def _here(self, words: str) -> str:
        return re.sub(r":(8080|8443|8081)\b", lambda port: f":{self._ports[port[1]]}", words.replace(*FILES))

    def _there(self, words: str) -> str:
        for port, other in self._ports.items():
            words = words.replace(f":{other}", f":{port}")
        return words

    def take(self, step: Step) -> tuple[object, object]:
        shown, printed = super().take(step)
        return comparable(shown), comparable(self._there(printed) if isinstance(printed, str) else printed)


def comparable(printed: object) -> object:
    """Returns what is the same in every run: throttled rows and their number depend on the machine.

    Pauses are compared: the page has some only if an API responds with 429.
    """
    if not isinstance(printed, list):
        return printed
    lines = [line for line in printed if not line.startswith(("throttled", "retried"))]
    # Any failure of a kind may be its example.
    return [re.sub(r"^(\w+ #) row # .*", r"\1", line) for line in lines]


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    directory = tmp_path_factory.mktemp("programs")
    with ExitStack() as stack:
        plain = stack.enter_context(serving("--host", "0.0.0.0"))  # noqa: S104 - hostnames lead to many loopback addresses
        tls = stack.enter_context(serving("--host", "0.0.0.0", "--self-signed", str(directory / "cert.pem")))  # noqa: S104 - as above
        limits = ("--api-rate", "1000/s", "--api-burst", "1000", "--api-concurrency", "40", "--api-fail-first", "5%")
        api = stack.enter_context(serving(*limits))
        yield Servers(directory, plain.replace("0.0.0.0", "127.0.0.1"), tls, api)  # noqa: S104 - as above


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "heading", ["Check links on many hosts", "Ask a model for each row", "Download files"], ids=lambda one: one
)
def test_the_program_does_what_its_page_shows(heading: str, console: Servers) -> None:
    own = [step for step in steps(PAGE) if step.heading == heading]
    assert any(isinstance(step, Command) for step in own)
    assert any(isinstance(step, Example) for step in own)
    for step in own:
        shown, printed = console.take(step)
        assert shown == printed, step
