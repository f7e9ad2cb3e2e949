"""The project and scope of a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mindhold.engine import Engine
from mindhold.hooks.project_identity import project_identity
from mindhold.locks import wait_for_claim
from mindhold.memories.prepare import safe_text
from mindhold.model.errors import Conflict, NotFound, Refused
from mindhold.model.job import Entry
from mindhold.model.memory import ANY_STATUS
from mindhold.model.query import Filter
from mindhold.model.scope import GLOBAL, LONGEST_NAME, validate_scope_name
from mindhold.projects.placement import PROJECT, create_project
from mindhold.projects.scopes import PATHS

MAX_PROJECTS = 10_000
MAX_NAMESAKES = 1_000


@dataclass(frozen=True, slots=True)
class _FolderLocation:
    """A folder, the identity of its repository if it is in one, and the repository's top folder."""

    real: Path
    identity: str
    top: Path
    name: str

    @property
    def is_plain(self) -> bool:
        """Whether it is in no repository."""
        return self.identity == str(self.real)

    @property
    def is_shared(self) -> bool:
        """Whether it can't be a project: a user's home, or a folder above it."""
        home = Path.home().resolve()
        return self.top == home or self.top in home.parents or self.top == Path(self.top.anchor)


@dataclass(frozen=True, slots=True)
class _KnownProject:
    """A project that has a folder."""

    name: str
    path: str
    identity: str
    active: bool


async def scope_of_folder(engine: Engine, folder: str, *, create: bool) -> str | None:
    """Return the scope of the folder's project, or of the nearest one above it; None where there is none.

    With `create` a project is made, named after the folder; a user's home gets Global. Only then raises NotFound for a
    missing folder, and Refused for a deactivated project.
    """
    location = _locate(folder)
    project = _find_nearest(location, await _projects(engine))
    if project is not None and (project.active or not create):
        return project.name if project.active else None
    if not create:
        return None
    if location.is_shared:
        return GLOBAL
    return await _find_or_make(engine, location, folder)


async def open_folder(engine: Engine, folder: str, *, name: str | None = None) -> str:
    """Return the project of a folder: existing, new, or found again after the folder was moved or became a repository.

    With `name` it gets that name: a project of that name that has no folder, or a missing one, is bound to this folder.
    Raises NotFound, Refused, Conflict, InvalidInput.
    """
    location = _locate(folder)
    if not location.real.is_dir():
        raise NotFound(f"There is no folder {folder}.", advice="Give the project's folder.")
    if location.is_shared:
        raise Refused(
            f"{location.top} is no project: every other folder is below it.",
            advice="Go to a project's folder.",
        )
    if name is None:
        return await _find_or_make(engine, location, folder)
    checked = validate_scope_name(name)
    async with wait_for_claim(engine, f"project {location.identity}"):
        projects = await _projects(engine)
        current = _find_project(location, projects)
        if current is not None and current.name == checked:
            await _bind(engine, current.name, location)
            return current.name
        namesake = next((project for project in projects if project.name == checked), None)
        if current is not None:
            await _unbind(engine, current, location, checked, moved=namesake)
        return await _bind_named(engine, checked, location, namesake)


async def _find_or_make(engine: Engine, location: _FolderLocation, folder: str) -> str:
    """Find or make the project under a claim: another process may be just making the project of that name."""
    async with wait_for_claim(engine, f"project {location.identity}"):
        project = _find_project(location, await _projects(engine))
        if project is None:
            return await _make(engine, location)
        if not project.active:
            raise Refused(
                f"The project {project.name!r} of {folder} is deactivated.",
                advice=f"`mindhold scopes activate {project.name}` opens it again.",
            )
        await _bind(engine, project.name, location)
        return project.name


async def _unbind(
    engine: Engine,
    current: _KnownProject,
    location: _FolderLocation,
    name: str,
    *,
    moved: _KnownProject | None,
) -> None:
    """Unbind the folder's current project, if it is empty, for one that was moved here. Raises Conflict."""
    if moved is None or Path(moved.path).is_dir() or not await _is_empty(engine, current.name):
        advice = f"`mindhold scopes rename {current.name} {name}` renames it."
        if moved is not None:
            advice = f"Forget that project first: `mindhold scopes delete {current.name}`."
        raise Conflict(f"{location.top} is the project {current.name!r} already.", advice=advice)
    await engine.store.drop_entry(PATHS, current.name)


