"""The classes of TorchScript's graphs, for annotations and isinstance: no graph is made here."""

from __future__ import annotations


class Graph:
    """A graph of TorchScript."""


class Node:
    """A node of TorchScript's graphs."""


class Value:
    """A value in TorchScript's graphs."""


class Block:
    """A block of TorchScript's graphs."""
