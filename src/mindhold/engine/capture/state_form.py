"""The form of `.memory/state.json`: memories of six types, as another program for Claude Code keeps them in a project.

Reading is tolerant: what isn't known there stays with the memory, and goes out with it again.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import isfinite
from typing import Any

from mindhold.engine.capture.item import CAPTURED
from mindhold.engine.checks import LARGEST_NUMBER
from mindhold.engine.records import memory_from
from mindhold.model.errors import InvalidInput
from mindhold.model.ids import ALPHABET, CHANCE_BITS, encoded
from mindhold.model.life import DOUBTED_AFTER, confidence_at
from mindhold.model.memory import DEFAULT_IMPORTANCE, Kind, Memory, Provenance, Status, Tier

VERSION = 1
# In the metadata of what came from such a file: its id there, and what else stood there.
THEIRS = "memory_mcp"
OWN = "mindhold"  # in the file: what of a memory has no place in it otherwise
SOURCE = "memory-mcp"
TYPES: Mapping[Kind, str] = {
    Kind.ARCHITECTURE: "architecture",
    Kind.RELATION: "architecture",
    Kind.DECISION: "decision",
    Kind.PATTERN: "pattern",
    Kind.PREFERENCE: "pattern",
    Kind.PROCEDURE: "pattern",
    Kind.GOTCHA: "gotcha",
    Kind.ERROR: "gotcha",
    Kind.PROGRESS: "progress",
    Kind.CONTEXT: "context",
    Kind.FACT: "context",
    Kind.NOTE: "context",
    Kind.EPISODE: "context",
}
STATUSES = (Status.ACTIVE, Status.SUPERSEDED, Status.ARCHIVED)
LOOKED_AT = 64 << 10  # characters in which such a file shows what it is

_NAMES = "id type content tags created updated confidence accessCount supersedes mergedFrom status"
_FIELDS = frozenset((*_NAMES.split(), OWN))
_EXPORT = re.compile(r'"mindhold"\s*:\s*"export"')
_OURS = re.compile(rf"mem_\d+_([{ALPHABET}]{{26}})")
_HALF = re.compile("[\ud800-\udfff]")  # of a surrogate pair: only as an escape can it be written
_MADE = re.compile(r"mem_(\d{10,15})_")


@dataclass(frozen=True, slots=True)
class State:
    """A file as it was read. `rest` is what stands beside the memories; None where the file is but a list of them."""

    memories: tuple[Mapping[str, Any], ...] = ()
    rest: Mapping[str, Any] | None = field(default_factory=lambda: {"version": VERSION})
    keyed: bool = False  # by their ids


def looks_like_state(head: str) -> bool:
    """By the beginning of a file: a list of objects, or an object with memories that isn't the head of an export."""
    start = head.lstrip("\ufeff \t\r\n")
    if start.startswith("["):
        return start[1:].lstrip()[:1] in ("{", "]")
    exported = _EXPORT.search(start.partition("\n")[0])
    return start.startswith("{") and '"memories"' in start and not exported


def parse_state(text: str) -> State:
    """Raises InvalidInput, with the line where it isn't JSON."""
    try:
        document = json.loads(text.removeprefix("\ufeff"))
    except json.JSONDecodeError as error:
        raise _wrong(f"Line {error.lineno} is not JSON: {error.msg}.") from error
    except RecursionError as error:
        raise _wrong("It is nested too deeply.") from error
    if isinstance(document, list):
        return State(_objects(document), rest=None)
    found = document.get("memories") if isinstance(document, dict) else None
    if not isinstance(found, list | dict):
        raise _wrong("There are no memories in it.")
    rest = {name: value for name, value in document.items() if name != "memories"}
    if isinstance(found, dict):
        named = [{"id": key, **each} if isinstance(each, dict) else each for key, each in found.items()]
        return State(_objects(named), rest, keyed=True)
    return State(_objects(found), rest)


def written(state: State) -> str:
    """The file's text, in the shape it was read in."""
    memories: Any = list(state.memories)
    if state.keyed:
        memories = {each["id"]: each for each in state.memories}
    document = memories if state.rest is None else {**state.rest, "memories": memories}
    text = json.dumps(document, ensure_ascii=False, indent=2) + "\n"
    return _HALF.sub(lambda half: f"\\u{ord(half[0]):04x}", text)


def own_id(theirs: str) -> str | None:
    """The id here of a memory that was written there from here."""
    found = _OURS.fullmatch(theirs)
    return found[1] if found else None


