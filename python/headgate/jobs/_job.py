"""`headgate.Job`: a job that was begun, known by its directory."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from headgate import _options
from headgate._errors import OutputError, UsageError
from headgate._native import RowStream, job_rows, job_status, preview
from headgate._nearest import with_suggestions
from headgate._options import Headers, RetryOptions, StrPath
from headgate._summary import Summary
from headgate.jobs._argument_names import naming_arguments
from headgate.jobs._arguments import Arguments
from headgate.jobs._display import display_for
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
            raise UsageError("output is missing: name the directory of a job")
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
        with naming_arguments():
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
        with naming_arguments():
            return job_rows(self.output)

    @with_suggestions
    def retry(  # noqa: PLR0913 - one for each flag of `headgate retry`
        self,
        *,
        only: str | Iterable[str] | None = None,
        concurrency: int = _options.DEFAULT_CONCURRENCY,
        threads: int | None = None,
        timeout_s: float = _options.DEFAULT_TIMEOUT_S,
        connect_timeout_s: float = _options.DEFAULT_CONNECT_TIMEOUT_S,
        headers: Headers = (),
        data: str | bytes | None = None,
        max_body_bytes: int = _options.DEFAULT_MAX_BODY_BYTES,
        cacert: StrPath | None = None,
        insecure: bool = False,
        dns: str | None = None,
        grace_s: float = _options.DEFAULT_GRACE_S,
        part_bytes: int = _options.DEFAULT_PART_BYTES,
        progress: bool | None = None,
    ) -> Summary:
        """Asks failed rows again and replaces their results.

        Blocks until all are done. Rows that are answered now move to `part-*`; the others stay in `failed-*`, and their
        `attempts` add up. Files of failed rows are replaced by commits, one every 10 s: killed at any instant, the
        job is as it was before or after one of them, and the same call asks the rest.

        What to ask is the job's own. Values of headers and bodies are not stored in it: a job that was begun with
        `headers` or `data` needs the same ones here.

        Args:
            only: Kinds of failures, as in the column `error`, and statuses: `"timeout,status:503"` or
                `["timeout", "status:5xx"]`. `None`: all.
            concurrency: Requests in flight at the most.
            threads: Worker threads; `None`: one for each core that this process may use.
            timeout_s: Longest time for one attempt, in seconds, from connecting to the last byte.
            connect_timeout_s: Longest time for making a connection, in seconds.
            headers: Those of the job; a mapping, or pairs where a name repeats.
            data: That of the job.
            max_body_bytes: A response body longer than this, as received or decoded, is a failure.
            cacert: PEM file of certificates to trust instead of the system's.
            insecure: Do not verify certificates: anyone on the way can read and change what is sent.
            dns: Who is asked for the addresses of names: a name server, as `"9.9.9.9"` or `"127.0.0.1:5353"`;
                `"system"`: the system, with all that it knows of names; `None`: the servers it is configured with.
            grace_s: How long requests in flight may go on after an interrupt, in seconds.
            part_bytes: Size at which a file of results is closed and the next begun.
            progress: Show progress on standard error; `None`: if it is a terminal.

        Returns:
            What was done this time; `summary.job` has the figures of the whole job.

        Raises:
            UsageError: An argument cannot be; all mistakes are named.
            InputError: The input cannot be read again.
            OutputError: The results cannot be read or written; another process writes to them; or the input, the
                headers or the data are not those of the job.
            Interrupted: Ctrl-C was pressed. What was in flight got `grace_s` seconds, all results are written, and
                `summary` says what was done; the same call asks the rest. A second Ctrl-C ends it without waiting.
        """
        given = Arguments()
        options = RetryOptions(
            output=self.output,
            only=given.kinds("only", only),
            concurrency=concurrency,
            threads=threads,
            timeout_s=timeout_s,
            connect_timeout_s=connect_timeout_s,
            headers=given.headers("headers", headers),
            data=given.data("data", data),
            max_body_bytes=max_body_bytes,
            cacert=given.path_or_none("cacert", cacert),
            insecure=insecure,
            dns=dns,
            grace_s=grace_s,
            part_bytes=part_bytes,
        )
        given.check(options)
        return run_or_raise(options, display_for(show=progress))


def status_of(output: str, *, check_all: bool) -> JobStatus:
    """How far the job in a directory is; an error speaks of flags, as on the command line.

    Raises:
        OutputError: There is no job, or it is damaged.
    """
    if Path(output).is_file():
        raise OutputError(f"{output} is a file, not the directory of a job")
    return JobStatus.from_json(job_status(output, check_all))
