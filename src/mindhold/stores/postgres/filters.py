"""A Filter as a WHERE clause. The one place where this store decides who sees what; row security stands behind it.

Only leakproof comparisons (=, <, = ANY) appear here, for no other may use an index of a table with row security; what
is compared otherwise stands in tables of its own, which have none and yield the rows' numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mindhold.model.access import visible_agents
from mindhold.model.memory import Status
from mindhold.model.query import Filter
from mindhold.stores.postgres.keywords import cut


@dataclass(frozen=True, slots=True)
class Condition:
    """SQL that is true of the rows that match, over a table called `alias`, and its parameters in order."""

    sql: str
    parameters: tuple[Any, ...]


def visible(viewer: str, alias: str = "fragments") -> Condition:
    """True of the records that `viewer` may see."""
    agents = visible_agents(viewer)
    if agents is None:
        return Condition("true", ())
    return Condition(f"{alias}.agent_id = ANY(%s::text[])", (sorted(agents),))


def matching(where: Filter, alias: str = "fragments") -> Condition:
    """True of the records that the filter admits, its viewer's access included."""
    seen = visible(where.viewer, alias)
    clauses, parameters = [seen.sql], list(seen.parameters)

    def add(clause: str, *values: Any) -> None:
        clauses.append(clause)
        parameters.extend(values)

    if where.ids:
        add(f"{alias}.id = ANY(%s::text[])", list(where.ids))
    if where.turns and len(where.scopes) == 1:  # as one value: their index has them in order then
        add(f"{alias}.scope = (SELECT row FROM scope WHERE name = %s)", where.scopes[0])
    elif where.scopes:
        add(
            f"{alias}.scope = ANY(ARRAY(SELECT row FROM scope WHERE name = ANY(%s::text[])))",
            list(where.scopes),
        )
    if where.agents:
        add(f"{alias}.agent_id = ANY(%s::text[])", list(where.agents))
    if where.kinds:
        add(f"{alias}.type = ANY(%s::text[])", [kind.value for kind in where.kinds])
    if where.statuses:
        add(*_one_or_any(f"{alias}.status", [status.value for status in where.statuses]))
    if where.tags_any and where.tags:
        add(_tagged(alias, "= ANY(%s::text[])"), [tag.casefold() for tag in where.tags])
    for tag in () if where.tags_any else where.tags:
        add(_tagged(alias, "= %s"), tag.casefold())
    if where.keywords:
        comparison = "&&" if where.keywords_any else "@>"
        add(_named(alias, f"{comparison} %s::text[]"), cut(where.keywords))
    if where.topic is not None:
        stated = f"{alias}.topic_folded <> '' AND " if where.topic else ""  # lets the partial index be used
        add(f"{stated}{alias}.topic_folded = %s", where.topic.casefold())
    if where.since is not None:
        add(f"{alias}.occurred_at >= %s", where.since)
    if where.until is not None:
        add(f"{alias}.occurred_at < %s", where.until)
    if where.changed is not None:
        add(f"{alias}.updated_at >= %s", where.changed)
    if where.conversation is not None:
        add(f"{alias}.conversation = %s", where.conversation)
    if where.positions is not None:
        add(f"{alias}.position BETWEEN %s::bigint AND %s::bigint", *where.positions)
    if where.minimum_trust > 0:
        add(f"{alias}.trust >= %s", where.minimum_trust)
    if where.tiers:
        add(_standing(alias, "ttl_tier = ANY(%s::text[])"), [tier.value for tier in where.tiers])
    if where.anchored:
        add(f"{alias}.is_anchor")
    if where.due is not None:
        add(_standing(alias, "review_at <= %s"), where.due)
    waiting = [f"{alias}.verified_at IS NULL"] if where.unverified else []
    waiting += [f"{alias}.examined_at IS NULL"] if where.unexamined else []
    if waiting and where.statuses == (Status.ACTIVE,):
        waiting.append(f"{alias}.status = 'active'")  # said so plainly, it lets the partial index be used
    clauses += waiting
    if where.turns:
        clauses.append(_turn(alias))
    return Condition(" AND ".join(clauses), tuple(parameters))


def _one_or_any(column: str, values: list[str]) -> tuple[str, Any]:
    """One value is compared as such: then an index that begins with it has its rows in order."""
    if len(values) == 1:
        return f"{column} = %s", values[0]
    return f"{column} = ANY(%s::text[])", values


def _tagged(alias: str, comparison: str) -> str:
    return f"{alias}.row IN (SELECT row FROM fragment_tags WHERE folded {comparison})"


def _named(alias: str, comparison: str) -> str:
    return f"{alias}.row IN (SELECT row FROM fragment_keywords WHERE forms {comparison})"


def _turn(alias: str) -> str:
    """In the very words of the partial index."""
    return f"{alias}.dialect = 'project' AND {alias}.type = 'episode' AND NOT is_later_part({alias}.metadata)"


def _standing(alias: str, condition: str) -> str:
    return f"{alias}.row IN (SELECT row FROM fragment_standing WHERE {condition})"
