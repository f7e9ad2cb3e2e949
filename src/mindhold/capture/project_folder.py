"""The project and scope of a folder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mindhold.engine import Engine
from mindhold.hooks.project_identity import project_identity
from mindhold.locks import wait_for_claim
from mindhold.memories.validation import safe_text
from mindhold.model.errors import Conflict, NotFound, Refused
from mindhold.model.job import Entry
from mindhold.model.memory import ANY_STATUS
from mindhold.model.query import Filter
from mindhold.model.scope import GLOBAL, LONGEST_NAME, validate_scope_name
from mindhold.projects.placement import PROJECT, create_project
from mindhold.projects.scopes import PATHS

MOST_PROJECTS = 10_000
MOST_NAMESAKES = 1_000


@dataclass(frozen=True, slots=True)
class _Place:
    """A folder: the repository that it is in, if it is in one, and the top of that."""

    real: Path
    identity: str
    top: Path
    name: str

    @property
    def plain(self) -> bool:
        """Whether it is in no repository."""
        return self.identity == str(self.real)

    @property
    def everybodys(self) -> bool:
        """Whether it is no project, whatever lies in it: a person's home, or what that lies in."""
        home = Path.home().resolve()
        return self.top == home or self.top in home.parents or self.top == Path(self.top.anchor)


@dataclass(frozen=True, slots=True)
class _Known:
    """A project that has a folder."""

    name: str
    path: str
    identity: str
    active: bool


async def scope_of_folder(engine: Engine, folder: str, *, create: bool) -> str | None:
    """The scope of the project that the folder, or the nearest one above it, is; None where there is none.

    With `create` one is made for it, named like the folder, and Global stands for a person's home. Only then raises
    NotFound for a folder that isn't there, and Refused for a project that is deactivated.
    """
    place = _place(folder)
    found = _nearest(place, await _projects(engine))
    if found is not None and (found.active or not create):
        return found.name if found.active else None
    if not create:
        return None
    if place.everybodys:
        return GLOBAL
    return await _opened(engine, place, folder)


async def open_folder(engine: Engine, folder: str, *, name: str | None = None) -> str:
    """The project of a folder: found, made, or found again where the folder was moved or has become a repository.

    With `name` it is called so: a project of that name that has no folder, or whose folder is gone, is the one of this
    folder from now on. Raises NotFound, Refused, Conflict, InvalidInput.
    """
    place = _place(folder)
    if not place.real.is_dir():
        raise NotFound(f"There is no folder {folder}.", advice="Give the project's folder.")
    if place.everybodys:
        raise Refused(
            f"{place.top} is no project: every other folder is below it.", advice="Go to a project's folder."
        )
    if name is None:
        return await _opened(engine, place, folder)
    wanted = validate_scope_name(name)
    async with wait_for_claim(engine, f"project {place.identity}"):
        projects = await _projects(engine)
        here = _here(place, projects)
        if here is not None and here.name == wanted:
            await _bind(engine, here.name, place)
            return here.name
        if here is not None:
            await _leave(engine, here, place, wanted, projects)
        return await _named(engine, wanted, place, projects)


async def _opened(engine: Engine, place: _Place, folder: str) -> str:
    """One at a time for a folder: a name that is taken may be that of the project which another is just making."""
    async with wait_for_claim(engine, f"project {place.identity}"):
        here = _here(place, await _projects(engine))
        if here is None:
            return await _make(engine, place)
        if not here.active:
            raise Refused(
                f"The project {here.name!r} of {folder} is deactivated.",
                advice=f"`mindhold scopes activate {here.name}` opens it again.",
            )
        await _bind(engine, here.name, place)
        return here.name


async def _leave(
    engine: Engine, here: _Known, place: _Place, wanted: str, projects: Iterable[_Known]
) -> None:
    """Give the folder up to a project that was moved here, where nothing is remembered of the one that it is. Raises Conflict."""
    moved = next((one for one in projects if one.name == wanted), None)
    where = Filter(viewer="system", scopes=(here.name,), statuses=ANY_STATUS)
    empty = await engine.store.count(where, most=1) == 0
    if moved is None or Path(moved.path).is_dir() or not empty:
        advice = f"`mindhold scopes rename {here.name} {wanted}` renames it."
        if moved is not None:
            advice = f"Forget that project first: `mindhold scopes delete {here.name}`."
        raise Conflict(f"{place.top} is the project {here.name!r} already.", advice=advice)
    await engine.store.drop_entry(PATHS, here.name)


