"""Fills a file with objects, and serves it by ZEO until it is terminated. `http_crossing.py` starts it."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Final

from callers.zeo_objects import BODY, oid

_NONE_BEFORE: Final = bytes(8)

_CONFIG: Final = """\
<zeo>
  address {address}
</zeo>
<filestorage 1>
  path {path}
</filestorage>
<eventlog>
  level WARN
  <logfile>
    path STDERR
  </logfile>
</eventlog>
"""


def main() -> None:
    """Runs the server; the arguments are a directory, the address with its port, and the number of objects."""
    directory, address, objects = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    path = directory / "objects.fs"
    storage = import_module("ZODB.FileStorage").FileStorage(str(path))
    transaction = import_module("ZODB.Connection").TransactionMetaData()
    storage.tpc_begin(transaction)
    for number in range(objects):
        storage.store(oid(number), _NONE_BEFORE, BODY, "", transaction)
    storage.tpc_vote(transaction)
    storage.tpc_finish(transaction)
    storage.close()
    config = directory / "zeo.conf"
    config.write_text(_CONFIG.format(address=address, path=path))
    import_module("ZEO.runzeo").main(["-C", str(config)])


if __name__ == "__main__":
    main()
