import pytest

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
    assert f"{name} is set but ignored: headgate can't use proxies yet and connects directly" == _proxies.note()


def test_several_variables_are_one_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "x")
    monkeypatch.setenv("http_proxy", "x")
    assert (_proxies.note() or "").startswith("http_proxy, HTTPS_PROXY are set but ignored: ")


def test_there_is_no_note_without_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "")
    monkeypatch.setenv("NO_PROXY", "*")
    assert _proxies.note() is None
