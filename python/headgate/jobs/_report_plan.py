"""The report of a plan for users."""

from base64 import b64decode
from collections.abc import Iterator
from typing import Final

from headgate import _format
from headgate._facts import Fact, aligned
from headgate._message import Mention, Message, Spell, as_keyword, spelled
from headgate.jobs._curl import PROXY_VARIABLE
from headgate.jobs._planned import (
    Body,
    BodyPiece,
    Ceiling,
    CredentialUse,
    DiskUse,
    InvalidCause,
    Planned,
    PlannedRequest,
)

_MAX_BODY: Final = 2000
"""The bound of characters of a body that are shown."""

_DIGITS: Final = 3
"""The significant digits of an estimate."""

_MAX_URL: Final = 120
_UNBOUNDED: Final[Message] = (
    "how long it takes depends on the time of a response: estimate that with ",
    Mention("assume_latency"),
    ", or measure it with ",
    Mention("probe", value=10),
)

ANY_ORIGIN: Final = "*"

_UNIT_OF: Final = {"concurrency": "in flight", "concurrency_per_host": "in flight"}


def report(plan: Planned, spell: Spell = as_keyword) -> str:
    """Returns the whole report, without a final line end."""
    return "\n".join([summary(plan, spell), "", *requests(plan)]).rstrip("\n")


def summary(plan: Planned, spell: Spell) -> str:
    """Returns the report without the requests."""
    lines = [headline(plan), *aligned(facts(plan, spell)), plan.time, *(f"note: {note}" for note in plan.notes)]
    return "\n".join(_format.printable(line) for line in lines)


def headline(plan: Planned) -> str:
    """Returns the first line: what was sent for the plan."""
    if plan.probe is None:
        return "plan: nothing was sent"
    return f"plan: {_format.plural(plan.probe.requests, 'request')} sent as a probe, and nothing else"


def facts(plan: Planned, spell: Spell = as_keyword) -> Iterator[Fact]:
    """Yields the figures of the plan."""
    yield "input", plan.input
    yield "rows", _rows(plan)
    if plan.done and plan.directory != "finished":
        left = "" if plan.left is None else f", {_about(plan.left, plan)} left"
        yield "done", f"{_format.count(plan.done)}{left}"
    yield from _budgets(plan, spell)
    if plan.output is not None:
        yield "results", _results(plan)
    if plan.disk is not None:
        yield "disk", _disk(plan.disk)
    if plan.hosts:
        yield from _hosts(plan)
    if plan.credentials is not None:
        yield "credentials", _credentials(plan, plan.credentials)
    yield from _invalid(plan)
    if plan.equal_requests:
        sampled = _format.count(plan.rows_read - plan.invalid_rows)
        verb = "is" if plan.equal_requests == 1 else "are"
        equal = _format.count(plan.equal_requests)
        yield "equal", f"{equal} of {sampled} sampled requests {verb} equal to an earlier one"
    yield "network", _network(plan, spell)
    yield "machine", _machine(plan)
    if plan.probe is not None:
        yield "probe", _probe(plan)
    if len(plan.ceilings) > 1:
        for index, ceiling in enumerate(plan.ceilings):
            yield "" if index else "at most", f"{_rate(ceiling.per_s)} by {spell(Mention(ceiling.option))}"


def _budgets(plan: Planned, spell: Spell) -> Iterator[Fact]:
    requests = (plan.requests_left, plan.requests_before, plan.max_requests)
    cost = (plan.cost_left, plan.cost_before, plan.max_cost)
    for name, option, (left, before, most) in (("requests", "max_requests", requests), ("cost", "max_cost", cost)):
        if most is None and (name == "requests" or left is None):
            continue
        expected = "not known" if left is None else f"{_about(left, plan)} expected"
        parts = [expected, *([f"{_format.count(before)} before"] if before else ())]
        if most is not None:
            parts.append(f"{_format.count(most)} allowed by {spell(Mention(option))}")
        yield name, ", ".join(parts)


def requests(plan: Planned) -> Iterator[str]:
    """Yields the first requests, line by line as they are sent."""
    for request in plan.requests:
        yield f"row {request.row} to {_site(request)}"
        for line in (request.line, *(f"{name}: {value}" for name, value in request.headers)):
            yield f"  {_format.printable(line)}"
        if request.body is not None:
            yield ""
            yield from (f"  {line}" for line in _body(request.body))
        yield ""


