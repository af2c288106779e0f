"""What is wrong with the results of a job."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class JobProblem:
    """One thing that is wrong with the results of a job.

    >>> summary = headgate.fetch("http://127.0.0.1:8080/[1-3]", "results")
    >>> import pathlib
    >>> pathlib.Path("results/part-00000001.parquet").unlink()
    >>> [problem.kind for problem in headgate.Job("results").verify().problems]
    ['damaged_file', 'lost_rows']

    Attributes:
        kind: `damaged_file`, `lost_rows`, `saved_body`, `rows_twice`, `uncounted_rows`, `totals`, `unnamed_file` or
            `delta_log`.
        message: What is wrong.
        advice: What can be done.
    """

    __module__ = "headgate"

    kind: str
    message: str
    advice: str


@dataclass(frozen=True, kw_only=True, slots=True)
class JobVerification:
    """The results of a job as of one commit, compared with that commit.

    >>> summary = headgate.fetch("http://127.0.0.1:8080/[1-3]", "results")
    >>> found = headgate.Job.open("results").verify()
    >>> found.rows, found.files, found.problems, found.repaired_rows
    (3, 1, (), None)

    Attributes:
        output: The directory of the job, as it was given.
        commit: The number of the commit.
        files: Files that the commit names.
        rows: Rows in intact files.
        bytes: The size of all files.
        running: Whether a process writes to the job now.
        problems: What is wrong, the most important first; at most 100 of a kind.
        problem_count: The number of problems, including those that are not listed.
        repaired_rows: Rows that were marked as not done; `None`: nothing was repaired.
    """

    __module__ = "headgate"

    output: str
    commit: int
    files: int
    rows: int
    bytes: int
    running: bool
    problems: tuple[JobProblem, ...]
    problem_count: int
    repaired_rows: int | None
