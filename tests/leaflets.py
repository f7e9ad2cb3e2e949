"""A whole leaflet, as it was written. Hooks read no more of one than they need."""

from __future__ import annotations

from typing import Any

from mindhold.hooks.hook_cache import read_cache


def read(home: str, identity: str, agent: str = "") -> dict[str, Any] | None:
    """The one that a hook would read; with the words that each memory is found by."""
    leaflet = read_cache(home, identity, agent)
    if leaflet is None:
        return None
    words: dict[int, list[str]] = {}
    for place in range(1, 1 + leaflet.words):
        word, numbers, *_ = leaflet._line(place)
        for number in numbers:
            words.setdefault(number, []).append(word)
    memories = [
        {name: value for name, value in leaflet.memory(number).items() if name != "telling"}
        | {"words": words.get(number, [])}
        for number in range(leaflet.memories)
    ]
    head = {name: value for name, value in leaflet.head.items() if name != "sizes"}
    return {**head, "memories": memories, "errors": list(leaflet.solved())}
