"""Which stored memories a new one repeats, replaces or belongs with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from recollect.engine.core import Policy
from recollect.engine.text.sameness import replaces, same_statement
from recollect.model.link import Link, Relation
from recollect.model.memory import Memory, Status, Tier
from recollect.ports.store import Change, Connect, Mark

TURN = "message_type"  # metadata that marks a turn of a log: it stays as it was said


@dataclass(frozen=True, slots=True)
class Kin:
    """What a new memory does to the ones that were there."""

    superseded: tuple[Memory, ...] = ()
    related: tuple[tuple[str, float], ...] = ()


def kin_of(new: Memory, others: Iterable[tuple[Memory, float]], policy: Policy) -> Kin:
    """The rule. `others` come with their similarity; only texts that truly say the same are superseded.

    An anchor, a permanent memory or a turn of a log is never superseded by itself: it is linked.
    """
    superseded: list[Memory] = []
    related: list[tuple[str, float]] = []
    for other, similarity in sorted(others, key=lambda pair: -pair[1]):
        if _same_record(
            new, other
        ):  # stored by somebody else a moment ago: a repetition, as the store will say
            continue
        kept = other.anchor or other.tier is Tier.PERMANENT or TURN in other.metadata
        if not kept and _stands_in_for(new, other, similarity=similarity, policy=policy):
            superseded.append(other)
        elif similarity >= policy.link_threshold and _same_topic(new, other):
            related.append((other.id, round(similarity, 4)))
    return Kin(tuple(superseded), tuple(related[: policy.most_links]))


def _same_record(new: Memory, other: Memory) -> bool:
    return (new.content_hash, new.scope, new.agent) == (other.content_hash, other.scope, other.agent)


def _stands_in_for(new: Memory, old: Memory, *, similarity: float, policy: Policy) -> bool:
    if similarity < policy.link_threshold:
        return False
    if (
        similarity >= policy.near_duplicate
        and new.kind is old.kind
        and same_statement(new.content, old.content)
    ):
        return True
    return replaces(new.content, old.content)


def _same_topic(one: Memory, other: Memory) -> bool:
    return not one.topic or not other.topic or one.topic.casefold() == other.topic.casefold()


def superseding(new: Memory, old_ones: Sequence[Memory]) -> list[Change]:
    """What retires the old ones in favour of `new`; both stay readable."""
    changes: list[Change] = []
    for old in old_ones:
        changes.append(
            Mark(old.id, Status.SUPERSEDED, previous=old.status, updated=new.updated, only_from=old.status)
        )
        changes.append(Connect(Link(old.id, new.id, Relation.SUPERSEDED_BY, new.updated, automatic=True)))
    return changes


def heir(new: Memory, old_ones: Sequence[Memory]) -> Memory:
    """A memory that supersedes others inherits what they had earned."""
    return replace(
        new,
        supersedes=old_ones[0].id,
        importance=max(new.importance, *(old.importance for old in old_ones)),
        uses=new.uses + sum(old.uses for old in old_ones),
    )
