import pytest

from headgate._url_user import without_user


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
def test_what_stands_before_the_host_is_left_out_and_nothing_else(shown: str, url: str) -> None:
    assert shown == without_user(url)