async def _bind_named(
    engine: Engine, name: str, location: _FolderLocation, namesake: _KnownProject | None
) -> str:
    if namesake is not None and Path(namesake.path).is_dir():
        raise Conflict(f"The project {name!r} is that of {namesake.path}.", advice="Choose another name.")
    scopes = {scope.name: scope for scope in await engine.store.scopes()}
    if name not in scopes:
        return (await create_project(engine, name, path=str(location.top))).scope.name
    if scopes[name].kind != PROJECT or not scopes[name].active:
        state = "is no project" if scopes[name].kind != PROJECT else "is deactivated"
        raise Refused(f"The scope {name!r} {state}.", advice="Choose another name.")
    await _bind(engine, name, location)
    return name


async def _projects(engine: Engine) -> list[_KnownProject]:
    active = {scope.name: scope.active for scope in await engine.store.scopes()}
    entries = await engine.store.entries(PATHS, now=engine.clock(), limit=MAX_PROJECTS)
    return [
        _KnownProject(entry.key, entry.value.get("path") or "", entry.value["identity"], active[entry.key])
        for entry in entries
        if entry.key in active and entry.value.get("identity")
    ]


def _find_nearest(location: _FolderLocation, projects: Sequence[_KnownProject]) -> _KnownProject | None:
    project = _find_project(location, projects)
    if project is not None or not location.is_plain:  # a repository belongs to no project above it
        return project
    by_identity = {each.identity: each for each in projects if each.active}
    return next(
        (by_identity[str(above)] for above in location.real.parents if str(above) in by_identity), None
    )


def _find_project(location: _FolderLocation, projects: Sequence[_KnownProject]) -> _KnownProject | None:
    """Find the folder's project by identity; else by path, for a folder that became a repository since, or is none any more."""
    by_identity = {project.identity: project for project in projects}
    if location.identity in by_identity:
        return by_identity[location.identity]
    return next((project for project in projects if project.path and project.path == str(location.top)), None)


def _locate(folder: str) -> _FolderLocation:
    """Describe a folder, also a missing one. A project is named after its repository, from any folder in it."""
    real = Path(folder).expanduser().resolve()
    identity = project_identity(folder)  # the git directory, or the folder
    git = Path(identity)
    if identity == str(real):
        return _FolderLocation(real, identity, real, real.name)
    if git.name.startswith("."):  # .git, or .bare with worktrees beside it
        return _FolderLocation(real, identity, git.parent, git.parent.name)
    return _FolderLocation(real, identity, real, git.name.removesuffix(".git"))


async def _bind(engine: Engine, name: str, location: _FolderLocation) -> None:
    """Record the project's current folder."""
    value = {"path": str(location.top), "identity": location.identity}
    entry = await engine.store.entry(PATHS, name, now=engine.clock())
    if entry is None or entry.value.get("identity") != location.identity:
        await engine.store.put_entry(Entry(PATHS, name, value, engine.clock()))


async def _make(engine: Engine, location: _FolderLocation) -> str:
    printable = "".join(char if char.isprintable() else "-" for char in location.name).strip()
    name = printable[: LONGEST_NAME - 8] or PROJECT
    for number in range(1, MAX_NAMESAKES):
        candidate = safe_text(engine, name if number == 1 else f"{name}-{number}")
        if candidate.casefold() == GLOBAL.casefold():
            continue
        try:
            return (await create_project(engine, candidate, path=str(location.top))).scope.name
        except Conflict:
            if await _is_unfinished(engine, candidate):
                await _bind(engine, candidate, location)
                return candidate
    raise Conflict(
        f"There are too many projects named {name!r}.", advice="Name this one by `mindhold init --name`."
    )


async def _is_unfinished(engine: Engine, name: str) -> bool:
    """Whether a project of that name has neither folder nor memories: its creation was interrupted."""
    scope = next((each for each in await engine.store.scopes() if each.name == name), None)
    if scope is None or scope.kind != PROJECT or not scope.active:
        return False
    if await engine.store.entry(PATHS, name, now=engine.clock()) is not None:
        return False
    return await _is_empty(engine, name)


async def _is_empty(engine: Engine, scope: str) -> bool:
    where = Filter(viewer="system", scopes=(scope,), statuses=ANY_STATUS)
    return await engine.store.count(where, most=1) == 0
