"""Putting the collections of one store in the place of another's: written down first, so that whoever comes next finishes it."""

from __future__ import annotations

from typing import Any

from pymongo import WriteConcern
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import OperationFailure

from mindhold.stores.mongo.rows import Document
from mindhold.stores.mongo.steps import (
    CURSORS,
    ENTRIES,
    JOBS,
    JOURNAL,
    LINKS,
    MEMORIES,
    METADATA,
    TOMBSTONES,
    VERSIONS,
)

SWAP = "swap"  # a collection with one document while a swap is under way
COLLECTIONS = (MEMORIES, VERSIONS, LINKS, JOBS, CURSORS, ENTRIES, TOMBSTONES, JOURNAL)
_KEY = {"_id": "swap"}
_DURABLE = WriteConcern(w="majority", j=True)
_GONE, _THERE = 26, 48  # what a server says of a collection that another was quicker with


async def begin_swap(database: AsyncDatabase[Document], *, new: str, aside: str) -> None:
    """From here on the collections that begin with `new` are the store, whoever finishes it."""
    written = database[SWAP].with_options(write_concern=_DURABLE)
    await written.replace_one(_KEY, {"new": new, "aside": aside}, upsert=True)


async def finish_swap(database: AsyncDatabase[Document]) -> bool:
    """Whether there was one to finish. Each step may have been done before."""
    swap = await database[SWAP].find_one(_KEY)
    if swap is None:
        return False
    new, aside = swap["new"], swap["aside"]
    there = set(await database.list_collection_names())
    # The state goes first and comes last: nobody takes what is half moved for a store.
    for name in (METADATA, *COLLECTIONS):
        if name in there and new + name in there and aside + name not in there:
            await _rename(database, name, aside + name)
    for name in (*COLLECTIONS, METADATA):
        if new + name in there:
            await _rename(database, new + name, name, over=aside + name in there)
    await database[SWAP].drop()
    return True


async def _rename(database: AsyncDatabase[Document], old: str, name: str, *, over: bool = False) -> None:
    """`over` what somebody made there while the swap stood still."""
    options: dict[str, Any] = {"dropTarget": True} if over else {}
    try:
        await database[old].rename(name, **options)
    except OperationFailure as error:
        if error.code not in (_GONE, _THERE):
            raise
