"""The recipe for Daft of docs/clusters.md."""

from typing import Any

import pytest

from support.console import ADDRESS
from support.documents import programs_run_by
from support.run import serving, stats

# Daft needs an older pyarrow, so it is in none of our requirements.
pytest.importorskip("daft", reason="daft is not installed: pip install daft")


def test_the_program_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = programs_run_by("docs/clusters.md", "tests/integration/test_daft.py")
    with serving() as server:
        exec(program.replace(ADDRESS, server), {"__name__": "__main__"})  # noqa: S102 - our own
        assert "{'status': [200]}" in capsys.readouterr().out
        assert stats(server)["requests"] >= 1


def test_each_row_is_there_once_and_failures_are_rows() -> None:
    (program,) = programs_run_by("docs/clusters.md", "tests/integration/test_daft.py")
    with serving() as server:
        variables: dict[str, Any] = {"__name__": "__main__"}
        exec(program.replace(ADDRESS, server), variables)  # noqa: S102 - our own
        urls = [f"{server}/bytes/{number}" for number in range(5000)]
        frame = variables["daft"].from_pydict({"id": list(range(5000)), "url": [*urls[:7], None, *urls[8:]]})
        found = frame.with_column("answer", variables["fetch"](frame["url"])).sort("id").to_pydict()
        assert list(range(5000)) == found["id"]
        assert "invalid_request" == found["answer"].pop(7)["error"]
        assert {200} == {answer["status"] for answer in found["answer"]}
        assert stats(server)["connections_accepted"] <= 100 + 1