async def _named(engine: Engine, name: str, place: _Place, projects: Iterable[_Known]) -> str:
    known = next((one for one in projects if one.name == name), None)
    if known is not None and Path(known.path).is_dir():
        raise Conflict(f"The project {name!r} is that of {known.path}.", advice="Choose another name.")
    scopes = {scope.name: scope for scope in await engine.store.scopes()}
    if name not in scopes:
        return (await create_project(engine, name, path=str(place.top))).scope.name
    if scopes[name].kind != PROJECT or not scopes[name].active:
        state = "is no project" if scopes[name].kind != PROJECT else "is deactivated"
        raise Refused(f"The scope {name!r} {state}.", advice="Choose another name.")
    await _bind(engine, name, place)
    return name


async def _projects(engine: Engine) -> list[_Known]:
    active = {scope.name: scope.active for scope in await engine.store.scopes()}
    entries = await engine.store.entries(PATHS, now=engine.clock(), limit=MOST_PROJECTS)
    return [
        _Known(entry.key, entry.value.get("path") or "", entry.value["identity"], active[entry.key])
        for entry in entries
        if entry.key in active and entry.value.get("identity")
    ]


def _nearest(place: _Place, projects: Sequence[_Known]) -> _Known | None:
    found = _here(place, projects)
    if found is not None or not place.plain:  # a repository of its own belongs to nothing above it
        return found
    by_identity = {one.identity: one for one in projects if one.active}
    return next((by_identity[str(above)] for above in place.real.parents if str(above) in by_identity), None)


def _here(place: _Place, projects: Sequence[_Known]) -> _Known | None:
    """By its identity; else by its path, for a folder that has become a repository since, or is none any more."""
    by_identity = {one.identity: one for one in projects}
    if place.identity in by_identity:
        return by_identity[place.identity]
    return next((one for one in projects if one.path and one.path == str(place.top)), None)


def _place(folder: str) -> _Place:
    """Also of a folder that has gone. A project is named after its repository, wherever in it one stands."""
    real = Path(folder).expanduser().resolve()
    identity = project_identity(folder)  # the git directory, or the folder
    git = Path(identity)
    if identity == str(real):
        return _Place(real, identity, real, real.name)
    if git.name.startswith("."):  # .git, or .bare with worktrees beside it
        return _Place(real, identity, git.parent, git.parent.name)
    return _Place(real, identity, real, git.name.removesuffix(".git"))


async def _bind(engine: Engine, name: str, place: _Place) -> None:
    """Note the folder that it has now."""
    value = {"path": str(place.top), "identity": place.identity}
    known = await engine.store.entry(PATHS, name, now=engine.clock())
    if known is None or known.value.get("identity") != place.identity:
        await engine.store.put_entry(Entry(PATHS, name, value, engine.clock()))


async def _make(engine: Engine, place: _Place) -> str:
    printable = "".join(char if char.isprintable() else "-" for char in place.name).strip()
    name = printable[: LONGEST_NAME - 8] or PROJECT
    for number in range(1, MOST_NAMESAKES):
        named = safe_text(engine, name if number == 1 else f"{name}-{number}")
        if named.casefold() == GLOBAL.casefold():
            continue
        try:
            return (await create_project(engine, named, path=str(place.top))).scope.name
        except Conflict:
            if await _is_unfinished(engine, named):
                await _bind(engine, named, place)
                return named
    raise Conflict(
        f"There are too many projects named {name!r}.", advice="Name this one by `mindhold init --name`."
    )


async def _is_unfinished(engine: Engine, name: str) -> bool:
    """Whether a project of that name has neither a folder nor memories: whoever made it was stopped on the way."""
    scope = next((one for one in await engine.store.scopes() if one.name == name), None)
    if scope is None or scope.kind != PROJECT or not scope.active:
        return False
    if await engine.store.entry(PATHS, name, now=engine.clock()) is not None:
        return False
    where = Filter(viewer="system", scopes=(name,), statuses=ANY_STATUS)
    return await engine.store.count(where, most=1) == 0
