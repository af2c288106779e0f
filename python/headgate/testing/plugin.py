"""The pytest plugin of headgate, with the fixture `headgate_mock`."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headgate.testing._server import MockServer


@pytest.fixture
def headgate_mock(request: pytest.FixtureRequest) -> "Iterator[MockServer]":
    """A `headgate.testing.MockServer` that responds during the test; the marker `headgate_mock` has its options."""
    from headgate.testing._server import mock  # noqa: PLC0415 - for tests that use it

    marker = request.node.get_closest_marker("headgate_mock")
    with mock(*marker.args, **marker.kwargs) if marker else mock() as server:
        yield server


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker."""
    config.addinivalue_line(
        "markers", "headgate_mock(handler=None, base_url='', ...): what headgate.testing.mock takes, for the fixture"
    )
