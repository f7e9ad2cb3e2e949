"""Writes hook caches. Only processes that write one load this module: its imports are too slow for a hook."""

from __future__ import annotations

import os
from json import JSONEncoder

from mindhold.hooks.files import hooks_path, list_names, make_hooks_folder, read_contents, remove, write_whole
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
    parse_head,
)
from mindhold.model.lexemes import lexemes, stop_lexemes
from mindhold.model.prompt_markup import neutralize

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any


encode_json = JSONEncoder(separators=(",", ":")).encode  # same form as fast_json, faster for large values


def cache_lines(content: dict[str, Any]) -> list[str]:
    """The lines of a cache file, without line breaks inside."""
    memories = content.get("memories", [])[:MOST_MEMORIES]
    errors = content.get("errors", [])[:MOST_MEMORIES]
    numbers_by_word: dict[str, list[int]] = {}
    related_by_word: dict[str, list[tuple[int, float]]] = {}
    texts = []
    stop_words = stop_lexemes()
    for number, memory in enumerate(memories):
        words = [word for word in dict.fromkeys(lexemes(memory["text"])) if word not in stop_words]
        for word in words:
            numbers_by_word.setdefault(word, []).append(number)
        for word, weight in memory.get("related", {}).items():
            related_by_word.setdefault(word, []).append((number, weight))
        shown = {name: value for name, value in memory.items() if name != "related"}
        texts.append(encode_json({**shown, "text": one_line(memory["text"]), "telling": len(words)}))
    postings = {
        word: [word, numbers_by_word.get(word, [])] for word in {**numbers_by_word, **related_by_word}
    }
    for word, related in related_by_word.items():
        postings[word].append(related)
    head = {name: value for name, value in content.items() if name not in ("memories", "errors", "sizes")}
    head |= {
        "version": VERSION,
        "start": neutralize(content.get("start", ""))[:LONGEST_START],
        "sizes": {"words": len(postings), "memories": len(memories), "errors": len(errors)},
    }
    if "later" in head:
        head["later"] = {**head["later"], "start": neutralize(head["later"]["start"])[:LONGEST_START]}
    return [
        encode_json(head),
        *sorted(map(encode_json, postings.values())),
        *texts,
        *(encode_json({**error, "text": one_line(error["text"], LONGEST_ERROR)}) for error in errors),
    ]


def one_line(text: str, longest: int = LONGEST_TEXT) -> str:
    """The text on one line, neutralised and shortened."""
    flat = " ".join(neutralize(text).split())
    return flat if len(flat) <= longest else flat[: longest - 1].rstrip() + "…"


_SHOWN_FIELDS = ("start", "until", "later")


def write_cache(home: str, key: str, content: dict[str, Any]) -> None:
    """Write a cache in place of the previous one; texts are shortened, flattened and neutralised. Raises OSError.

    All words of a text find its memory, also those that are cut off.
    """
    make_hooks_folder(home, CACHE_FOLDER)
    write_whole(cache_path(home, key), "\n".join([*cache_lines(content), ""]).encode("ascii"))


def all_cache_heads(home: str) -> dict[str, dict[str, Any]]:
    """The heads of all caches, by their keys."""
    heads = {}
    folder = hooks_path(home, CACHE_FOLDER)
    for name in list_names(folder, CACHE_SUFFIX):
        try:
            head = parse_head(read_contents(os.path.join(folder, name), LONGEST_HEAD).partition(b"\n")[0])
        except (OSError, ValueError, KeyError, TypeError):
            continue
        heads[name.removesuffix(CACHE_SUFFIX)] = head
    return heads


def blank_caches(home: str) -> int:
    """Remove the contents of all caches, to be written anew, and return their number. Raises OSError.

    A cache that can't be written is removed, which needs no space; so are broken ones and leftovers of killed writers.
    """
    heads = all_cache_heads(home)
    folder = hooks_path(home, CACHE_FOLDER)
    for name in list_names(folder, ""):
        if name.removesuffix(CACHE_SUFFIX) not in heads:
            remove(os.path.join(folder, name))
    for name, head in heads.items():
        remaining = {field: value for field, value in head.items() if field not in _SHOWN_FIELDS}
        try:
            write_cache(home, name, {**remaining, "print": "", "start_ids": []})
        except OSError:
            remove_cache(home, name)
    return len(heads)


def remove_cache(home: str, name: str) -> None:
    """Remove a cache if it exists. Raises OSError."""
    try:
        os.unlink(cache_path(home, name))
    except FileNotFoundError:
        return
