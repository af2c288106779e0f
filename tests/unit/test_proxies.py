import pytest

from headgate._message import as_keyword
from headgate.jobs import _proxies

NAMES = ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("name", NAMES)
def test_each_variable_that_names_a_proxy_is_noted_without_its_value(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "http://me:secret@proxy:3128")
    expected = f"{name} is set but ignored: to connect through it, use proxy='env'"
    assert expected == _proxies.note((), as_keyword)


def test_several_variables_are_one_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "x")
    monkeypatch.setenv("http_proxy", "x")
    expected = "http_proxy, HTTPS_PROXY are set but ignored: to connect through them, use proxy='env'"
    assert expected == _proxies.note((), as_keyword)


def test_there_is_no_note_without_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "")
    monkeypatch.setenv("NO_PROXY", "*")
    assert _proxies.note((), as_keyword) is None


@pytest.mark.parametrize("proxies", [("env",), ("http://proxy:3128",)])
def test_there_is_no_note_where_it_is_said_which_proxies_to_use(
    proxies: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy:3128")
    assert _proxies.note(proxies, as_keyword) is None
