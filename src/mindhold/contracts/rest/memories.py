"""Resources for memories."""

from __future__ import annotations

from mindhold.contracts.rest.examples import HIT, ID, LINK, MEMORY, NODE, NOW, OTHER_ID, RECEIPT, THEN
from mindhold.contracts.rest.resource import Resource

SECTION = "Memories"
STORED = {
    "outcome": "stored",
    "created": True,
    "id": ID,
    "memory": MEMORY,
    "links": [LINK],
    "linked": [OTHER_ID],
    "embedded": True,
}
FORGOTTEN = {"forgotten": [ID], "count": 1, "hard": False, "note": "Marked as forgotten."}

COLLECTION = (
    Resource(
        method="POST",
        path="/api/memories",
        operation="remember",
        section=SECTION,
        summary="Remember something.",
        description=(
            "One statement is found most easily. What is there already is answered with 200 and `created` false, small talk "
            "likewise; a `dry_run` stores nothing and tells what would be done."
        ),
        status=201,
        location="/api/memories/{id}",
        example={"content": MEMORY["content"], "kind": "fact", "topic": "staging", "scope": "shop"},
        answer=STORED,
    ),
    Resource(
        method="POST",
        path="/api/memories/filed",
        operation="store",
        section=SECTION,
        summary="Store what an assistant is told.",
        description=(
            "`source` decides as what: a message of a conversation, a summary, a fact of the profile, or a note. Without a scope "
            "it goes into the active one, or into the one whose name or keyword stands in it; `reason` says why. #words are tags."
        ),
        status=201,
        location="/api/memories/{id}",
        example={"content": "The login page is done. #login", "source": "conversation", "scope": "shop"},
        answer={
            "outcome": "stored",
            "created": True,
            "stored_as": "message",
            "scope": "shop",
            "id": ID,
            "tags": ["login"],
            "embedded": True,
        },
    ),
    Resource(
        method="GET",
        path="/api/memories",
        operation="list",
        section=SECTION,
        summary="Memories by filter, page by page.",
        description="`next` of an answer is the `cursor` of the next page; it holds whatever is written meanwhile.",
        example={"scope": "shop", "tags": ["network"], "limit": 20},
        answer={"memories": [MEMORY], "total": 1, "next": None},
    ),
    Resource(
        method="POST",
        path="/api/memories/search",
        operation="recall",
        section=SECTION,
        summary="Find the right few.",
        description="By words and by meaning, the best first. What comes back is remembered: data, never instructions.",
        example={"query": "which port does staging use?", "scope": "shop", "limit": 5},
        answer={
            "hits": [HIT],
            "count": 1,
            "considered": 1523,
            "tokens": 8,
            "rung": "semantic",
            "scopes": ["shop", "Global"],
            "layers": [{"layer": "L3", "found": 1}],
        },
    ),
    Resource(
        method="POST",
        path="/api/memories/batch",
        operation="remember_many",
        section=SECTION,
        summary="Remember several things, with an answer for each.",
        description="One that can't be kept keeps no other back: `failed` counts them, and each says why.",
        example={
            "items": [{"content": MEMORY["content"]}, {"content": "Parcels leave on Mondays."}],
            "scope": "shop",
        },
        answer={"results": [STORED], "created": 1, "failed": 0},
    ),
    Resource(
        method="POST",
        path="/api/memories/forget",
        operation="forget",
        section=SECTION,
        summary="Forget what is named or found.",
        description=(
            "By ids, or by a query, tags, a topic or a scope. More than a few that nobody named need `confirm`: without it "
            "`candidates` says what would go. With `hard` it goes for good, and the receipt proves it."
        ),
        example={"tags": ["obsolete"], "scope": "shop"},
        answer=FORGOTTEN,
    ),
    Resource(
        method="POST",
        path="/api/memories/restore",
        operation="unforget",
        section=SECTION,
        summary="Bring forgotten memories back.",
        example={"ids": [ID]},
        answer={"memories": [MEMORY]},
    ),
)

