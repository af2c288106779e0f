"""`headgate.fetch`, which runs a job, and `headgate.start`, which runs it in the background."""

import signal
from collections.abc import Mapping
from typing import Any, Unpack

from headgate._errors import NotStarted
from headgate._option import OptionSet
from headgate._summary import Summary
from headgate.jobs._arguments import Arguments
from headgate.jobs._background import Run
from headgate.jobs._display import display_for
from headgate.jobs._job_options import FetchOptions
from headgate.jobs._notebook import refuse_to_block_a_loop
from headgate.jobs._option_entry import Inputs, StrPath
from headgate.jobs._options import FETCH, START, FetchKeywords, StartKeywords
from headgate.jobs._rows_input import RowsInput, rows_of
from headgate.jobs._run import begin, run_or_raise
from headgate.jobs._signals import RUNS, Signals


@FETCH.shown_by
def fetch(
    input: Inputs,  # noqa: A002 - the same name as on the command line
    output: StrPath | None = None,
    **options: Unpack[FetchKeywords],
) -> Summary:
    """Makes one request for each row of the input and writes the results.

    A job in a directory is durable: after an interrupt, a crash or a full disk, the same call continues where the job
    stopped, and every row of the input becomes one row of the results. If the job is finished, nothing is done.

    It blocks until the job is done; `headgate.start` doesn't, and works in asyncio, too. Memory doesn't grow with the
    input. A request that fails is a row of the results, with its `error` or a status in `fail_on`, not an exception.

    Options have the names of the flags of `headgate fetch`, with these exceptions: `headers` has all headers at once,
    and `keep` all columns; `-q` is `progress=False`; there is no `--header-env`, because a program can read its
    environment, and no `--summary`, because the summary is returned. Sizes are whole numbers of bytes, such as
    `16 * 1024**2`.

    >>> summary = headgate.fetch("http://127.0.0.1:8080/[1-100]", "results", concurrency=10)
    >>> summary.succeeded
    100

    Args:
        input: A file (`.txt` with one URL per line; `.csv`, `.tsv`, `.ndjson`, `.jsonl`; these also `.gz` or `.zst`;
            `.parquet`), a directory of such files, a pattern (`data/**/*.parquet`), or a list of these, which are read
            one after another; `-` for lines on standard input; a URL with ranges as in curl: `http://host/[1-1000]`; or
            an iterable of URLs, or of mappings of columns to values. A thread reads the iterable as the job proceeds,
            and such a job can't be resumed. An error of the iterable stops the job and is raised.
        output: A directory for the results, or `-` for NDJSON on standard output.
        **options: `help(headgate.fetch)` describes each with its default.

    Returns:
        The summary: rows, errors by kind, latencies, and the bottleneck.

    Raises:
        UsageError: An argument is wrong; the message has all mistakes.
        InputError: The input can't be read, or not to its end, or rows that an earlier run read have changed;
            `summary` has the figures so far.
        OutputError: The results can't be written; another process writes to `output`; it contains another job (the
            requests or the input were different), a damaged one, or files that are not headgate's; it contains a job
            and `if_exists` is `"error"`; or the reader of standard output is gone.
        JobStopped: The job stopped itself (`max_failures`, `network_down_after`); `summary` has the figures so
            far.
        Interrupted: Ctrl-C was pressed. Requests in flight got `shutdown_timeout` seconds, all results are written, and
            `summary` has the figures (`None` if the job had not started); the same call resumes the job. A second
            Ctrl-C ends it without waiting. SIGTERM stops the job in the same manner and then ends the process, as it
            does without headgate, unless the program handles it. Signals reach only the main thread: a call in another
            thread is stopped when Ctrl-C has ended the main thread, and when the program ends.
        RuntimeError: This thread runs an event loop, which `fetch` would block: use `headgate.start`. In a notebook,
            whose cells may block, it is allowed.
    """
    refuse_to_block_a_loop("fetch", "`await headgate.start(...)`, or give the call to asyncio.to_thread")
    of_job = _options_of(FETCH, input, output, options)
    return run_or_raise(of_job, display_for(show=of_job.progress, output=of_job.output))


@START.shown_by
def start(
    input: Inputs,  # noqa: A002 - the same name as on the command line
    output: StrPath | None = None,
    **options: Unpack[StartKeywords],
) -> Run:
    """Starts the job of `headgate.fetch` in the background.

    In asyncio: `summary = await headgate.start("urls.txt", "results")`. Cancelling that stops the run.

    The run continues until it has ended or is stopped. There can be several runs at once. When the program ends, it is
    stopped as with `Run.stop`, and the program waits for that. SIGTERM does the same and then ends the process, if the
    program does not handle it and `start` is called in the main thread. After the last run, SIGTERM does what it did
    before.

    >>> run = headgate.start("http://127.0.0.1:8080/[1-100]", "results", concurrency=10)
    >>> run.wait().succeeded
    100

    Args:
        input: As for `headgate.fetch`.
        output: As for `headgate.fetch`.
        **options: `help(headgate.start)` describes each with its default.

    Returns:
        The run, as soon as its input and its output are open.

    Raises:
        HeadgateError: As `headgate.fetch`, if the job can't start. Later errors are raised by `Run.wait`.
    """
    of_job = _options_of(START, input, output, options)
    # A signal during the start is deferred until the run exists and can be stopped.
    try:
        with Signals((signal.SIGTERM,)) as received:
            running, metrics = begin(of_job, received)
    except NotStarted:
        RUNS.end_process()
        raise
    RUNS.handle_sigterm()
    if received.first is not None:
        RUNS.end_process()
    return Run(running, of_job, None if metrics is None else metrics.close)


def _options_of(
    options: OptionSet[Any],
    input: Inputs,  # noqa: A002 - as above
    output: StrPath | None,
    given: Mapping[str, Any],
) -> FetchOptions:
    paths, rows = rows_of(input)
    source = None if rows is None else RowsInput(*rows, url_column=str(given.get("url_column", "url")))
    try:
        arguments = Arguments()
        of_job = FetchOptions(
            input=arguments.inputs("input", paths) if source is None else (source.path,),
            output=arguments.path_or_none("output", output),
            rows=source,
            **arguments.read(options, given),
        )
        arguments.check(of_job)
    except BaseException:
        if source is not None:
            source.close()
        raise
    return of_job
