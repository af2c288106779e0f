import pytest

from headgate._errors import OutputError
from headgate.jobs._argument_names import named_as_arguments, naming_arguments


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        ("only teapot: it is one of timeout", "--only teapot: it is one of timeout"),
        ("replace them with fresh=True, or choose another output", "replace them with --fresh, or choose another -o"),
        ("go on with it (without resume=False)", "go on with it (without --no-resume)"),
        (
            "a value of headers (a) is another one; data is another body",
            "a value of --header (a) is another one; --data is another body",
        ),
        ("timeout_s and connect_timeout_s must be above 0", "--timeout-s and --connect-timeout-s must be above 0"),
        ("a/--head/b-o holds --fresh.csv", "a/--head/b-o holds --fresh.csv"),
    ],
)
def test_flags_become_arguments_and_paths_stay(expected: str, message: str) -> None:
    assert expected == named_as_arguments(message)


def test_the_error_stays_of_its_kind() -> None:
    with pytest.raises(OutputError, match=r"^start over with fresh=True$"), naming_arguments():
        raise OutputError("start over with --fresh")
