"""`headgate.fetch`: the main job, from Python."""

from collections.abc import Iterable

from headgate import _options
from headgate._nearest import with_suggestions
from headgate._options import FetchOptions, Format, Headers, Statuses, StrPath
from headgate._summary import Summary
from headgate.jobs._arguments import Arguments
from headgate.jobs._display import display_for
from headgate.jobs._run import run_or_raise


@with_suggestions
def fetch(  # noqa: PLR0913 - one for each flag of `headgate fetch`
    input: StrPath,  # noqa: A002 - the same name as on the command line
    output: StrPath | None = None,
    *,
    format: Format | None = None,  # noqa: A002 - as above
    fresh: bool = False,
    resume: bool = True,
    url_column: str = _options.DEFAULT_URL_COLUMN,
    method_column: str = _options.DEFAULT_METHOD_COLUMN,
    headers_column: str = _options.DEFAULT_HEADERS_COLUMN,
    body_column: str = _options.DEFAULT_BODY_COLUMN,
    keep: Iterable[str] = (),
    head: int | None = None,
    concurrency: int = _options.DEFAULT_CONCURRENCY,
    threads: int | None = None,
    timeout_s: float = _options.DEFAULT_TIMEOUT_S,
    connect_timeout_s: float = _options.DEFAULT_CONNECT_TIMEOUT_S,
    method: str | None = None,
    headers: Headers = (),
    data: str | bytes | None = None,
    max_body_bytes: int = _options.DEFAULT_MAX_BODY_BYTES,
    fail_on: Statuses = _options.DEFAULT_FAIL_ON,
    user_agent: str = _options.DEFAULT_USER_AGENT,
    cacert: StrPath | None = None,
    insecure: bool = False,
    dns: str | None = None,
    grace_s: float = _options.DEFAULT_GRACE_S,
    part_bytes: int = _options.DEFAULT_PART_BYTES,
    commit_every_s: float = _options.DEFAULT_COMMIT_EVERY_S,
    window: int = _options.DEFAULT_WINDOW,
    progress: bool | None = None,
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
        format: `parquet`, `ndjson`, or `none` to count and drop. By default Parquet in a directory, NDJSON on
            standard output.
        fresh: Replace what an earlier job left in `output`; nobody is asked. For an input without rows, it is kept.
        resume: Go on where an earlier run of the same job stopped; `False` raises `OutputError` if there was one.
        url_column: The input's column of URLs.
        method_column: The input's column of methods, if it has one.
        headers_column: The input's column of headers, if it has one.
        body_column: The input's column of request bodies, if it has one.
        keep: Columns of the input to carry into the result.
        head: Do only the first so many rows.
        concurrency: Requests in flight at the most.
        threads: Worker threads; `None`: one for each core that this process may use.
        timeout_s: Longest time for one attempt, in seconds, from connecting to the last byte.
        connect_timeout_s: Longest time for making a connection, in seconds.
        method: Of rows that name none. `None`: `GET`, or `POST` if there is `data`.
        headers: Sent with each request; a mapping, or pairs where a name repeats.
        data: Body of rows that bring none. Text is sent as UTF-8.
        max_body_bytes: A response body longer than this, as received or decoded, is a failure.
        fail_on: Statuses with which a row is given up: it counts as failed and stands in `failed-*`, with its whole
            answer. Codes and classes, as `"429,5xx"` or `[429, "5xx"]`; `()` or `"none"`: every status is an answer.
        user_agent: The `User-Agent` header.
        cacert: PEM file of certificates to trust instead of the system's.
        insecure: Do not verify certificates: anyone on the way can read and change what is sent.
        dns: Who is asked for the addresses of names: a name server, as `"9.9.9.9"` or `"127.0.0.1:5353"`; `"system"`:
            the system, with all that it knows of names; `None`: the name servers that it is configured with.
        grace_s: How long requests in flight may go on after an interrupt, in seconds.
        part_bytes: Size at which a file of results is closed and the next begun.
        commit_every_s: How often results are committed, in seconds: what a crash can cost.
        window: Rows between the oldest that is not done and the newest that was read, at the most.
        progress: Show progress on standard error; `None`: if it is a terminal.

    Returns:
        What was done: rows, errors by kind, latencies, and what held the job back.

    Raises:
        UsageError: An argument cannot be; all mistakes are named.
        InputError: The input cannot be read, or not to its end; `summary` says what was done before.
        OutputError: The results cannot be written; another process writes to `output`; it holds another job (what was
            asked, or the input, was different), a damaged one, or what headgate has not made; or it holds a job and
            `resume` is `False`.
        Interrupted: Ctrl-C was pressed. What was in flight got `grace_s` seconds, all results are written, and
            `summary` says what was done; the same call goes on. A second Ctrl-C ends it without waiting. Other signals
            do what the program has them do: SIGTERM, unless it is handled, ends the process as a kill would.
    """
    given = Arguments()
    body = given.data("data", data)
    place = given.path_or_none("output", output)
    options = FetchOptions(
        input=given.path("input", input),
        output=place,
        format=_options.format_for(format, place),
        fresh=fresh,
        resume=resume,
        url_column=url_column,
        method_column=method_column,
        headers_column=headers_column,
        body_column=body_column,
        keep=given.columns("keep", keep),
        head=head,
        concurrency=concurrency,
        threads=threads,
        timeout_s=timeout_s,
        connect_timeout_s=connect_timeout_s,
        method=_options.method_for(method, body),
        headers=given.headers("headers", headers),
        data=body,
        max_body_bytes=max_body_bytes,
        fail_on=given.statuses("fail_on", fail_on),
        user_agent=user_agent,
        cacert=given.path_or_none("cacert", cacert),
        insecure=insecure,
        dns=dns,
        grace_s=grace_s,
        part_bytes=part_bytes,
        commit_every_s=commit_every_s,
        window=window,
    )
    given.check(options)
    return run_or_raise(options, display_for(show=progress, output=place))
