"""Moving a project from one store to another, while others read it and write to it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from recollect.engine.copying import EVERYONE, Copying, Round, Told
from recollect.engine.core import Engine
from recollect.engine.embed import queue_embedding
from recollect.engine.hold import Hold
from recollect.engine.housing import checked_mode, movable
from recollect.model.errors import Conflict, Refused, ScopeNotFound, StoreBusy
from recollect.model.link import Link
from recollect.model.memory import ANY_STATUS
from recollect.model.query import Filter
from recollect.model.scope import Scope
from recollect.ports.houses import Place, Places
from recollect.ports.store import Store

MOST_ROUNDS = 4  # while others write; then they wait
FEW = 100  # changes that may be left for then
MOST_LAST_ROUNDS = 6


@dataclass(frozen=True, slots=True)
class Migrated:
    """What a move did, and how it was verified: the same counts and the same sum of hashes on both sides."""

    project: str
    source: str
    target: str
    moved: bool
    memories: int = 0
    versions: int = 0
    links: int = 0
    vectors: int = 0
    content_sum: str = ""
    rounds: int = 0
    copied: int = 0
    outside: tuple[Link, ...] = ()  # not moved: they lead out of the project
    kept_in: tuple[str, ...] = ()
    dropped: int = 0
    embedding: bool = False  # vectors that did not travel are being made by a job


async def migrate(
    engine: Engine,
    name: str,
    to: str,
    *,
    drop_source: bool = False,
    told: Told = lambda _step, _done, _total: None,
) -> Migrated:
    """Goes on where an earlier one was broken off. What was left behind is kept, hidden, until `drop_source`.

    Raises InvalidInput, ScopeNotFound, Refused, Conflict, SettingsError, StoreBusy, and the stores' errors.
    """
    mode = checked_mode(engine, to)
    scope = await movable(engine, name)
    target = await engine.houses.house(mode)
    place = await _place(engine, scope.name)
    done = Migrated(scope.name, source=place.mode, target=mode, moved=False)
    if place.mode != mode:
        done = await _moved(engine, scope, place, target=target, mode=mode, told=told)
    if drop_source:
        done = replace(done, dropped=await drop_copies(engine, scope.name, told=told))
    return replace(done, kept_in=(await _place(engine, scope.name)).copies)


async def _moved(
    engine: Engine, scope: Scope, place: Place, *, target: Store, mode: str, told: Told
) -> Migrated:
    name = scope.name
    source = await engine.houses.house(place.mode)
    if mode != engine.houses.home and mode not in place.copies:
        await _refuse_strangers(target, name, mode)
    hold = Hold(engine, name, mode)
    await hold.take()
    try:
        if mode != engine.houses.home:
            await target.put_scope(replace(scope, parent=None))
        copying = Copying(engine, name, source=source, target=target, between=hold.keep, told=told)
        rounds = [await copying.round("copy")]
        while rounds[-1].changes > FEW and len(rounds) < MOST_ROUNDS:
            rounds.append(await copying.round(f"compare {len(rounds)}"))
        await hold.freeze()
        await _last_round(copying, rounds)
        await hold.flip()
    finally:
        await hold.let_go()
    embedding = await _queue_missing(engine)
    last = rounds[-1]
    return Migrated(
        project=name,
        source=place.mode,
        target=mode,
        moved=True,
        memories=last.target.memories,
        versions=last.target.versions,
        links=last.target.links,
        vectors=last.target.vectors,
        content_sum=last.target.hashes.hexdigest(),
        rounds=len(rounds),
        copied=sum(one.copied for one in rounds),
        outside=tuple(last.outside[edge] for edge in sorted(last.outside)),
        embedding=embedding,
    )


async def _last_round(copying: Copying, rounds: list[Round]) -> None:
    """While writers wait: whatever was acknowledged is seen by it. Raises StoreBusy."""
    for _ in range(MOST_LAST_ROUNDS):
        rounds.append(await copying.round("verify", last=True))
        if rounds[-1].verified:
            return
    raise StoreBusy(
        "The project doesn't come to rest: somebody goes on writing past the registry.",
        advice="Stop what writes to it, then migrate again.",
    )


async def drop_copies(engine: Engine, name: str, *, told: Told) -> int:
    """Erase the hidden copies of a project; how many memories that were. Raises Conflict while it is being moved."""
    place = await _place(engine, name)
    if place.move is not None and place.move.until > engine.clock():
        raise Conflict(f"The project {name!r} is being moved.", advice="Wait until that is done.")
    everything = Filter(viewer=EVERYONE, scopes=(name,), statuses=ANY_STATUS)
    dropped = 0
    for mode in place.copies:
        store = await engine.houses.house(mode)
        total = await store.count(everything)
        async for batch in store.scan(everything):
            dropped += len((await store.erase([memory.id for memory in batch], references=False)).ids)
            told(f"drop from {mode}", dropped, max(total, dropped))
        if mode != engine.houses.home:
            with suppress(ScopeNotFound, Conflict):  # the home store has every scope
                await store.drop_scope(name)
        await engine.houses.settle(partial(_without_copy, name=name, mode=mode))
    return dropped


def _without_copy(places: Places, *, name: str, mode: str) -> Places:
    place = places.get(name)
    if place is None or place.mode == mode:
        return places
    return {**places, name: replace(place, copies=tuple(one for one in place.copies if one != mode))}


async def _place(engine: Engine, name: str) -> Place:
    return (await engine.houses.places(fresh=True)).get(name, Place(engine.houses.home))


async def _refuse_strangers(target: Store, name: str, mode: str) -> None:
    """A project of that name that isn't ours would be overwritten."""
    there = await target.count(Filter(viewer=EVERYONE, scopes=(name,), statuses=ANY_STATUS))
    if there:
        raise Refused(
            f"The store {mode} has {there} memories of another project {name!r}.",
            advice=f"Rename this one first: `recollect scopes rename {name!r} NEW`.",
        )


async def _queue_missing(engine: Engine) -> bool:
    """Whether there are vectors to be made, which a job does."""
    model = engine.meaning.model
    if model is None or not await engine.store.unembedded(model, limit=1):
        return False
    await queue_embedding(engine)
    return True
