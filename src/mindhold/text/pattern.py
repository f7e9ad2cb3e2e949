"""Regular expressions that are compiled when they are first used."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any


class LazyPattern:
    """A pattern that is compiled at its first use: there are a hundred of them, and most commands need none."""

    search: Callable[..., re.Match[str] | None]
    match: Callable[..., re.Match[str] | None]
    fullmatch: Callable[..., re.Match[str] | None]
    finditer: Callable[..., Iterator[re.Match[str]]]
    findall: Callable[..., list[str]]
    sub: Callable[..., str]

    def __init__(self, source: str, flags: re.RegexFlag = re.NOFLAG) -> None:
        self._source = source
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        # Runs only while the methods are missing; afterwards they are attributes of the instance.
        if name not in LazyPattern.__annotations__:
            raise AttributeError(name)
        compiled = re.compile(self._source, self._flags)
        for method in LazyPattern.__annotations__:
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)


def any_case(source: str) -> LazyPattern:
    """A pattern that ignores case."""
    return LazyPattern(source, re.IGNORECASE)
