"""`headgate.Job`: the job in a directory."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, Unpack

from headgate._errors import OutputError, UsageError, error_of_engine
from headgate._figures import read
from headgate._message import Mention, Spell, as_keyword
from headgate._native import (
    RowStream,
    job_clean,
    job_files,
    job_report,
    job_rows,
    job_set,
    job_status,
    job_verify,
    preview,
)
from headgate._summary import Summary
from headgate.jobs._arguments import Arguments, settings_of
from headgate.jobs._display import display_for
from headgate.jobs._job_options import RetryOptions, SetOptions
from headgate.jobs._notebook import refuse_to_block_a_loop
from headgate.jobs._option_entry import StrPath
from headgate.jobs._options import RETRY, RetryKeywords, SetKeywords
from headgate.jobs._run import run_or_raise
from headgate.jobs._status import JobStatus
from headgate.jobs._verification import JobVerification

if TYPE_CHECKING:
    from headgate.jobs._page import Report

__all__ = ["Job", "RowStream", "job_clean", "job_files", "job_verify", "preview", "status_of"]

APPLIED: Final = "applied"
READING_S: Final = 10.0
"""How long results are read for a report."""


class Job:
    """A job in a directory of results: its progress, its rows, and a retry of the failed ones.

    It keeps no file open, and works while the job runs in another process. To start or resume a job, use
    `headgate.fetch`.

    >>> summary = headgate.fetch("http://127.0.0.1:8080/status/[500-503]", "results", retries=0)
    >>> job = headgate.Job.open("results")
    >>> job.status().failed
    4
    >>> job.retry(only=["5xx"], retries=0).failed
    4
    >>> pyarrow.table(job.rows()).num_rows
    4

    Attributes:
        output: The directory of the job.
    """

    __module__ = "headgate"

    __slots__ = ("output",)

    def __init__(self, output: str) -> None:
        self.output: str = output

    @classmethod
    def open(cls, output: StrPath) -> Self:
        """Finds the job in a directory.

        Args:
            output: The `output` of `headgate.fetch`.

        Raises:
            OutputError: There is no job, or it is damaged.
        """
        path = os.fspath(output)
        if not path:
            raise UsageError((Mention("output"), " is missing: name the directory of a job"))
        job = cls(path)
        job.status()
        return job

    def __repr__(self) -> str:
        return f"headgate.Job.open({self.output!r})"

    def _repr_html_(self) -> str:
        """Returns the table and the plots that a notebook shows."""
        from headgate.jobs._page import embedded  # noqa: PLC0415 - only in a notebook

        report = report_of(self.output, reading_s=None)
        return report.status._repr_html_() + embedded(report.status, report.points)

    def status(self) -> JobStatus:
        """Returns the progress as of the newest commit, and checks that the results are as they were committed.

        The name and length of every file of results are checked. The contents are compared with their checksums, too,
        if the job isn't running and has at most 1 GiB of results (which takes about 0.1 s). `verify` compares all of
        them.

        Raises:
            OutputError: There is no job any more, or it is damaged: the message has the name of the file.
        """
        return status_of(self.output)

    def report(self, path: StrPath) -> None:
        """Writes a report on the job as one HTML page that needs nothing else, whether the job runs or not.

        The page shows what was requested, what came, why rows failed, throughput, latencies, statuses and the
        bottleneck over time, the slowest and the failing hosts, and how to continue. Results are read for at most
        10 s: of a larger job, hosts and examples are those of a part of its rows, which the page says.

        >>> summary = headgate.fetch("http://127.0.0.1:8080/[1-3]", "results")
        >>> headgate.Job.open("results").report("report.html")

        Args:
            path: The file, which is replaced if it exists.

        Raises:
            OutputError: As `status`.
            OSError: The file can't be written.
        """
        from headgate.jobs import _page  # noqa: PLC0415 - only for this

        Path(path).write_text(_page.page(_page.content(report_of(self.output))), encoding="utf-8", errors="replace")

    def rows(self) -> RowStream:
        """Returns the rows of all current parts: first those that succeeded, then those that failed.

        Within each group, they are not in the order of the input. The rows are those of one commit: up to 512 files are
        opened now and stay open until the result is deleted, so that a retry or the end of the job may replace them
        meanwhile. They are read when rows are needed, one batch after another, so that memory doesn't grow with the
        results. Before a row of a file is returned, the whole file is compared with its checksum. If one of further
        files is replaced, reading raises an error: call `rows()` once more, or use `keep_replaced`.

        Returns:
            Rows with the columns of the results. They have the Arrow PyCapsule interface (`__arrow_c_stream__`), so
            that `pyarrow.table(rows)` and `polars.DataFrame(rows)` accept them. Iterating yields batches of rows with
            `__arrow_c_array__`. Each time, it is read from the beginning. For pandas, use
            `pyarrow.table(rows).to_pandas()`; `pandas.DataFrame(rows)`, which doesn't know Arrow, raises `TypeError`.

        Raises:
            OutputError: There is no job any more, or a file of results is missing, is damaged or doesn't belong to it;
                while iterating: a file can't be read, is damaged, or was replaced. When a library reads the Arrow
                stream, the library's own exception is raised: an `OSError` from pyarrow.
        """
        return job_rows(self.output)

    def files(self) -> list[str]:
        """Returns the paths of the files of the newest commit: first of rows that succeeded, then of rows that failed.

        Together they have each row once, also while the job runs. Before the first commit, this is a Parquet file
        without rows. A later retry or the end of the job may remove these files, unless it has `keep_replaced`.

        >>> summary = headgate.fetch("http://127.0.0.1:8080/[1-3]", "results")
        >>> headgate.Job.open("results").files()
        ['results/part-00000001.parquet']

        Raises:
            OutputError: There is no job any more, or it is damaged.
        """
        return [file["path"] for file in json.loads(job_files(self.output))["files"]]

    def verify(self, *, repair: bool = False) -> JobVerification:
        """Reads all results, and compares them with the newest commit.

        Every file and saved body is compared with its checksum (archives must be there), every row must be there once,
        and the rows that are done, the totals and the Delta log must be those of the commit. Problems are returned, not
        raised. Ctrl-C ends it.

        >>> summary = headgate.fetch("http://127.0.0.1:8080/[1-3]", "results")
        >>> headgate.Job.open("results").verify(repair=True).problem_count
        0

        Args:
            repair: Mark rows that are lost with a damaged or missing file as not done, and remove the file. The same
                `headgate.fetch` then fetches these rows. Rows in files that are not done become done.

        Raises:
            OutputError: There is no job any more, its log or a file can't be read, or it replaces files while they are
                read. With `repair`: another process writes to it, or its rows can't be fetched a second time, because
                its input was a pipe or their bodies were saved as files.
        """
        return read(JobVerification, json.loads(job_verify(self.output, repair)))

    def set(self, **options: Unpack[SetKeywords]) -> bool:
        """Changes options of the job while it runs, in this process or another.

        A setting holds until the job ends, also in later runs of it, unless a later run has the option among its
        arguments. `None` removes a limit.

        These can be set, as for `headgate.fetch`: `concurrency`, `concurrency_per_host`, `rate`, `rate_per_host`,
        `burst`, `cost_rate`, `retries`, `retry_delay`, `retry_max_delay`, `total_timeout`, `retry_max_pause`,
        `host_down_after`, `network_down_after`, `max_failures`, `max_requests` and `max_cost`.

        >>> run = headgate.start("http://127.0.0.1:8080/delay/60", "results", shutdown_timeout=0)
        >>> headgate.Job.open("results").set(rate="50/s", concurrency=200)
        True
        >>> run.stop(now=True)

        Returns:
            Whether a running job has applied the setting; if not, it applies when the job reads it, or from the next
            run.

        Raises:
            UsageError: An option has an invalid value, the running job can't apply it and continues as before, or the
                job is finished.
            OutputError: There is no job any more, it is damaged, or its directory can't be written to.
        """
        return set_in(settings_of(self.output, options)) == APPLIED

    def pause(self) -> bool:
        """Pauses the job: it starts nothing more until `unpause`; requests in flight continue.

        >>> run = headgate.start("http://127.0.0.1:8080/delay/60", "results", shutdown_timeout=0)
        >>> job = headgate.Job.open("results")
        >>> job.pause(), job.unpause()
        (True, True)
        >>> run.stop(now=True)

        Returns:
            Whether a running job has applied it; if not, it applies when the job reads it, or from the next run.

        Raises:
            UsageError: The job is finished.
            OutputError: As `set`.
        """
        return pause_in(self.output, paused=True) == APPLIED

    def unpause(self) -> bool:
        """Continues the job after `pause`.

        Returns:
            As `pause`.

        Raises:
            UsageError: The job is finished.
            OutputError: As `set`.
        """
        return pause_in(self.output, paused=False) == APPLIED

    @RETRY.shown_by
    def retry(self, **options: Unpack[RetryKeywords]) -> Summary:
        """Retries the failed rows and replaces their results.

        An `invalid_request` is left out, unless `only` has that kind.

        It blocks until the retry is done. Rows that succeed this time move to `part-*`; the rest stays in `failed-*`,
        and their `attempts` add up. Files of failed rows are replaced by commits, one every 10 s: if it is killed, the
        job is as it was before or after one of them, and the same call continues.

        The requests are those of the job. The values of headers and bodies are not stored in it: if it was started with
        `headers` or `data`, give the same ones here. Credentials are needed as well, and can have new values.

        Args:
            **options: `help(headgate.Job.retry)` describes each with its default.

        Returns:
            The summary of the retry; `summary.job` has the figures of the whole job.

        Raises:
            UsageError: An argument is wrong; the message has all mistakes.
            InputError: The input can't be read a second time, or rows that the job read have changed.
            OutputError: The results can't be read or written; another process writes to them; or the input, the
                headers or the data are not those of the job.
            JobStopped: It stopped itself (`max_failures`, `network_down_after`).
            Interrupted: Ctrl-C was pressed. Requests in flight got `shutdown_timeout` seconds, all results are written,
                and `summary` has the figures; the same call continues. A second Ctrl-C ends it without waiting.
                For SIGTERM and calls in other threads, see `headgate.fetch`.
            RuntimeError: This thread runs an event loop, which `retry` would block: use `asyncio.to_thread`.
        """
        refuse_to_block_a_loop("retry", "give the call to asyncio.to_thread")
        arguments = Arguments()
        of_retry = RetryOptions(output=self.output, **arguments.read(RETRY, options))
        arguments.check(of_retry)
        return run_or_raise(of_retry, display_for(show=of_retry.progress))


def set_in(options: SetOptions) -> str:
    """Sets options of the job in a directory. Returns when they apply: "applied", "next run" or "not yet".

    Raises:
        HeadgateError: As `Job.set`.
    """
    return _checked(job_set(options.output, options.texts, None))


def pause_in(output: str, *, paused: bool) -> str:
    """Pauses the job in a directory, or continues it. Returns the same as `set_in`.

    Raises:
        HeadgateError: As `Job.pause`.
    """
    return _checked(job_set(output, {}, paused))


def _checked(reply: tuple[str, str | None]) -> str:
    applies, error = reply
    if error is not None:
        raise error_of_engine(error)
    return applies


def report_of(output: str, *, reading_s: float | None = READING_S, spell: Spell = as_keyword) -> "Report":
    """Returns what is known of the job in a directory, of whose results as many are read as this time allows.

    Raises:
        OutputError: As `status_of`.
    """
    from headgate.jobs._as_flag import as_flag  # noqa: PLC0415 - only for this
    from headgate.jobs._page import Report  # noqa: PLC0415 - as above

    status = status_of(output, spell=spell)
    try:
        found = json.loads(job_report(output, reading_s))
    except OutputError:
        if not status.running:
            raise
        # The job has stored nothing yet.
        found = {"requested": (), "withheld": (), "series": (), "results": None}
    requested = [(spell(Mention(name)), value) for name, value in found["requested"]]
    withheld = [(as_flag(Mention(name)), value) for name, value in found["withheld"]]
    return Report(
        status=status, requested=requested, withheld=withheld, points=found["series"], results=found["results"]
    )


def status_of(output: str, *, spell: Spell = as_keyword) -> JobStatus:
    """Returns the status of the job in a directory; `spell` spells options in its messages.

    Raises:
        OutputError: There is no job, or it is damaged.
    """
    if Path(output).is_file():
        raise OutputError(f"{output} is a file, not the directory of a job")
    return JobStatus.from_json(job_status(output), spell)
