"""Converts records to JSON objects and back, field by field, without losing anything."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from math import isfinite, log
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from mindhold.memories.validation import LARGEST_NUMBER, in_utc
from mindhold.model.memory import Kind, Link, Memory, Provenance, Relation, Status, Tier, Version
from mindhold.model.scope import LONGEST_NAME, Scope

LONGEST_ID = 64
MOST_MERGED = 1_000
UTMOST = 1 + log(LARGEST_NUMBER)  # the utility of a memory of full importance with the most uses
HEAVIEST = 2.0  # a weight is a similarity, and rounding may take it past 1

JsonObject = dict[str, Any]
R = TypeVar("R", Memory, Version, Link, Scope, Provenance)


def memory_line(memory: Memory) -> JsonObject:
    """Convert a memory, without `embedded_by`, since vectors are derived."""
    line = _plain("memory", memory)
    del line["embedded_by"]
    return line


def memory_from(line: JsonObject, *, now: datetime) -> Memory:
    """Read a memory. Records from before there were review dates get `now`, and count as evaluated and compared.

    Raises KeyError, ValueError, TypeError for anything that no export wrote.
    """
    fields = _fields(line)
    for name in ("review", "decayed", "verified", "examined"):
        fields.setdefault(name, now.isoformat())
    fields.update(
        kind=Kind(fields["kind"]),
        status=Status(fields["status"]),
        tier=Tier(fields["tier"]),
        previous_status=Status(fields["previous_status"]) if fields.get("previous_status") else None,
        provenance=_checked(Provenance(**fields["provenance"])),
    )
    _tuples(fields, "tags", "keywords", "merged_from")
    _times(fields, "created", "updated", "occurred", "last_used", "verified", "examined", "decayed", "review")
    memory = _checked(Memory(**fields))
    if not memory.content:
        raise ValueError("a memory needs content")
    _check_ids(memory.id, *memory.merged_from, *filter(None, [memory.supersedes]))
    _check_agent(memory.agent)
    _check_shares(
        importance=memory.importance,
        confidence=memory.confidence,
        trust=memory.trust,
    )
    if not 0 <= memory.utility <= UTMOST:
        raise ValueError(f"utility is {memory.utility}")
    if abs(memory.usefulness) > 1:
        raise ValueError("usefulness is not between -1 and 1")
    if len(memory.merged_from) > MOST_MERGED:
        raise ValueError(f"it was merged from more than {MOST_MERGED}")
    return memory


def version_line(version: Version) -> JsonObject:
    """Convert a version."""
    return _plain("version", version)


def version_from(line: JsonObject) -> Version:
    """Read a version. Raises KeyError, ValueError, TypeError."""
    fields = _fields(line)
    fields.update(kind=Kind(fields["kind"]), tier=Tier(fields["tier"]))
    _tuples(fields, "tags", "keywords")
    _times(fields, "occurred", "amended")
    version = _checked(Version(**fields))
    _check_ids(version.memory_id)
    _check_agent(version.amended_by)
    _check_shares(importance=version.importance)
    if version.number < 1:
        raise ValueError("versions are numbered from 1")
    return version


def link_line(link: Link) -> JsonObject:
    """Convert a link."""
    return _plain("link", link)


def link_from(line: JsonObject) -> Link:
    """Read a link. Raises KeyError, ValueError, TypeError."""
    fields = _fields(line)
    fields["relation"] = Relation(fields["relation"])
    _times(fields, "created")
    link = _checked(Link(**fields))
    _check_ids(link.origin, link.target)
    if link.origin == link.target:
        raise ValueError("a memory can't be linked to itself")
    if abs(link.weight) > HEAVIEST:
        raise ValueError(f"weight is {link.weight}")
    return link


def scope_line(scope: Scope) -> JsonObject:
    """Convert a scope."""
    return _plain("scope", scope)


def scope_from(line: JsonObject) -> Scope:
    """Read a scope. Raises KeyError, ValueError, TypeError."""
    fields = _fields(line)
    _tuples(fields, "keywords")
    _times(fields, "created")
    return _checked(Scope(**fields))


def _plain(kind: str, record: Memory | Version | Link | Scope) -> JsonObject:
    return {"type": kind, **_values(record)}


def _values(record: Memory | Version | Link | Scope | Provenance) -> JsonObject:
    # Not asdict(): its deep copies took most of an export's time.
    return {name: _value(getattr(record, name)) for name in _types()[type(record).__name__]}


def _value(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, StrEnum):
        return str(value)
    if isinstance(value, Provenance):
        return _values(value)
    return list(value) if isinstance(value, tuple) else value


def _fields(line: JsonObject) -> JsonObject:
    return {name: value for name, value in line.items() if name != "type"}


def _tuples(fields: JsonObject, *names: str) -> None:
    for name in names:
        if not isinstance(fields[name], list):
            raise TypeError(f"{name} is no list")
        fields[name] = tuple(fields[name])


def _times(fields: JsonObject, *names: str) -> None:
    for name in names:
        if fields.get(name) is not None:
            fields[name] = in_utc(datetime.fromisoformat(fields[name]))


def _check_ids(*ids: str) -> None:
    for each in ids:
        if not each or len(each) > LONGEST_ID or not each.isprintable():
            raise ValueError(f"{each[:LONGEST_ID]!r} is no id")


def _check_agent(name: str) -> None:
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise ValueError(f"{name[:LONGEST_ID]!r} is no agent")


def _check_shares(**shares: float) -> None:
    for name, share in shares.items():
        if not 0 <= share <= 1:
            raise ValueError(f"{name} is not between 0 and 1")


@cache
def _types() -> dict[str, dict[str, tuple[type, ...]]]:
    """Return by class the types that each field may have; of containers only the outer type."""
    return {kind.__name__: _types_of(kind) for kind in (Memory, Version, Link, Scope, Provenance)}


def _types_of(kind: type[Any]) -> dict[str, tuple[type, ...]]:
    types = {}
    for name, hint in get_type_hints(kind).items():
        options = get_args(hint) if get_origin(hint) is UnionType else (hint,)
        plain = tuple(get_origin(option) or option for option in options)
        types[name] = (*plain, int) if float in plain else plain
    return types


def _checked(record: R) -> R:
    """Return the record if its fields have their types and its numbers are in range. Raises TypeError, ValueError."""
    for name, types in _types()[type(record).__name__].items():
        value = getattr(record, name)
        wrong = not isinstance(value, types) or (isinstance(value, bool) and bool not in types)
        if wrong or (isinstance(value, tuple) and not all(isinstance(item, str) for item in value)):
            raise TypeError(f"{name} is {value!r}"[:120])
        if isinstance(value, float) and not isfinite(value):
            raise ValueError(f"{name} is {value}")
        if type(value) is int and not 0 <= value <= LARGEST_NUMBER:
            raise ValueError(f"{name} is not between 0 and {LARGEST_NUMBER}")
    return record
