"""Operations on where projects live: making them in a store, listing them, moving them."""

from __future__ import annotations

from recollect.engine.capture.place import open_folder
from recollect.engine.housing import Project, create_project, list_projects, show_project
from recollect.engine.migrate import Migrated, migrate
from recollect.model.storage import StorageMode
from recollect.operations.catalogue import Call, Effect, Input, Operation, Output

MOST_SHOWN = 20


class ProjectView(Output):
    """One project."""

    name: str
    storage_mode: str
    memories: int | None  # None where its store doesn't answer
    description: str = ""
    active: bool = True
    path: str | None = None
    identity: str | None = None  # the git common directory, or the real path
    copies: list[str] = []  # stores in which hidden copies of it were left
    moving_to: str | None = None

    @classmethod
    def of(cls, project: Project) -> ProjectView:
        """The project as its view."""
        return cls(
            name=project.scope.name,
            storage_mode=project.mode,
            memories=project.memories,
            description=project.scope.description,
            active=project.scope.active,
            path=project.path,
            identity=project.identity,
            copies=list(project.copies),
            moving_to=project.moving,
        )


class CreateProjectInput(Input):
    """A new project. Its storage mode is that of the home store unless another is chosen, and stays."""

    name: str
    storage_mode: StorageMode | None = None
    path: str | None = None
    description: str = ""


class OpenFolderInput(Input):
    """A folder. With a name its project is called so, and may be one whose folder is gone: then this is its folder."""

    folder: str
    name: str | None = None


class ListProjectsInput(Input):
    """All of them."""


class ListProjectsResult(Output):
    """Every project, by name, and the modes there are."""

    projects: list[ProjectView]
    home: str
    storage_modes: list[str]


class ShowProjectInput(Input):
    """Which project."""

    name: str


class MigrateProjectInput(Input):
    """Which project goes where, and whether what it leaves behind is erased. Without `to` it stays.

    `forget_copy` says that the store with a copy is gone for good; of the store that the project lives in, that this
    home leaves it to the others that use it.
    """

    project: str
    to: StorageMode | None = None
    drop_source: bool = False
    forget_copy: StorageMode | None = None


class MigrateProjectResult(Output):
    """What was moved. Counts and the sum of content hashes were the same in both stores at the end."""

    project: str
    source: str
    target: str
    moved: bool  # False when it was there already
    memories: int
    versions: int
    links: int
    vectors: int
    content_sum: str
    copied: int
    rounds: int
    outside_links: int  # to memories outside the project: not moved
    outside: list[str] = []  # the first of them
    kept_in: list[str] = []  # where hidden copies are
    dropped: int = 0
    spared: int = 0  # in copies that were to be dropped: memories that the project doesn't have
    notice: str = ""


async def _create(call: Call, given: CreateProjectInput) -> ProjectView:
    made = await create_project(
        call.engine,
        given.name,
        mode=given.storage_mode,
        path=given.path,
        description=given.description,
    )
    return ProjectView.of(made)


async def _open_folder(call: Call, given: OpenFolderInput) -> ProjectView:
    name = await open_folder(call.engine, given.folder, name=given.name)
    return ProjectView.of(await show_project(call.engine, name, agent=call.agent))


async def _list(call: Call, _given: ListProjectsInput) -> ListProjectsResult:
    found = await list_projects(call.engine, agent=call.agent)
    houses = call.engine.houses
    return ListProjectsResult(
        projects=[ProjectView.of(project) for project in found],
        home=houses.home,
        storage_modes=list(houses.modes),
    )


async def _show(call: Call, given: ShowProjectInput) -> ProjectView:
    return ProjectView.of(await show_project(call.engine, given.name, agent=call.agent))


async def _migrate(call: Call, given: MigrateProjectInput) -> MigrateProjectResult:
    done = await migrate(
        call.engine,
        given.project,
        given.to,
        drop_source=given.drop_source,
        forget_copy=given.forget_copy,
        told=call.progress,
    )
    return MigrateProjectResult(
        project=done.project,
        source=done.source,
        target=done.target,
        moved=done.moved,
        memories=done.memories,
        versions=done.versions,
        links=done.links,
        vectors=done.vectors,
        content_sum=done.content_sum,
        copied=done.copied,
        rounds=done.rounds,
        outside_links=len(done.outside),
        outside=[f"{link.origin} {link.relation} {link.target}" for link in done.outside[:MOST_SHOWN]],
        kept_in=list(done.kept_in),
        dropped=done.dropped,
        spared=done.spared,
        notice=_notice(done),
    )


def _notice(done: Migrated) -> str:
    if done.spared:
        return (
            f"{done.spared} memories in the copy are not in the project, and were spared: somebody wrote them there. "
            f"`recollect migrate {done.project!r} --forget-copy MODE` leaves them to whoever it was."
        )
    return "Vectors that did not travel are made by a job: `recollect jobs run`." if done.embedding else ""


CREATE_PROJECT = Operation(
    "create_project",
    "Make a project in a store of your choice.",
    CreateProjectInput,
    ProjectView,
    _create,
    Effect.WRITES,
    owner_only=True,
)
OPEN_FOLDER = Operation(
    "open_folder",
    "The project of a folder, found or made.",
    OpenFolderInput,
    ProjectView,
    _open_folder,
    Effect.WRITES,
    owner_only=True,
)
LIST_PROJECTS = Operation(
    "list_projects",
    "Every project, and where it lives.",
    ListProjectsInput,
    ListProjectsResult,
    _list,
    Effect.READS,
)
SHOW_PROJECT = Operation(
    "show_project", "One project, and where it lives.", ShowProjectInput, ProjectView, _show, Effect.READS
)
MIGRATE_PROJECT = Operation(
    "migrate_project",
    "Move a project to another store, verified.",
    MigrateProjectInput,
    MigrateProjectResult,
    _migrate,
    Effect.DESTROYS,
    owner_only=True,
)
