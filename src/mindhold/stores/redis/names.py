"""The names of keys. What was remembered is in none of them: keywords and conversations are there as hashes."""

from __future__ import annotations

import hashlib
import json


class Names:
    """Those of one store; several may share a server."""

    def __init__(self, store_id: str, place: str = "") -> None:
        self.prefix = f"mindhold:{store_id}{_digest(place)[:8] if place else ''}:"
        self.mark = f"{self.prefix}mark"  # which build of the sets is whole, and in which run of the server
        self.building = f"{self.prefix}building"
        self.tickets = f"{self.prefix}tickets"  # of writes under way
        self.places = f"{self.prefix}places"  # scopes and agents that there are sets of
        self.active = f"{self.prefix}active"
        self.queue = f"{self.prefix}queue"
        self.every_keyword = f"{self.prefix}k:*"

    def keyword(self, scope: str, agent: str, form: str) -> str:
        return f"{self.prefix}k:{_digest(scope, agent, form)}"

    def cached(self, key: str) -> str:
        return f"{self.prefix}c:{key}"

    def activity(self, agent: str, conversation: str) -> str:
        return f"{self.prefix}a:{_digest(agent, conversation)}"


def _digest(*parts: str) -> str:
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()
