"""Scopes: create, change, nest, rename, report, and delete with an export first."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from unicodedata import normalize

from mindhold.engine import Engine
from mindhold.memories.prepare import checked_description, checked_labels, checked_scope, checked_scope_name
from mindhold.model.errors import Conflict, Refused, ScopeNotFound
from mindhold.model.memory import ANY_STATUS, Memory
from mindhold.model.query import Filter
from mindhold.model.scope import GLOBAL, Scope, lineage
from mindhold.ports.backend import MoverWatch
from mindhold.ports.store import Receipt
from mindhold.projects.storage import refuse_shared, rename_tenant_scope
from mindhold.text.keywords import is_word_character


async def visible_scopes(engine: Engine, name: str | None) -> tuple[str, ...]:
    """Return the scopes that a call in `name` sees, that one first, ignoring case. Raises ScopeNotFound."""
    scopes = await engine.store.scopes()
    own_name = _called(name or engine.settings.scope, scopes).name
    active = {scope.name for scope in scopes if scope.active}
    return tuple(name for name in lineage(own_name, scopes) if name in active or name == own_name)


async def active_scopes(engine: Engine, among: Sequence[str] = ()) -> tuple[str, ...]:
    """Return all scopes, or those of `among`, that aren't switched off; empty means all.

    Scopes that are switched off are found only by name.
    """
    scopes = await engine.store.scopes()
    off = {scope.name for scope in scopes if not scope.active}
    if not off:
        return tuple(among)
    return tuple(name for name in among or [scope.name for scope in scopes] if name not in off)


async def find_scope(engine: Engine, name: str) -> Scope:
    """Return the scope of exactly that name. Raises ScopeNotFound."""
    for scope in await engine.store.scopes():
        if scope.name == name:
            return scope
    raise ScopeNotFound(name)


async def scope_name(engine: Engine, name: str) -> str:
    """Return the scope's name as it is stored, ignoring case. Raises ScopeNotFound."""
    return _called(name, await engine.store.scopes()).name


def _called(name: str, scopes: Sequence[Scope]) -> Scope:
    """Return the scope of that name, or else one whose name differs in case alone."""
    scope = scope_called(name, scopes)
    if scope is None:
        raise ScopeNotFound(name)
    return scope


def scope_called(name: str, scopes: Sequence[Scope]) -> Scope | None:
    """Return the scope of that name, or else one whose name differs in case alone."""
    alike = [scope for scope in scopes if scope.name.casefold() == name.casefold()]
    return next((scope for scope in alike if scope.name == name), alike[0] if alike else None)


MOST_NAMED = 5  # scopes that an ambiguous answer names
READ = 20_000  # characters that are read of a text to find its scope
# Chinese, Japanese, Korean and other scripts without spaces between words: there, words have no boundaries.
_EDGELESS = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3040-\u318f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff]"
)


@dataclass(frozen=True, slots=True)
class ScopeChoice:
    """The chosen scope and why; without a reason if it is simply the scope of the call."""

    scope: str
    reason: str = ""


def choose_scope(text: str, tags: Sequence[str], *, scopes: Sequence[Scope], active: str) -> ScopeChoice:
    """Choose the scope of a text that came without one; never one that is switched off.

    An active scope other than Global wins. Of nested scopes that the text mentions the innermost is chosen; if it mentions
    several others, none of them.
    """
    if active != GLOBAL:
        return ScopeChoice(active, "the active scope")
    spoken = _Spoken(text, tags)
    mentions = {
        scope.name: word
        for scope in scopes
        if scope.active and scope.name != GLOBAL and (word := spoken.word_of(scope))
    }
    innermost = [name for name in mentions if all(other in lineage(name, scopes) for other in mentions)]
    if len(innermost) == 1:
        [name] = innermost
        return ScopeChoice(name, f"it speaks of {mentions[name]!r}")
    if mentions:
        several = ", ".join(sorted(mentions)[:MOST_NAMED])
        return ScopeChoice(active, f"it speaks of several scopes: {several}")
    return ScopeChoice(active)


