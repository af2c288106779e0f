"""A plan, as the engine writes it."""

import json
from typing import Any, Final

from headgate.jobs._planned import Planned

REQUEST: Final[dict[str, Any]] = {
    "row": 0,
    "url": "http://a.example/0",
    "target": "http://a.example/0",
    "line": "GET /0 HTTP/1.1",
    "headers": [["host", "a.example"], ["user-agent", "headgate/1"], ["accept", "*/*"], ["authorization", "***"]],
    "secret": ["authorization"],
    "gets_credentials": True,
    "body": None,
}
CEILING: Final[dict[str, Any]] = {"option": "rate", "per_s": 100.0, "limit": 100.0, "host": None, "host_share": None}
PLAN: Final[dict[str, Any]] = {
    "input": "urls.txt",
    "output": "results",
    "rows": 50_000_000,
    "rows_exact": True,
    "rows_read": 100_000,
    "bytes": 3_000_000_000,
    "compressed": False,
    "done": 0,
    "left": 50_000_000,
    "requests_left": 50_000_000,
    "directory": "begun",
    "rows_replaced": 0,
    "hosts_by": "name",
    "different_hosts": 2,
    "hosts": [{"host": "a.example", "rows": 60_000}, {"host": "b.example", "rows": 40_000}],
    "invalid_rows": 0,
    "credentials": None,
    "first_invalid": None,
    "requests": [REQUEST],
    "ceilings": [],
    "network": {"network": "any", "allow_net": [], "deny_net": [], "allow_port": []},
    "latency_s": None,
    "seconds": None,
    "machine": {
        "concurrency": 256,
        "threads": 2,
        "files": 336,
        "files_allowed": 20_000,
        "ports": 256,
        "ports_there_are": 28_232,
    },
    "notes": [],
}


def planned(**changes: object) -> Planned:
    """Returns the plan with changes."""
    return Planned.from_json(json.dumps(PLAN | changes))
