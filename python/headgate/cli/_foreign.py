"""Flags of other programs, with the flags that headgate has instead, for messages on unknown flags.

It does not contain flags that headgate has, too, whatever they mean elsewhere.
"""

import re
from collections.abc import Mapping
from typing import Final

_FLAG: Final = re.compile(r"(?<![\w-])--?[a-zA-Z][a-z0-9.-]*")

_OTHERS: Final = "other programs"
"""The owner of a flag that many programs have."""

_TIMEOUT: Final = "--timeout"
_INPUT: Final = "INPUT here, which needs no flag"
_COUNT: Final = "a range in the URL here, as http://host/[1-1000]"
_RETRIES: Final = "--retries"
_RESUME: Final = "not needed: the same command resumes a job, unless --if-exists says otherwise"
_OVERWRITE: Final = "--if-exists overwrite"
_PARALLEL: Final = "-c (requests in flight)"
_ROWS: Final = "--max-rows"
_LIMIT: Final = "--max-rows (rows), --concurrency (requests in flight) or --rate (requests in a time)"
_PLAN: Final = "headgate plan, which sends nothing"
_LOCATION: Final = "not needed: --no-location follows none"
_HEADERS: Final = "not needed: headers are a column of the results"
_FIGURES: Final = "not needed: times and figures are columns of the results"
_NO_LIMIT: Final = "not supported yet: --rate limits requests, not bytes"
_NO_DURATION: Final = "not supported: Ctrl-C ends a job cleanly"
_PROXY_USER: Final = "--proxy http://USER:PASSWORD@HOST:PORT, or --proxy @FILE"
_IDLE: Final = "--idle-timeout"
_COOKIE: Final = "-H 'Cookie: ...'"
_REFERER: Final = "-H 'Referer: ...'"
_HEAD: Final = "-X HEAD"
_RATE: Final = "--rate"
_MODIFIED: Final = "--if-modified-since-column"
_KEPT: Final = "not needed: results are replaced only with --if-exists overwrite"
_REQUESTS: Final = "headgate plan, which shows the first requests"
_FAILED: Final = "not needed: a row that fails is a row of the results, and the job continues"
_QUERY: Final = "a query in --url, as 'http://host/?q={q}'"
_EXTRACT: Final = "--extract 'name=$.name'"
_SEPARATOR: Final = "not needed: a .csv file has commas between values, a .tsv file has tabs"
_DISTINCT: Final = "not supported: duplicates are separate rows; SELECT DISTINCT in DuckDB removes them before"
_NOT_NEEDED: Final = "not needed"
_NOT_SUPPORTED: Final = "not supported"
_NOT_YET: Final = "not supported yet"

