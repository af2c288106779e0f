"""`headgate.plan`: what a job would do, from Python."""

import json
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Unpack

from headgate import _native
from headgate._facts import table
from headgate._message import Spell, as_keyword
from headgate._summary import Summary
from headgate.jobs import _curl, _report_plan
from headgate.jobs._arguments import Arguments
from headgate.jobs._job_options import FetchOptions, PlanOptions
from headgate.jobs._notebook import refuse_to_block_a_loop
from headgate.jobs._option_entry import Inputs, StrPath
from headgate.jobs._options import FETCH, PLAN, PlanKeywords
from headgate.jobs._planned import Planned, PlannedRequest, Probe

_LOOK_S: Final = 0.1
"""How often a probe can be interrupted."""

_AS_A_PROBE: Final[dict[str, Any]] = {
    "output": None,
    "format": "none",
    "fresh": False,
    "concurrency": 1,
    "threads": 1,
    "retries": 0,
    "stop_when_failed": "never",
}
_MICRO: Final = 1e-6


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan(Planned):
    """What a job would do. `print(plan)` says it in words.

    >>> plan = headgate.plan("http://127.0.0.1:8080/[1-100]", rate="10/s")
    >>> plan.rows, plan.directory, plan.requests[0].target
    (100, 'none', 'http://127.0.0.1:8080/1')
    >>> plan.to_dict()["rows"], json.loads(plan.to_json())["rows"]
    (100, 100)

    Attributes:
        input: The input, as it was given, without a user; of several files, how many there are.
        output: The directory of the results, if one was named.
        rows: Rows of the input; `None`: not known.
        rows_exact: Whether that was counted; otherwise it is an estimate, made of the size of the file and of its first
            rows.
        rows_read: Rows that were looked at, from the first; at most 100,000.
        bytes: The size of the file, or of all files.
        compressed: Whether it is compressed, so that the number of rows is known only when all of it has been read.
        done: Rows that an earlier run of the same job has done.
        left: The others.
        requests_left: Those of them that can be sent, if they are like the rows that were looked at.
        directory: What the job does with its directory: `begun`, `resumed`, `finished` (nothing is left to do),
            `replaced` (with `fresh`) or `none`.
        rows_replaced: Rows of results that are there, and would be removed.
        hosts_by: What counts as one host: `name`, `origin` or `address` (for which names are counted, too: nothing is
            looked up).
        different_hosts: Hosts among the rows that were looked at.
        hosts: The ten with the most rows.
        invalid_rows: Rows that can't be sent, of those that were looked at.
        first_invalid: The first of them.
        requests: The first three that the job would send.
        ceilings: How fast each limit lets the job go, the narrowest first.
        network: Which addresses may be connected to.
        latency_s: How long an answer takes: as assumed, or the median of the probe.
        seconds: How long the job takes at least; `None`: not known.
        machine: What is needed of this machine.
        notes: What to know besides.
        probe: What was sent, if a probe was asked for.
        time: One sentence: what bounds the job, and how long it takes.
    """

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionaries, lists and figures under the names of the attributes."""
        return asdict(self)

    def to_json(self) -> str:
        """What `headgate plan --as-json` prints."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"

    def __str__(self) -> str:
        return _report_plan.report(self)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return table(_report_plan.headline(self), [*_report_plan.facts(self), ("time", self.time)])


@PLAN.shown_by
def plan(
    input: Inputs,  # noqa: A002 - the same name as on the command line
    output: StrPath | None = None,
    **options: Unpack[PlanKeywords],
) -> Plan:
    """Shows what `headgate.fetch` would do with the same arguments, without doing it.

    Nothing is sent, unless a `probe` is asked for, and no file or directory is made. At most 100,000 rows are read:
    what is said of the others, such as the shares of hosts, follows from these.

    >>> plan = headgate.plan("http://127.0.0.1:8080/[1-100]", rate="10/s")
    >>> plan.rows, plan.requests[0].line
    (100, 'GET /1 HTTP/1.1')

    Args:
        input: As for `headgate.fetch`, but for what can be read only once: standard input and pipes.
        output: As for `headgate.fetch`; it may be left out.
        **options: `help(headgate.plan)` describes each with its default.

    Returns:
        The rows, the hosts, the first three requests, how fast each limit lets the job go, and how long it takes.

    Raises:
        HeadgateError: As `headgate.fetch`, if the job couldn't start.
        RuntimeError: This thread runs an event loop, and a probe would block it.
    """
    arguments = Arguments()
    asked = PlanOptions(
        input=arguments.inputs("input", input),
        output=arguments.path_or_none("output", output),
        **arguments.read(PLAN, options),
    )
    arguments.check(asked)
    if asked.probe is not None:
        refuse_to_block_a_loop("plan(probe=...)", "asyncio.to_thread(headgate.plan, ...)")
    return plan_of(asked)


def plan_of(asked: PlanOptions, spell: Spell = as_keyword) -> Plan:
    """The plan of a job; sentences spell options so.

    Raises:
        HeadgateError: The job could not start.
    """
    probe, latency_s = None, asked.assume_latency_s
    if asked.probe is not None:
        _native.plan(asked, None)  # What is wrong is told before anything is sent.
        probe = _probe(asked, asked.probe)
        latency_s = probe.latency_s
    found = Plan.from_json(_native.plan(asked, latency_s), spell)
    connecting = _curl.Connecting(
        timeout_s=asked.timeout_s,
        connect_timeout_s=asked.connect_timeout_s,
        cacert=asked.cacert,
        insecure=asked.insecure,
        cert=asked.cert,
        key=asked.key,
        tls_min=asked.tls_min,
        sni=asked.sni,
        http2_prior_knowledge=asked.http2_prior_knowledge,
        proxies=tuple(asked.proxy),
        resolve=tuple(asked.resolve),
        ipv4=asked.ipv4,
        ipv6=asked.ipv6,
        local_addresses=tuple(asked.local_address),
        interface=asked.interface,
    )
    requests = tuple(_with_curl(request, connecting) for request in found.requests)
    found = replace(found, requests=requests, probe=probe)
    return replace(found, time=_report_plan.time(found, spell))


def _with_curl(request: PlannedRequest, connecting: _curl.Connecting) -> PlannedRequest:
    if not request.gets_credentials:
        connecting = replace(connecting, cert=None, key=None)
    command, variables = _curl.command(request, connecting), tuple(_curl.variables(request, connecting))
    return replace(request, curl=command, variables=variables)


def _probe(asked: PlanOptions, requests: int) -> Probe:
    """Sends the first rows, one after another."""
    head = requests if asked.head is None else min(requests, asked.head)
    given: dict[str, Any] = {name: getattr(asked, name) for name in ("input", *FETCH.entries)}
    given.update(_AS_A_PROBE, head=head)
    run = _native.Run(FetchOptions(**given))
    try:
        while not run.wait(_LOOK_S):
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
    return Probe(requests=summary.rows, latency_s=latency_s, statuses=statuses, errors=errors)
