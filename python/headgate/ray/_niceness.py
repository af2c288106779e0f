"""Raises the priority of workers, because Ray runs them at nice 15: on a busy machine, requests would time out."""

import logging
import os
from pathlib import Path

_log = logging.getLogger("headgate.ray")


def raise_priority() -> None:
    """Gives each thread of this worker the nice level of the process that started it, which is Ray's own.

    This needs root, CAP_SYS_NICE or a limit (`RLIMIT_NICE`) that allows it. Otherwise the level stays, and users can
    start Ray with `RAY_worker_niceness=0` in its environment.
    """
    wanted = os.getpriority(os.PRIO_PROCESS, os.getppid())
    try:
        for thread in Path("/proc/self/task").iterdir():
            if wanted < os.getpriority(os.PRIO_PROCESS, int(thread.name)):
                os.setpriority(os.PRIO_PROCESS, int(thread.name), wanted)
    except PermissionError:
        _log.warning(
            "this worker stays at nice %s, below other processes: if requests time out, start Ray with"
            " RAY_worker_niceness=0 in its environment",
            os.getpriority(os.PRIO_PROCESS, 0),
        )
    except (ProcessLookupError, FileNotFoundError):
        pass  # the thread has ended meanwhile
