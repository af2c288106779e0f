"""Reads a directory of results as pyarrow does."""

from pathlib import Path
from typing import Any, Literal, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

Format: TypeAlias = Literal["parquet", "ndjson"]

COLUMNS = {
    "row": "int64",
    "url": "string",
    "method": "string",
    "status": "int16",
    "failed": "bool",
    "error": "string",
    "error_message": "string",
    "error_detail": "string",
    "attempts": "int16",
    "final_url": "string",
    "redirects": "list",
    "headers": "list",
    "body": "binary",
    "received_bytes": "int64",
    "body_encoding": "string",
    "body_truncated": "bool",
    "started_at": "timestamp[us, tz=UTC]",
    "elapsed_us": "int64",
    "ttfb_us": "int64",
    "http_version": "string",
    "remote_addr": "string",
}


def table(directory: Path) -> Any:
    """Returns all rows of all parts, in the order of the input."""
    parts = sorted(directory.glob("*.parquet"))
    return pa.concat_tables([pq.read_table(part) for part in parts]).sort_by("row")


def rows(directory: Path) -> list[dict[str, Any]]:
    """Returns the same rows as dictionaries."""
    dictionaries: list[dict[str, Any]] = table(directory).to_pylist()
    return dictionaries
