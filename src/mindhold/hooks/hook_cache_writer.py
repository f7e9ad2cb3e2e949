"""Writes hook caches. Only processes that make one load this module: it needs what is too slow for a hook."""

from __future__ import annotations

import os
from json import JSONEncoder

from mindhold.hooks.files import hooks_path, make_hooks_folder, names_in, read_contents, remove, write_whole
from mindhold.hooks.hook_cache import (
    CACHE_FOLDER,
    CACHE_SUFFIX,
    LONGEST_ERROR,
    LONGEST_HEAD,
    LONGEST_START,
    LONGEST_TEXT,
    MOST_MEMORIES,
    VERSION,
    cache_path,
    checked_head,
)
from mindhold.model.lexemes import lexemes, stop_lexemes
from mindhold.model.prompt_markup import neutralize

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any


encode_json = JSONEncoder(
    separators=(",", ":")
).encode  # as mindhold.hooks.fast_json has it, and quicker for much


def cache_lines(leaflet: dict[str, Any]) -> list[str]:
    """Its lines, none with a line break in it."""
    memories = leaflet.get("memories", [])[:MOST_MEMORIES]
    errors = leaflet.get("errors", [])[:MOST_MEMORIES]
    places: dict[str, list[int]] = {}
    texts = []
    for number, memory in enumerate(memories):
        words = content_words(memory["text"])
        for word in words:
            places.setdefault(word, []).append(number)
        texts.append(encode_json({**memory, "text": one_line(memory["text"]), "telling": len(words)}))
    head = {name: value for name, value in leaflet.items() if name not in ("memories", "errors", "sizes")}
    head |= {
        "version": VERSION,
        "start": neutralize(leaflet.get("start", ""))[:LONGEST_START],
        "sizes": {"words": len(places), "memories": len(memories), "errors": len(errors)},
    }
    if "later" in head:
        head["later"] = {**head["later"], "start": neutralize(head["later"]["start"])[:LONGEST_START]}
    return [
        encode_json(head),
        *sorted(encode_json([word, numbers]) for word, numbers in places.items()),
        *texts,
        *(encode_json({**error, "text": one_line(error["text"], LONGEST_ERROR)}) for error in errors),
    ]


def content_words(text: str) -> list[str]:
    """What the text is found by, each once."""
    passed_over = stop_lexemes()
    return [word for word in dict.fromkeys(lexemes(text)) if word not in passed_over]


def one_line(text: str, longest: int = LONGEST_TEXT) -> str:
    """Unable to end the line, or the quotation, that it stands in."""
    flat = " ".join(neutralize(text).split())
    return flat if len(flat) <= longest else flat[: longest - 1].rstrip() + "…"


_TOLD = ("start", "until", "later")


def write_cache(home: str, key: str, leaflet: dict[str, Any]) -> None:
    """Puts it in the place of the one before. Texts are cut, put on one line and made neutral. Raises OSError.

    A memory is found by all words of its text, also by those that are cut.
    """
    lines_of = cache_lines

    make_hooks_folder(home, CACHE_FOLDER)
    write_whole(cache_path(home, key), "\n".join([*lines_of(leaflet), ""]).encode("ascii"))


def all_cache_heads(home: str) -> list[tuple[str, dict[str, Any]]]:
    """The heads of all that there are, by their keys."""
    found = []
    inside = hooks_path(home, CACHE_FOLDER)
    for name in names_in(inside, CACHE_SUFFIX):
        try:
            head = checked_head(read_contents(os.path.join(inside, name), LONGEST_HEAD).partition(b"\n")[0])
        except (OSError, ValueError, KeyError, TypeError):
            continue
        found.append((name.removesuffix(CACHE_SUFFIX), head))
    return found


def blank_caches(home: str) -> int:
    """Takes everything off them, to be made anew; how many there were. Raises OSError.

    One that can't be written is removed, which needs no room; so is what is none, and what a killed writer left.
    """
    heads = dict(all_cache_heads(home))
    inside = hooks_path(home, CACHE_FOLDER)
    for name in names_in(inside, ""):
        if name.removesuffix(CACHE_SUFFIX) not in heads:
            remove(os.path.join(inside, name))
    for name, head in heads.items():
        kept = {one: value for one, value in head.items() if one not in _TOLD}
        try:
            write_cache(home, name, {**kept, "print": "", "start_ids": []})
        except OSError:
            remove_cache(home, name)
    return len(heads)


def remove_cache(home: str, name: str) -> None:
    """It is no more. Raises OSError."""
    try:
        os.unlink(cache_path(home, name))
    except FileNotFoundError:
        return
