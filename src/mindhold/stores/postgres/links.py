"""Edges between memories, and their earlier versions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from mindhold.model.link import Link, Relation
from mindhold.model.memory import Kind, Tier, Version
from mindhold.model.query import Filter
from mindhold.stores.postgres.connection import Part
from mindhold.stores.postgres.filters import matching, visible

# The earlier versions of some records, oldest first.
ALL_VERSIONS = """
    SELECT fragment_id, number, content, type, topic, tags, keywords, importance, is_anchor, occurred_at, ttl_tier,
        metadata, amended_at, amended_by
    FROM fragment_versions
"""
VERSIONS = f"{ALL_VERSIONS} WHERE fragment_id = ANY(%s::text[]) ORDER BY fragment_id, number"
LATEST_VERSIONS = f"{ALL_VERSIONS} WHERE fragment_id = %s ORDER BY number DESC LIMIT %s"  # NULL: all of them


class LinksPart(Part):
    """The Links protocol."""

    async def links_of(
        self, ids: Sequence[str], *, relations: Sequence[Relation] = (), viewer: str
    ) -> list[Link]:
        origin, target = visible(viewer, "origin"), visible(viewer, "target")
        related = "AND link.relation_type = ANY(%s::text[])" if relations else ""
        # Links that begin or end at some records, both ends visible, each once.
        query = f"""
            SELECT link.from_id, link.to_id, link.relation_type, link.created_at, link.weight, link.automatic
            FROM fragment_links AS link
            JOIN fragments AS origin ON origin.id = link.from_id JOIN fragments AS target ON target.id = link.to_id
            WHERE (link.from_id = ANY(%s::text[]) OR link.to_id = ANY(%s::text[]))
                AND {origin.sql} AND {target.sql} {related}
            ORDER BY link.created_at, link.from_id, link.to_id, link.relation_type
        """
        named = list(ids)
        values = (
            named,
            named,
            *origin.parameters,
            *target.parameters,
            *([[relation.value for relation in relations]] if relations else []),
        )
        return await self._database.read(
            lambda connection: [link_of(row) for row in connection.execute(query, values).fetchall()],
            viewer=viewer,
        )

    async def count_links(self, where: Filter) -> int:
        origin, target = matching(where, "origin"), matching(where, "target")
        # The links between records that match.
        query = f"""
            SELECT count(*) FROM fragment_links AS link JOIN fragments AS origin ON origin.id = link.from_id
            JOIN fragments AS target ON target.id = link.to_id WHERE {origin.sql} AND {target.sql}
        """
        values = (*origin.parameters, *target.parameters)
        found = await self._database.read(
            lambda connection: connection.execute(query, values, prepare=False).fetchall(),
            viewer=where.viewer,
        )
        return int(found[0][0])

    async def versions_of(self, memory_id: str, *, latest: int | None = None) -> list[Version]:
        return await self._database.read(
            lambda connection: [
                version_of(row) for row in connection.execute(LATEST_VERSIONS, (memory_id, latest)).fetchall()
            ][::-1]
        )

    async def versions_among(self, ids: Sequence[str]) -> dict[str, list[Version]]:
        found = await self._database.read(
            lambda connection: [
                version_of(row) for row in connection.execute(VERSIONS, (list(ids),)).fetchall()
            ]
        )
        return {memory_id: list(own) for memory_id, own in groupby(found, key=lambda one: one.memory_id)}


def link_of(row: tuple[Any, ...]) -> Link:
    return Link(
        origin=row[0],
        target=row[1],
        relation=Relation(row[2]),
        created=row[3],
        weight=row[4],
        automatic=row[5],
    )


def version_of(row: tuple[Any, ...]) -> Version:
    return Version(
        memory_id=row[0],
        number=row[1],
        content=row[2],
        kind=Kind(row[3]),
        topic=row[4],
        tags=tuple(row[5]),
        keywords=tuple(row[6]),
        importance=row[7],
        anchor=row[8],
        occurred=row[9],
        tier=Tier(row[10]),
        metadata=row[11],
        amended=row[12],
        amended_by=row[13],
    )
