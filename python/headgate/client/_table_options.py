"""The options of a client's tables: what is about rows and columns, beside what the client was told."""

from typing import Any, ClassVar, Final

from headgate._option import OptionSet
from headgate.batches._batch_options import BatchOptions
from headgate.batches._options import TableKeywords
from headgate.client._client_options import ClientOptions
from headgate.jobs._arguments import Arguments
from headgate.jobs._response_options import SelectOptions


class ResultKeywords(SelectOptions, total=False):
    """The options of `batches()`."""


MAP_BATCHES: Final = OptionSet(TableKeywords, of="map_batches")
FETCH_TABLE: Final = OptionSet(TableKeywords, of="fetch_table")
BATCHES: Final = OptionSet(ResultKeywords, of="batches")

_ADDED: Final = ("select", "require")
"""Those that the client has, too: a call adds to what it says."""


class TableOptions(BatchOptions):
    """One call, as the engine is told of it: with what its client was told."""

    options: ClassVar[OptionSet[Any]] = MAP_BATCHES

    def __init__(self, of_call: dict[str, Any], client: ClientOptions) -> None:
        of_all = MAP_BATCHES.complete({})
        added = {name: (*getattr(client, name), *of_call[name]) for name in _ADDED}
        vars(self).update({**of_all, **vars(client), **of_call, **added})


def asked_of(options: OptionSet[Any], given: dict[str, Any], client: ClientOptions) -> TableOptions:
    """What was given to a call with these options.

    Raises:
        UsageError: An argument is wrong; all mistakes are named.
        TypeError: There is no such option: those of the client are given to the client.
    """
    for name in given:
        if name in client.options.entries and name not in options.entries:
            raise TypeError(f"{name} is an option of the client: give it to that")
    arguments = Arguments()
    asked = TableOptions(options.complete(arguments.read(options, given)), client)
    arguments.check(asked)
    return asked
