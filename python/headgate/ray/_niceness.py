"""Ray runs its workers at nice 15, so that whatever else runs on a machine comes first: requests would time out."""

import logging
import os
from pathlib import Path

_log = logging.getLogger("headgate.ray")


def as_nice_as_ray() -> None:
    """Gives each thread of this worker the nice level of the process that started it, which is Ray's own.

    Only root may, or a user with CAP_SYS_NICE or a limit (`RLIMIT_NICE`) that allows it. Otherwise it stays; users can
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
        pass  # a thread that has ended meanwhile
