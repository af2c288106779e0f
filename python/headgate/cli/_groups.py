"""The groups of the flags of `headgate fetch`, for its help, for `headgate help GROUP` and for the documents.

The group of an option is part of its entry in the engine.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from headgate.cli._parser import Parser


class Group(NamedTuple):
    """A group of flags.

    Attributes:
        about: The description in one line.
        examples: Two command lines.
    """

    about: str
    examples: tuple[str, str]


GROUPS: Final[Mapping[str, Group]] = {
    "input": Group(
        "which rows to read, and which columns describe their requests",
        (
            "headgate fetch pages.csv -o results --url-column link --max-rows 100",
            "headgate fetch orders.ndjson -o results --method-column method --body-column body",
        ),
    ),
    "request": Group(
        "URL, method and headers",
        (
            "headgate fetch ids.csv -o results --url 'https://api.example.com/items/{id}'",
            "headgate fetch urls.txt -o results -X HEAD -H 'Accept: application/json'",
        ),
    ),
    "bodies": Group(
        "what requests send: data, JSON and forms",
        (
            """headgate fetch rows.csv -o results --url https://api.example.com/items --json '{"id": "{id}"}'""",
            "headgate fetch files.csv -o results --url https://api.example.com/upload -F 'file=@{path}'",
        ),
    ),
    "credentials": Group(
        "tokens, passwords and secret headers, and which hosts get them",
        (
            "headgate fetch urls.txt -o results --bearer @token.txt --credentials-for https://api.example.com",
            "headgate fetch 'https://api.example.com/[1-1000]' -o results -u @login.txt",
        ),
    ),
    "redirects": Group(
        "which redirects to follow, and what to keep of them",
        (
            "headgate fetch urls.txt -o results --no-location",
            "headgate fetch urls.txt -o results --redirects same-origin --keep-redirects",
        ),
    ),
    "responses": Group(
        "which statuses fail, and how bodies are read",
        (
            "headgate fetch urls.txt -o results --fail-on 404,429,5xx",
            "headgate fetch urls.txt -o results --max-body-size 1MiB --truncate-body",
        ),
    ),
    "columns": Group(
        "the columns of the results",
        (
            "headgate fetch rows.csv -o results --keep id --drop body,headers",
            "headgate fetch rows.csv -o results --extract 'name=$.name' --extract 'n:int64=$.n' --require name",
        ),
    ),
    "saving": Group(
        "bodies as files",
        (
            "headgate fetch images.csv -o images --save-to '{id}.{ext}'",
            "headgate fetch images.csv -o images --save-to '{sha256}.{ext}' --save-format tar",
        ),
    ),
    "output": Group(
        "where results are written, and what happens to earlier ones",
        (
            "headgate fetch urls.txt -o results --format ndjson",
            "headgate fetch urls.txt -o results --if-exists overwrite -y",
        ),
    ),
    "limits": Group(
        "concurrency and rates, in total and for each host",
        (
            "headgate fetch urls.txt -o results -c 1000 --concurrency-per-host 8",
            "headgate fetch urls.txt -o results --rate 100/s --rate-per-host api.example.com=5/s",
        ),
    ),
    "costs": Group(
        "limits on something other than requests, such as tokens",
        (
            "headgate fetch prompts.ndjson -o results --cost-rate 150000/m --cost-column tokens",
            "headgate fetch prompts.ndjson -o results --max-cost 2000000 --cost-column tokens",
        ),
    ),
    "timeouts": Group(
        "how long each step may take",
        (
            "headgate fetch urls.txt -o results --timeout 10s --connect-timeout 500ms",
            "headgate fetch urls.txt -o results --total-timeout 5m --idle-timeout 10s",
        ),
    ),
    "retries": Group(
        "which failures are retried, how often and when",
        (
            "headgate fetch urls.txt -o results --retries 5 --retry-on timeout,connect,429,5xx",
            "headgate fetch orders.csv -o results -d @order.json --idempotency-key --retry-delay 2s",
        ),
    ),
    "stopping": Group(
        "when a job stops itself",
        (
            "headgate fetch urls.txt -o results --max-failures 50%",
            "headgate fetch urls.txt -o results --max-requests 10000",
        ),
    ),
    "network": Group(
        "DNS, and the addresses that connections may lead to",
        (
            "headgate fetch urls.txt -o results --network public --allow-port 443",
            "headgate fetch urls.txt -o results --resolve api.example.com:443:192.0.2.1",
        ),
    ),
    "tls": Group(
        "certificates and versions of TLS",
        (
            "headgate fetch urls.txt -o results --cacert ca.pem",
            "headgate fetch urls.txt -o results -E client.pem --key client.key --tls-min 1.3",
        ),
    ),
    "proxies": Group(
        "the proxies of connections",
        (
            "headgate fetch urls.txt -o results -x http://proxy.example.com:3128",
            "headgate fetch urls.txt -o results --proxy @proxies.txt",
        ),
    ),
    "connections": Group(
        "versions of HTTP and the connection pool",
        (
            "headgate fetch urls.txt -o results --http1.1 --max-connections-per-host 4",
            "headgate fetch urls.txt -o results --http2-prior-knowledge --http2-streams 20",
        ),
    ),
    "resources": Group(
        "threads and memory",
        (
            "headgate fetch urls.txt -o results --threads 4",
            "headgate fetch bodies.parquet -o results --max-memory 1GiB --read-ahead 100000",
        ),
    ),
    "progress": Group(
        "what is shown, logs, metrics and the summary",
        (
            "headgate fetch urls.txt -o results -q --summary summary.json",
            "headgate fetch urls.txt -o results --metrics 127.0.0.1:9464 --log-format json --log-file results.log",
        ),
    ),
}

PROGRESS: Final = "progress"
ERRORS: Final = "errors"
EXIT_CODES: Final = "exit-codes"
TEMPLATES: Final = "templates"

TOPICS: Final[Mapping[str, str]] = {
    ERRORS: "the error kinds, which say why rows failed",
    EXIT_CODES: "the exit codes of all verbs",
    TEMPLATES: "{column}: values of the input in URLs, headers and bodies",
}
"""The topics of `headgate help` that are no groups."""

SEE: Final = "`headgate help GROUP` explains the flags of a group"


def listing() -> Iterable[tuple[str, str]]:
    """Returns the names of the groups, each with its description."""
    return [(name, group.about) for name, group in GROUPS.items()]


def flags_in(parser: "Parser") -> Iterable[tuple[str, str]]:
    """Returns the names of the groups that a parser has, each with its flags."""
    names: dict[str, list[str]] = {}
    for flag in parser.flags():
        if flag.group in GROUPS and flag.is_shown:
            names.setdefault(flag.group, []).append(flag.names[-1])
    return [(group, ", ".join(flags)) for group, flags in names.items()]