MEANINGS: Final[Mapping[str, Mapping[str, str]]] = {
    "-#": {"curl": "not needed: a terminal shows the progress"},
    "-A": {"curl": "--user-agent", "oha": "-H 'Accept: ...'", "ab": "-u"},
    "-a": {"oha": "-u"},
    "--allow-overwrite": {"aria2": _OVERWRITE},
    "--api-key": {_OTHERS: "--bearer @FILE (Authorization: Bearer) or -H @FILE (a header such as X-Api-Key)"},
    "--attempts": {_OTHERS: _RETRIES},
    "--auth": {"httpie": "-u"},
    "-b": {"curl": _COOKIE},
    "--batch": {"k6": "-c"},
    "--batch-per-host": {"k6": "--concurrency-per-host"},
    "--bind-address": {"wget": "--local-address"},
    "--blacklist-ip": {"k6": "--deny-net"},
    "--body-data": {"wget": "-d"},
    "--body-file": {"wget": "-d @FILE"},
    "-C": {"curl": _RESUME},
    "--ca-certificate": {"wget": "--cacert", "aria2": "--cacert"},
    "--check-certificate": {"aria2": "off with --insecure here"},
    "--certificate": {"wget": "--cert", "aria2": "--cert"},
    "--clobber": {"curl": _OVERWRITE},
    "--columns": {_OTHERS: "--keep (columns of the input) or --drop (columns of the results)"},
    "--compressed": {"curl": _NOT_NEEDED},
    "--connect-to": {"curl": "--resolve"},
    "--connections": {_OTHERS: _PARALLEL},
    "--content-on-error": {"wget": _NOT_NEEDED},
    "--continue": {"wget": _RESUME, "aria2": _RESUME},
    "--continue-at": {"curl": _RESUME},
    "--cookie": {"curl": _COOKIE},
    "--cookie-jar": {"curl": "--redirect-cookies"},
    "--cookies": {_OTHERS: _COOKIE},
    "--count": {_OTHERS: _ROWS},
    "--create-dirs": {"curl": _NOT_NEEDED},
    "-D": {"curl": _HEADERS, "oha": "-d @FILE"},
    "--data-ascii": {"curl": "-d"},
    "--data-binary": {"curl": "-d"},
    "--data-raw": {"curl": "-d"},
    "--debug": {_OTHERS: _REQUESTS},
    "--dedup": {_OTHERS: _DISTINCT},
    "--dedupe": {_OTHERS: _DISTINCT},
    "--delay": {_OTHERS: _RATE},
    "--delimiter": {_OTHERS: _SEPARATOR},
    "--digest": {"curl": _NOT_SUPPORTED},
    "--dir": {"aria2": "-o"},
    "--directory-prefix": {"wget": "-o"},
    "--disable-keepalive": {"hey": "--max-idle-connections 0"},
    "--discard-response-bodies": {"k6": "--no-body"},
    "--dns": {"k6": "--dns-server"},
    "--dns-servers": {"curl": "--dns-server"},
    "--dns-timeout": {"wget": "--connect-timeout"},
    "--dry-run": {_OTHERS: _PLAN},
    "--dump-header": {"curl": _HEADERS},
    "--duration": {"k6": _NO_DURATION},
    "-e": {"curl": _REFERER},
    "--encoding": {_OTHERS: "not supported: text files must be UTF-8, and iconv converts others"},
    "--etag-compare": {"curl": "--if-none-match-column"},
    "-f": {"curl": "--fail-on 4xx,5xx"},
    "--fail": {"curl": "--fail-on 4xx,5xx"},
    "--fail-early": {"curl": "--max-failures 0"},
    "--fail-with-body": {"curl": "--fail-on 4xx,5xx"},
    "--file": {_OTHERS: _INPUT},
    "--follow": {"httpie": _LOCATION},
    "--follow-redirects": {_OTHERS: _LOCATION},
    "--force": {_OTHERS: "--if-exists overwrite -y"},
    "--form-string": {"curl": "-F"},
    "-G": {"curl": _QUERY},
    "--get": {"curl": _QUERY},
    "--head": {"curl": _HEAD},
    "--http-debug": {"k6": _REQUESTS},
    "--http-password": {"wget": "-u"},
    "--http-user": {"wget": "-u"},
    "--http1.0": {"curl": _NOT_SUPPORTED},
    "--http2": {"curl": "not needed: HTTP/2 is used where the server offers it"},
    "--http3": {"curl": _NOT_YET},
    "--id-column": {_OTHERS: "--keep COLUMN"},
    "-I": {"curl": _HEAD},
    "-i": {"wget": _INPUT, "aria2": _INPUT, "curl": _HEADERS, "k6": _COUNT},
    "--ignore-errors": {_OTHERS: _FAILED},
    "--include": {"curl": _HEADERS},
    "--inet4-only": {"wget": "-4"},
    "--inet6-only": {"wget": "-6"},
    "--input": {_OTHERS: _INPUT},
    "--input-file": {"wget": _INPUT, "aria2": _INPUT},
    "--insecure-skip-tls-verify": {"k6": "--insecure"},
    "--iterations": {"k6": _COUNT},
    "-j": {"aria2": "-c"},
    "--jobs": {"parallel": _PARALLEL},
    "--json-path": {_OTHERS: _EXTRACT},
    "--jsonl": {_OTHERS: "--format ndjson"},
    "--keep-going": {_OTHERS: _FAILED},
    "--limit": {_OTHERS: _LIMIT},
    "--limit-rate": {"curl": _NO_LIMIT, "wget": _NO_LIMIT},
    "--local-ips": {"k6": "--local-address"},
    "--location-trusted": {"curl": "--credentials-for '*'"},
    "--log": {_OTHERS: "--log-file"},
    "--log-level": {_OTHERS: _REQUESTS},
    "-m": {"curl": _TIMEOUT, "oha": "-X"},
    "--max-attempts": {_OTHERS: _RETRIES},
    "--max-concurrency": {_OTHERS: _PARALLEL},
    "--max-concurrent-downloads": {"aria2": "-c"},
    "--max-connection-per-server": {"aria2": "--concurrency-per-host"},
    "--max-filesize": {"curl": "--max-body-size"},
    "--max-redirect": {"wget": "--max-redirects"},
    "--max-retries": {_OTHERS: _RETRIES},
    "--max-time": {"curl": _TIMEOUT},
    "--max-tries": {"aria2": _RETRIES},
    "--max-workers": {_OTHERS: _PARALLEL},
    "-N": {"wget": _MODIFIED},
    "-n": {"oha": _COUNT, "ab": _COUNT},
    "-nc": {"wget": _KEPT},
    "--ndjson": {_OTHERS: "--format ndjson"},
    "--no-follow": {_OTHERS: "--no-location"},
    "--no-progress": {_OTHERS: "-q"},
    "--no-progress-meter": {"curl": "-q"},
    "--no-verify": {_OTHERS: "--insecure"},
    "--num-requests": {_OTHERS: _COUNT},
    "-nv": {"wget": "-q"},
    "--netrc": {"curl": "-u @FILE"},
    "--no-check-certificate": {"wget": "--insecure"},
    "--no-clobber": {"curl": _KEPT, "wget": _KEPT},
    "--no-connection-reuse": {"k6": "--max-idle-connections 0"},
    "--no-verbose": {"wget": "-q"},
    "--noproxy": {"curl": "the variable no_proxy, with --proxy env"},
    "-O": {"curl": "-o", "wget": "-o"},
    "--oauth2-bearer": {"curl": "--bearer @FILE"},
    "--out": {"k6": "-o"},
    "--out-dir": {_OTHERS: "-o"},
    "--output-dir": {"curl": "-o"},
    "--output-document": {"wget": "-o"},
    "--output-file": {_OTHERS: "-o"},
    "--output-format": {_OTHERS: "--format"},
    "--overwrite": {_OTHERS: _OVERWRITE},
    "-P": {"wget": "-o", "xargs": "-c"},
    "--parallelism": {_OTHERS: _PARALLEL},
    "--password": {"wget": "-u NAME:PASSWORD"},
    "--preproxy": {"curl": "not supported: one proxy for each connection"},
    "--private-key": {"wget": "--key", "aria2": "--key"},
    "--proxy-user": {"curl": _PROXY_USER, "wget": _PROXY_USER},
    "-p": {"ab": "-d @FILE"},
    "--parallel": {"curl": _PARALLEL},
    "--parallel-max": {"curl": "-c"},
    "--params": {_OTHERS: _QUERY},
    "--post-data": {"wget": "-d"},
    "--post-file": {"wget": "-d @FILE"},
    "--qps": {_OTHERS: _RATE},
    "--query": {_OTHERS: _QUERY},
    "--quota": {"wget": _NOT_SUPPORTED},
    "--random-wait": {"wget": _RATE},
    "--rate-limit": {_OTHERS: _RATE},
    "--read-timeout": {"wget": _IDLE},
    "--referer": {"curl": _REFERER, "wget": _REFERER},
    "--remote-name": {"curl": "-o"},
    "--requests": {"bombardier": _COUNT},
    "--requests-per-second": {_OTHERS: _RATE},
    "--restart": {_OTHERS: _OVERWRITE},
    "--resume": {_OTHERS: _RESUME},
    "--retry": {"curl": _RETRIES},
    "--retry-all-errors": {"curl": "--retry-on"},
    "--retry-connrefused": {"curl": "not needed: --retry-on has connect", "wget": "not needed: --retry-on has connect"},
    "--retry-max-time": {"curl": "--total-timeout"},
    "--retry-on-http-error": {"wget": "--retry-on"},
    "--rows": {_OTHERS: _ROWS},
    "--rps": {"k6": _RATE},
    "-S": {"curl": "not needed: errors are always shown", "wget": _HEADERS},
    "-s": {"curl": "-q", "aria2": _NOT_YET},
    "--sample": {_OTHERS: _ROWS},
    "--secure-protocol": {"wget": "--tls-min"},
    "--select": {_OTHERS: _EXTRACT},
    "--sep": {_OTHERS: _SEPARATOR},
    "--separator": {_OTHERS: _SEPARATOR},
    "--server-response": {"wget": _HEADERS},
    "--show-error": {"curl": "not needed: errors are always shown"},
    "--silent": {"curl": "-q"},
    "--skip-empty": {
        _OTHERS: "not needed: blank lines are no rows, and a row without a value fails as invalid_request"
    },
    "--skip-existing": {_OTHERS: _RESUME},
    "--socks5": {"curl": "--proxy socks5://HOST:PORT"},
    "--socks5-hostname": {"curl": "--proxy socks5h://HOST:PORT"},
    "--speed-time": {"curl": _IDLE},
    "--spider": {"wget": _HEAD},
    "--split": {"aria2": _NOT_YET},
    "--summary-export": {"k6": "--summary"},
    "-T": {"wget": _TIMEOUT, "curl": "-X PUT -d @FILE", "oha": "-H 'Content-Type: ...'"},
    "-t": {"oha": _TIMEOUT, "wget": _RETRIES, "wrk": "--threads"},
    "--throttle": {_OTHERS: _RATE},
    "--time-cond": {"curl": _MODIFIED},
    "--timestamping": {"wget": _MODIFIED},
    "--tlsv1.2": {"curl": "not needed: older versions are refused anyway"},
    "--tlsv1.3": {"curl": "--tls-min 1.3"},
    "--token": {_OTHERS: "--bearer @FILE"},
    "--tries": {"wget": _RETRIES},
    "--unique": {_OTHERS: _DISTINCT},
    "-U": {"wget": "--user-agent", "aria2": "--user-agent", "curl": _PROXY_USER},
    "--unix-socket": {"curl": _NOT_SUPPORTED},
    "--upload-file": {"curl": "-X PUT -d @FILE"},
    "--url-file": {_OTHERS: _INPUT},
    "--urls": {_OTHERS: _INPUT},
    "-v": {"curl": _REQUESTS},
    "--verbose": {"curl": _REQUESTS, "k6": _REQUESTS},
    "--verify": {"httpie": "off with --insecure here"},
    "--vus": {"k6": "-c"},
    "-w": {"curl": _FIGURES, "wget": _RATE},
    "--wait": {"wget": _RATE},
    "--waitretry": {"wget": "--retry-max-delay"},
    "--workers": {_OTHERS: _PARALLEL},
    "--write-out": {"curl": _FIGURES},
    "-Y": {"curl": _IDLE},
    "-Z": {"curl": _PARALLEL},
    "-z": {"oha": _NO_DURATION, "curl": _MODIFIED},
}


def advice(flag: str) -> str | None:
    """Returns advice on an unknown flag, if another program has it."""
    name, meanings = _found(flag)
    programs: dict[str, list[str]] = {}
    for program, ours in meanings.items():
        programs.setdefault(ours, []).append(f"{program}'" if program.endswith("s") else f"{program}'s")
    sentences = (
        f"{' and '.join(whose)} {name} is {ours}{' here' if ours.startswith('-') else ''}"
        for ours, whose in programs.items()
    )
    return "; ".join(sentences) or None


def flags_for(flag: str) -> frozenset[str]:
    """Returns the flags that `advice` recommends in place of a flag of another program."""
    return frozenset(name for ours in _found(flag)[1].values() for name in _FLAG.findall(ours))


def _found(flag: str) -> tuple[str, Mapping[str, str]]:
    """Returns a flag without its value, and its meanings by program."""
    # A value may directly follow a flag of one letter.
    name = flag if flag.startswith("--") or flag in MEANINGS else flag[:2]
    return name, MEANINGS.get(name, {})