def script(plan: Planned) -> str:
    """Returns the first requests as commands for a shell, or a comment if there are none."""
    lines = []
    if not plan.requests:
        # It contains no value of a row, which a shell might run as a command.
        invalid = _format.count(plan.invalid_rows)
        lines.append(f"# there is no request to show; rows that can't be sent: {invalid}, and the plan itself says why")
    for request in plan.requests:
        lines.append(f"# row {request.row}")
        lines += [f"# set {name} to the {_meaning(name)}, which is left out" for name in request.variables]
        lines += [request.curl, ""]
    return "\n".join(lines).rstrip("\n")


def _meaning(variable: str) -> str:
    return "URL of the proxy" if variable == PROXY_VARIABLE else "value of the header"


def time(plan: Planned, spell: Spell) -> str:
    """Returns a sentence with the bottleneck of the job and the time that it takes."""
    if plan.directory == "finished":
        return f"nothing is left to do: start over with {spell(Mention('if_exists', value='overwrite'))}"
    if plan.requests_left == 0:
        return "there is nothing to send"
    if not plan.ceilings:
        return spelled(_UNBOUNDED, spell)
    narrowest = plan.ceilings[0]
    return spelled((f"at most {_rate(narrowest.per_s)} by ", *_by(narrowest, plan), *_takes(plan)), spell)


def _by(ceiling: Ceiling, plan: Planned) -> Message:
    limit = _format.count(ceiling.limit) + f" {_UNIT_OF[ceiling.option]}" if ceiling.option in _UNIT_OF else ""
    words = []
    if ceiling.option in _UNIT_OF and plan.latency_s is not None:
        words.append(f"{limit}, {_format.latency(round(plan.latency_s * 1e6))} per response")
    if ceiling.host is not None:
        share = ceiling.host_share or 0
        words.append(ceiling.host if share == 1 else f"{ceiling.host} has {_format.share(share)} of the rows")
        if ceiling.option not in _UNIT_OF and share < 1:
            words[-1] += f", at {_rate(ceiling.limit)}"
    option = Mention(ceiling.option)
    return (option, f" ({'; '.join(words)})") if words else (option,)


def _takes(plan: Planned) -> Message:
    pieces: list[str | Mention] = []
    if plan.requests_left is None or plan.seconds is None:
        pieces.append("; how long that takes depends on how many rows there are")
    else:
        what = "row" if plan.requests_left == plan.left else "request"
        one = plan.requests_left == 1
        rows = f"{_about(plan.requests_left, plan)} {what}{'' if one else 's'}"
        pieces.append(f": {rows} {'takes' if one else 'take'} {_format.duration(plan.seconds)}")
    if plan.latency_s is None:
        enough_s = plan.machine.concurrency / plan.ceilings[0].per_s
        # By Little's law, the concurrency is the lower limit beyond that latency.
        pieces.append(f", unless responses take more than {_format.duration(enough_s)}")
    return tuple(pieces)


def _about(rows: int, plan: Planned) -> str:
    """Returns the number; an estimate is rounded to its significant digits."""
    if plan.rows_exact or rows < 10**_DIGITS:
        return _format.count(rows)
    return f"about {_format.count(round(rows, _DIGITS - len(str(rows))))}"


def _rows(plan: Planned) -> str:
    if plan.rows is None:
        size = "" if plan.bytes is None else f": {_format.size(plan.bytes)}, compressed"
        return f"more than {_format.count(plan.rows_read)}, how many is not known{size}"
    if plan.rows_exact:
        return _format.count(plan.rows)
    size = "" if plan.bytes is None else f" of {_format.size(plan.bytes)}"
    return f"{_about(plan.rows, plan)}: an estimate from the first {_format.count(plan.rows_read)}{size}"


def _results(plan: Planned) -> str:
    if plan.directory == "replaced":
        return f"{plan.output}: {_format.plural(plan.rows_replaced, 'row')} of an earlier job there are replaced"
    uses = {
        "new": ": a new job",
        "resumed": ": the job there goes on",
        "finished": f": the job there is finished, {_format.plural(plan.done, 'row')} done",
        "none": "",
    }
    return f"{'standard output' if plan.output == '-' else plan.output}{uses[plan.directory]}"


def _hosts(plan: Planned) -> Iterator[Fact]:
    unnamed = plan.different_hosts - len(plan.hosts)
    among = "" if plan.rows_read == plan.rows else f" in the first {_format.plural(plan.rows_read, 'row')}"
    if plan.different_hosts == 1:
        yield "host", f"{plan.hosts[0].host}{among}"
        return
    most = "; those with the most rows:" if unnamed else ""
    yield "hosts", f"{_format.count(plan.different_hosts)}{among}{most}"
    for host in plan.hosts:
        yield f"  {host.host}", _format.count(host.rows)


