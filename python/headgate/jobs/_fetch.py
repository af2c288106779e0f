"""`headgate.fetch`: the main job, from Python."""

from typing import Unpack

from headgate._summary import Summary
from headgate.jobs._arguments import Arguments
from headgate.jobs._display import display_for
from headgate.jobs._job_options import FetchOptions
from headgate.jobs._options import FETCH, FetchKeywords, StrPath
from headgate.jobs._run import run_or_raise


@FETCH.shown_by
def fetch(
    input: StrPath,  # noqa: A002 - the same name as on the command line
    output: StrPath | None = None,
    **options: Unpack[FetchKeywords],
) -> Summary:
    """Makes one request for each row of the input and writes what became of each.

    A job in a directory is durable: after an interrupt, a crash or a full disk the same call goes on where it stopped,
    and every row of the input ends as one row of the result. Of a finished job nothing is done again.

    Blocks until all is done. Memory does not grow with the input. A request that fails is a row of the result with
    its `error` or a status in `fail_on`, not an exception.

    Names are those of the flags of `headgate fetch`, except where Python has a better way: a repeated `--header` is
    `headers`, which takes all at once, as `keep` does; `-q` is `progress=False`; and there is no `--summary`, because
    the summary is what is returned. Sizes are whole numbers of bytes, as `16 * 1024**2`.

    Args:
        input: A file (`.txt` with a URL on each line; `.csv`, `.tsv`, `.ndjson`, `.jsonl`; these also `.gz` or `.zst`;
            `.parquet`), `-` for lines on standard input, or a URL with ranges as in curl: `http://host/[1-1000]`.
        output: A directory for the results, or `-` for NDJSON on standard output.
        **options: `help(headgate.fetch)` describes each with its default.

    Returns:
        What was done: rows, errors by kind, latencies, and what held the job back.

    Raises:
        UsageError: An argument cannot be; all mistakes are named.
        InputError: The input cannot be read, or not to its end; `summary` says what was done before.
        OutputError: The results cannot be written; another process writes to `output`; it holds another job (what was
            asked, or the input, was different), a damaged one, or what headgate has not made; it holds a job and
            `resume` is `False`; or whoever read standard output has gone.
        Interrupted: Ctrl-C was pressed. What was in flight got `grace_s` seconds, all results are written, and
            `summary` says what was done; the same call goes on. A second Ctrl-C ends it without waiting. Other signals
            do what the program has them do: SIGTERM, unless it is handled, ends the process as a kill would.
    """
    given = Arguments()
    asked = FetchOptions(
        input=given.path("input", input), output=given.path_or_none("output", output), **given.read(FETCH, options)
    )
    given.check(asked)
    return run_or_raise(asked, display_for(show=asked.progress, output=asked.output))
