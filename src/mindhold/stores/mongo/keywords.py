"""Keywords as they are compared: a field derived from the keywords, and made anew from them."""

from __future__ import annotations

from collections.abc import AsyncIterator

from pymongo import UpdateOne

from mindhold.model.keywords import keyword_forms
from mindhold.stores.mongo.connection import Database
from mindhold.stores.mongo.rows import Document

_TOGETHER = 2_000
_FIELDS = {"row": 1, "keywords": 1, "keyword_forms": 1}


async def count_wrong(database: Database) -> int:
    """How many records aren't found by their keywords, or by others."""
    return sum([len(wrong) async for wrong in _wrong(database)])


async def renew(database: Database) -> int:
    """Make them what the records say; returns how many were wrong. Whoever changes a record meanwhile has the last word."""
    done = 0
    async for wrong in _wrong(database):
        done += len(wrong)
        if wrong:
            mended = [
                UpdateOne(
                    {"_id": one["_id"], "keywords": one["keywords"]},
                    {"$set": {"keyword_forms": list(keyword_forms(one["keywords"]))}},
                )
                for one in wrong
            ]
            await database.memories.bulk_write(mended, ordered=False)
    return done


async def _wrong(database: Database) -> AsyncIterator[list[Document]]:
    last = -1
    while True:
        following = database.memories.find({"row": {"$gt": last}}, _FIELDS).sort("row", 1).limit(_TOGETHER)
        batch = await following.to_list()
        if not batch:
            return
        yield [one for one in batch if one.get("keyword_forms") != list(keyword_forms(one["keywords"]))]
        last = batch[-1]["row"]
