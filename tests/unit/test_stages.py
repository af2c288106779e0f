"""What `headgate.ray` and `headgate.spark` check before a worker starts, and what is sent to it."""

import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import headgate
import headgate.ray
import headgate.spark


def to_ray(**options: Any) -> Any:
    return headgate.ray.fetch(None, **options)


def stage_of(fetch: headgate.spark.Fetch) -> Any:
    return fetch._stage  # noqa: SLF001 - the part that is sent to workers


EACH_FUNCTION = pytest.mark.parametrize("fetch_function", [to_ray, headgate.ray.Fetch, headgate.spark.fetch])


@EACH_FUNCTION
def test_mistakes_are_raised_where_they_are_made(fetch_function: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match=r"etch\(\) got an unexpected keyword argument 'urll': did you mean url\?"):
        fetch_function(urll="http://127.0.0.1/")
    with pytest.raises(headgate.UsageError, match=r"^concurrency must be at least 1, not 0; retries must be"):
        fetch_function(concurrency=0, retries=-1)
    with pytest.raises(headgate.UsageError, match="drop"):
        fetch_function(drop=["nonsense"])
    with pytest.raises(TypeError, match="unexpected keyword argument 'output'"):
        fetch_function(output="results")


def test_what_is_sent_to_workers_shows_no_secrets_and_survives() -> None:
    fetch = headgate.spark.fetch(
        headers={"Authorization": "my secret"}, bearer=None, credentials_for="https://a.example", extract={"a": "$.a"}
    )
    sent = pickle.loads(pickle.dumps(fetch))  # noqa: S301 - our own
    assert "headgate.spark.fetch(headers=…, bearer=…, credentials_for=…, extract=…)" == repr(fetch) == repr(sent)
    assert [("Authorization", "my secret")] == stage_of(sent).options.headers
    assert "my secret" not in repr(vars(fetch))


def test_a_process_has_one_worker_thread_by_default() -> None:
    assert 1 == stage_of(headgate.spark.fetch()).options.threads
    assert 3 == stage_of(headgate.spark.fetch(threads=3)).options.threads
    assert "Defaults to `1`." in (headgate.ray.fetch.__doc__ or "").partition("threads: ")[2].partition("\n        ")[0]


def test_neither_is_imported_before_it_is_used() -> None:
    code = "import sys, headgate; import headgate.ray, headgate.spark; headgate.spark.fetch(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert {"headgate.ray", "headgate.spark"} <= set(done.stdout.split())
    assert set() == {"ray", "pyspark", "pyarrow", "pandas"} & set(done.stdout.split())
