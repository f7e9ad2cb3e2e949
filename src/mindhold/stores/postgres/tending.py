"""What upkeep changes of records, what callers thought of them, and what is counted: no updates of the records."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from mindhold.model.errors import InvalidInput
from mindhold.ports.store import Rate, Tend
from mindhold.stores.postgres.connection import Connection

T = TypeVar("T", Tend, Rate)

# Change what upkeep may, unless something happened to the record since upkeep had read it.
TEND = """
    UPDATE fragments SET ttl_tier = coalesce(given.tier, ttl_tier),
        importance = coalesce(given.importance, fragments.importance),
        utility_score = coalesce(given.utility, utility_score),
        usefulness = coalesce(given.usefulness, fragments.usefulness), is_anchor = coalesce(given.anchor, is_anchor),
        verified_at = coalesce(given.verified, verified_at), examined_at = coalesce(given.examined, examined_at),
        decayed_at = coalesce(given.decayed, decayed_at), review_at = coalesce(given.review, review_at)
    FROM unnest(
        %s::text[], %s::text[], %s::float8[], %s::float8[], %s::float8[], %s::boolean[], %s::timestamptz[],
        %s::timestamptz[], %s::timestamptz[], %s::timestamptz[], %s::timestamptz[]
    ) AS given (id, tier, importance, utility, usefulness, anchor, verified, examined, decayed, review, since)
    WHERE fragments.id = given.id
        AND (given.since IS NULL OR greatest(updated_at, accessed_at, stirred_at) <= given.since)
"""

# Say how useful records were, once more.
RATE = """
    UPDATE fragments SET usefulness = greatest(-1, least(1, usefulness + given.by)),
        stirred_at = greatest(stirred_at, given.moment), review_at = least(review_at, given.moment)
    FROM unnest(%s::text[], %s::float8[], %s::timestamptz[]) AS given (id, by, moment)
    WHERE fragments.id = given.id
"""

_COUNTED = """
    FROM (
        SELECT fragments.row, wanted.times FROM unnest(%(ids)s::text[], %(times)s::bigint[]) AS wanted (id, times)
        JOIN fragments ON fragments.id = wanted.id ORDER BY fragments.id FOR NO KEY UPDATE OF fragments
    ) AS counted WHERE fragments.row = counted.row
"""

# Count uses; a late report doesn't turn the clock back.
TOUCH = f"""
    UPDATE fragments SET access_count = access_count + counted.times, accessed_at = greatest(accessed_at, %(when)s),
        ttl_tier = CASE ttl_tier WHEN 'permanent' THEN ttl_tier ELSE 'hot' END, review_at = least(review_at, %(when)s)
    {_COUNTED}
"""

# Count showings.
SHOW = f"""
    UPDATE fragments SET shown = shown + counted.times, stirred_at = greatest(stirred_at, %(when)s),
        review_at = least(review_at, %(when)s)
    {_COUNTED}
"""


def tend(connection: Connection, tends: Sequence[Tend]) -> None:
    """Within the caller's transaction, in their order."""
    numbers = [number for one in tends for number in (one.importance, one.utility, one.usefulness) if number]
    _check(numbers)
    for batch in _apart(tends):
        values = [
            (
                one.memory_id,
                None if one.tier is None else one.tier.value,
                one.importance,
                one.utility,
                one.usefulness,
                one.anchor,
                one.verified,
                one.examined,
                one.decayed,
                one.review,
                one.unless_since,
            )
            for one in batch
        ]
        connection.execute(TEND, _columns(values))


def rate(connection: Connection, rates: Sequence[Rate]) -> None:
    """The same."""
    _check([one.by for one in rates])
    for batch in _apart(rates):
        connection.execute(RATE, _columns([(one.memory_id, one.by, one.when) for one in batch]))


def _apart(changes: Sequence[T]) -> Iterator[list[T]]:
    """In batches that name no record twice: a statement changes a row once."""
    batch: dict[str, T] = {}
    for change in changes:
        if change.memory_id in batch:
            yield list(batch.values())
            batch = {}
        batch[change.memory_id] = change
    yield list(batch.values())


def _columns(rows: list[tuple[Any, ...]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _check(numbers: Sequence[float]) -> None:
    if any(map(math.isnan, numbers)):
        raise InvalidInput("The database takes no such value: what is no number can't be stored.")
