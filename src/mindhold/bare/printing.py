"""How a leaflet is laid out. Only processes that make one load this: it needs what is too slow for a hook."""

from __future__ import annotations

from json import JSONEncoder

from mindhold.bare.leaflet import LONGEST_ERROR, LONGEST_START, LONGEST_TEXT, MOST_MEMORIES, VERSION
from mindhold.model.lexemes import lexemes, stop_lexemes
from mindhold.model.neutral import neutral

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

written = JSONEncoder(separators=(",", ":")).encode  # as mindhold.bare.notation has it, and quicker for much


def lines_of(leaflet: dict[str, Any]) -> list[str]:
    """Its lines, none with a line break in it."""
    memories = leaflet.get("memories", [])[:MOST_MEMORIES]
    errors = leaflet.get("errors", [])[:MOST_MEMORIES]
    places: dict[str, list[int]] = {}
    texts = []
    for number, memory in enumerate(memories):
        words = content_words(memory["text"])
        for word in words:
            places.setdefault(word, []).append(number)
        texts.append(written({**memory, "text": one_line(memory["text"]), "telling": len(words)}))
    head = {name: value for name, value in leaflet.items() if name not in ("memories", "errors", "sizes")}
    head |= {
        "version": VERSION,
        "start": neutral(leaflet.get("start", ""))[:LONGEST_START],
        "sizes": {"words": len(places), "memories": len(memories), "errors": len(errors)},
    }
    if "later" in head:
        head["later"] = {**head["later"], "start": neutral(head["later"]["start"])[:LONGEST_START]}
    return [
        written(head),
        *sorted(written([word, numbers]) for word, numbers in places.items()),
        *texts,
        *(written({**error, "text": one_line(error["text"], LONGEST_ERROR)}) for error in errors),
    ]


def content_words(text: str) -> list[str]:
    """What the text is found by, each once."""
    passed_over = stop_lexemes()
    return [word for word in dict.fromkeys(lexemes(text)) if word not in passed_over]


def one_line(text: str, longest: int = LONGEST_TEXT) -> str:
    """Unable to end the line, or the quotation, that it stands in."""
    flat = " ".join(neutral(text).split())
    return flat if len(flat) <= longest else flat[: longest - 1].rstrip() + "…"
