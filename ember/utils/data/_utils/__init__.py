"""The parts of the loader: collation, fetching, worker processes and what passes between them."""

from ember.utils.data._utils import collate, fetch, pin_memory, worker

__all__ = ["collate", "fetch", "pin_memory", "worker"]
