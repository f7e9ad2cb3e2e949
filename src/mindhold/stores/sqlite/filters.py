"""A Filter as a WHERE clause. THE one place where this store decides who sees what."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace

from mindhold.model.access import visible_agents
from mindhold.model.memory import Status
from mindhold.model.query import Filter
from mindhold.stores.values import to_micros

Parameter = str | int | float | bytes | None


@dataclass(frozen=True, slots=True)
class Condition:
    """SQL that is true of the rows that match, over a table called `alias`, and its parameters in order."""

    sql: str
    parameters: tuple[Parameter, ...]


def visible(viewer: str, alias: str = "memory") -> Condition:
    """True of the records that `viewer` may see.

    The plus keeps the planner from choosing the index of agents: most records are of one agent or two.
    """
    agents = visible_agents(viewer)
    if agents is None:
        return Condition("1", ())
    return Condition(f"+{alias}.agent IN ({_marks(agents)})", tuple(sorted(agents)))


def matching(where: Filter, alias: str = "memory", *, walked: str = "") -> Condition:
    """True of the records that the filter admits, its viewer's access included.

    `walked` names the column whose index the caller walks in order until it has enough: then no index of scopes,
    agents or kinds should be chosen, for all that it finds would have to be sorted.
    """
    seen = visible(where.viewer, alias)
    clauses, parameters = [seen.sql], list(seen.parameters)

    def add(clause: str, *values: Parameter) -> None:
        clauses.append(clause)
        parameters.extend(values)

    if where.ids:
        add(f"{alias}.id IN (SELECT value FROM json_each(?))", as_list(where.ids))
    logged = where.turns and walked in ("", "occurred")  # an index has each scope's messages in order of time
    plus = "+" if _narrows(where) or (walked and not logged) else ""
    if logged and len(where.scopes) == 1:
        add(f"{plus}{alias}.scope = (SELECT row FROM scope WHERE name = ?)", where.scopes[0])
    elif where.scopes:
        add(
            f"{plus}{alias}.scope IN (SELECT row FROM scope WHERE name IN (SELECT value FROM json_each(?)))",
            as_list(where.scopes),
        )
    if where.agents:
        add(f"{plus}{alias}.agent IN ({_marks(where.agents)})", *where.agents)
    if where.kinds:
        ordered = walked == "occurred" and len(where.kinds) == len(where.statuses) == 1
        kept = "" if ordered else plus  # that index has one kind's records in order of time
        add(f"{kept}{alias}.kind IN ({_marks(where.kinds)})", *where.kinds)
    if where.statuses:
        add(f"{alias}.status IN ({_marks(where.statuses)})", *where.statuses)
    if where.tags_any and where.tags:
        wanted = as_list(tag.casefold() for tag in where.tags)
        add(
            f"{alias}.row IN (SELECT memory FROM tag WHERE folded IN (SELECT value FROM json_each(?)))",
            wanted,
        )
    for tag in () if where.tags_any else where.tags:
        add(f"{alias}.row IN (SELECT memory FROM tag WHERE folded = ?)", tag.casefold())
    if where.keywords:
        named = _named(where, alias)
        add(named.sql, *named.parameters)
    if where.topic is not None:
        stated = f"{alias}.topic_folded <> '' AND " if where.topic else ""  # lets the partial index be used
        add(f"{stated}{alias}.topic_folded = ?", where.topic.casefold())
    if where.since is not None:
        add(f"{alias}.occurred >= ?", to_micros(where.since))
    if where.until is not None:
        add(f"{alias}.occurred < ?", to_micros(where.until))
    if where.changed is not None:
        add(f"{alias}.updated >= ?", to_micros(where.changed))
    if where.conversation is not None:
        add(f"{alias}.conversation = ?", where.conversation)
    if where.positions is not None:
        add(f"{alias}.position BETWEEN ? AND ?", *where.positions)
    if where.minimum_trust > 0:
        add(f"{alias}.trust >= ?", where.minimum_trust)
    if where.tiers:
        add(f"{alias}.tier IN ({_marks(where.tiers)})", *where.tiers)
    if where.anchored:
        add(f"{alias}.anchor = 1")
    if where.due is not None:
        add(f"{alias}.review <= ?", to_micros(where.due))
    waiting = [f"{alias}.verified IS NULL"] if where.unverified else []
    waiting += [f"{alias}.examined IS NULL"] if where.unexamined else []
    if waiting and where.statuses == (Status.ACTIVE,):
        waiting.append(f"{alias}.status = 'active'")  # said so plainly, it lets the partial index be used
    clauses += waiting
    if where.turns:  # in the very words of the partial index
        stated = f"{alias}.dialect = 'project' AND {alias}.kind = 'episode'"
        add(f"{stated} AND json_extract({alias}.metadata, '$.part') IS NULL")
    return Condition(" AND ".join(clauses), tuple(parameters))


def having_keywords(where: Filter, row: str) -> Condition:
    """True where the record of that row has the filter's keywords; a look at what it has, one row at a time."""
    has = f"EXISTS (SELECT 1 FROM keyword WHERE keyword.memory = {row} AND"
    if where.keywords_any:
        # The plus: a record has fewer keywords than may be asked for.
        return Condition(
            f"{has} +keyword.form IN (SELECT value FROM json_each(?)))", (as_list(where.keywords),)
        )
    return Condition(" AND ".join(f"{has} keyword.form = ?)" for _ in where.keywords), where.keywords)


def rows_with_keywords(where: Filter) -> Condition:
    """A SELECT of the rows of records that have the filter's keywords, from those that have the first of them on."""
    if where.keywords_any:
        return Condition(
            "SELECT memory FROM keyword WHERE form IN (SELECT value FROM json_each(?))",
            (as_list(where.keywords),),
        )
    first, *others = where.keywords
    begun, parameters = "SELECT named.memory FROM keyword AS named WHERE named.form = ?", (first,)
    if not others:
        return Condition(begun, parameters)
    also = having_keywords(replace(where, keywords=tuple(others)), "named.memory")
    return Condition(f"{begun} AND {also.sql}", (*parameters, *also.parameters))


def _named(where: Filter, alias: str) -> Condition:
    if where.ids:  # they are few already
        return having_keywords(where, f"{alias}.row")
    rows = rows_with_keywords(where)
    return Condition(f"{alias}.row IN ({rows.sql})", rows.parameters)


def as_list(values: Iterable[str]) -> str:
    """For json_each(): one parameter however many values, so that the statement stays prepared."""
    return json.dumps(list(values))


def _narrows(where: Filter) -> bool:
    """Whether something picks fewer rows than a scope does."""
    named = where.ids or where.tags or where.keywords or where.topic or where.conversation
    tended = where.due or where.unverified or where.unexamined
    return bool(named or where.anchored or where.changed or tended)


def _marks(values: Iterable[object]) -> str:
    return ", ".join("?" for _ in values)
