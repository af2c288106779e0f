"""Against Python's http.server, Go and Caddy."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.real_servers import VERSIONS, RealServer, caddy, fetched, go, nginx, node, python_files
from support.results import rows
from support.run import headgate


@pytest.fixture(scope="module")
def go_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    with go(tmp_path_factory.mktemp("go")) as server:
        yield server


@pytest.mark.parametrize("protocol", ["HTTP/1.0", "HTTP/1.1"])
def test_files_of_pythons_server_are_its_files(protocol: str, tmp_path: Path) -> None:
    (tmp_path / "files" / "inner").mkdir(parents=True)
    for number in range(100):
        (tmp_path / "files" / f"{number}.txt").write_text(f"file {number}\n" * number)
    (tmp_path / "files" / "inner" / "index.html").write_text("inner")
    with python_files(tmp_path, protocol) as url:
        headgate("fetch", f"{url}/[0-99].txt", "-o", tmp_path / "out", "-c", "4", check=0)
        found = rows(tmp_path / "out")
        assert [f"file {number}\n".encode() * number for number in range(100)] == [row["body"] for row in found]
        # Not found, not allowed, and a directory without a slash, which is redirected.
        lines = [("/none", "GET"), ("/0.txt", "POST"), ("/inner", "GET"), ("/1.txt", "HEAD")]
        (tmp_path / "rows.csv").write_text("url,method\n" + "".join(f"{url}{path},{m}\n" for path, m in lines))
        flags = ["--method-column", "method", "-c", "1"]
        headgate("fetch", tmp_path / "rows.csv", "-o", tmp_path / "others", *flags, check=3)
    others = rows(tmp_path / "others")
    assert [404, 501, 200, 200] == [row["status"] for row in others]
    assert (f"{url}/inner/", b"inner", b"") == (others[2]["final_url"], others[2]["body"], others[3]["body"])
    # It speaks HTTP/1.0 by default.
    assert {protocol} == {row["http_version"] for row in others}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("version", VERSIONS)
def test_go_serves_all_versions(version: str, go_server: RealServer, tmp_path: Path) -> None:
    expected = {
        "bytes/1000000": b"\0" * 1_000_000,
        "flushed": b"piece " * 5,
        "trailers": b"Hello, World!",
        "close": b"Hello, World!",
        "hints": b"Hello, World!",
        "hello": b"Hello, World!",
    }
    url, needed = go_server.flags(version)
    (tmp_path / "urls.txt").write_text("".join(f"{url}/{path}\n" for path in expected) * 50)
    headgate("fetch", tmp_path / "urls.txt", "-o", tmp_path / "out", *needed, "-c", "30", "--retries", "0", check=0)
    found = rows(tmp_path / "out")
    assert {version.removesuffix(" plain")} == {row["http_version"] for row in found}
    assert [expected[row["url"].removeprefix(f"{url}/")] for row in found] == [row["body"] for row in found]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("version", VERSIONS)
def test_the_response_to_a_body_that_go_does_not_read_is_not_lost(
    version: str, go_server: RealServer, tmp_path: Path
) -> None:
    (tmp_path / "body").write_bytes(b"x" * 1_000_000)
    flags = ["-X", "POST", "-d", f"@{tmp_path / 'body'}", "-c", "5", "--retries", "0"]
    found = fetched(tmp_path, go_server, version, "/unread/[1-20]", *flags)
    assert {(413, b"Hello, World!")} == {(row["status"], row["body"]) for row in found}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_response_that_go_aborts_is_an_error(version: str, go_server: RealServer, tmp_path: Path) -> None:
    (row,) = fetched(tmp_path, go_server, version, "/abort", "--retries", "0", code=3)
    assert (200, "connection_closed") == (row["status"], row["error"])


@pytest.mark.parametrize("version", VERSIONS)
def test_responses_of_caddy_are_decoded(version: str, tmp_path: Path) -> None:
    long = "x" * 600
    with caddy(tmp_path) as server:
        for encoding in ("gzip", "zstd"):
            found = fetched(
                tmp_path,
                server,
                version,
                f"/{long}/[1-100]",
                "-H",
                f"Accept-Encoding: {encoding}",
                "--if-exists",
                "overwrite",
            )
            assert [
                f"hello /{long}/{number} ".encode() in row["body"]
                for number in range(1, 101)
                for row in [found[number - 1]]
            ]
            encodings = [h["value"] for row in found for h in row["headers"] if h["name"].lower() == "content-encoding"]
            assert [encoding.encode()] * 100 == encodings


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["go", "caddy", "nginx", "node"])
def test_unwanted_bodies_cost_no_connection_its_other_requests(name: str, tmp_path: Path) -> None:
    servers = {"go": go, "caddy": caddy, "nginx": nginx, "node": node}
    with servers[name](tmp_path) as server:
        flags = ["--format", "none", "--no-body", "-c", "200", "--retries", "0"]
        url, needed = server.flags("HTTP/2")
        headgate("fetch", f"{url}/large?[1-10000]", *needed, *flags, check=0)
