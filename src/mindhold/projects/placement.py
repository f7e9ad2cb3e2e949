"""Projects and their placement: open a project, create it in a chosen store, change, list and delete it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from mindhold.engine import Engine
from mindhold.hooks import project_identity
from mindhold.memories.prepare import checked_scope_name
from mindhold.model.errors import (
    Conflict,
    InvalidInput,
    MindholdError,
    NotFound,
    Refused,
    ScopeNotFound,
    SettingsError,
    StoreError,
)
from mindhold.model.job import Entry
from mindhold.model.query import Filter
from mindhold.model.scope import EVERYONE, GLOBAL, MODES, Scope, validate_scope_name
from mindhold.operations import Input
from mindhold.ports.backend import Placement, Placements
from mindhold.projects.scopes import (
    LOGS,
    PATHS,
    create_scope,
    refuse_clash,
    scope_called,
)
from mindhold.projects.storage import register_tenant

PROJECT = "project"
LOG = "log"  # the field of a project's own choice
ProjectId = Annotated[str, Field(description="The project's id, which is its name.", examples=["proj_123"])]
StorageBackend = Annotated[
    str,
    Field(
        description="Where the project's memory is stored: `local`, `mongodb` or `postgres`.",
        examples=["local"],
    ),
]


class ProjectInput(Input):
    """What an operation on a project is told first: which one."""

    project: str | None = Field(
        default=None, description="The project's id, which is its name.", examples=["proj_123"]
    )


async def open_project(
    engine: Engine, name: str | None, *, create: bool = False, writing: bool = False, kind: str = PROJECT
) -> Scope:
    """Return the project's scope, ignoring case; without a name, the engine's scope.

    Raises ScopeNotFound, InvalidInput for an invalid name, and Refused for `writing` or `create` if it is deactivated.
    """
    valid_name = validate_scope_name(engine.settings.scope if name is None else name)
    scope = scope_called(valid_name, await engine.store.scopes())
    if scope is None and create:
        try:
            return await create_scope(engine, valid_name, kind=kind)
        except Conflict:  # somebody else created it first
            scope = scope_called(valid_name, await engine.store.scopes())
    if scope is None:
        raise ScopeNotFound(valid_name)
    if (create or writing) and not scope.active:
        raise Refused(
            f"The scope {scope.name!r} is deactivated.",
            advice=f"`mindhold scopes activate {scope.name}` opens it again.",
        )
    return scope


MOST_PROJECTS = 10_000


@dataclass(frozen=True, slots=True)
class PlacedProject:
    """A scope and its store. `copies` are stores with hidden copies, `moving` is the store that it is moved to."""

    scope: Scope
    mode: str
    memories: int | None  # None if its store doesn't answer
    path: str | None = None
    identity: str | None = None
    copies: tuple[str, ...] = ()
    moving: str | None = None
    log: bool = False  # whether hooks feed its messages and its summary


async def create_project(
    engine: Engine,
    name: str,
    *,
    mode: str | None = None,
    path: str | None = None,
    description: str = "",
    log: bool | None = None,
) -> PlacedProject:
    """Create a project in a store, which only a migration changes later; an existing one of other homes is joined.

    `log` is its own choice whether hooks feed its messages and its summary; None leaves that to the settings.

    Raises InvalidInput, Conflict if the name or the path is taken, SettingsError, and the store's errors.
    """
    cleaned = checked_scope_name(engine, name)
    valid_mode = _checked_mode(mode or engine.store_registry.home)
    folder = None if path is None else await free_folder(engine, path)
    await refuse_clash(engine, cleaned)
    store = await engine.store_registry.house(valid_mode)  # this may take a while
    joined = None
    if valid_mode != engine.store_registry.home:
        joined = {scope.name: scope for scope in await store.scopes()}.get(cleaned)
        await register_tenant(engine, cleaned, mode=valid_mode)
    await _place_and_make(engine, cleaned, Placement(valid_mode), description=description, joined=joined)
    if folder is not None:
        await engine.store.put_entry(Entry(PATHS, cleaned, folder, engine.clock()))
    if log is not None:
        await choose_log(engine, cleaned, log)
    return await show_project(engine, cleaned, agent=EVERYONE)


async def choose_log(engine: Engine, name: str, log: bool) -> None:
    """Store a project's own choice whether hooks feed its messages and its summary."""
    await engine.store.put_entry(Entry(LOGS, name, {LOG: log}, engine.clock()))


async def is_logged(engine: Engine, name: str) -> bool:
    """Whether hooks feed the project's messages and its summary: its own choice, else the settings'. Never for Global."""
    entry = await engine.store.entry(LOGS, name, now=engine.clock())
    return name != GLOBAL and _log_choice(engine, entry.value if entry else {})


def _log_choice(engine: Engine, value: Mapping[str, Any]) -> bool:
    choice = value.get(LOG)
    return choice if isinstance(choice, bool) else engine.settings.capture.project_log


