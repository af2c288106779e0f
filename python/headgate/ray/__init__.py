"""A stage of Ray Data: `headgate.ray.fetch(dataset, ...)`, or `headgate.ray.Fetch` for `map_batches`."""

from headgate.ray._dataset import fetch
from headgate.ray._fetch import Fetch

__all__ = ["Fetch", "fetch"]
