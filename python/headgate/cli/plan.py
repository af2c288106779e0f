"""`headgate plan`: shows what a job would do."""

import sys
from collections.abc import Sequence
from typing import Final

from headgate.cli import _ending, _fetch_flags, _foreign, _groups, _option_flags
from headgate.cli._parser import Parser
from headgate.cli._wrapping import fitted
from headgate.jobs._as_flag import as_flag
from headgate.jobs._job_options import PlanOptions
from headgate.jobs._options import PLAN

_DESCRIPTION: Final = """\
Shows what headgate fetch would do with the same INPUT and flags: how many rows there are and how many are done, which
hosts they go to, which rows can't be sent and which send what an earlier one sends, the first three requests as they
would be sent (secret values are left out), what the job needs of this machine and of its disk, how fast its limits let
it run, and how long it takes.

Nothing is sent, unless --probe is given, and no file or directory is made. At most 100,000 rows are read, and the
figures of the others are estimated from these. Standard input and pipes can't be planned, because they can be read only
once."""

_EXAMPLES: Final = """\
examples:
  headgate plan urls.txt -o results
  headgate plan urls.txt -o results --assume-latency 200ms
  headgate plan rows.csv -o results -c 1000 --probe 20
  headgate plan rows.ndjson --curl
  headgate plan urls.parquet --as-json | jq .seconds

the keys of --as-json, which will not change: input, output, rows (null: not known), rows_exact, rows_read, bytes,
compressed, done, left, requests_left, directory (begun, resumed, finished, replaced, none), rows_replaced, hosts_by,
different_hosts, hosts (each with host, rows), invalid_rows, invalid_causes (each with message, rows, first_row, url,
detail), equal_requests, disk (null, or row_bytes, row_bytes_from, needed, free, min_free), requests (each with row,
url, target, line, headers, secret, body, curl, variables), ceilings (each with option, per_s, limit, host, host_share),
latency_s, seconds (null: not known), machine, notes, probe (null, or requests, latency_s, response_bytes, statuses,
errors) and time

exit codes: 0, or 2 if headgate fetch could not start like this"""


def main(arguments: Sequence[str]) -> int:
    """Reads the command line and shows the plan."""
    values = parser().read(arguments)
    if values is None:
        return 0
    inputs, output = values.arguments("input"), values.text("output")
    options = PlanOptions(input=inputs, output=output, **_option_flags.read(values, PLAN, inputs=inputs))
    if values.switch("as_json") and values.switch("curl"):
        values.wrong("curl", "and --as-json are two forms: leave one of them out")
    _option_flags.check(values, options)
    from headgate.jobs import _report_plan  # noqa: PLC0415 - not for the help
    from headgate.jobs._plan import plan_of  # noqa: PLC0415 - as above

    _ending.warn_if_insecure(insecure=options.insecure)
    plan = plan_of(options, as_flag)
    if values.switch("as_json"):
        sys.stdout.write(plan.to_json())
    elif values.switch("curl"):
        print(_report_plan.script(plan))
    else:
        # Requests are not wrapped, however long their lines are.
        summary = fitted(_report_plan.summary(plan, as_flag), sys.stdout)
        print("\n".join([summary, "", *_report_plan.requests(plan)]).rstrip("\n"))
    return 0


def parser() -> Parser:
    """Returns the parser of the verb."""
    made = Parser(
        "plan",
        usage="INPUT... [flags of headgate fetch] [flags]",
        description=_DESCRIPTION,
        examples=_EXAMPLES,
        elsewhere=_foreign.advice,
    )
    made.group("plan")
    _option_flags.add(made, PLAN, "plan")
    made.switch("as_json", "--as-json", text="print all of it as JSON")
    made.switch("curl", "--curl", text="print the first three requests alone, as commands for curl")
    _fetch_flags.add_job(made, PLAN, is_shown=False)
    _option_flags.add_progress(made, is_shown=False)
    made.section(f"all flags of headgate fetch; {_groups.SEE}:", _groups.listing())
    return made
