"""Requests that a mock passes through to the network."""

import asyncio
import hashlib
import socket
from pathlib import Path

import pyarrow as pa
import pytest

import headgate
import headgate.testing
from headgate.testing import MockServer
from support.run import serving


def test_a_pattern_decides_which_requests_go_to_the_network(
    server: str, mock: MockServer, client: headgate.Client
) -> None:
    mocked = mock.get(f"{server}/hello", text="mocked")
    passed = mock.pass_through(prefix=server)
    other = mock.post("/echo", json_body={"a": 1}).pass_through()
    assert "mocked" == client.get(f"{server}/hello").text
    response = client.post(f"{server}/echo?q=1", json={"a": 1}, headers={"X-Trace": "7"})
    seen = response.json()
    assert ("POST", "/echo?q=1", '{"a":1}') == (seen["method"], seen["path"], seen["body"])
    sent = {name.lower(): value for name, value in dict(seen["headers"]).items()}
    assert ("7", server.removeprefix("http://")) == (sent["x-trace"], sent["host"])
    assert (1, 1, 0) == (mocked.call_count, passed.call_count, other.call_count)
    assert (None, "POST") == (passed.calls[0].response, passed.calls[0].request.method)


def test_a_request_is_what_it_would_be_without_a_mock(server: str, client: headgate.Client) -> None:
    def seen() -> object:
        response = client.post(f"{server}/echo", content=b"abc", headers={"Accept-Language": "en"})
        return response.json(), response.status_code, response.headers.get("content-length")

    before = seen()
    with headgate.testing.mock() as mock:
        mock.pass_through()
        assert before == seen()


def test_a_route_that_passes_through_need_not_be_called() -> None:
    with headgate.testing.mock() as mock:
        mock.pass_through(host="localhost")


@pytest.mark.parametrize("path", ["/redirect/2", "/encoded/gzip/1000", "/bytes/3000000", "/status/404", "/status/204"])
def test_responses_are_those_of_the_network(path: str, server: str, client: headgate.Client) -> None:
    def found() -> object:
        response = client.get(server + path)
        return response.status_code, response.content, response.url, [hop.url for hop in response.history]

    before = found()
    with headgate.testing.mock() as mock:
        mock.pass_through()
        assert before == found()
        assert client.head(server + path).status_code == response_status(before)


def response_status(found: object) -> int:
    assert isinstance(found, tuple)
    status: int = found[0]
    return status


def test_bodies_are_streamed_both_ways(server: str, mock: MockServer, client: headgate.Client) -> None:
    mock.pass_through()
    with client.stream("GET", f"{server}/bytes/5000000") as response:
        assert 5_000_000 == sum(map(len, response.iter_bytes()))
    content = bytes(range(256)) * 10_000
    response_of_upload = client.post(f"{server}/echo", content=iter([content[:1_000_000], content[1_000_000:]]))
    assert response_of_upload.is_success


def test_a_body_that_breaks_off_is_an_error_of_the_same_kind(server: str, mock: MockServer) -> None:
    mock.pass_through()
    with headgate.Client(retries=0) as client:
        with pytest.raises(headgate.ConnectionClosed):
            client.get(f"{server}/fault/reset-mid-body")
        with pytest.raises(headgate.ProtocolError):
            client.get(f"{server}/fault/garbage")


def test_errors_of_connections_have_the_same_kind(mock: MockServer) -> None:
    mock.pass_through()
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/"
    with headgate.Client(retries=1, retry_delay=0.001) as client:
        with pytest.raises(headgate.ConnectError, match="connection refused") as refused:
            client.get(url)
        with pytest.raises(headgate.DnsError):
            client.get("http://no-such-host.invalid/")
    assert (url, 2) == (refused.value.url, refused.value.attempts)


def test_timeouts_are_those_of_the_client(server: str, mock: MockServer) -> None:
    mock.pass_through()
    with headgate.Client(retries=0) as client, pytest.raises(headgate.ReadTimeout):
        client.get(f"{server}/delay/60", timeout=0.1)


def test_connections_have_the_options_of_the_client(tmp_path: Path, mock: MockServer) -> None:
    mock.pass_through()
    certificate = tmp_path / "certificate.pem"
    with serving("--self-signed", str(certificate)) as server:
        url = f"{server.replace('127.0.0.1', 'localhost')}/hello"
        with headgate.Client(cacert=str(certificate)) as client:
            assert "Hello, World!" == client.get(url).text
        with headgate.Client(retries=0) as client, pytest.raises(headgate.TlsError):
            client.get(url)
        with headgate.Client(network="public", retries=0) as client, pytest.raises(headgate.BlockedByNetworkPolicy):
            client.get(url)
        with headgate.Client(proxy="http://127.0.0.1:1", retries=0) as client, pytest.raises(headgate.ProxyError):
            client.get(url)


def test_many_requests_tables_and_jobs_are_passed_through(server: str, tmp_path: Path, mock: MockServer) -> None:
    route = mock.pass_through()
    with headgate.Client(base_url=server) as client:
        assert 200 == sum(outcome.unwrap().is_success for outcome in client.fetch_many(f"/{n}" for n in range(200)))
    results = pa.table(headgate.fetch_table(pa.table({"url": [f"{server}/hello"] * 20})))
    assert {b"Hello, World!"} == set(results["body"].to_pylist())
    summary = headgate.fetch(f"{server}/[1-20]", tmp_path / "out", progress=False)
    assert ({200: 20}, 240) == (summary.statuses, route.call_count)


def test_an_async_client_is_passed_through(server: str, mock: MockServer) -> None:
    mock.pass_through()

    async def main() -> None:
        async with headgate.AsyncClient(base_url=server) as client:
            responses = await asyncio.gather(*(client.get("/hello") for _ in range(20)))
            assert {"Hello, World!"} == {response.text for response in responses}

    asyncio.run(main())


def test_a_cookie_jar_gets_cookies_that_are_passed_through(server: str, mock: MockServer) -> None:
    mock.pass_through()
    with headgate.Client(base_url=server, cookies=True) as client:
        client.get("/cookies/set?session=7")
        assert {"session": "7"} == client.get("/cookies").json()["cookies"]


def test_a_mock_and_the_network_are_used_in_turn(server: str, mock: MockServer, client: headgate.Client) -> None:
    mock.get(f"{server}/mocked", content=b"m" * 100_000)
    mock.pass_through()
    digests = {hashlib.sha256(client.get(f"{server}/{path}").content).hexdigest() for path in ("mocked", "hello") * 10}
    assert 2 == len(digests)
