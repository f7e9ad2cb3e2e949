"""Which stored memories a new one repeats, replaces or belongs with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from mindhold.engine.capture.item import CAPTURED
from mindhold.engine.core import Policy
from mindhold.engine.draft import TURN as TURN  # those who write logs name it as well
from mindhold.engine.text.resolution import resolves
from mindhold.engine.text.sameness import replaces, same_statement
from mindhold.model.life import SESSION_ONLY, is_kept_for_good
from mindhold.model.link import Link, Relation
from mindhold.model.memory import Kind, Memory, Status
from mindhold.ports.store import Change, Connect, Inherit, Mark

TELLS_OF_A_FIX = frozenset(
    {Kind.ERROR, Kind.PROCEDURE, Kind.DECISION, Kind.FACT, Kind.GOTCHA, Kind.PATTERN, Kind.NOTE}
)


@dataclass(frozen=True, slots=True)
class Kin:
    """What a new memory does to the ones that were there."""

    superseded: tuple[Memory, ...] = ()
    resolved: tuple[Memory, ...] = ()  # errors that it says the solution of
    related: tuple[tuple[str, float], ...] = ()

    def links(self, new: str, *, now: datetime) -> list[Link]:
        """What is drawn beside superseding: an error to what resolved it, the new one to what it belongs with."""
        solved = [Link(old.id, new, Relation.RESOLVED_BY, now, automatic=True) for old in self.resolved]
        beside = [
            Link(new, target, Relation.RELATED, now, weight=weight, automatic=True)
            for target, weight in self.related
        ]
        return solved + beside


def kin_of(new: Memory, others: Iterable[tuple[Memory, float]], policy: Policy) -> Kin:
    """The rule. `others` come with their similarity; of another topic none is kin.

    Only texts that truly say the same are superseded, and only an error whose very failure the new text names is resolved
    by it. An anchor, a permanent memory or a turn of a log is never superseded by itself: it is linked.
    """
    superseded: list[Memory] = []
    resolved: list[Memory] = []
    related: list[tuple[str, float]] = []
    for other, similarity in sorted(others, key=lambda pair: -pair[1]):
        # The same record was stored by somebody else a moment ago: a repetition, as the store will say.
        if _same_record(new, other) or similarity <= policy.link_threshold or not same_topic(new, other):
            continue
        lasts = is_kept_for_good(other) or TURN in other.metadata
        kept = lasts or _outlives(other, new)
        if _resolves(new, other):
            resolved.append(other)
        elif not kept and _stands_in_for(new, other, similarity=similarity, policy=policy):
            superseded.append(other)
        else:
            related.append((other.id, round(similarity, 4)))
    room = max(0, policy.most_links - len(superseded))
    rest = max(0, room - len(resolved))
    return Kin(tuple(superseded), tuple(resolved[:room]), tuple(related[:rest]))


def _outlives(other: Memory, new: Memory) -> bool:
    """What ends with a conversation takes the place of nothing that doesn't, and what was overheard of nothing that was not."""
    if new.provenance.source == CAPTURED != other.provenance.source:
        return True
    ends_with = new.metadata.get(SESSION_ONLY)
    return ends_with is not None and other.metadata.get(SESSION_ONLY) != ends_with


def _same_record(new: Memory, other: Memory) -> bool:
    return (new.content_hash, new.scope, new.agent) == (other.content_hash, other.scope, other.agent)


def _resolves(new: Memory, old: Memory) -> bool:
    return old.kind is Kind.ERROR and new.kind in TELLS_OF_A_FIX and resolves(new.content, old.content)


def _stands_in_for(new: Memory, old: Memory, *, similarity: float, policy: Policy) -> bool:
    """Of one kind only: where a fact speaks against a preference it is for the search for contradictions, which can be undone."""
    if new.kind is not old.kind:
        return False
    alike = similarity > policy.near_duplicate
    return (alike and same_statement(new.content, old.content)) or replaces(new.content, old.content)


def same_topic(one: Memory, other: Memory) -> bool:
    """What has no topic may belong to any."""
    return not one.topic or not other.topic or one.topic.casefold() == other.topic.casefold()


def superseding(new: Memory, old_ones: Sequence[Memory], *, now: datetime) -> list[Change]:
    """What retires the old ones in favour of `new`; both stay readable."""
    changes: list[Change] = []
    for old in old_ones:
        changes.append(
            Mark(old.id, Status.SUPERSEDED, previous=old.status, updated=now, only_from=old.status)
        )
        changes.append(Connect(Link(old.id, new.id, Relation.SUPERSEDED_BY, now, automatic=True)))
    return changes


def inheritance(new: Memory, old_ones: Sequence[Memory]) -> Inherit:
    """What the old ones had earned is the new one's."""
    return Inherit(
        new.id,
        supersedes=new.supersedes or old_ones[0].id,
        importance=max(old.importance for old in old_ones),
        uses=sum(old.uses for old in old_ones),
    )


def heir(new: Memory, old_ones: Sequence[Memory]) -> Memory:
    """A memory that supersedes others inherits what they had earned."""
    return replace(
        new,
        supersedes=old_ones[0].id,
        topic=new.topic or old_ones[0].topic,
        importance=max(new.importance, *(old.importance for old in old_ones)),
        uses=new.uses + sum(old.uses for old in old_ones),
    )
