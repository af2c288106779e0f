"""`headgate.Job`: a job that was begun, known by its directory."""

import os
from pathlib import Path
from typing import Self, Unpack

from headgate._errors import OutputError, UsageError
from headgate._message import Mention
from headgate._native import RowStream, job_rows, job_status, preview
from headgate._summary import Summary
from headgate.jobs._arguments import Arguments
from headgate.jobs._blocking import refuse_to_block_a_loop
from headgate.jobs._display import display_for
from headgate.jobs._job_options import RetryOptions
from headgate.jobs._option_entry import StrPath
from headgate.jobs._options import RETRY, RetryKeywords
from headgate.jobs._run import run_or_raise
from headgate.jobs._status import JobStatus

__all__ = ["Job", "RowStream", "preview", "status_of"]


class Job:
    """A job in a directory of results: how far it is, its rows, and another try for those that failed.

        job = headgate.Job.open("results")
        print(job.status().failed)
        job.retry(only=["timeout", "status:5xx"])
        table = pyarrow.table(job.rows())

    It holds nothing open, and a job that runs in another process may be looked at. To begin one or to go on with it,
    see `headgate.fetch`.

    Attributes:
        output: Its directory.
    """

    __slots__ = ("output",)

    def __init__(self, output: str) -> None:
        self.output = output

    @classmethod
    def open(cls, output: StrPath) -> Self:
        """Finds the job in a directory.

        Args:
            output: What `headgate.fetch` was given as its `output`.

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

    def status(self, *, check_all: bool = False) -> JobStatus:
        """How far it is, as of its newest commit, and whether its results are those that were committed.

        Every file of results is looked for by its name and length. Contents are compared with their checksums too, if
        the job does not run and has at most 1 GiB of results (which takes some 0.1 s).

        Args:
            check_all: Compare all contents, whatever their size.

        Raises:
            OutputError: There is no job any more, or it is damaged: the message names the file.
        """
        return status_of(self.output, check_all=check_all)

    def rows(self) -> RowStream:
        """The rows of all parts there are now: those that were answered first, then those that failed.

        Within each, they are in no order of the input. The list of files is taken now, and they are read when
        rows are asked for, one batch after another, so that memory does not grow with the results. Before a row of a
        file is given, the whole file is compared with the checksum that it was committed with. Where a retry or the end
        of the job replaces one of them meanwhile, reading ends with an error: call `rows()` again.

        Returns:
            Rows with the columns of the results. It has the Arrow PyCapsule interface (`__arrow_c_stream__`), so that
            `pyarrow.table(rows)` or `polars.DataFrame(rows)` take it as it is, and gives batches of rows
            with `__arrow_c_array__` when iterated. Each time it is read from the beginning.

        Raises:
            OutputError: There is no job any more, or a file of results is missing, is damaged or does not belong to
                it; when iterated: a file cannot be read, is damaged, or was replaced.
                Who reads through the Arrow stream gets what their library raises then: an `OSError` from pyarrow.
        """
        return job_rows(self.output)

    @RETRY.shown_by
    def retry(self, **options: Unpack[RetryKeywords]) -> Summary:
        """Asks failed rows again and replaces their results.

        Blocks until all are done. Rows that are answered now move to `part-*`; the others stay in `failed-*`, and their
        `attempts` add up. Files of failed rows are replaced by commits, one every 10 s: killed at any instant, the
        job is as it was before or after one of them, and the same call asks the rest.

        What to ask is the job's own. Values of headers and bodies are not stored in it: a job that was begun with
        `headers` or `data` needs the same ones here.

        Args:
            **options: `help(headgate.Job.retry)` describes each with its default.

        Returns:
            What was done this time; `summary.job` has the figures of the whole job.

        Raises:
            UsageError: An argument cannot be; all mistakes are named.
            InputError: The input cannot be read again, or its rows are not those that the job has read.
            OutputError: The results cannot be read or written; another process writes to them; or the form of the
                input, the headers or the data are not those of the job.
            Interrupted: Ctrl-C was pressed. What was in flight got `grace_s` seconds, all results are written, and
                `summary` says what was done; the same call asks the rest. A second Ctrl-C ends it without waiting.
                SIGTERM and calls in other threads: as of `headgate.fetch`.
            RuntimeError: This thread runs an event loop, which it would block: use `asyncio.to_thread`.
        """
        refuse_to_block_a_loop("retry", "give the call to asyncio.to_thread")
        given = Arguments()
        asked = RetryOptions(output=self.output, **given.read(RETRY, options))
        given.check(asked)
        return run_or_raise(asked, display_for(show=asked.progress))


def status_of(output: str, *, check_all: bool) -> JobStatus:
    """How far the job in a directory is.

    Raises:
        OutputError: There is no job, or it is damaged.
    """
    if Path(output).is_file():
        raise OutputError(f"{output} is a file, not the directory of a job")
    return JobStatus.from_json(job_status(output, check_all))
