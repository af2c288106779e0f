from collections.abc import Iterator

import pytest

from support.run import serving


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The URL of a local server that answers at once."""
    with serving() as url:
        yield url
