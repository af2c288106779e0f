import pickle

import pytest

from headgate import Snapshot, Summary, _errors
from headgate._message import Mention, as_keyword, message_of, spelled
from headgate.cli._flags import as_flag
from headgate.jobs._report import report
from support.figures import snapshot_json, summary_json

RAISE = ["raise ", {"option": "window"}, " or lower ", {"option": "timeout_s"}]


@pytest.mark.parametrize(
    ("flag", "keyword", "mention"),
    [
        ("--timeout-s", "timeout_s", Mention("timeout_s")),
        ("-o", "output", Mention("output")),
        ("--header", "headers", Mention("headers")),
        ("--fresh", "fresh=True", Mention("fresh", value=True)),
        ("--no-resume", "resume=False", Mention("resume", value=False)),
        ("--concurrency 0", "concurrency=0", Mention("concurrency", 0)),
        ("--concurrency 1", "concurrency=1", Mention("concurrency", 1)),
        ("--format ndjson", "format='ndjson'", Mention("format", "ndjson")),
        ("-o 'my results'", "output='my results'", Mention("output", "my results")),
    ],
)
def test_options_are_spelled_as_flags_or_as_keywords(flag: str, keyword: str, mention: Mention) -> None:
    assert (flag, keyword) == (as_flag(mention), as_keyword(mention))


def test_text_that_looks_like_a_flag_stays() -> None:
    message = message_of(["a/--head/b -o holds --fresh.csv, see ", {"option": "head"}])
    assert "a/--head/b -o holds --fresh.csv, see --head" == spelled(message, as_flag)
    assert "a/--head/b -o holds --fresh.csv, see head" == spelled(message, as_keyword)


def test_an_error_of_the_engine_has_keywords_for_python_and_its_options_as_data() -> None:
    written = '{"kind": "output", "message": ["start over with ", {"option": "fresh", "value": true}]}'
    error = _errors.error_of_engine(written)
    assert isinstance(error, _errors.OutputError)
    assert "start over with fresh=True" == str(error)
    assert ("start over with ", Mention("fresh", value=True)) == error.pieces
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert (str(error), error.pieces) == (str(copy), copy.pieces)


def test_all_sentences_of_a_summary_spell_options_for_its_reader() -> None:
    written = summary_json(
        bound_by={"kind": "window", "text": RAISE},
        notes=[["with ", {"option": "window", "value": 3}]],
        failure={"kind": "input", "message": ["start over with ", {"option": "fresh", "value": True}]},
    )
    by_face = {
        as_keyword: ("raise window or lower timeout_s", "with window=3", "start over with fresh=True"),
        as_flag: ("raise --window or lower --timeout-s", "with --window 3", "start over with --fresh"),
    }
    for spell, expected in by_face.items():
        summary = Summary.from_json(written, spell)
        assert summary.failure is not None
        assert expected == (summary.bound_by.text, summary.notes[0], summary.failure.message)
        assert ("start over with ", Mention("fresh", value=True)) == summary.failure.pieces
        assert {"kind": "input", "message": summary.failure.message} == summary.to_dict()["failure"]


def test_a_running_job_spells_options_for_its_reader() -> None:
    written = snapshot_json(bound_by={"kind": "window", "text": RAISE})
    assert "raise window or lower timeout_s" == Snapshot.from_json(written).bound_by.text
    assert "raise --window or lower --timeout-s" == Snapshot.from_json(written, as_flag).bound_by.text


def test_an_example_of_an_error_names_the_option_that_can_help() -> None:
    example = {"row": 12, "url": "http://a/", "message": "no answer came in time", "option": "timeout_s"}
    summary = Summary.from_json(summary_json(errors={"timeout": 7}, error_examples={"timeout": example}))
    assert "timeout_s" == summary.error_examples["timeout"].option
    assert "7  row 12: http://a/: no answer came in time; see --timeout-s" in report(summary, as_flag)
    assert "7  row 12: http://a/: no answer came in time; see timeout_s" in report(summary)
