"""Keys by which a server recognizes a row that it has had before."""

import signal
import uuid
from pathlib import Path

from support.origin import changing
from support.run import LONGEST_S, headgate, started, wait_for


def test_a_row_has_one_key_in_all_runs_of_its_job_and_no_other_row_has_it(tmp_path: Path) -> None:
    out, again = tmp_path / "out", tmp_path / "again"
    with changing() as origin:
        origin.statuses = {"/1": 503}
        origin.held = {"/3"}
        fetch = ("fetch", f"{origin.url}/[1-4]", "--idempotency-key", "-X", "POST", "-q", "-o")
        with started(*fetch, out, "--shutdown-timeout", "0") as job:
            wait_for(lambda: len(origin.requests) >= 4)
            job.send_signal(signal.SIGINT)
            assert job.wait(LONGEST_S) == 130
        origin.released.set()
        headgate(*fetch, out, check=3)
        origin.statuses.clear()
        headgate("retry", out, "--idempotency-key", "-q", check=0)
        assert len(origin.keys["/1"]) >= 2, "sent once more by the retry"
        assert len(origin.keys["/3"]) >= 2, "sent once more after the stop"
        keys = {path: set(sent) for path, sent in origin.keys.items()}
        assert [1, 1, 1, 1] == [len(sent) for sent in keys.values()]
        all_keys = [key for sent in keys.values() for key in sent]
        assert 4 == len(set(all_keys))
        assert [4, 4, 4, 4] == [uuid.UUID(key).version for key in all_keys if key]
        headgate(*fetch, again, check=0)
        assert keys["/2"] != {origin.keys["/2"][-1]}, "another job asks for something of its own"


def test_a_row_keeps_the_key_that_it_brings(tmp_path: Path) -> None:
    rows = tmp_path / "rows.ndjson"
    with changing() as origin:
        lines = (
            f'{{"url": "{origin.url}/1", "headers": {{"Idempotency-Key": "mine"}}}}\n',
            f'{{"url": "{origin.url}/2"}}\n',
        )
        rows.write_text("".join(lines))
        fetch = ("fetch", rows, "--headers-column", "headers", "--format", "none")
        headgate(*fetch, "--idempotency-key", check=0)
        headgate(*fetch, check=0)
    assert ["mine", "mine"] == origin.keys["/1"]
    (minted, nothing) = origin.keys["/2"]
    assert minted is not None
    assert nothing is None


def test_one_key_for_all_rows_is_refused_beside_one_for_each() -> None:
    flags = ("--format", "none", "--idempotency-key", "-H", "Idempotency-Key: 1")
    assert headgate("fetch", "http://127.0.0.1:1/", *flags, check=2).errors() == [
        "--idempotency-key makes a key for each row, and --header gives the same one to all: leave one of them out"
    ]