def _credentials(plan: Planned, credentials: CredentialUse) -> str:
    origins = "every host" if ANY_ORIGIN in credentials.origins else ", ".join(credentials.origins)
    if not credentials.rows_without:
        return f"for {origins}"
    among = "" if plan.rows_read == plan.rows else f" of the first {_format.count(plan.rows_read)}"
    return f"for {origins}; {_format.plural(credentials.rows_without, 'row')}{among} without"


def _disk(disk: DiskUse) -> str:
    known = {"results": "as so far", "probe": "by the probe", "assumed": "assumed"}[disk.row_bytes_from]
    row = f"{_format.size(disk.row_bytes)} for each row ({known})"
    needed = row if disk.needed is None else f"about {_format.size(disk.needed)}: {row}"
    return needed if disk.free is None else f"{needed}; {_format.size(disk.free)} free"


def _invalid(plan: Planned) -> Iterator[Fact]:
    causes = [f"{_format.count(cause.rows)}, the first is {_first(cause)}" for cause in plan.invalid_causes]
    others = plan.invalid_rows - sum(cause.rows for cause in plan.invalid_causes)
    if others:
        causes.append(f"{_format.count(others)} for other reasons")
    if len(causes) > 1:
        causes.insert(0, _format.plural(plan.invalid_rows, "row"))
    for index, cause in enumerate(causes):
        yield "" if index else "invalid", cause


def _first(cause: InvalidCause) -> str:
    detail = "" if cause.detail is None else f" ({cause.detail})"
    url = cause.url if len(cause.url) <= _MAX_URL else f"{cause.url[: _MAX_URL - 1]}…"
    return f"row {cause.first_row}: {url and f'{url}: '}{cause.message}{detail}"


def _network(plan: Planned, spell: Spell) -> str:
    policy = plan.network
    words = ["public addresses only" if policy.network == "public" else "any address but link-local and metadata ones"]
    for option, values in (
        ("allow_net", policy.allow_net),
        ("deny_net", policy.deny_net),
        ("allow_port", policy.allow_port),
    ):
        words += [spell(Mention(option, value)) for value in values]
    return "; ".join(words)


def _machine(plan: Planned) -> str:
    machine = plan.machine
    files = f"{_format.count(machine.files)} of {_format.count(machine.files_allowed)} open files"
    connections = _format.plural(machine.concurrency, "connection")
    if machine.ports_there_are is None:
        return f"{connections}: {files}"
    ports = f"{_format.count(machine.ports)} of {_format.count(machine.ports_there_are)} local ports"
    return f"{connections}: {files}, {ports} for one address"


def _probe(plan: Planned) -> str:
    if plan.probe is None:
        return ""
    found = [f"{status}: {_format.count(rows)}" for status, rows in sorted(plan.probe.statuses.items())]
    found += [f"{kind}: {_format.count(rows)}" for kind, rows in plan.probe.errors.items()]
    latency = plan.probe.latency_s
    median = "no response" if latency is None else f"median {_format.latency(round(latency * 1e6))}"
    return f"{median} ({', '.join(found)})"


def _rate(per_s: float) -> str:
    return f"{_format.count(per_s)}/s" if per_s >= 1 else f"1 in {_format.duration(1 / per_s)}"


def _site(request: PlannedRequest) -> str:
    scheme, _, rest = request.target.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


def _body(body: Body) -> Iterator[str]:
    if body.pieces:
        yield from "".join(map(_piece, body.pieces)).split("\n")
        return
    if body.text is None:
        yield _binary(body.bytes)
        return
    yield from (_format.printable(line) for line in body.text[:_MAX_BODY].split("\n"))
    if len(body.text) > _MAX_BODY:
        yield f"… ({_format.plural(body.bytes, 'byte')} in all)"


def _piece(piece: BodyPiece) -> str:
    if piece.file is not None:
        return f"<contents of {_format.printable(piece.file.path)}, {_format.plural(piece.file.bytes, 'byte')}>"
    if piece.text is None:
        return f"<{_binary(len(b64decode(piece.base64 or '')))[1:-1]}>"
    shown = "\n".join(map(_format.printable, piece.text[:_MAX_BODY].replace("\r\n", "\n").split("\n")))
    return shown if len(piece.text) <= _MAX_BODY else f"{shown}…"


def _binary(count: int) -> str:
    return f"({_format.plural(count, 'byte')} that are no text)"
