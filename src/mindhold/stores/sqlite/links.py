"""Edges between memories, and their earlier versions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from mindhold.model.link import Link, Relation
from mindhold.model.memory import Kind, Tier, Version
from mindhold.model.query import Filter
from mindhold.stores.sqlite.connection import Part
from mindhold.stores.sqlite.filters import as_list, matching, visible
from mindhold.stores.values import from_list_json, from_mapping_json, from_micros

# The earlier versions of some records, oldest first.
ALL_VERSIONS = """
    SELECT memory.id, number, version.content, version.kind, version.topic, version.tags, version.keywords,
        version.importance, version.anchor, version.occurred, version.tier, version.metadata, amended, amended_by
    FROM version JOIN memory ON memory.row = version.memory
"""
VERSIONS = f"{ALL_VERSIONS} WHERE memory.id IN (SELECT value FROM json_each(?)) ORDER BY memory.id, number"
LATEST_VERSIONS = f"{ALL_VERSIONS} WHERE memory.id = ? ORDER BY number DESC LIMIT ?"


class LinksPart(Part):
    """The Links protocol."""

    async def links_of(
        self, ids: Sequence[str], *, relations: Sequence[Relation] = (), viewer: str
    ) -> list[Link]:
        origin, target = visible(viewer, "origin"), visible(viewer, "target")
        named = [relation.value for relation in relations]
        related = f"AND relation IN ({', '.join('?' for _ in named)})" if named else ""
        # Links that begin or end at some records, both ends visible, each once.
        query = f"""
            WITH asked (row) AS (SELECT row FROM memory WHERE id IN (SELECT value FROM json_each(?))),
            found AS (
                SELECT * FROM link WHERE origin IN (SELECT row FROM asked) {related}
                UNION SELECT * FROM link WHERE target IN (SELECT row FROM asked) {related}
            )
            SELECT origin.id, target.id, relation, found.created, weight, automatic FROM found
            CROSS JOIN memory AS origin ON origin.row = found.origin
            CROSS JOIN memory AS target ON target.row = found.target
            WHERE {origin.sql} AND {target.sql}
            ORDER BY found.created, origin.id, target.id, relation
        """
        values = (as_list(ids), *named, *named, *origin.parameters, *target.parameters)
        return await self._database.read(
            lambda connection: [link_of(row) for row in connection.execute(query, values)]
        )

    async def count_links(self, where: Filter) -> int:
        origin, target = matching(where, "origin"), matching(where, "target")
        # The links between records that match.
        query = f"""
            SELECT count(*) FROM link CROSS JOIN memory AS origin ON origin.row = link.origin
            CROSS JOIN memory AS target ON target.row = link.target WHERE {origin.sql} AND {target.sql}
        """
        values = (*origin.parameters, *target.parameters)
        return await self._database.read(
            lambda connection: int(connection.execute(query, values).fetchone()[0])
        )

    async def versions_of(self, memory_id: str, *, latest: int | None = None) -> list[Version]:
        most = -1 if latest is None else latest
        return await self._database.read(
            lambda connection: [
                version_of(row) for row in connection.execute(LATEST_VERSIONS, (memory_id, most))
            ][::-1]
        )

    async def versions_among(self, ids: Sequence[str]) -> dict[str, list[Version]]:
        found = await self._database.read(
            lambda connection: [version_of(row) for row in connection.execute(VERSIONS, (as_list(ids),))]
        )
        return {memory_id: list(own) for memory_id, own in groupby(found, key=lambda one: one.memory_id)}


def link_of(row: tuple[Any, ...]) -> Link:
    return Link(
        origin=row[0],
        target=row[1],
        relation=Relation(row[2]),
        created=from_micros(row[3]),
        weight=row[4],
        automatic=bool(row[5]),
    )


def version_of(row: tuple[Any, ...]) -> Version:
    return Version(
        memory_id=row[0],
        number=row[1],
        content=row[2],
        kind=Kind(row[3]),
        topic=row[4],
        tags=from_list_json(row[5]),
        keywords=from_list_json(row[6]),
        importance=row[7],
        anchor=bool(row[8]),
        occurred=from_micros(row[9]),
        tier=Tier(row[10]),
        metadata=from_mapping_json(row[11]),
        amended=from_micros(row[12]),
        amended_by=row[13],
    )
