"""The options of a client's tables: those about rows and columns, in addition to the options of the client."""

from typing import Any, ClassVar, Final

from headgate._foreign import unexpected
from headgate._option import OptionSet
from headgate.batches._batch_options import BatchOptions
from headgate.batches._options import TableKeywords
from headgate.client._client_options import ClientOptions
from headgate.jobs._arguments import Arguments
from headgate.jobs._options import SelectOptions, option_set


class ResultKeywords(SelectOptions, total=False):
    """The options of `to_arrow_batches`."""


MAP_BATCHES: Final = option_set(TableKeywords, of="map_batches")
FETCH_TABLE: Final = option_set(TableKeywords, of="fetch_table")
BATCHES: Final = option_set(ResultKeywords, of="to_arrow_batches")

_ADDED: Final = ("extract", "require")
"""Options whose values in a call are added to those of the client."""


class TableOptions(BatchOptions):
    """The options of one call and of its client, as the engine reads them."""

    options: ClassVar[OptionSet[Any]] = MAP_BATCHES

    def __init__(self, of_call: dict[str, Any], client: ClientOptions) -> None:
        of_all = MAP_BATCHES.complete({})
        added = {name: (*getattr(client, name), *of_call[name]) for name in _ADDED}
        vars(self).update({**of_all, **vars(client), **of_call, **added})


def options_of(options: OptionSet[Any], given: dict[str, Any], client: ClientOptions) -> TableOptions:
    """Returns the complete options of a call.

    Raises:
        UsageError: An argument is wrong; the message has all mistakes.
        TypeError: There is no such option, or it is an option of the client.
    """
    for name in given:
        if name not in options.entries:
            raise unexpected(options.of, name, options.entries, client.options.entries)
    arguments = Arguments()
    of_call = TableOptions(options.complete(arguments.read(options, given)), client)
    arguments.check(of_call)
    return of_call
