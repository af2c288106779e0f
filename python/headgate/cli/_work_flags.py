"""The flags that say how the work is done, and what is told of it: those that verbs have in common."""

import os
import sys
from pathlib import Path
from typing import TypedDict

from headgate import _format, _options
from headgate.cli._parser import Parser, Values


class Work(TypedDict):
    """The options in `headgate._options.WorkOptions`."""

    concurrency: int
    threads: int | None
    timeout_s: float
    connect_timeout_s: float
    headers: list[tuple[str, str]]
    data: bytes | None
    max_body_bytes: int
    cacert: str | None
    insecure: bool
    dns: str | None
    grace_s: float
    part_bytes: int


def add_content(parser: Parser) -> None:
    """Adds what each request carries."""
    parser.value("headers", "-H", "--header", metavar="'NAME: VALUE'", text="send this header; repeats", repeats=True)
    parser.value(
        "data",
        "-d",
        "--data",
        metavar="DATA",
        text="body of rows that bring none; @FILE reads it, @- from standard input",
    )


def add_trust(parser: Parser) -> None:
    """Adds which servers are believed to be who they say."""
    parser.value("cacert", "--cacert", metavar="FILE", text="trust the certificates in this PEM file, and no others")
    parser.switch(
        "insecure", "--insecure", text="do not verify certificates: anyone on the way can read and change all"
    )


def add_limits(parser: Parser) -> None:
    """Adds the group of limits."""
    parser.group("limits")
    parser.value(
        "concurrency",
        "-c",
        "--concurrency",
        metavar="N",
        text=f"requests in flight at the most (default: {_options.DEFAULT_CONCURRENCY})",
    )
    parser.value("threads", "--threads", metavar="N", text="worker threads (default: one for each core)")
    parser.value(
        "timeout_s",
        "--timeout-s",
        metavar="SECONDS",
        text=f"for one attempt, from connecting to the last byte (default: {_options.DEFAULT_TIMEOUT_S:g})",
    )
    parser.value(
        "connect_timeout_s",
        "--connect-timeout-s",
        metavar="SECONDS",
        text=f"for making a connection (default: {_options.DEFAULT_CONNECT_TIMEOUT_S:g})",
    )
    parser.value(
        "dns",
        "--dns",
        metavar="SERVER",
        text="ask this name server, IP or IP:PORT, or let the system look names up: system (default: those configured)",
    )
    parser.value(
        "max_body_bytes",
        "--max-body-bytes",
        metavar="SIZE",
        text=f"a longer response body is a failure (default: {_size(_options.DEFAULT_MAX_BODY_BYTES)})",
    )
    parser.value(
        "grace_s",
        "--grace-s",
        metavar="SECONDS",
        text=f"for what is in flight after Ctrl-C (default: {_options.DEFAULT_GRACE_S:g})",
    )


def add_part_size(parser: Parser) -> None:
    """Adds the size of files."""
    parser.value(
        "part_bytes",
        "--part-bytes",
        metavar="SIZE",
        text=f"begin a new file at this size (default: {_size(_options.DEFAULT_PART_BYTES)})",
    )


def add_progress(parser: Parser) -> None:
    """Adds the group of what is told."""
    parser.group("progress")
    parser.switch("quiet", "-q", "--quiet", text="no progress and no summary; errors are still told")
    parser.value("summary", "--summary", metavar="FILE", text="write the summary as JSON")


def work(values: Values, *, source: str = "") -> Work:
    """Reads them; `source` may be what reads standard input already."""
    return Work(
        concurrency=values.whole("concurrency", _options.DEFAULT_CONCURRENCY),
        threads=values.whole_or_none("threads"),
        timeout_s=values.seconds("timeout_s", _options.DEFAULT_TIMEOUT_S),
        connect_timeout_s=values.seconds("connect_timeout_s", _options.DEFAULT_CONNECT_TIMEOUT_S),
        headers=_headers(values),
        data=_data(values, source),
        max_body_bytes=values.size("max_body_bytes", _options.DEFAULT_MAX_BODY_BYTES),
        cacert=values.text("cacert"),
        insecure=values.switch("insecure"),
        dns=values.text("dns"),
        grace_s=values.seconds("grace_s", _options.DEFAULT_GRACE_S),
        part_bytes=values.size("part_bytes", _options.DEFAULT_PART_BYTES),
    )


def check(values: Values, options: _options.WorkOptions) -> None:
    """Raises `CommandLineError` with every mistake there is, in what was typed or in the options made of it."""
    for mistake in options.mistakes():
        if not values.is_wrong(mistake.option):
            values.wrong(mistake.option, mistake.message)
    values.check()


def _headers(values: Values) -> list[tuple[str, str]]:
    headers = []
    for text in values.texts("headers"):
        name, colon, value = text.partition(":")
        if colon:
            headers.append((name.strip(), value.strip()))
        else:
            values.wrong("headers", f"{text!r} is no header: write 'Name: value'")
    return headers


def _data(values: Values, source: str) -> bytes | None:
    text = values.text("data")
    if text is None or not text.startswith("@"):
        return None if text is None else text.encode()
    name = text[1:]
    if name != _options.STANDARD_STREAM:
        try:
            return Path(name).read_bytes()
        except (OSError, ValueError) as error:
            values.wrong("data", f"cannot read {name!r}: {_reason(error)}")
            return b""
    if source == _options.STANDARD_STREAM:
        values.wrong("data", "@- and INPUT - cannot both read standard input")
        return b""
    return sys.stdin.buffer.read()


def summary_path(values: Values) -> Path | None:
    """The file for the summary; that it cannot be written is better known before the job than after it."""
    text = values.text("summary")
    if text is None:
        return None
    path = Path(text)
    if not text or path.is_dir():
        values.wrong("summary", f"must be a file, not {text!r}")
    elif not path.parent.is_dir():
        values.wrong("summary", f"cannot be written: there is no directory {str(path.parent)!r}")
    elif not os.access(path if path.exists() else path.parent, os.W_OK):
        values.wrong("summary", f"cannot be written: no permission for {text!r}")
    return path


def _reason(error: OSError | ValueError) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()


def _size(number: int) -> str:
    return _format.size(number).replace(".0 ", " ").replace(" ", "")
