"""`headgate status`: how far a job is."""

import json
from collections.abc import Sequence

from headgate.cli._parser import Parser


def main(arguments: Sequence[str]) -> int:
    """Reads the command line and says how far the job is."""
    parser = Parser("status", usage="OUT [flags]", description="Says how far the job in OUT is.", examples="")
    parser.group("what to show")
    parser.argument("output", "OUT", "the directory of a job")
    parser.switch("json", "--json", text="as JSON")
    values = parser.read(arguments)
    if values is None:
        return 0
    output = values.argument("output")
    if not output:
        values.wrong("output", "is missing: name the directory of a job")
    values.check()
    from headgate._job import job_status  # noqa: PLC0415 - not for the help

    print(json.dumps(json.loads(job_status(output)), indent=2, ensure_ascii=False))
    return 0
