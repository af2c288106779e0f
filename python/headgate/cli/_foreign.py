"""Flags of other programs, with the flags that headgate has instead, for messages on unknown flags.

It does not contain flags that headgate has, too, whatever they mean elsewhere.
"""

from collections.abc import Mapping
from typing import Final

_TIMEOUT: Final = "--timeout-s"
_INPUT: Final = "INPUT here, which needs no flag"
_COUNT: Final = "a range in the URL here, as http://host/[1-1000]"
_RETRIES: Final = "--retries"
_RESUME: Final = "not needed: the same command resumes a job"
_HEADERS: Final = "not needed: headers are a column of the results"
_FIGURES: Final = "not needed: times and figures are columns of the results"
_NO_LIMIT: Final = "not supported yet: --rate limits requests, not bytes"
_PROXY_USER: Final = "--proxy http://USER:PASSWORD@HOST:PORT, or --proxy @FILE"
_NOT_NEEDED: Final = "not needed"
_NOT_YET: Final = "not supported yet"

MEANINGS: Final[Mapping[str, Mapping[str, str]]] = {
    "-A": {"curl": "--user-agent", "oha": "-H 'Accept: ...'", "ab": "-u"},
    "-a": {"oha": "-u"},
    "-b": {"curl": "-H 'Cookie: ...'"},
    "--bind-address": {"wget": "--local-address"},
    "--body-data": {"wget": "-d"},
    "--body-file": {"wget": "-d @FILE"},
    "--ca-certificate": {"wget": "--cacert", "aria2": "--cacert"},
    "--check-certificate": {"aria2": "off with --insecure here"},
    "--certificate": {"wget": "--cert", "aria2": "--cert"},
    "--compressed": {"curl": _NOT_NEEDED},
    "--connect-timeout": {"curl": "--connect-timeout-s", "wget": "--connect-timeout-s", "aria2": "--connect-timeout-s"},
    "--continue": {"wget": _RESUME, "aria2": _RESUME},
    "--cookie": {"curl": "-H 'Cookie: ...'"},
    "-D": {"curl": _HEADERS, "oha": "-d @FILE"},
    "--data-ascii": {"curl": "-d"},
    "--data-binary": {"curl": "-d"},
    "--data-raw": {"curl": "-d"},
    "--dir": {"aria2": "-o"},
    "--directory-prefix": {"wget": "-o"},
    "--dns-servers": {"curl": "--dns"},
    "--dump-header": {"curl": _HEADERS},
    "-e": {"curl": "-H 'Referer: ...'"},
    "-f": {"curl": "--fail-on 4xx,5xx"},
    "--fail": {"curl": "--fail-on 4xx,5xx"},
    "-G": {"curl": "-X GET"},
    "--get": {"curl": "-X GET"},
    "--http-user": {"wget": "-u"},
    "-I": {"curl": "-X HEAD"},
    "-i": {"wget": _INPUT, "aria2": _INPUT, "curl": _HEADERS},
    "--include": {"curl": _HEADERS},
    "--input-file": {"wget": _INPUT, "aria2": _INPUT},
    "-j": {"aria2": "-c"},
    "--inet4-only": {"wget": "-4"},
    "--inet6-only": {"wget": "-6"},
    "--limit-rate": {"curl": _NO_LIMIT, "wget": _NO_LIMIT},
    "-m": {"curl": _TIMEOUT, "oha": "-X"},
    "--max-concurrent-downloads": {"aria2": "-c"},
    "--max-connection-per-server": {"aria2": "--concurrency-per-host"},
    "--max-filesize": {"curl": "--max-body-bytes"},
    "--max-redirs": {"curl": "--max-redirects"},
    "--max-time": {"curl": _TIMEOUT},
    "--max-tries": {"aria2": _RETRIES},
    "-n": {"oha": _COUNT, "ab": _COUNT},
    "--no-check-certificate": {"wget": "--insecure"},
    "--noproxy": {"curl": "the variable no_proxy, with --proxy env"},
    "-O": {"curl": "-o", "wget": "-o"},
    "--oauth2-bearer": {"curl": "--bearer @FILE"},
    "-P": {"wget": "-o", "xargs": "-c"},
    "--preproxy": {"curl": "not supported: one proxy for each connection"},
    "--private-key": {"wget": "--key", "aria2": "--key"},
    "--proxy-user": {"curl": _PROXY_USER, "wget": _PROXY_USER},
    "-p": {"ab": "-d @FILE"},
    "--parallel": {"curl": _NOT_NEEDED},
    "--parallel-max": {"curl": "-c"},
    "--post-data": {"wget": "-d"},
    "--post-file": {"wget": "-d @FILE"},
    "--referer": {"curl": "-H 'Referer: ...'", "wget": "-H 'Referer: ...'"},
    "--remote-name": {"curl": "-o"},
    "--request": {"curl": "-X"},
    "--retry": {"curl": _RETRIES},
    "-s": {"curl": "-q", "aria2": _NOT_YET},
    "--silent": {"curl": "-q"},
    "--socks5": {"curl": "--proxy socks5://HOST:PORT"},
    "--socks5-hostname": {"curl": "--proxy socks5h://HOST:PORT"},
    "--split": {"aria2": _NOT_YET},
    "-T": {"wget": _TIMEOUT, "curl": "-X PUT -d @FILE", "oha": "-H 'Content-Type: ...'"},
    "-t": {"oha": _TIMEOUT, "wget": _RETRIES, "wrk": "--threads"},
    "--timeout": {"wget": _TIMEOUT, "aria2": _TIMEOUT},
    "--tlsv1.2": {"curl": "not needed: older versions are refused anyway"},
    "--tlsv1.3": {"curl": "--tls-min 1.3"},
    "--tries": {"wget": _RETRIES},
    "-U": {"wget": "--user-agent", "aria2": "--user-agent", "curl": _PROXY_USER},
    "--upload-file": {"curl": "-X PUT -d @FILE"},
    "-w": {"curl": _FIGURES},
    "--write-out": {"curl": _FIGURES},
    "-Z": {"curl": _NOT_NEEDED},
    "-z": {"oha": "not supported: Ctrl-C ends a job cleanly"},
}


def advice(flag: str) -> str | None:
    """Returns advice on an unknown flag, if another program has it."""
    # A value may directly follow a flag of one letter.
    name = flag if flag.startswith("--") else flag[:2]
    meanings = MEANINGS.get(name)
    if meanings is None:
        return None
    programs: dict[str, list[str]] = {}
    for program, ours in meanings.items():
        programs.setdefault(ours, []).append(f"{program}'s")
    return "; ".join(
        f"{' and '.join(whose)} {name} is {ours}{' here' if ours.startswith('-') else ''}"
        for ours, whose in programs.items()
    )
