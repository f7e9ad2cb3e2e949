"""A database all of whose collections have a prefix: a store of its own, beside another in the same database."""

from __future__ import annotations

from typing import Any

from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase

from mindhold.stores.mongo.rows import Document


class PrefixedDatabase(AsyncDatabase[Document]):
    """What the store asks of its database, by the names that it knows."""

    def __init__(self, database: AsyncDatabase[Document], prefix: str) -> None:
        super().__init__(
            database.client,
            database.name,
            database.codec_options,
            database.read_preference,
            database.write_concern,
            database.read_concern,
        )
        self.prefix = prefix

    def __getitem__(self, name: str) -> AsyncCollection[Document]:
        return super().__getitem__(self.prefix + name)

    def with_options(self, *args: Any, **options: Any) -> PrefixedDatabase:  # type: ignore[override]
        return PrefixedDatabase(super().with_options(*args, **options), self.prefix)

    async def create_collection(self, name: str, *args: Any, **options: Any) -> AsyncCollection[Document]:
        return await super().create_collection(self.prefix + name, *args, **options)

    async def list_collection_names(self, *args: Any, **options: Any) -> list[str]:
        found = await super().list_collection_names(*args, **options)
        return [name.removeprefix(self.prefix) for name in found if name.startswith(self.prefix)]
