"""Operations on projects: create, open a folder, list, show, change and delete."""

from __future__ import annotations

from datetime import datetime

from mindhold.capture.documents import document_places, erase_from_deleted_documents
from mindhold.capture.project_folder import open_folder
from mindhold.model.errors import InvalidInput
from mindhold.model.scope import StorageMode
from mindhold.operations import Call, Effect, Input, Operation, Output
from mindhold.projects.placement import (
    PlacedProject,
    change_project,
    create_project,
    delete_project,
    list_projects,
    show_project,
)

MOST_SHOWN = 20


class ProjectSettings(Output):
    """What can be changed of a project."""

    description: str
    active: bool
    parent: str | None
    keywords: list[str]
    path: str | None


class ProjectView(Output):
    """One project. Where its folder is, is told to the owner alone."""

    id: str  # its name, by which it is asked for
    name: str
    storage_mode: str
    memories: int | None  # None where its store doesn't answer
    created: datetime
    settings: ProjectSettings
    description: str = ""
    active: bool = True
    path: str | None = None
    identity: str | None = None  # the git common directory, or the real path
    copies: list[str] = []  # stores in which hidden copies of it were left
    moving_to: str | None = None

    @classmethod
    def of(cls, project: PlacedProject, *, owner: bool = True) -> ProjectView:
        """The project as its view."""
        scope, path = project.scope, project.path if owner else None
        return cls(
            id=scope.name,
            name=scope.name,
            storage_mode=project.mode,
            memories=project.memories,
            created=scope.created,
            settings=ProjectSettings(
                description=scope.description,
                active=scope.active,
                parent=scope.parent,
                keywords=list(scope.keywords),
                path=path,
            ),
            description=scope.description,
            active=scope.active,
            path=path,
            identity=project.identity if owner else None,
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


class ChangeProjectInput(Input):
    """What to change of a project; what isn't given stays. Its store is changed by migrating it.

    A path says where its folder is now, an empty one that it has none; parent Global lifts it to the top.
    """

    name: str
    description: str | None = None
    active: bool | None = None
    parent: str | None = None
    keywords: list[str] | None = None
    path: str | None = None


class DeleteProjectInput(Input):
    """Which project, and its name once more."""

    name: str
    confirm: str = ""


class DeleteProjectResult(Output):
    """What became of it. `export` is the file with its memories, in the export folder of the home.

    `removed` is how much went from each place, `remaining` what a second look found there.
    """

    id: str
    name: str
    storage_mode: str
    memories: int
    export: str
    removed: dict[str, int] = {}
    remaining: dict[str, int] = {}
    notice: str = ""  # of documents that couldn't be written


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
        projects=[ProjectView.of(project, owner=call.owner) for project in found],
        home=houses.home,
        storage_modes=list(houses.modes),
    )


async def _show(call: Call, given: ShowProjectInput) -> ProjectView:
    found = await show_project(call.engine, given.name, agent=call.agent)
    return ProjectView.of(found, owner=call.owner)


async def _change(call: Call, given: ChangeProjectInput) -> ProjectView:
    changes = given.model_dump(exclude={"name"}, exclude_none=True)
    if not changes:
        raise InvalidInput("Nothing was given to change.", advice="Give its description, or another setting.")
    return ProjectView.of(await change_project(call.engine, given.name, agent=call.agent, **changes))


async def _delete(call: Call, given: DeleteProjectInput) -> DeleteProjectResult:
    project = await show_project(call.engine, given.name, agent=call.agent)
    places = await document_places(call.engine, [project.scope.name])
    dropped = await delete_project(call.engine, project, confirm=given.confirm)
    receipt, notice = await erase_from_deleted_documents(call.engine, dropped.receipt, places)
    return DeleteProjectResult(
        id=dropped.name,
        name=dropped.name,
        storage_mode=project.mode,
        memories=dropped.memories,
        export=str(dropped.export),
        removed=dict(receipt.removed) if receipt else {},
        remaining=dict(receipt.remaining) if receipt else {},
        notice=notice,
    )


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
CHANGE_PROJECT = Operation(
    "change_project",
    "Change a project's description, folder and other settings.",
    ChangeProjectInput,
    ProjectView,
    _change,
    Effect.WRITES,
    owner_only=True,
)
DELETE_PROJECT = Operation(
    "delete_project",
    "Export a project's memories, then remove it and them for good.",
    DeleteProjectInput,
    DeleteProjectResult,
    _delete,
    Effect.DESTROYS,
    owner_only=True,
)