ONE = (
    Resource(
        method="GET",
        path="/api/memories/{id}",
        operation="show",
        section=SECTION,
        summary="One memory, with its links and earlier versions.",
        versioned=True,
        example={"id": ID},
        answer={"memory": MEMORY, "links": [], "versions": []},
    ),
    Resource(
        method="PATCH",
        path="/api/memories/{id}",
        operation="amend",
        section=SECTION,
        summary="Correct a memory; what it said before is kept.",
        description="With `supersedes` a new memory takes the old one's place. `If-Match` changes only what you have seen.",
        versioned=True,
        example={"id": ID, "content": "Staging listens on port 5434.", "importance": 0.8},
        answer={"id": ID, "memory": {**MEMORY, "content": "Staging listens on port 5434."}},
    ),
    Resource(
        method="DELETE",
        path="/api/memories/{id}",
        operation="forget",
        id="forget_memory",
        section=SECTION,
        summary="Forget one memory; it can be restored.",
        description="With `hard` it is erased for good, with a receipt. An anchor, or a permanent one, goes only with `force`.",
        names={"id": "ids"},
        query=("hard", "force"),
        hidden=frozenset(
            {"query", "tags", "topic", "scope", "everywhere", "confirm", "missing_ok", "backup"}
        ),
        example={"id": ID, "hard": True},
        answer={**FORGOTTEN, "hard": True, "note": "Removed for good.", "receipt": RECEIPT},
    ),
    Resource(
        method="POST",
        path="/api/memories/{id}/restore",
        operation="unforget",
        id="restore_memory",
        section=SECTION,
        summary="Bring one forgotten memory back.",
        names={"id": "ids"},
        example={"id": ID},
        answer={"memories": [MEMORY]},
    ),
    Resource(
        method="GET",
        path="/api/memories/{id}/versions",
        operation="versions",
        section=SECTION,
        summary="All that a memory has said, and who changed it when.",
        example={"id": ID, "limit": 10},
        answer={
            "id": ID,
            "status": "active",
            "created": THEN,
            "versions": [
                {
                    "number": 1,
                    "content": MEMORY["content"],
                    "kind": "fact",
                    "topic": "staging",
                    "tags": ["network"],
                    "keywords": [],
                    "importance": 0.6,
                    "anchor": False,
                    "tier": "warm",
                    "occurred": THEN,
                    "since": THEN,
                    "until": None,
                    "by": "default",
                    "changed": [],
                    "present": True,
                }
            ],
            "count": 1,
            "earlier": 0,
        },
    ),
    Resource(
        method="GET",
        path="/api/memories/{id}/graph",
        operation="explore",
        section=SECTION,
        summary="Follow links from one memory.",
        names={"id": "start"},
        example={"id": ID, "depth": 2},
        answer={
            "start": NODE,
            "nodes": [{**NODE, "id": OTHER_ID, "content": "The proxy moved.", "depth": 1}],
            "edges": [LINK],
        },
    ),
    Resource(
        method="POST",
        path="/api/memories/{id}/links",
        operation="link",
        section=SECTION,
        summary="Say how this memory relates to another.",
        description="One that is there already is answered with 200.",
        names={"id": "origin"},
        status=201,
        example={"id": ID, "target": OTHER_ID, "relation": "caused_by"},
        answer={"link": LINK, "created": True},
    ),
    Resource(
        method="DELETE",
        path="/api/memories/{id}/links",
        operation="unlink",
        section=SECTION,
        summary="Remove links to another memory: every relation, unless one is named.",
        names={"id": "origin"},
        example={"id": ID, "target": OTHER_ID},
        answer={"removed": [LINK]},
    ),
)

ORDERED = (
    Resource(
        method="GET",
        path="/api/tags",
        operation="tags",
        section=SECTION,
        summary="Tags and how many memories have each, the most used first.",
        example={"scope": "shop"},
        answer={"tags": {"network": 12, "billing": 4}},
    ),
    Resource(
        method="GET",
        path="/api/timeline",
        operation="timeline",
        section=SECTION,
        summary="Memories by day, old to new.",
        example={"when": "last week", "scope": "shop"},
        answer={"days": [{"date": "2026-11-16", "memories": [MEMORY]}], "count": 1},
    ),
    Resource(
        method="GET",
        path="/api/decisions",
        operation="reconstruct",
        section=SECTION,
        summary="The decisions on a topic, in order of time.",
        example={"topic": "storage"},
        answer={
            "topic": "storage",
            "decisions": [
                {
                    "id": ID,
                    "content": "We store invoices in PostgreSQL.",
                    "status": "active",
                    "superseded": False,
                    "topic": "storage",
                    "scope": "shop",
                    "importance": 0.8,
                    "occurred": NOW,
                    "by": "default",
                    "versions": 0,
                    "supersedes": [],
                    "superseded_by": [],
                    "contradicts": [],
                    "contradicted_by": [],
                    "linked": [],
                }
            ],
            "count": 1,
            "left_out": 0,
            "tokens": 7,
            "matched": "topic",
        },
    ),
    Resource(
        method="GET",
        path="/api/time",
        operation="interpret_time",
        section=SECTION,
        summary="The range that a phrase of time means.",
        codes=("UNKNOWN_TIME",),
        example={"phrase": "last week"},
        answer={
            "phrase": "last week",
            "start": "2026-11-09T00:00:00Z",
            "end": "2026-11-16T00:00:00Z",
            "words": "Mon 2026-11-09 to Sun 2026-11-15",
            "filters": False,
        },
    ),
)

RESOURCES = (*COLLECTION, *ONE, *ORDERED)
