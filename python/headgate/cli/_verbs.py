"""The verbs of the command line, with descriptions."""

from typing import Final

VERBS: Final = {
    "fetch": "make one request for each row of the input",
    "plan": "show what a job would do, and how long it would take, without sending anything",
    "status": "show how far a job has got",
    "report": "write a report on a job as an HTML page, or serve it",
    "retry": "retry failed rows, or those that --only selects",
    "set": "change options of a running job",
    "pause": "pause a running job: it starts no more requests",
    "unpause": "continue a paused job",
    "show": "print the first rows of results",
    "files": "list the files of results, as of one commit",
    "verify": "check all results, and repair them",
    "clean": "remove files that a killed run has left",
    "serve": "run a local server to test against, with delays and faults",
    "demo": "fetch 100,000 URLs from a local server",
    "completion": "print a script that completes the command line in a shell",
}
HELP: Final = "explain a verb, a group of flags, a flag or another topic"
