"""Moves a project to another store while others read and write it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from pydantic import Field

from mindhold.access.keys import follow_scope
from mindhold.engine import Engine
from mindhold.memories.embedding import queue_embedding
from mindhold.memories.views import Notice
from mindhold.model.errors import Conflict, InvalidInput, MindholdError, Refused, ScopeNotFound, StoreBusy
from mindhold.model.memory import ANY_STATUS
from mindhold.model.query import Filter
from mindhold.model.scope import EVERYONE, GLOBAL, Scope, StorageMode
from mindhold.operations import Context, Input, Output, operation
from mindhold.ports.backend import Placement
from mindhold.projects.copy import CopyProgress, CopyRound, ProjectCopy, ProjectLease
from mindhold.projects.placement import open_project
from mindhold.projects.scopes import PATHS
from mindhold.projects.storage import (
    COPY,
    LIVES,
    copy_store,
    leave,
    other_tenants,
    placement_of,
    register_tenant,
    unregister_tenant,
)

MOST_ROUNDS = 4  # rounds while others write; then writers wait
FEW = 100  # with at most so many changes left, writers may be stopped
MOST_LAST_ROUNDS = 6
MOST_SHOWN = 20  # links that an answer names


async def _move(
    engine: Engine, scope: Scope, place: Placement, *, mode: str, progress: CopyProgress
) -> list[CopyRound]:
    """Move the project; returns the rounds of copying that it took."""
    name = scope.name
    target, source = await engine.store_registry.house(mode), await engine.store_registry.house(place.mode)
    if mode != engine.store_registry.home and mode not in place.copies:
        await _refuse_strangers(engine, name, mode=mode)
    await _refuse_lost(engine, name, place, mode=mode)
    hold = ProjectLease(engine, name, mode)
    await hold.take()
    await _note_begun(engine, hold, name, place=place, mode=mode)
    unregistered = False
    try:
        if mode != engine.store_registry.home:
            await target.put_scope(replace(scope, parent=None))
        copying = ProjectCopy(engine, name, source, target, between=hold.keep, progress=progress)
        rounds = [await copying.round("copy")]
        while rounds[-1].changes > FEW and len(rounds) < MOST_ROUNDS:
            rounds.append(await copying.round(f"compare {len(rounds)}"))
        await hold.freeze()
        await unregister_tenant(
            engine, name, mode=place.mode, state=COPY, what="moved"
        )  # from now on no other home can join it there
        unregistered = True
        await _last_round(copying, rounds)
        await hold.flip()
        await register_tenant(engine, name, mode=mode)
        unregistered = False
    finally:
        await hold.let_go()
        if unregistered and (await placement_of(engine, name)).mode == place.mode:
            await register_tenant(engine, name, mode=place.mode)
    return rounds


async def _note_begun(engine: Engine, hold: ProjectLease, name: str, *, place: Placement, mode: str) -> None:
    """Register the move in both stores. Raises Refused if other homes use the project; then nothing has started."""
    try:
        await unregister_tenant(engine, name, mode=place.mode, state=LIVES, what="moved")
        await register_tenant(engine, name, mode=mode, state=COPY, alone=True)
    except MindholdError:
        if mode not in place.copies:
            await hold.forget(mode)
        await hold.let_go()
        raise


async def _last_round(copying: ProjectCopy, rounds: list[CopyRound]) -> None:
    """Copy while writers wait, so that it sees every acknowledged write. Raises StoreBusy."""
    for _ in range(MOST_LAST_ROUNDS):
        rounds.append(await copying.round("verify", last=True))
        if rounds[-1].verified:
            return
    raise StoreBusy(
        "The project doesn't come to rest: somebody goes on writing past the registry.",
        advice="Stop what writes to it, then migrate again.",
    )


async def _drop_copies(engine: Engine, name: str, *, progress: CopyProgress) -> tuple[int, int]:
    """Erase those memories of hidden copies that the project has; return how many were erased and how many spared.

    Raises Conflict while another process moves it, Refused if another home uses the copy.
    """
    place = await placement_of(engine, name)
    if not place.copies:
        return 0, 0
    hold = ProjectLease(engine, name, place.mode)
    await hold.take()
    dropped = spared = 0
    try:
        async with hold.kept():
            for mode in (await placement_of(engine, name)).copies:
                erased, remaining = await _drop_copy(engine, name, hold, mode=mode, progress=progress)
                dropped, spared = dropped + erased, spared + remaining
    finally:
        await hold.let_go()
    return dropped, spared


async def _drop_copy(
    engine: Engine, name: str, hold: ProjectLease, *, mode: str, progress: CopyProgress
) -> tuple[int, int]:
    store = await copy_store(engine, name, mode=mode)
    live = await engine.store_registry.house((await placement_of(engine, name)).mode)
    await unregister_tenant(engine, name, mode=mode, state=COPY, what="dropped")
    everything = Filter(viewer=EVERYONE, scopes=(name,), statuses=ANY_STATUS)
    total = await store.count(everything)
    dropped = spared = 0
    async for batch in store.scan(everything):
        present = await live.get_many([memory.id for memory in batch], viewer=EVERYONE)
        doubles = [each.id for each in batch if each.id in present and present[each.id].scope == name]
        spared += len(batch) - len(doubles)
        await hold.check_copy(mode)
        if doubles:
            dropped += len((await store.erase(doubles, references=False)).ids)
        progress(f"drop from {mode}", dropped, max(total, dropped))
    if spared:
        return dropped, spared
    if mode != engine.store_registry.home:
        with suppress(ScopeNotFound, Conflict):  # the home store keeps every scope
            await store.drop_scope(name)
    await hold.forget(mode)
    await unregister_tenant(engine, name, mode=mode, state=None, what="dropped")
    return dropped, spared


async def _forget_copy(engine: Engine, name: str, place: Placement, *, mode: str) -> None:
    if mode == place.mode:
        await _leave(engine, name, place)
        return
    if mode not in place.copies:
        raise InvalidInput(
            f"No copy of {name!r} is known to be in {mode}.", advice="`mindhold projects show` tells."
        )
    if mode == engine.store_registry.home:
        raise Refused("The home store is never gone.", advice="`--drop-source` erases the copy there.")
    hold = ProjectLease(engine, name, place.mode)
    await hold.take()
    try:
        await hold.forget(mode)
    finally:
        await hold.let_go()


async def _leave(engine: Engine, name: str, place: Placement) -> None:
    """Leave the project to the other homes that use it; its memories stay there."""
    if place.copies or place.mode == engine.store_registry.home:
        raise Refused(
            f"{name!r} lives in {place.mode}, and is no copy.",
            advice="Drop its copies first: `--drop-source`." if place.copies else "",
        )
    if not await other_tenants(engine, name, mode=place.mode):
        raise Refused(
            f"{name!r} lives in {place.mode}, and nobody else uses it.",
            advice="Move it first (`--to`), or delete it: `mindhold scopes delete`.",
        )
    await (await engine.store_registry.house(engine.store_registry.home)).drop_scope(name)
    await follow_scope(engine, name, None)
    await engine.store.drop_entry(PATHS, name)
    await leave(engine, name, mode=place.mode)
    await engine.store_registry.settle(
        lambda places: {other: other_place for other, other_place in places.items() if other != name}
    )


async def _refuse_lost(engine: Engine, name: str, place: Placement, *, mode: str) -> None:
    """Refuse if the source lacks the project, for example after a change of settings: the copy must survive."""
    source, target = await engine.store_registry.house(place.mode), await engine.store_registry.house(mode)
    everything = Filter(viewer=EVERYONE, scopes=(name,), statuses=ANY_STATUS)
    if name not in {scope.name for scope in await source.scopes()}:
        raise Refused(
            f"There is no project {name!r} in {place.mode} ({(await source.facts()).location}).",
            advice=f"It lived there: look whether `{place.mode}.*` in the settings names the right database.",
        )
    copy_count = await target.count(everything)
    if copy_count and not await source.count(everything):
        raise Refused(
            f"{name!r} has no memories in {place.mode} ({(await source.facts()).location}), "
            f"but the copy in {mode} has {copy_count}, which would be erased.",
            advice=f"Look whether `{place.mode}.*` in the settings names the right database. "
            "If all of it is to go, delete the project: `mindhold scopes delete`.",
        )


async def _refuse_strangers(engine: Engine, name: str, *, mode: str) -> None:
    """Refuse if the target has another project of that name, which would be overwritten."""
    target = await engine.store_registry.house(mode)
    count = await target.count(Filter(viewer=EVERYONE, scopes=(name,), statuses=ANY_STATUS))
    others = name in {scope.name for scope in await target.scopes()} and await other_tenants(
        engine, name, mode=mode
    )
    if count or others:
        raise Refused(
            f"The store {mode} has {count} memories of another project {name!r}.",
            advice=f"Rename this one first: `mindhold scopes rename {name!r} NEW`.",
        )


async def _queue_missing(engine: Engine) -> bool:
    """Queue the job that makes missing vectors; return whether there are any."""
    model = engine.vector_source.model
    if model is None or not await engine.store.unembedded(model, limit=1):
        return False
    await queue_embedding(engine)
    return True


class MigrateProjectInput(Input):
    """Which project goes where, and whether what it leaves behind is erased. Without `to` it stays.

    `forget_copy` says that the store with a copy is gone for good; of the store that the project lives in, that this
    home leaves it to the others that use it.
    """

    project: str = Field(description="The project's id, which is its name.", examples=["shop"])
    to: StorageMode | None = Field(default=None, description="The store to move to.", examples=["postgres"])
    drop_source: bool = Field(default=False, description="Delete the source copy once the move is verified.")
    forget_copy: StorageMode | None = Field(
        default=None, description="Only delete the hidden copy in this store; move nothing."
    )


class MigrateProjectResult(Output):
    """What was moved. Counts and the sum of content hashes were the same in both stores at the end."""

    project: str = Field(description="The project's name.", examples=["shop"])
    source: str = Field(description="The store that it was moved from.", examples=["local"])
    target: str = Field(description="The store that it was moved to.", examples=["postgres"])
    moved: bool = Field(examples=[True])  # False when it was there already
    memories: int = Field(description="Number of memories.", examples=[1523])
    versions: int = Field(description="Number of versions.", examples=[44])
    links: int = Field(description="Number of links.", examples=[310])
    vectors: int = Field(examples=[1523])
    content_sum: str = Field(examples=["f539effe897eb305"])
    copied: int = Field(examples=[1523])
    rounds: int = Field(examples=[2])
    outside_links: int = Field(examples=[0])  # to memories outside the project: not moved
    outside: list[str] = []  # the first of them
    kept_in: list[str] = Field(default=[], examples=[["local"]])  # where hidden copies are
    dropped: int = 0
    spared: int = 0  # in copies that were to be dropped: memories that the project doesn't have
    notice: Notice = ""


async def _migrate(context: Context, request: MigrateProjectInput) -> MigrateProjectResult:
    """Move a project to another store, verified.

    An interrupted migration is continued; the source is hidden until `drop_source`. Raises InvalidInput, ScopeNotFound,
    Refused, Conflict, SettingsError, StoreBusy, and the stores' errors.
    """
    engine, to, forget_copy = context.engine, request.to, request.forget_copy
    if to is None and not request.drop_source and forget_copy is None:
        raise InvalidInput("Where is it to go?", advice="`--to` names the store.")
    scope = await open_project(engine, request.project)
    if scope.name == GLOBAL:
        raise Refused("Global lives in the home store, always.", advice="`store.mode` says which that is.")
    place = await placement_of(engine, scope.name)
    mode = to or place.mode
    rounds: list[CopyRound] = []
    embedding, dropped, spared = False, 0, 0
    copies: tuple[str, ...] = ()
    if forget_copy is not None:
        await _forget_copy(engine, scope.name, place, mode=forget_copy)
    if forget_copy != place.mode:
        if to == place.mode:
            await register_tenant(engine, scope.name, mode=mode)  # our registration may have been lost
        elif mode != place.mode:
            rounds = await _move(engine, scope, place, mode=mode, progress=context.progress)
            embedding = await _queue_missing(engine)
        if request.drop_source:
            dropped, spared = await _drop_copies(engine, scope.name, progress=context.progress)
        copies = (await placement_of(engine, scope.name)).copies
    last = rounds[-1] if rounds else CopyRound()
    links = [last.outside[edge] for edge in sorted(last.outside)]
    return MigrateProjectResult(
        project=scope.name,
        source=place.mode,
        target=mode,
        moved=bool(rounds),
        memories=last.target.memories,
        versions=last.target.versions,
        links=last.target.links,
        vectors=last.target.vectors,
        content_sum=last.target.hashes.hexdigest() if rounds else "",
        copied=sum(copy_round.copied for copy_round in rounds),
        rounds=len(rounds),
        outside_links=len(links),
        outside=[f"{link.origin} {link.relation} {link.target}" for link in links[:MOST_SHOWN]],
        kept_in=list(copies),
        dropped=dropped,
        spared=spared,
        notice=_notice(scope.name, spared=spared, embedding=embedding),
    )


MIGRATE_PROJECT = operation("migrate_project", _migrate, destroys=True, owner_only=True)


def _notice(name: str, *, spared: int, embedding: bool) -> str:
    if spared:
        return (
            f"{spared} memories in the copy are not in the project, and were spared: somebody wrote them there. "
            f"`mindhold migrate {name!r} --forget-copy MODE` leaves them to whoever it was."
        )
    return "Vectors that did not travel are made by a job: `mindhold jobs run`." if embedding else ""
