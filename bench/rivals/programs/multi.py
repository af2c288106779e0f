"""libcurl's multi interface through pycurl: as many handles as requests in flight, each of which is reused."""

import itertools
import sys
from io import BytesIO
from typing import Final

import pycurl

from rivals.programs import Counted

_LONGEST_S: Final = 1.0


def run(_client: str, url: str, requests: int, concurrency: int) -> Counted:
    """Makes all requests, and returns the counts."""
    numbers, counted = iter(range(1, requests + 1)), Counted()
    multi = pycurl.CurlMulti()
    multi.setopt(pycurl.M_MAXCONNECTS, concurrency)
    bodies: dict[pycurl.Curl, BytesIO] = {}

    def start(handle: pycurl.Curl, number: int) -> None:
        bodies[handle] = body = BytesIO()
        handle.setopt(pycurl.URL, f"{url}/{number}")
        handle.setopt(pycurl.WRITEDATA, body)
        multi.add_handle(handle)

    for number in itertools.islice(numbers, concurrency):
        start(pycurl.Curl(), number)
    while bodies:
        multi.perform()
        more = 1
        while more:
            more, done, failed = multi.info_read()
            if failed:
                sys.exit(failed[0][2])
            for handle in done:
                counted.add(handle.getinfo(pycurl.RESPONSE_CODE), len(bodies.pop(handle).getvalue()))
                multi.remove_handle(handle)
                if number := next(numbers, 0):
                    start(handle, number)
        multi.select(_LONGEST_S)
    return counted
