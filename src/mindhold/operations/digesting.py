"""The shape in which a digest of many memories is told."""

from __future__ import annotations

from datetime import datetime, tzinfo

from mindhold.engine.digest import Digest
from mindhold.operations.catalogue import Output


class DigestView(Output):
    """What many memories are, in few words; `words` says it in a line, but for the summary."""

    count: int
    kinds: dict[str, int]
    topics: list[str]
    tags: list[str]
    start: datetime | None = None
    end: datetime | None = None
    summary: str = ""  # the newest one among them
    words: str

    @classmethod
    def of(cls, digest: Digest, zone: tzinfo) -> DigestView:
        """The digest as its view, for a person in that zone."""
        return cls(
            count=digest.count,
            kinds=dict(digest.kinds),
            topics=list(digest.topics),
            tags=list(digest.tags),
            start=digest.start,
            end=digest.end,
            summary=digest.summary,
            words=digest.words(zone),
        )
