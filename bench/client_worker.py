"""Runs one Python client in a fresh interpreter: `throughput.py` starts it and reads its line of JSON."""

import json
import os
import sys
import time
from dataclasses import asdict
from importlib import import_module


def main() -> None:
    """Runs the client that the arguments name: module of `rivals.programs`, client, URL, requests, concurrency."""
    module, client, url, requests, concurrency = sys.argv[1:]
    program = import_module(f"rivals.programs.{module}")
    started = time.perf_counter()
    counted = program.run(client, url, int(requests), int(concurrency))
    print(json.dumps(asdict(counted) | {"elapsed_s": time.perf_counter() - started}), flush=True)
    if client.startswith("pyreqwest"):
        # Its threads still run when the interpreter ends, and abort it.
        os._exit(0)


if __name__ == "__main__":
    main()
