"""The functions for scripts, which make one request each: `headgate.get` and the others."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import headgate
import headgate.testing
from support.run import serving, stats, wait_for


@pytest.mark.parametrize("method", ["get", "head", "options", "post", "put", "patch", "delete"])
def test_each_function_sends_its_own_method(server: str, method: str) -> None:
    response = getattr(headgate, method)(f"{server}/echo")
    assert 200 == response.status_code
    assert method.upper() == response.request.method
    assert method == "head" or method.upper() == response.json()["method"]


def test_request_takes_any_method(server: str) -> None:
    assert "REPORT" == headgate.request("REPORT", f"{server}/echo").json()["method"]


def test_a_function_takes_the_arguments_of_a_call_and_the_options_of_a_client(server: str) -> None:
    echo = headgate.post(f"{server}/echo", json={"a": 1}, params={"page": 2}, user_agent="script/1", retries=0).json()
    assert ("/echo?page=2", '{"a":1}') == (echo["path"], echo["body"])
    assert "script/1" == {name.lower(): value for name, value in echo["headers"]}["user-agent"]
    assert 302 == headgate.get(f"{server}/redirect/1", redirects="none").status_code


def test_a_failed_request_is_raised_as_by_a_client(server: str) -> None:
    with pytest.raises(headgate.ConnectError) as raised:
        headgate.get("http://127.0.0.1:1/", retries=1, retry_delay=0)
    assert 2 == raised.value.attempts
    with pytest.raises(headgate.ReadTimeout):
        headgate.get(f"{server}/delay/3600", timeout=0.05, retries=0)
    with pytest.raises(headgate.UsageError, match="retry_delay"):
        headgate.get(server, retry_delay=-1)


def test_the_authorities_of_the_system_are_trusted_as_they_are_at_the_first_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = str(tmp_path / "certificate.pem")
    with serving("--self-signed", certificate) as url, headgate.Client(retries=0) as before:
        with pytest.raises(headgate.TlsError, match="not trusted"):
            before.get(url)
        with headgate.Client(retries=0) as client:
            monkeypatch.setenv("SSL_CERT_FILE", certificate)
            assert "Hello, World!" == client.get(f"{url}/hello").text
        with pytest.raises(headgate.TlsError):
            before.get(url)


def test_credentials_go_to_the_origin_of_the_url_only(server: str) -> None:
    def sent(response: headgate.Response) -> str | None:
        return {name.lower(): value for name, value in response.json()["headers"]}.get("authorization")

    with headgate.testing.mock() as other:
        other.get("http://a.example/").respond(302, headers={"Location": "http://b.example/"})
        other.get("http://b.example/")
        headgate.get("http://a.example/", bearer="token")
        first, second = (call.request.headers.get("authorization") for call in other.calls)
    assert ("Bearer token", None) == (first, second)
    assert "Bearer token" == sent(headgate.get(f"{server}/echo?next=http://b.example/", bearer="token"))


def threads_of_this_process() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def test_each_request_has_a_client_of_its_own_that_is_closed(server: str) -> None:
    headgate.get(f"{server}/1")
    before, threads = stats(server)["connections_accepted"], threads_of_this_process()
    for _ in range(3):
        headgate.get(f"{server}/1")
    assert before + 3 <= stats(server)["connections_accepted"]
    wait_for(lambda: threads_of_this_process() <= threads)


def test_a_mock_responds_to_functions_too() -> None:
    with headgate.testing.mock() as mock:
        mock.get("https://api.example.com/users/1", json={"id": 1})
        assert {"id": 1} == headgate.get("https://api.example.com/users/1").json()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"heders": {}}, r"get\(\) got an unexpected keyword argument 'heders': did you mean headers\?"),
        ({"concurency": 1}, r"did you mean concurrency\?"),
        ({"verify": False}, "here it is insecure=True"),
        ({"stream": True}, r"here it is client\.stream\(method, url\)"),
    ],
)
def test_a_wrong_name_is_a_type_error(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        headgate.get("http://127.0.0.1:1/", **options)


def test_the_engine_is_loaded_when_a_function_is_used() -> None:
    loaded = "print('headgate._headgate' in sys.modules)"
    code = f"import sys, headgate; {loaded}; headgate.get; {loaded}"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert ["False", "True"] == done.stdout.split()
