"""What was found in a conversation and isn't all stored: put down first, so that whoever is killed can be followed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from mindhold.engine.capture.item import Item
from mindhold.engine.core import Engine
from mindhold.engine.draft import content_hash
from mindhold.model.entry import Entry
from mindhold.model.memory import Kind

PENDING = "capture:pending"  # the drawer
KEPT = timedelta(days=7)  # after that the file is read again
MOST = 10_000


@dataclass(frozen=True, slots=True)
class Pending:
    """`old` is the cursor that the items were found behind, `next_` the one that follows them."""

    old: str | None
    next_: str
    scope: str | None
    items: tuple[Item, ...]


async def put_pending(engine: Engine, key: str, pending: Pending) -> None:
    """Raises the store's errors."""
    now = engine.clock()
    value = {
        "old": pending.old,
        "next": pending.next_,
        "scope": pending.scope,
        "items": [
            {**asdict(item), "kind": item.kind.value, "said": item.said and item.said.isoformat()}
            for item in pending.items
        ],
    }
    await engine.store.put_entry(Entry(PENDING, key, value, now, now + KEPT))


def pending_of(value: Mapping[str, Any]) -> Pending:
    """Raises ValueError for one that another version wrote, if it can't be understood."""
    try:
        old, next_, scope = value["old"], value["next"], value["scope"]
        items = tuple(_item(one) for one in value["items"])
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("no pending note") from error
    if not isinstance(next_, str) or not isinstance(old, str | None) or not isinstance(scope, str | None):
        raise ValueError("no pending note")
    return Pending(old, next_, scope, items)


async def drop_pending_of(engine: Engine, scope: str, hashes: Collection[str] = ()) -> None:
    """Notes for a scope; with `hashes` only those with one of these contents. What they had is found again in the file."""
    for entry in await engine.store.entries(PENDING, now=engine.clock(), limit=MOST):
        said = {content_hash(str(one.get("content"))) for one in _dicts(entry.value.get("items"))}
        if entry.value.get("scope") == scope and (not hashes or said.intersection(hashes)):
            await engine.store.drop_entry(PENDING, entry.key)


def _item(value: Mapping[str, Any]) -> Item:
    known = {name: value[name] for name in Item.__dataclass_fields__ if name in value}
    said = known.get("said")
    item = Item(
        **{
            **known,
            "kind": Kind(value["kind"]),
            "tags": tuple(value.get("tags", ())),
            "said": datetime.fromisoformat(said) if said else None,
        }
    )
    if (
        not isinstance(item.content, str)
        or not isinstance(item.supersedes, str)
        or type(item.line) is not int
    ):
        raise ValueError("no item")
    return item


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list | tuple) else []
