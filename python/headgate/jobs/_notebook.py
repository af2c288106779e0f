"""Whether this process is the kernel of a notebook, as that of Jupyter is."""

import sys


def in_notebook() -> bool:
    """Whether cells of a notebook run here. Then an event loop runs in their thread, and waits for each anyway."""
    # Nothing is imported: whoever runs in a kernel has IPython loaded.
    ipython = sys.modules.get("IPython")
    get_ipython = getattr(ipython, "get_ipython", None)
    return get_ipython is not None and getattr(get_ipython(), "kernel", None) is not None
