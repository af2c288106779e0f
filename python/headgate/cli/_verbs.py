"""The verbs of the command line, each with what it does."""

from typing import Final

VERBS: Final = {
    "fetch": "make one request for each row of the input",
    "status": "say how far a job is",
    "retry": "make the requests of failed rows again",
    "show": "print the first rows of results",
    "serve": "run a local server to rehearse against: delays and faults",
    "demo": "fetch 100,000 URLs from a local server",
    "completion": "print a script that completes the command line in a shell",
}
HELP: Final = "tell more of a verb"