class _Spoken:
    """A text and its tags, normalised for the search for names."""

    def __init__(self, text: str, tags: Iterable[str]) -> None:
        self._folded = _folded(text[:READ])
        self._words = f" {' '.join(_words(self._folded))} "
        self._tags = {_joined(tag) for tag in tags}

    def word_of(self, scope: Scope) -> str:
        """Return the name or keyword of the scope that the text mentions; empty if there is none."""
        return next((word for word in (scope.name, *scope.keywords) if self._says(word)), "")

    def _says(self, word: str) -> bool:
        folded = _folded(word)
        if _joined(word) in self._tags:
            return True
        if _EDGELESS.search(folded):
            return folded.strip() in self._folded
        words = " ".join(_words(folded))
        return bool(words) and f" {words} " in self._words


def _folded(text: str) -> str:
    return normalize("NFKC", text).casefold()


def _words(folded: str) -> list[str]:
    """Split into whole words; signs that follow a letter, as in C++ and C#, are part of the word."""
    characters: list[str] = []
    within = False
    for character in folded:
        within = is_word_character(character) or (within and character in "+#")
        characters.append(character if within else " ")
    return "".join(characters).split()


def _joined(label: str) -> str:
    """Normalise a tag: `project_alpha`, `Project Alpha` and `#ProjectAlpha` are the same."""
    return "".join(_words(_folded(label.lstrip("#＃"))))


LOT = 2_000  # memories that are erased at once
LONGEST_FILE = 40  # characters of a scope's name in a file name, which may have 255 bytes
PATHS = "projects"  # the namespace of the projects' folders
LOGS = "projects:log"  # the namespace of the projects' own choices whether hooks feed their log
CAPTURES = ("capture:state", "capture:condensed")  # the namespaces of a project's captures


@dataclass(frozen=True, slots=True)
class DroppedScope:
    """What became of a deleted scope's memories; `export` is the file that holds them."""

    name: str
    export: Path | None
    memories: int
    receipt: Receipt | None


async def create_scope(
    engine: Engine,
    name: str,
    *,
    description: str = "",
    kind: str = "general",
    parent: str | None = None,
    keywords: Sequence[str] = (),
) -> Scope:
    """Create a scope. Raises InvalidInput, Conflict if it exists, ScopeNotFound for the parent."""
    scope = checked_scope(
        engine,
        Scope(name, engine.clock(), description=description, kind=kind, keywords=tuple(keywords)),
    )
    await refuse_clash(engine, scope.name)
    if parent is not None:
        await find_scope(engine, parent)
        scope = replace(scope, parent=None if parent == GLOBAL else parent)
    await engine.store.put_scope(scope)
    return scope


async def change_scope(
    engine: Engine,
    name: str,
    *,
    description: str | None = None,
    parent: str | None = None,
    active: bool | None = None,
    keywords: Sequence[str] | None = None,
) -> Scope:
    """Change the description, parent (Global lifts it to the top), state or keywords of a scope.

    Raises InvalidInput, ScopeNotFound, Conflict for a cycle.
    """
    scope = await find_scope(engine, name)
    if name == GLOBAL and (parent is not None or active is False):
        raise Refused("Global is above every scope and always there.")
    if parent is not None:
        above = (await find_scope(engine, parent)).name
        if name in lineage(above, await engine.store.scopes()):
            raise Conflict(f"{name!r} is above {above!r} already.", advice="Choose another parent.")
        scope = replace(scope, parent=None if above == GLOBAL else above)
    scope = replace(
        scope,
        description=scope.description if description is None else checked_description(engine, description),
        active=scope.active if active is None else active,
        keywords=scope.keywords if keywords is None else checked_labels(engine, keywords, what="keyword"),
    )
    await engine.store.put_scope(scope)
    return scope


async def rename_scope(engine: Engine, old: str, new: str) -> Scope:
    """Rename a scope, with its memories, children and keys. Raises InvalidInput, ScopeNotFound, Conflict, Refused for Global."""
    if old == GLOBAL:
        raise Refused("Global can't be renamed.")
    from mindhold.access.keys import follow_scope  # imported late, as below: recall needs none of it
    from mindhold.capture.journal import follow_erased

    cleaned = checked_scope_name(engine, new)
    await refuse_clash(engine, cleaned, besides=old)
    await refuse_shared(engine, old, what="renamed")
    await engine.store.rename_scope(old, cleaned)
    await rename_tenant_scope(engine, old, cleaned)
    await follow_scope(engine, old, cleaned)
    await _follow_path(engine, old, cleaned)
    await follow_erased(engine, old, cleaned)
    return await find_scope(engine, cleaned)