def id_here(theirs: str, *, scope: str, agent: str) -> str:
    """The same one each time, and another one in another scope; it sorts by when the memory was made."""
    made = _MADE.match(theirs)
    digest = hashlib.sha256("\n".join((scope, agent, theirs)).encode("utf-8", "surrogatepass")).digest()
    chance = int.from_bytes(digest[: CHANCE_BITS // 8], "big")
    return encoded((min(int(made[1]) if made else 0, (1 << 48) - 1) << CHANCE_BITS) | chance)


def id_there(memory: Memory) -> str:
    """The id that it had there, or one of that form which tells which memory it is here."""
    known = _known(memory).get("id")
    return known if isinstance(known, str) and known else f"mem_{_milliseconds(memory.created)}_{memory.id}"


def entry_of(memory: Memory, ids: Mapping[str, str], *, now: datetime) -> dict[str, Any]:
    """A memory as the file has it; `ids` are those there, by those here, of all that are in the file."""
    known = _known(memory)
    further = {name: value for name, value in known.items() if name not in _FIELDS}
    foreign = known.get("type") if memory.kind is Kind.NOTE else None
    entry: dict[str, Any] = {
        "id": ids[memory.id],
        "type": foreign or TYPES[memory.kind],
        "content": memory.content,
        "tags": list(memory.tags),
        "created": stamp(memory.created),
        "updated": stamp(memory.updated),
        "confidence": round(confidence_at(memory, now), 4),
        "accessCount": memory.uses,
        "status": str(memory.status),
    }
    if memory.supersedes is not None and memory.supersedes in ids:
        entry["supersedes"] = ids[memory.supersedes]
    if merged := [ids[source] for source in memory.merged_from if source in ids]:
        entry["mergedFrom"] = merged
    return {**entry, **further, OWN: _own(memory)}


def memory_of(
    entry: Mapping[str, Any], ids: Mapping[str, str], *, scope: str, agent: str, replaced: bool, now: datetime
) -> Memory:
    """`ids` are those here, by those there; `replaced`: another memory of the file took its place.

    Raises InvalidInput, ValueError, TypeError, KeyError.
    """
    own = entry.get(OWN)
    own = own if isinstance(own, dict) else {}
    kind, status = _kind(entry, own), _status(entry, replaced=replaced)
    made = _moment(entry.get("created"), _made(entry["id"]) or now)
    here = ids[entry["id"]]
    supersedes = ids.get(_text(entry, "supersedes"))
    merged = [ids[source] for source in _texts(entry, "mergedFrom") if source in ids]
    kept = own.get("metadata")
    return memory_from(
        {
            "id": here,
            "content": _text(entry, "content"),
            "kind": kind,
            "scope": scope,
            "agent": agent,
            "created": made.isoformat(),
            "updated": _moment(entry.get("updated"), made).isoformat(),
            "occurred": _moment(own.get("occurred"), made).isoformat(),
            "content_hash": "",
            "tokens": 0,
            "topic": _text(own, "topic"),
            "tags": _texts(entry, "tags"),
            "keywords": _texts(own, "keywords"),
            "importance": _share(own.get("importance"), DEFAULT_IMPORTANCE[kind]),
            "confidence": _confidence(entry, own, kind),
            "tier": own.get("tier", Tier.WARM),
            "anchor": own.get("anchor", False),
            "status": status,
            "previous_status": None if status is Status.ACTIVE else Status.ACTIVE,
            "uses": _count(entry.get("accessCount")),
            "verified": None,
            "examined": None,
            "decayed": None,
            "review": now.isoformat(),
            "supersedes": supersedes if supersedes != here else None,
            "merged_from": [source for source in merged if source != here],
            "provenance": _provenance(own),
            "metadata": {**(kept if isinstance(kept, dict) else {}), **_further(entry, ids)},
        },
        now=now,
    )


def sources_of(entry: Mapping[str, Any]) -> list[str]:
    """Whose place it took, by their ids there. Raises TypeError."""
    return list(dict.fromkeys(filter(None, [_text(entry, "supersedes"), *_texts(entry, "mergedFrom")])))


def _objects(found: Sequence[Any]) -> tuple[Mapping[str, Any], ...]:
    """Of two with one id the later."""
    known: dict[str, Mapping[str, Any]] = {}
    for number, each in enumerate(found, 1):
        if not isinstance(each, dict) or not isinstance(each.get("id"), str) or not each["id"]:
            raise _wrong(f"Memory {number} has no id.")
        known[each["id"]] = each
    return tuple(known.values())


def _wrong(what: str) -> InvalidInput:
    return InvalidInput(
        f"It is no state.json of memories. {what}",
        advice="Nothing was read from it. Give the .memory/state.json of a project.",
    )


def _known(memory: Memory) -> Mapping[str, Any]:
    known = memory.metadata.get(THEIRS)
    return known if isinstance(known, Mapping) else {}


def _own(memory: Memory) -> dict[str, Any]:
    """What has no field there, as far as it isn't what it would be anyway."""
    metadata = {name: value for name, value in memory.metadata.items() if name != THEIRS}
    usual = {
        "topic": "",
        "keywords": [],
        "importance": DEFAULT_IMPORTANCE[memory.kind],
        "confidence": 1.0,
        "occurred": stamp(memory.created),
        "tier": str(Tier.WARM),
        "anchor": False,
        "metadata": {},
        "cited": {},
    }
    actual = {
        "topic": memory.topic,
        "keywords": list(memory.keywords),
        "importance": memory.importance,
        "confidence": memory.confidence,
        "occurred": stamp(memory.occurred),
        "tier": str(memory.tier),
        "anchor": memory.anchor,
        "metadata": metadata,
        "cited": _cited(memory.provenance),
    }
    return {"kind": str(memory.kind)} | {
        name: value for name, value in actual.items() if value != usual[name]
    }


def _cited(provenance: Provenance) -> dict[str, Any]:
    """Where a captured memory was said; of others it isn't known, or nobody's business."""
    if provenance.source != CAPTURED:
        return {}
    told = {
        "conversation": provenance.conversation,
        "file": provenance.file,
        "line": provenance.line,
    }
    return {name: value for name, value in told.items() if value is not None}


def _provenance(own: Mapping[str, Any]) -> dict[str, Any]:
    """That of a captured memory, so that it stays one; whatever else stands in such a file came from there."""
    cited = own.get("cited")
    if not isinstance(cited, Mapping) or not cited:
        return {"source": SOURCE}
    line = cited.get("line")
    return {
        "source": CAPTURED,
        "dialect": "capture",
        "conversation": _text(cited, "conversation") or None,
        "file": _text(cited, "file") or None,
        "line": line if type(line) is int and 0 <= line <= LARGEST_NUMBER else None,
    }


def _further(entry: Mapping[str, Any], ids: Mapping[str, str]) -> dict[str, Any]:
    """What came from there and has no field here; nothing for what is ours and has nothing of the sort."""
    theirs = {name: value for name, value in entry.items() if name not in _FIELDS}
    if ids[entry["id"]] != own_id(entry["id"]):
        theirs["id"] = entry["id"]
    given = entry.get("type")
    if isinstance(given, str) and given not in TYPES:
        theirs["type"] = given
    return {THEIRS: theirs} if theirs else {}


def _kind(entry: Mapping[str, Any], own: Mapping[str, Any]) -> Kind:
    """What it was here, unless its type was changed there; a type that nobody knows is a note."""
    given, kept = entry.get("type"), own.get("kind")
    if isinstance(kept, str) and kept in TYPES and TYPES[Kind(kept)] == given:
        return Kind(kept)
    return Kind(given) if isinstance(given, str) and given in TYPES else Kind.NOTE


def _status(entry: Mapping[str, Any], *, replaced: bool) -> Status:
    given = entry.get("status")
    if isinstance(given, str) and given in STATUSES:
        return Status(given)
    return Status.SUPERSEDED if replaced else Status.ACTIVE


def _confidence(entry: Mapping[str, Any], own: Mapping[str, Any], kind: Kind) -> float:
    """What loses it day by day is worked out from its age, there as here: what stands there is no more than that."""
    return _share((own if kind in DOUBTED_AFTER else entry).get("confidence"), 1.0)


def _share(value: Any, otherwise: float) -> float:
    if value is None:
        return otherwise
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise TypeError(f"{value!r} is no number from 0 to 1")
    return min(1.0, max(0.0, float(value)))


def _count(value: Any) -> int:
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise TypeError(f"accessCount is {value!r}")
    return min(LARGEST_NUMBER, max(0, int(value)))


def _text(entry: Mapping[str, Any], name: str) -> str:
    value = entry.get(name)
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{name} is no text")
    return value or ""


def _texts(entry: Mapping[str, Any], name: str) -> list[str]:
    value = entry.get(name)
    found = [value] if isinstance(value, str) else value or []
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise TypeError(f"{name} is no list of texts")
    return found


def _moment(value: Any, otherwise: datetime) -> datetime:
    """A date as text, or milliseconds since 1970."""
    if value is None or value == "":
        return otherwise
    if isinstance(value, int | float) and not isinstance(value, bool):
        return datetime.fromtimestamp(value / 1000, UTC)
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no time")
    moment = datetime.fromisoformat(value)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _made(theirs: str) -> datetime | None:
    found = _MADE.match(theirs)
    return datetime.fromtimestamp(int(found[1]) / 1000, UTC) if found and len(found[1]) == 13 else None


def stamp(moment: datetime) -> str:
    """As the file has it; of two the later is the greater."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _milliseconds(moment: datetime) -> int:
    return max(0, int(moment.timestamp() * 1000))
