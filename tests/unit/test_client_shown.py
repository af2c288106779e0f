"""Requests and responses are shown without secrets and without anything that a page would take for markup."""

from types import SimpleNamespace
from typing import Any

import pytest

import headgate

HOSTILE = "<script>alert('x')</script>"


def native_outcome(**fields: Any) -> Any:
    plain = {
        "status": 200,
        "headers": [("content-type", HOSTILE), ("Set-Cookie", "id=secret")],
        "body_len": 3,
        "url": "http://ann:secret@host/a",
        "final_url": f"http://ann:secret@host/{HOSTILE}",
        "redirects": [(302, f"http://host/{HOSTILE}")],
        "elapsed_us": 1500,
        "attempts": 1,
        "sent_request": ("GET", "http://host/a", [], None),
        "error": None,
    }
    return SimpleNamespace(**plain | fields)  # it has no `body`, which must not be read


FAILED = {"status": None, "error": ("connect", f"refused {HOSTILE}", None)}
REQUEST = headgate.Request(
    "http://ann:secret@host/a",
    headers={"Authorization": "Bearer secret"},
    params={"key": "secret"},
    auth=("ann", "secret"),
    json={"password": "secret"},
    tag=7,
)


@pytest.mark.parametrize(
    "shown",
    [
        headgate.Response(REQUEST, native_outcome()),
        headgate.Succeeded(REQUEST, native_outcome(), 0),
        headgate.Failed(REQUEST, native_outcome(**FAILED), 0),
    ],
)
def test_a_table_has_neither_secrets_nor_what_a_page_would_run(shown: Any) -> None:
    html = shown._repr_html_()
    assert "http://host/" in html
    assert "&lt;script&gt;" in html
    assert ("secret" in html, "<script>" in html) == (False, False)


@pytest.mark.parametrize(
    ("expected", "shown"),
    [
        ("Request('http://host/a', tag=7)", REQUEST),
        ("Request('/b', method='POST')", headgate.Request("/b", method="POST")),
        ("<Response [200 OK]>", headgate.Response(REQUEST, native_outcome())),
        ("<Outcome of http://host/a: <Response [200 OK]>>", headgate.Succeeded(REQUEST, native_outcome(), 0)),
        ("Headers([('Set-Cookie', '***'), ('a', 'b')])", headgate.Headers([("Set-Cookie", "id=secret"), ("a", "b")])),
        (
            "[<Redirect [302] of http://host/a to http://host/b>]",
            [headgate.Redirect(302, "http://u@host/a", "http://host/b")],
        ),
    ],
)
def test_plain_text_has_no_secrets(expected: str, shown: object) -> None:
    assert expected == repr(shown)


def test_a_client_shows_no_user_of_its_base_url() -> None:
    with headgate.Client(base_url="http://ann:secret@host/v1") as client:
        assert "<headgate.Client of http://host/v1>" == repr(client)
        assert (
            '<caption style="text-align: left">&lt;headgate.Client of http://host/v1&gt;</caption>'
            in client._repr_html_()
        )
    assert "<headgate.Client of http://host/v1 (closed)>" == repr(client)


def test_an_error_shows_no_secret_and_has_the_url_of_the_request() -> None:
    error = headgate.Failed(REQUEST, native_outcome(**FAILED | {"final_url": None}), 0).error
    assert error is not None
    assert f"http://host/a: refused {HOSTILE}" == str(error)
    assert "http://ann:secret@host/a" == error.url


def test_long_values_of_a_server_are_shortened() -> None:
    html = headgate.Response(REQUEST, native_outcome(headers=[("content-type", "x" * 100_000)]))._repr_html_()
    assert len(html) < 10_000