async def delete_scope(
    engine: Engine, name: str, *, agent: str, export: Path | None = None, always: bool = False
) -> DroppedScope:
    """Export a scope's memories (with `always`, even if there are none), erase them, and delete the scope.

    It is removed from keys too. Raises ScopeNotFound, Conflict for one with children, Refused for one with memories that the
    agent doesn't see.
    """
    if name == GLOBAL:
        raise Refused("Global always exists.", advice="`mindhold forget` removes what is in it.")
    from mindhold.access.keys import follow_scope
    from mindhold.capture.extracted_items import CAPTURED
    from mindhold.capture.hook_cache_removal import erase_from_hook_caches
    from mindhold.capture.journal import note_erased
    from mindhold.memories.export import export_to

    await find_scope(engine, name)
    children = [scope.name for scope in await engine.store.scopes() if scope.parent == name]
    if children:
        raise Conflict(
            f"{name!r} still holds the scopes {', '.join(children)}.", advice="Delete or move them first."
        )
    await refuse_shared(engine, name, what="deleted")
    await _refuse_tied(engine, name)
    where = Filter(viewer=agent, scopes=(name,), statuses=ANY_STATUS)
    ids: list[str] = []
    captured: list[Memory] = []
    async for batch in engine.store.scan(where):
        ids += [memory.id for memory in batch]
        captured += [memory for memory in batch if memory.provenance.source == CAPTURED]
    if await engine.store.count(replace(where, viewer="system")) > len(ids):
        raise Refused(
            f"{name!r} holds memories of other agents, and you are {agent!r}.",
            advice="Delete it as system: `--agent system`.",
        )
    target = None
    if ids or always:
        target = export or _export_file(engine, name)
        await export_to(engine, target, where=where)
    if ids:
        await note_erased(engine, captured)
    receipt = await erase_from_hook_caches(engine, await _erased(engine, ids)) if ids else None
    await follow_scope(engine, name, None)
    await engine.store.drop_scope(name)
    await _follow_path(engine, name, None)
    return DroppedScope(name, target, len(ids), receipt)


async def _erased(engine: Engine, ids: Sequence[str]) -> Receipt:
    """Erase in batches, so that others may write in between."""
    removed, remaining = Counter[str](), Counter[str]()
    for start in range(0, len(ids), LOT):
        receipt = await engine.store.erase(ids[start : start + LOT])
        removed.update(receipt.removed)
        remaining.update(receipt.remaining)
    return Receipt(tuple(ids), removed, remaining)


def _export_file(engine: Engine, name: str) -> Path:
    """Return a new path, unique even for names that differ only in special characters."""
    safe = "".join(char if char.isalnum() else "-" for char in name)[:LONGEST_FILE]
    return engine.settings.export_dir / (
        f"scope-{safe}-{engine.clock():%Y%m%dT%H%M%SZ}-{engine.new_id()[-6:]}.jsonl"
    )


async def _refuse_tied(engine: Engine, name: str) -> None:
    """Refuse before anything is erased. Raises Conflict during a migration, and errors of a store that is away."""
    place = (await engine.store_registry.places(fresh=True)).get(name)
    if place is None:
        return
    if place.move is not None and not MoverWatch().gone(place.move, now=engine.clock()):
        raise Conflict(
            f"The project {name!r} is being moved to another store.", advice="Wait until that is done."
        )
    for mode in place.modes():
        await (await engine.store_registry.house(mode)).scopes()


async def _follow_path(engine: Engine, old: str, new: str | None) -> None:
    """Rename what is stored about a project's folder, log and captures; without a new name, remove it."""
    from mindhold.capture.journal import drop_pending_of

    for namespace in (PATHS, LOGS, *CAPTURES):
        entry = await engine.store.take_entry(namespace, old, now=engine.clock())
        if entry is not None and new is not None:
            await engine.store.put_entry(replace(entry, key=new))
    await drop_pending_of(engine, old)


async def refuse_clash(engine: Engine, name: str, *, besides: str | None = None) -> None:
    """Raise Conflict if a scope has that name, ignoring case."""
    for scope in await engine.store.scopes():
        if scope.name != besides and scope.name.casefold() == name.casefold():
            label = "project" if scope.kind == "project" else "scope"
            raise Conflict(
                f"The {label} {scope.name!r} exists already.", advice="Use it, or choose another name."
            )
