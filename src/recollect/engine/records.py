"""Records as JSON objects and back, field by field, so that an export loses nothing."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from recollect.model.link import Link, Relation
from recollect.model.memory import Kind, Memory, Provenance, Status, Tier, Version
from recollect.model.scope import Scope

Line = dict[str, Any]
R = TypeVar("R", Memory, Version, Link, Scope, Provenance)


def memory_line(memory: Memory) -> Line:
    """`embedded_by` stays out: vectors are derived."""
    line = _plain("memory", asdict(memory))
    del line["embedded_by"]
    return line


def memory_from(line: Line) -> Memory:
    """Raises KeyError, ValueError, TypeError on what no export wrote."""
    fields = _fields(line)
    fields.update(
        kind=Kind(fields["kind"]),
        status=Status(fields["status"]),
        tier=Tier(fields["tier"]),
        previous_status=Status(fields["previous_status"]) if fields.get("previous_status") else None,
        provenance=_checked(Provenance(**fields["provenance"])),
    )
    _tuples(fields, "tags", "keywords", "merged_from")
    _times(fields, "created", "updated", "occurred", "last_used")
    memory = _checked(Memory(**fields))
    if not memory.id or not memory.content or memory.uses < 0:
        raise ValueError("a memory needs an id, content and a count of uses")
    if not all(0 <= share <= 1 for share in (memory.importance, memory.confidence, memory.trust)):
        raise ValueError("importance, confidence and trust are between 0 and 1")
    return memory


def version_line(version: Version) -> Line:
    """A version as an object."""
    return _plain("version", asdict(version))


def version_from(line: Line) -> Version:
    """Raises KeyError, ValueError, TypeError."""
    fields = _fields(line)
    fields["kind"] = Kind(fields["kind"])
    _tuples(fields, "tags", "keywords")
    _times(fields, "amended")
    return _checked(Version(**fields))


def link_line(link: Link) -> Line:
    """A link as an object."""
    return _plain("link", asdict(link))


def link_from(line: Line) -> Link:
    """Raises KeyError, ValueError, TypeError."""
    fields = _fields(line)
    fields["relation"] = Relation(fields["relation"])
    _times(fields, "created")
    return _checked(Link(**fields))


def scope_line(scope: Scope) -> Line:
    """A scope as an object."""
    return _plain("scope", asdict(scope))


def scope_from(line: Line) -> Scope:
    """Raises KeyError, ValueError, TypeError."""
    fields = _fields(line)
    _tuples(fields, "keywords")
    _times(fields, "created")
    return _checked(Scope(**fields))


def _plain(kind: str, fields: Line) -> Line:
    return {"type": kind, **{name: _value(value) for name, value in fields.items()}}


def _value(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, StrEnum):
        return str(value)
    return list(value) if isinstance(value, tuple) else value


def _fields(line: Line) -> Line:
    return {name: value for name, value in line.items() if name != "type"}


def _tuples(fields: Line, *names: str) -> None:
    for name in names:
        if not isinstance(fields[name], list):
            raise TypeError(f"{name} is no list")
        fields[name] = tuple(fields[name])


def _times(fields: Line, *names: str) -> None:
    for name in names:
        if fields.get(name) is not None:
            fields[name] = datetime.fromisoformat(fields[name]).astimezone(UTC)


@cache
def _types() -> dict[str, dict[str, tuple[type, ...]]]:
    """By class, the types that each field may have, containers by their outside."""
    return {kind.__name__: _types_of(kind) for kind in (Memory, Version, Link, Scope, Provenance)}


def _types_of(kind: type[Any]) -> dict[str, tuple[type, ...]]:
    found = {}
    for name, hint in get_type_hints(kind).items():
        options = get_args(hint) if get_origin(hint) is UnionType else (hint,)
        plain = tuple(get_origin(option) or option for option in options)
        found[name] = (*plain, int) if float in plain else plain
    return found


def _checked(record: R) -> R:
    """The record, if its fields are of their types. Raises TypeError."""
    for name, types in _types()[type(record).__name__].items():
        value = getattr(record, name)
        wrong = not isinstance(value, types) or (isinstance(value, bool) and bool not in types)
        if wrong or (isinstance(value, tuple) and not all(isinstance(item, str) for item in value)):
            raise TypeError(f"{name} is {value!r}"[:120])
    return record
