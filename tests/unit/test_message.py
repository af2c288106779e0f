import pickle

import pytest

from headgate import Snapshot, Summary, _errors
from headgate._message import Mention, as_keyword, message_of, spelled
from headgate.jobs._as_flag import as_flag
from headgate.jobs._report import report
from support.figures import snapshot_json, summary_json

RAISE = ["raise ", {"option": "read_ahead"}, " or lower ", {"option": "timeout"}]


@pytest.mark.parametrize(
    ("flag", "keyword", "mention"),
    [
        ("--timeout", "timeout", Mention("timeout")),
        ("-o", "output", Mention("output")),
        ("--header", "headers", Mention("headers")),
        ("--if-exists overwrite", "if_exists='overwrite'", Mention("if_exists", value="overwrite")),
        ("--if-exists error", "if_exists='error'", Mention("if_exists", value="error")),
        ("--concurrency 0", "concurrency=0", Mention("concurrency", 0)),
        ("--concurrency 1", "concurrency=1", Mention("concurrency", 1)),
        ("--format ndjson", "format='ndjson'", Mention("format", "ndjson")),
        ("-o 'my results'", "output='my results'", Mention("output", "my results")),
    ],
)
def test_options_are_spelled_as_flags_or_as_keywords(flag: str, keyword: str, mention: Mention) -> None:
    assert (flag, keyword) == (as_flag(mention), as_keyword(mention))


def test_text_that_looks_like_a_flag_stays() -> None:
    message = message_of(["a/--max-rows/b -o holds --fresh.csv, see ", {"option": "max_rows"}])
    assert "a/--max-rows/b -o holds --fresh.csv, see --max-rows" == spelled(message, as_flag)
    assert "a/--max-rows/b -o holds --fresh.csv, see max_rows" == spelled(message, as_keyword)


def test_an_error_of_the_engine_has_keywords_for_python_and_its_options_as_data() -> None:
    written = '{"kind": "output", "message": ["start over with ", {"option": "if_exists", "value": "overwrite"}]}'
    error = _errors.error_of_engine(written)
    assert isinstance(error, _errors.OutputError)
    assert "start over with if_exists='overwrite'" == str(error)
    assert ("start over with ", Mention("if_exists", value="overwrite")) == error.pieces
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert (str(error), error.pieces) == (str(copy), copy.pieces)


def test_all_sentences_of_a_summary_spell_options_for_its_reader() -> None:
    written = summary_json(
        bottleneck={"kind": "read_ahead", "text": RAISE},
        notes=[["with ", {"option": "read_ahead", "value": 3}]],
        failure={"kind": "input", "message": ["start over with ", {"option": "if_exists", "value": "overwrite"}]},
    )
    by_face = {
        as_keyword: ("raise read_ahead or lower timeout", "with read_ahead=3", "start over with if_exists='overwrite'"),
        as_flag: (
            "raise --read-ahead or lower --timeout",
            "with --read-ahead 3",
            "start over with --if-exists overwrite",
        ),
    }
    for spell, expected in by_face.items():
        summary = Summary.from_json(written, spell)
        assert summary.failure is not None
        assert expected == (summary.bottleneck.text, summary.notes[0], summary.failure.message)
        assert ("start over with ", Mention("if_exists", value="overwrite")) == summary.failure.pieces
        assert {"kind": "input", "message": summary.failure.message} == summary.to_dict()["failure"]


def test_a_running_job_spells_options_for_its_reader() -> None:
    written = snapshot_json(bottleneck={"kind": "read_ahead", "text": RAISE})
    assert "raise read_ahead or lower timeout" == Snapshot.from_json(written).bottleneck.text
    assert "raise --read-ahead or lower --timeout" == Snapshot.from_json(written, as_flag).bottleneck.text


def test_an_example_of_an_error_names_the_option_that_can_help() -> None:
    example = {"row": 12, "url": "http://a/", "message": "no response came in time", "option": "timeout"}
    summary = Summary.from_json(summary_json(errors={"timeout": 7}, error_examples={"timeout": example}))
    assert "timeout" == summary.error_examples["timeout"].option
    assert "7  row 12: http://a/: no response came in time; see --timeout" in report(summary, as_flag)
    assert "7  row 12: http://a/: no response came in time; see timeout" in report(summary)
