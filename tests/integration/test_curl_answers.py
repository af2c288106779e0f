"""headgate reads a response as curl does, or there is a reason for the difference."""

import random
import re
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from support.programs import program
from support.results import rows
from support.run import headgate, serving

RESPONSES: Final = 300
SEED: Final = 15
ENCODINGS: Final = ("gzip", "gzip-members", "deflate", "br", "zstd")
AGENT: Final = "responses"
TIMEOUT_S: Final = 40

FIXED: Final = (
    *("/", "/hello", "/echo?a=b", "/headers", "/cookies", "/robots.txt", "/deny", "/encoding/utf8", "/no/such/path"),
    *("/gzip", "/deflate", "/brotli", "/zstd", "/base64/SGVsbG8=", "/base64/%3F", "/base64/AP8A"),
    *("/basic-auth/user/password", "/redirect-to?url=/hello", "/redirect-to", "/redirect-to?url=%3Fquery"),
    *("/redirect-to?url=//127.0.0.1/", "/redirect-to?url=ftp://localhost/", "/redirect-to?url=/a%20b%3Fc%20d"),
    *("/redirect-to?url=/x%23fragment", "/redirect-to?url=/..%2Fhello", "/redirect-to?url=/ä"),
    *("/redirect/10", "/redirect/11", "/relative-redirect/5", "/absolute-redirect/5", "/cookies/set?a=1&b=2"),
    *("/drip?numbytes=5&duration=0.01", "/range/100", "/bytes/0", "/chunked/0", "/close-delimited/0", "/encoded/br/0"),
    *(f"/fault/{name}" for name in ("redirect-without-location", "redirect-to-nothing", "redirect-broken")),
    *(f"/fault/{name}" for name in ("redirect-loop", "redirect-corrupt-body", "redirect-coded-body")),
    *(f"/fault/{name}" for name in ("refuse", "close-mid-headers", "reset-mid-body", "close-after-response")),
    *(f"/fault/{name}" for name in ("cut-mid-stream", "extra-bytes", "extra-response", "content-length-too-long")),
    *(f"/fault/{name}" for name in ("content-length-too-short", "conflicting-content-lengths", "bad-chunk-size")),
    *(f"/fault/{name}" for name in ("repeated-content-length", "negative-content-length", "content-length-no-number")),
    *(f"/fault/{name}" for name in ("content-length-overflow", "content-length-and-chunked", "truncated-chunks")),
    *(f"/fault/{name}" for name in ("unknown-transfer-encoding", "chunk-too-long", "truncated-chunk")),
    *(f"/fault/{name}" for name in ("extensions-and-trailers", "no-content-with-body", "not-modified")),
    *(f"/fault/{name}" for name in ("not-modified-with-body", "garbage", "http-09", "bad-status", "no-reason")),
    *(f"/fault/{name}" for name in ("folded-header", "bare-line-feeds", "bare-carriage-return", "nul-in-header")),
    *(f"/fault/{name}" for name in ("latin-1-header", "space-before-colon", "no-colon", "truncated-gzip")),
    *(f"/fault/{name}" for name in ("corrupt-gzip", "gzip-bad-checksum", "gzip-trailing-garbage", "not-gzip")),
    *(f"/fault/{name}" for name in ("empty-gzip", "gzip-twice", "raw-deflate", "unknown-encoding")),
)


@dataclass(frozen=True, slots=True)
class Difference:
    """An allowed difference, and its reason.

    Attributes:
        paths: What the paths match.
        what: What may differ there.
        reason: Why that is as it should be.
    """

    paths: str
    what: set[str]
    reason: str


REASONS: Final = (
    Difference(
        r"/(echo|headers|gzip|deflate|brotli|zstd)\b.*", {"headers", "body"}, "they show `host`, curl says `Host`"
    ),
    Difference(r".*status_code=30[04569]", {"status", "headers", "body"}, "curl follows whatever has a Location"),
    Difference(r"/fault/close-mid-headers", {"failed"}, "curl takes the head for whole where the connection ends"),
    Difference(
        r"/fault/conflicting-content-lengths", {"failed"}, "curl takes the first; RFC 9112 section 6.3 wants an error"
    ),
    Difference(r"/fault/content-length-overflow", {"failed"}, "curl reads to the end of the connection instead"),
    Difference(r"/fault/(bare-carriage-return|nul-in-header)", {"failed"}, "curl takes control characters as they are"),
    Difference(
        r"/fault/space-before-colon",
        {"failed"},
        "curl takes it for another header; of a length, RFC 9112 wants an error",
    ),
    Difference(r"/fault/no-colon", {"failed"}, "curl refuses what is no header; we skip it"),
    Difference(r"/fault/truncated-gzip", {"failed"}, "curl takes what there is for all of it"),
    Difference(r"/fault/gzip-trailing-garbage", {"failed"}, "browsers and we read over it"),
    Difference(r"/fault/unknown-encoding", {"failed"}, "we keep the body as it is"),
    Difference(
        r".*/encoded/gzip-members/.*", {"failed"}, "curl reads only the first member (RFC 1952 section 2.2 has several)"
    ),
)


