"""Small named values that survive."""

from __future__ import annotations

from pymongo.errors import DuplicateKeyError

from mindhold.stores.mongo.connection import Part


class CursorsPart(Part):
    """The Cursors protocol. One document each, so that no change of two of them is needed."""

    async def cursor(self, name: str) -> str | None:
        found = await self._database.ask(lambda: self._database.cursors.find_one({"_id": name}))
        return None if found is None else str(found["value"])

    async def set_cursor(self, name: str, value: str | None) -> None:
        cursors = self._database.cursors
        if value is None:
            await self._database.ask(lambda: cursors.delete_one({"_id": name}))
        else:
            await self._database.ask(
                lambda: cursors.update_one({"_id": name}, {"$set": {"value": value}}, upsert=True)
            )

    async def swap_cursor(self, name: str, *, old: str | None, new: str | None) -> bool:
        cursors = self._database.cursors

        async def work() -> bool:
            if old is None and new is None:
                return await cursors.find_one({"_id": name}) is None
            if old is None:
                try:
                    await cursors.insert_one({"_id": name, "value": new})
                except DuplicateKeyError:
                    return False
                return True
            there = {"_id": name, "value": old}
            if new is None:
                return (await cursors.delete_one(there)).deleted_count > 0
            return (await cursors.update_one(there, {"$set": {"value": new}})).matched_count > 0

        return await self._database.ask(work)
