"""What is told of a restore that puts everything in the place of what was there. It needs no open store, so it is no operation."""

from __future__ import annotations

from datetime import datetime

from mindhold.operations.catalogue import Output


class OldView(Output):
    """What a restore has put aside. It is kept until somebody drops it."""

    store: str
    name: str
    location: str
    bytes: int
    since: datetime | None = None


class ReplaceResult(Output):
    """What was put in place of what was there; `problems` are what is wrong with it even so."""

    file: str
    created: datetime
    memories: int
    vectors: int
    links: int
    versions: int
    scopes: int
    entries: int
    jobs: int
    old: list[OldView]
    problems: list[str]


class DropOldResult(Output):
    """What went."""

    dropped: list[OldView]
