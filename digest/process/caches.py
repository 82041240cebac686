"""Define the named, bounded caches of a process, which the app context passes down."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from threading import RLock
from typing import Any, TypeVar

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class NamedCache:
    """The values cached under one name, least recently used first."""

    values: OrderedDict[Hashable, Any] = field(default_factory=OrderedDict)
    lock: RLock = field(default_factory=RLock)


class Caches:
    """Named caches, each of which drops its least recently used values when it exceeds its bound."""

    def __init__(self) -> None:
        self.named: dict[str, NamedCache] = {}

    def get_or_make(self, name: str, key: Hashable, make: Callable[[], Value], *, bound: int = 1) -> Value:
        """Return the value cached under `key`; if there is none, one thread calls `make`, and others wait.

        With the default bound of 1, only the last key's value is kept. If `make` raises, nothing is cached.
        """
        cache = self.named.setdefault(name, NamedCache())
        with cache.lock:
            value: Value = cache.values[key] if key in cache.values else make()
            cache.values[key] = value
            cache.values.move_to_end(key)
            while len(cache.values) > bound:
                cache.values.popitem(last=False)
            return value

    def clear(self, name: str | None = None) -> None:
        """Drop the values of one name, or all values."""
        for each in [name] if name else list(self.named):
            self.named.pop(each, None)

    def sizes(self) -> dict[str, int]:
        """Return the number of values in each cache, keyed by name."""
        return {name: len(cache.values) for name, cache in self.named.items()}
