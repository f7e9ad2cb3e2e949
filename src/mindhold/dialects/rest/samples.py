"""What the examples of the document are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Sample = dict[str, Any]

ID, OTHER_ID = "01m7gv42a3fzcy3gb19vmek4q7", "01m7gv9k5d2w8r6t1p0n4b3xya"
NOW, THEN = "2026-11-16T10:30:00Z", "2026-11-02T08:15:00Z"

MEMORY: Mapping[str, Any] = {
    "id": ID,
    "content": "Staging listens on port 5433.",
    "kind": "fact",
    "scope": "shop",
    "agent": "default",
    "status": "active",
    "topic": "staging",
    "tags": ["network"],
    "importance": 0.6,
    "confidence": 1.0,
    "trust": 1.0,
    "tier": "warm",
    "anchor": False,
    "uses": 3,
    "tokens": 8,
    "created": NOW,
    "updated": NOW,
    "occurred": NOW,
    "content_hash": "2f6c0b9e5a14d3c7",
}
LINK: Mapping[str, Any] = {
    "origin": ID,
    "target": OTHER_ID,
    "relation": "caused_by",
    "weight": 1.0,
    "automatic": False,
    "created": NOW,
}
HIT: Mapping[str, Any] = {
    "id": ID,
    "score": 0.8312,
    "similarity": 0.7741,
    "layer": "L3",
    "why": ["meaning", "words"],
    "content": MEMORY["content"],
    "truncated": False,
    "tokens": 8,
    "kind": "fact",
    "scope": "shop",
    "agent": "default",
    "status": "active",
    "topic": "staging",
    "tags": ["network"],
    "keywords": ["staging", "port"],
    "importance": 0.6,
    "confidence": 1.0,
    "trust": 1.0,
    "tier": "warm",
    "anchor": False,
    "access": 3,
    "created": NOW,
    "updated": NOW,
    "occurred": NOW,
    "provenance": {},
    "metadata": {},
}
RECEIPT: Mapping[str, Any] = {
    "ids": [ID],
    "removed": {"memories": 1, "vectors": 1, "text": 1, "links": 1},
    "remaining": {"memories": 0, "vectors": 0, "text": 0, "links": 0},
    "empty": True,
}
SCOPE: Mapping[str, Any] = {
    "name": "work",
    "description": "The day job",
    "kind": "general",
    "parent": None,
    "active": True,
    "memories": 42,
    "sees": ["work", "Global"],
    "children": ["shop"],
    "keywords": ["office"],
    "created": THEN,
    "kinds": {"fact": 30, "decision": 12},
}
PROJECT: Mapping[str, Any] = {
    "id": "shop",
    "name": "shop",
    "storage_mode": "local",
    "memories": 1523,
    "created": THEN,
    "settings": {
        "description": "What we sell",
        "active": True,
        "parent": None,
        "keywords": [],
        "path": "/home/me/src/shop",
    },
    "description": "What we sell",
    "active": True,
    "path": "/home/me/src/shop",
    "identity": "/home/me/src/shop/.git",
}
NODE: Mapping[str, Any] = {
    "id": ID,
    "content": MEMORY["content"],
    "kind": "fact",
    "topic": "staging",
    "importance": 0.6,
    "depth": 0,
}
SIDE: Mapping[str, Any] = {
    "id": ID,
    "content": "Staging listens on port 5432.",
    "occurred": THEN,
    "importance": 0.5,
}
CONTRADICTION: Mapping[str, Any] = {
    "id": "7c1e09ab",
    "pending": True,
    "older": SIDE,
    "newer": {"id": OTHER_ID, "content": MEMORY["content"], "occurred": NOW, "importance": 0.6},
    "found_by": "rules",
    "confidence": 0.7,
    "similarity": 0.93,
    "found": NOW,
}
TALLY: Mapping[str, Any] = {"count": 10, "relevant": 9, "sufficient": 8, "served": 8, "share": 0.8}
BACKUP: Mapping[str, Any] = {
    "file": "backup-20261116T103000Z.backup",
    "path": "/home/me/.mindhold/backups/backup-20261116T103000Z.backup",
    "bytes": 48213,
    "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "created": NOW,
    "encrypted": False,
}
LISTED_BACKUP: Mapping[str, Any] = {**BACKUP, "made": "daily", "whole": True}
COUNTS: Mapping[str, Any] = {"memories": 1523, "links": 310, "versions": 44, "scopes": 5}
SHARE: Mapping[str, Any] = {
    "calls": 4,
    "failed": 0,
    "tokens_in": 3100,
    "tokens_out": 420,
    "dollars": 0.0084,
    "unpriced": 0,
    "memories": [ID],
}