def drawn(random_: random.Random) -> str:
    """Returns a path with a response of any kind."""
    size = random_.choice([0, 1, random_.randint(2, 2000), random_.randint(2000, 200_000)])
    text = "".join(random_.choices("aB1 -_.~/ü?=&;,", k=random_.randint(1, 12)))
    name = f"X-{random_.randint(1, 3)}"
    target = quote(f"/encoded/{random_.choice(ENCODINGS)}/{size}")
    values = [quote(value) for value in random_.choices([text, "", "a, b", '"quoted"', "x" * 5000], k=3)]
    return random_.choice(
        [
            f"/bytes/{size}",
            f"/chunked/{size}",
            f"/close-delimited/{size}",
            f"/range/{size}",
            f"/encoded/{random_.choice(ENCODINGS)}/{size}",
            f"/status/{random_.choice([*range(200, 227), *range(400, 452), *range(500, 512), 299, 599])}",
            f"/status/{random_.choice([300, 304, 305, 306, 309, 399])}",
            f"/redirect/{random_.randint(1, 12)}",
            f"/relative-redirect/{random_.randint(1, 12)}",
            f"/absolute-redirect/{random_.randint(1, 12)}",
            f"/redirect-to?url={target}&status_code={random_.choice([301, 302, 303, 307, 308])}",
            f"/redirect-to?url={quote('/' + text)}&status_code={random_.randint(300, 309)}",
            f"/response-headers?{name}={values[0]}&{name}={values[1]}&Set-Cookie={values[2]}",
            f"/cookies/set?{quote(text.strip())}={values[0]}",
            f"/basic-auth/{quote(text, safe='')}/password",
            f"/echo/{quote(text)}?{quote(text)}",
        ]
    )


def paths() -> list[str]:
    """Returns the fixed paths, and random ones up to the number of responses."""
    chosen = random.Random(SEED)  # noqa: S311 - a seed makes them reproducible
    found = dict.fromkeys(FIXED)
    while len(found) < RESPONSES:
        found[drawn(chosen)] = None
    return list(found)


@dataclass(frozen=True, slots=True)
class MockResponse:
    """A response as a client reports it.

    Attributes:
        failed: Whether it is an error for the client.
        status: `None`: no response came.
        headers: How often each is there; names in lower case.
        body: Decoded.
    """

    failed: bool
    status: int | None
    headers: Counter[tuple[str, bytes]]
    body: bytes

    def differs(self, other: "MockResponse") -> set[str]:
        """Returns the fields that differ; of two failures, no other field counts."""
        if self.failed or other.failed:
            return set() if self.failed == other.failed else {"failed"}
        return {name for name in ("status", "headers", "body") if getattr(self, name) != getattr(other, name)}


def allowed(path: str) -> set[str]:
    """Returns the fields that may differ for a path."""
    return {what for each in REASONS if re.fullmatch(each.paths, path) for what in each.what}


def of_curl(directory: Path, urls: list[str]) -> list[MockResponse]:
    """Fetches all paths with one invocation of curl."""
    sections = [
        f'url = "{url}"\ncompressed\nlocation\nmax-redirs = 10\ngloboff\nsilent\nproxy = ""\nuser-agent = "{AGENT}"\n'
        f'header = "Accept-Encoding: gzip, deflate, br, zstd"\nmax-time = 20\noutput = "{directory}/{index}.body"\n'
        f'dump-header = "{directory}/{index}.head"\nwrite-out = "{index} %{{exitcode}} %{{http_code}}\\n"\n'
        for index, url in enumerate(urls)
    ]
    (directory / "curl.conf").write_text("next\n".join(sections), encoding="utf-8")
    done = subprocess.run(
        [program("curl", "curl"), "-q", "-K", directory / "curl.conf"],
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    ends = {
        int(index): (int(code), int(status))
        for index, code, status in map(str.split, done.stdout.decode().splitlines())
    }
    assert len(urls) == len(ends), done.stderr.decode()
    return [_curl_response(directory, index, *ends[index]) for index in range(len(urls))]


def _curl_response(directory: Path, index: int, code: int, status: int) -> MockResponse:
    head, body = directory / f"{index}.head", directory / f"{index}.body"
    blocks = (head.read_bytes() if head.exists() else b"").replace(b"\r\n", b"\n").strip(b"\n").split(b"\n\n")
    # The last block that is not trailers.
    heads = [block for block in blocks if block.startswith(b"HTTP/")] or [b""]
    unfolded = re.sub(rb"\n[ \t]+", b" ", heads[-1])
    lines = [line.partition(b":") for line in unfolded.split(b"\n")[1:]]
    return MockResponse(
        failed=code != 0,
        status=status or None,
        headers=Counter((name.decode("latin-1").lower(), value.strip()) for name, _, value in lines),
        body=body.read_bytes() if body.exists() else b"",
    )


def of_headgate(directory: Path, urls: list[str]) -> list[MockResponse]:
    """Fetches all paths with one job."""
    (directory / "urls.txt").write_text("".join(f"{url}\n" for url in urls), encoding="utf-8")
    headers = ["-H", f"User-Agent: {AGENT}", "-H", "Accept: */*", "-H", "Accept-Encoding: gzip, deflate, br, zstd"]
    headgate("fetch", directory / "urls.txt", "-o", directory / "out", *headers, "--retries", "0", "-c", "20", check=3)
    return [_headgate_response(row) for row in rows(directory / "out")]


def _headgate_response(row: dict[str, Any]) -> MockResponse:
    headers = [(header["name"].lower(), header["value"].strip()) for header in row["headers"] or []]
    return MockResponse(
        failed=row["error"] is not None, status=row["status"], headers=Counter(headers), body=row["body"] or b""
    )


def test_responses_are_those_of_curl_or_there_is_a_reason(tmp_path: Path) -> None:
    program("curl", "curl")
    all_paths = paths()
    with serving() as server:
        urls = [server + path for path in all_paths]
        ours, theirs = of_headgate(tmp_path, urls), of_curl(tmp_path, urls)
    assert RESPONSES == len(ours) == len(theirs)
    found = {path: our.differs(their) for path, our, their in zip(all_paths, ours, theirs, strict=True)}
    unexplained = {path: what for path, what in found.items() if not what <= allowed(path)}
    assert {} == unexplained