async def _place_and_make(
    engine: Engine, name: str, place: Placement, *, description: str, joined: Scope | None
) -> None:
    """Register the placement, then create the scope, so that nobody writes it elsewhere. Raises Conflict if it exists."""
    is_new: list[bool] = []

    def placed(places: Placements) -> Placements:
        if places.get(name, place) != place:
            raise Conflict(
                f"The project {name!r} is in {places[name].mode} already, or being made there.",
                advice="Use it, or choose another name.",
            )
        is_new[:] = [name not in places]
        return {**places, name: place}

    def unplaced(places: Placements) -> Placements:
        if places.get(name) != place:
            return places
        return {other: other_place for other, other_place in places.items() if other != name}

    await refuse_clash(engine, name)
    await engine.store_registry.settle(placed)
    try:
        await create_scope(
            engine,
            name,
            description=description or (joined.description if joined else ""),
            kind=PROJECT,
            keywords=joined.keywords if joined else (),
        )
    except MindholdError as error:
        if is_new[0] and not (isinstance(error, Conflict) and await _made_there(engine, name, place, joined)):
            await engine.store_registry.settle(unplaced)
        raise


async def _made_there(engine: Engine, name: str, place: Placement, joined: Scope | None) -> bool:
    """Whether another process created it meanwhile, after it was placed."""
    store = await engine.store_registry.house(place.mode)
    return joined is None and name in {scope.name for scope in await store.scopes()}


async def list_projects(engine: Engine, *, agent: str) -> list[PlacedProject]:
    """Return scopes of kind project, and all others that are in another store."""
    places = await engine.store_registry.places(fresh=True)
    projects = [
        scope for scope in await engine.store.scopes() if scope.kind == PROJECT or scope.name in places
    ]
    return await _projects(engine, projects, places, agent=agent)


async def show_project(engine: Engine, name: str, *, agent: str) -> PlacedProject:
    """Return one project. Raises ScopeNotFound."""
    scope = await open_project(engine, name)
    places = await engine.store_registry.places(fresh=True)
    return (await _projects(engine, [scope], places, agent=agent))[0]


async def mode_of(engine: Engine, scope: str) -> str:
    """Return the storage mode of a scope."""
    place = (await engine.store_registry.places()).get(scope)
    return engine.store_registry.home if place is None else place.mode


def _checked_mode(mode: str) -> str:
    if mode not in MODES:
        raise InvalidInput(f"There is no storage mode {mode!r}.", advice=f"Choose one of {', '.join(MODES)}.")
    return mode


def identity_of(path: str) -> str:
    """Return the git common directory, which worktrees share, or else the real path. Raises NotFound."""
    real = _real(path)
    if real is None:
        raise NotFound(f"There is no folder {path}.", advice="Give the project's folder.")
    return project_identity.project_identity(str(real))


def _real(path: str) -> Path | None:
    """Return the real folder; None if it doesn't exist or the name is invalid."""
    try:
        real = Path(path).expanduser().resolve()
        return real if real.is_dir() else None
    except (OSError, ValueError, RuntimeError):  # a name that is too long or has a NUL, or an unknown user
        return None


async def free_folder(engine: Engine, path: str, *, besides: str | None = None) -> dict[str, str]:
    """Return what is stored about a folder. Raises NotFound, Conflict if it belongs to another project."""
    identity = await asyncio.to_thread(identity_of, path)
    for other, value in (await _paths(engine)).items():
        if other != besides and value.get("identity") == identity:
            raise Conflict(f"{path} is the project {other!r} already.", advice="Use that one.")
    return {"path": str(Path(path).expanduser().resolve()), "identity": identity}


async def _projects(
    engine: Engine, scopes: Sequence[Scope], places: Placements, *, agent: str
) -> list[PlacedProject]:
    paths = await _paths(engine)
    logs = {entry.key: entry.value for entry in await _entries(engine, LOGS)}
    home = Placement(engine.store_registry.home)
    names_by_mode: dict[str, list[str]] = {}
    for scope in scopes:
        names_by_mode.setdefault(places.get(scope.name, home).mode, []).append(scope.name)
    counts: dict[str, int | None] = {}
    for names in names_by_mode.values():
        counts |= await _counts(engine, names, agent=agent)
    projects = []
    for scope in scopes:
        place, folder = places.get(scope.name, home), paths.get(scope.name, {})
        projects.append(
            PlacedProject(
                scope,
                mode=place.mode,
                memories=counts[scope.name],
                path=folder.get("path"),
                identity=folder.get("identity"),
                copies=tuple(mode for mode in place.copies if place.move is None or mode != place.move.to),
                moving=None if place.move is None or place.move.to == place.mode else place.move.to,
                log=scope.name != GLOBAL and _log_choice(engine, logs.get(scope.name, {})),
            )
        )
    return projects


async def _counts(engine: Engine, names: Sequence[str], *, agent: str) -> dict[str, int | None]:
    where = Filter(viewer=agent, scopes=tuple(names))  # counted like scopes: without forgotten memories
    try:
        counts = await engine.store.tally(where, "scope")
    except (StoreError, SettingsError):
        return dict.fromkeys(names)
    return {name: counts.get(name, 0) for name in names}


async def _paths(engine: Engine) -> dict[str, dict[str, str | None]]:
    return {entry.key: dict(entry.value) for entry in await _entries(engine, PATHS)}


async def _entries(engine: Engine, namespace: str) -> list[Entry]:
    return await engine.store.entries(namespace, now=engine.clock(), limit=MOST_PROJECTS)
