"""A request shows its URL without the user and the password."""

import pytest

from headgate import Request


@pytest.mark.parametrize(
    ("shown", "url"),
    [
        ("http://host/a", "http://me:secret@host/a"),
        ("HTTPS://host", "HTTPS://me@host"),
        ("http://host/@a?b@c", "http://a@b:c@host/@a?b@c"),
        (" http:host/", " http:me:secret@host/"),
        ("http:\\\\host\\a@b", "http:\\\\me:secret@host\\a@b"),
        ("ftp://host/", "ftp://me:secret@host/"),
        ("http://host/?q=me:secret@other", "http://host/?q=me:secret@other"),
        ("http://host#a@b", "http://host#a@b"),
        ("/next?to=http://host/@", "/next?to=http://host/@"),
        ("http://host/?to=http://a@b", "http://host/?to=http://a@b"),
        ("mailto:me@host", "mailto:me@host"),
        ("@", "@"),
        ("", ""),
    ],
)
def test_only_the_user_before_the_host_is_left_out(shown: str, url: str) -> None:
    assert f"Request({shown!r})" == repr(Request(url))
