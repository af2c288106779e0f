"""Each program on the page of examples prints what the page shows, with its two servers."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.console import Console
from support.documents import Example, examples
from support.run import serving

PAGE = "docs/examples.md"


class Servers(Console):
    """A console that replaces both ports of the page by those of other servers."""

    def __init__(self, directory: Path, plain: str, api: str) -> None:
        super().__init__(directory, plain)
        self._ports = {"8080": plain.rpartition(":")[2], "8081": api.rpartition(":")[2]}

    def _here(self, words: str) -> str:
        return re.sub(r":(8080|8081)\b", lambda port: f":{self._ports[port[1]]}", words)

    def there(self, words: str) -> str:
        for port, other in self._ports.items():
            words = words.replace(f":{other}", f":{port}")
        return words


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    limits = ("--api-tokens", "60000/m", "--api-burst", "1000", "--api-fail-first", "20%")
    with serving() as plain, serving(*limits) as api:
        yield Servers(tmp_path_factory.mktemp("examples"), plain, api)


@pytest.mark.parametrize("number", range(len(examples(PAGE))))
def test_the_program_prints_what_its_page_shows(number: int, console: Servers) -> None:
    example: Example = examples(PAGE)[number]
    shown, printed = console.take(example)
    assert unpadded(shown) == unpadded(console.there(str(printed)))


def unpadded(printed: object) -> list[str]:
    """Returns the lines without the blanks that align them: ports here may have a different number of digits."""
    return [" ".join(line.split()) for line in str(printed).splitlines()]
