"""`headgate.plan`, which shows what a job would do."""

import json
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final, Unpack

from headgate import _native
from headgate._facts import table
from headgate._message import Spell, as_keyword
from headgate._summary import Summary
from headgate.jobs import _curl, _literals, _report_plan
from headgate.jobs._arguments import Arguments
from headgate.jobs._interruptible import interruptible
from headgate.jobs._job_options import FetchOptions, PlanOptions
from headgate.jobs._notebook import refuse_to_block_a_loop
from headgate.jobs._option_entry import Inputs, StrPath
from headgate.jobs._options import FETCH, PLAN, PlanKeywords
from headgate.jobs._planned import Planned, PlannedRequest, Probe

_WAIT_S: Final = 0.1
"""How soon a probe notices an interrupt."""

_PROBE_OPTIONS: Final[dict[str, Any]] = {
    "output": None,
    "format": "none",
    "if_exists": "resume",
    "concurrency": 1,
    "threads": 1,
    "retries": 0,
    "max_failures": "never",
}
_MICRO: Final = 1e-6


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan(Planned):
    """The plan of a job. `print(plan)` shows it in words.

    >>> plan = headgate.plan("http://127.0.0.1:8080/[1-100]", rate="10/s")
    >>> plan.rows, plan.directory, plan.requests[0].target
    (100, 'none', 'http://127.0.0.1:8080/1')
    >>> plan.to_dict()["rows"], json.loads(plan.to_json())["rows"]
    (100, 100)

    Attributes:
        input: The input, as it was given, without a user; of several files, their number.
        output: The directory of the results, if one was given.
        rows: Rows of the input; `None`: not known.
        rows_exact: Whether the rows were counted; otherwise their number is an estimate from the size of the file and
            its first rows.
        rows_read: Rows that were read, from the first; at most 100,000.
        bytes: The size of the file, or of all files.
        compressed: Whether it is compressed, so that the number of rows is known only after reading all of it.
        done: Rows that an earlier run of the same job has done.
        left: The remaining rows.
        requests_left: The remaining rows that can be sent, if they are like the rows that were read.
        requests_before: Requests of earlier runs of the job, which count for `max_requests`.
        max_requests: The budget of requests, if there is one.
        cost_before: What earlier runs have cost.
        cost_left: The estimated cost of the remaining rows, with one attempt for each; `None`: rows have no costs, or
            their number is not known.
        max_cost: The budget of costs, if there is one.
        directory: The effect of the job on its directory: `new`, `resumed`, `finished` (all rows are done),
            `replaced` (with `if_exists="overwrite"`) or `none`.
        rows_replaced: Rows of existing results that would be removed.
        hosts_by: What counts as one host: `name`, `origin` or `address` (for which hostnames are counted, too, because
            a plan makes no DNS lookups).
        different_hosts: Hosts among the rows that were read.
        hosts: The ten hosts with the most rows.
        invalid_rows: Rows that can't be sent, of those that were read.
        invalid_causes: Why, each cause with its number of rows and the first of them, the most frequent cause first; of
            an input with more than 20 causes, only the first 20 are told apart.
        equal_requests: Requests that are equal to one of an earlier row, of those that were read: method, URL, headers
            and body.
        disk: The disk space that the results need, and that there is; `None`: there is no directory of results, or all
            rows are done.
        requests: The first three requests that the job would send.
        ceilings: The rate that each limit allows, the lowest first.
        network: The addresses to which connections are allowed.
        latency_s: The time of a response: as assumed, or the median of the probe.
        seconds: The shortest time that the job can take; `None`: not known.
        machine: The resources of this machine that the job needs.
        notes: Further remarks.
        probe: The result of the probe, if there was one.
        time: A sentence with the bottleneck of the job, and the time that it takes.
    """

    __module__ = "headgate"

    def to_dict(self) -> dict[str, Any]:
        """Returns plain dictionaries, lists and figures under the names of the attributes."""
        return asdict(self)

    def to_json(self) -> str:
        """Returns the output of `headgate plan --as-json`."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"

    def __str__(self) -> str:
        return _report_plan.report(self)

    def _repr_html_(self) -> str:
        """Returns the table that a notebook shows."""
        return table(_report_plan.headline(self), [*_report_plan.facts(self), ("time", self.time)])


@PLAN.shown_by
def plan(
    input: Inputs,  # noqa: A002 - the same name as on the command line
    output: StrPath | None = None,
    **options: Unpack[PlanKeywords],
) -> Plan:
    """Shows what `headgate.fetch` would do with the same arguments, without doing it.

    Nothing is sent, except by a `probe`, and no file or directory is created. At most 100,000 rows are read: figures of
    the rest, such as the shares of hosts, are extrapolated.

    >>> plan = headgate.plan("http://127.0.0.1:8080/[1-100]", rate="10/s")
    >>> plan.rows, plan.requests[0].line
    (100, 'GET /1 HTTP/1.1')

    Args:
        input: As for `headgate.fetch`, except inputs that can be read only once: standard input and pipes.
        output: As for `headgate.fetch`; it may be left out.
        **options: `help(headgate.plan)` describes each with its default.

    Returns:
        The rows, the hosts, the first three requests, the rate that each limit allows, and the time of the job.

    Raises:
        HeadgateError: As `headgate.fetch`, if the job couldn't start.
        RuntimeError: This thread runs an event loop, and a probe would block it.
    """
    arguments = Arguments()
    of_job = PlanOptions(
        input=arguments.inputs("input", input),
        output=arguments.path_or_none("output", output),
        **arguments.read(PLAN, options),
    )
    arguments.check(of_job)
    if of_job.probe is not None:
        refuse_to_block_a_loop("plan(probe=...)", "asyncio.to_thread(headgate.plan, ...)")
    return plan_of(of_job)


def plan_of(options: PlanOptions, spell: Spell = as_keyword) -> Plan:
    """Returns the plan of a job; `spell` spells options in messages.

    Raises:
        HeadgateError: The job could not start.
    """
    probe, latency_s, response_bytes = None, options.assume_latency, None
    if options.probe is not None:
        _plan(options, None, None)  # It raises the errors of the options before anything is sent.
        probe = _probe(options, options.probe)
        latency_s, response_bytes = probe.latency_s, probe.response_bytes
    found = Plan.from_json(_plan(options, latency_s, response_bytes), spell)
    connecting = _curl.Connecting(**{field.name: getattr(options, field.name) for field in fields(_curl.Connecting)})
    requests = tuple(_with_curl(request, connecting) for request in found.requests)
    notes = (*found.notes, *_literals.notes(options, spell))
    found = replace(found, requests=requests, probe=probe, notes=notes)
    return replace(found, time=_report_plan.time(found, spell))


def _plan(options: PlanOptions, latency_s: float | None, response_bytes: float | None) -> str:
    return interruptible(lambda: _native.plan(options, latency_s, response_bytes))


def _with_curl(request: PlannedRequest, connecting: _curl.Connecting) -> PlannedRequest:
    if not request.gets_credentials:
        connecting = replace(connecting, cert=None, key=None)
    command, variables = _curl.command(request, connecting), tuple(_curl.variables(request, connecting))
    return replace(request, curl=command, variables=variables)


def _probe(options: PlanOptions, requests: int) -> Probe:
    """Sends the requests of the first rows, one after another."""
    max_rows = requests if options.max_rows is None else min(requests, options.max_rows)
    given: dict[str, Any] = {name: getattr(options, name) for name in ("input", *FETCH.entries)}
    given.update(_PROBE_OPTIONS, max_rows=max_rows)
    run = _native.Run(FetchOptions(**given))
    try:
        while not run.wait(_WAIT_S):
            pass
    except BaseException:
        run.abort()
        raise
    summary = Summary.from_json(run.summary())
    statuses = dict(summary.statuses)
    errors = {}
    for kind, rows in summary.errors.items():
        status = kind.removeprefix("status:")
        if status == kind:
            errors[kind] = rows
        else:
            statuses[int(status)] = rows
    latency_s = summary.latency_us.p50 * _MICRO if statuses else None
    responses = sum(statuses.values())
    return Probe(
        requests=summary.rows,
        latency_s=latency_s,
        response_bytes=summary.received_bytes / responses if responses else None,
        statuses=statuses,
        errors=errors,
    )
