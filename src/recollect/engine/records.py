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
    for name in ("tags", "keywords", "merged_from"):
        fields[name] = tuple(fields[name])
    _times(fields, "created", "updated", "occurred", "last_used")
    return _checked(Memory(**fields))


def version_line(version: Version) -> Line:
    """A version as an object."""
    return _plain("version", asdict(version))


def version_from(line: Line) -> Version:
    """Raises KeyError, ValueError, TypeError."""
    fields = _fields(line)
    fields.update(kind=Kind(fields["kind"]), tags=tuple(fields["tags"]), keywords=tuple(fields["keywords"]))
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
    fields["keywords"] = tuple(fields["keywords"])
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
