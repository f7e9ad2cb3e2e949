"""A Filter as a query. THE one place where this store decides who sees what."""

from __future__ import annotations

from typing import Any

from mindhold.model.access import visible_agents
from mindhold.model.query import Filter
from mindhold.stores.values import to_micros

Query = dict[str, Any]
TURNS = "turns"  # the index of the messages of projects' logs

# Every field that matching() asks about, but for those of beyond_search().
FILTERED = tuple(
    "_id agent scope kind status tier tags_folded topic_folded occurred conversation position trust anchor".split()
)


def visible(viewer: str) -> Query:
    """True of the records that `viewer` may see."""
    agents = visible_agents(viewer)
    return {} if agents is None else {"agent": {"$in": sorted(agents)}}


def matching(where: Filter) -> Query:
    """True of the records that the filter admits, its viewer's access included.

    Of comparisons, `$and`, `$in` and equality alone: what $vectorSearch understands, over the fields of FILTERED.
    """
    conditions = [visible(where.viewer)]

    def among(field: str, values: tuple[Any, ...]) -> None:
        if values:
            conditions.append(
                {field: values[0] if len(values) == 1 else {"$in": [str(value) for value in values]}}
            )

    among("_id", where.ids)
    among("scope", where.scopes)
    among("agent", where.agents)
    among("kind", tuple(kind.value for kind in where.kinds))
    among("status", tuple(status.value for status in where.statuses))
    among("tier", tuple(tier.value for tier in where.tiers))
    if where.tags:
        folded = [tag.casefold() for tag in where.tags]
        conditions += (
            [{"tags_folded": {"$in": folded}}] if where.tags_any else [{"tags_folded": tag} for tag in folded]
        )
    if where.keywords:
        forms = list(where.keywords)
        conditions += (
            [{"keyword_forms": {"$in": forms}}]
            if where.keywords_any
            else [{"keyword_forms": form} for form in forms]
        )
    if where.topic is not None:
        conditions.append({"topic_folded": where.topic.casefold()})
    if where.since is not None:
        conditions.append({"occurred": {"$gte": to_micros(where.since)}})
    if where.until is not None:
        conditions.append({"occurred": {"$lt": to_micros(where.until)}})
    if where.changed is not None:
        conditions.append({"updated": {"$gte": to_micros(where.changed)}})
    if where.conversation is not None:
        conditions.append({"conversation": where.conversation})
    if where.positions is not None:
        first, last = where.positions
        conditions.append({"position": {"$gte": first, "$lte": last}})
    if where.minimum_trust > 0:
        conditions.append({"trust": {"$gte": where.minimum_trust}})
    if where.anchored:
        conditions.append({"anchor": True})
    if where.due is not None:
        conditions.append({"review": {"$lte": to_micros(where.due)}})
    if where.unverified:
        conditions.append({"verified": None})
    if where.unexamined:
        conditions.append({"examined": None})
    if where.turns:
        conditions.append({"turn": True})
    return all_of(*conditions)


def beyond_search(where: Filter) -> bool:
    """Whether it asks about a field that indexes of vectors don't have: those were made before there was one."""
    tended = where.changed or where.due or where.unverified or where.unexamined
    return bool(where.keywords or where.turns or tended)


def counted_by_index(where: Filter) -> bool:
    """Whether the index of messages tells all that is asked, so that none has to be read."""
    named = where.ids or where.tags or where.keywords or where.topic or where.conversation is not None
    timed = where.since or where.until or where.changed or where.due
    others = where.kinds or where.positions or where.anchored or where.tiers
    waiting = where.unverified or where.unexamined
    return where.turns and len(where.scopes) == 1 and not (named or timed or others or waiting)


def all_of(*conditions: Query) -> Query:
    """True where each is."""
    stated = [condition for condition in conditions if condition]
    if len(stated) == 1:
        return stated[0]
    return {"$and": stated} if stated else {}
