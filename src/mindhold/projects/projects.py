"""Operations on projects: create, open a folder, list, show, change and delete."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from mindhold.capture.claude_md import document_places, erase_from_deleted_documents
from mindhold.capture.project_folder import open_folder
from mindhold.memories.views import Notice, View
from mindhold.model.errors import InvalidInput, Refused
from mindhold.model.job import Entry
from mindhold.model.scope import EVERYONE, GLOBAL, StorageMode
from mindhold.operations import Context, Input, Output, operation
from mindhold.projects.placement import (
    PlacedProject,
    choose_log,
    create_project,
    free_folder,
    list_projects,
    open_project,
    show_project,
)
from mindhold.projects.scopes import PATHS, change_scope, delete_scope


class ProjectSettings(View):
    """What can be changed of a project."""

    description: str = Field(description="A short description.", examples=["What we sell"])
    active: bool = Field(
        description="Whether it is in use. An inactive one keeps its memories.", examples=[True]
    )
    parent: str | None = Field(description="Its parent scope.", examples=[None])
    keywords: list[str] = Field(description="Keywords for search.", examples=[[]])
    path: str | None = Field(description="Its folder or file.", examples=["/home/me/src/shop"])
    log_conversations: bool = Field(
        description="Whether hooks feed its messages and its summary.", examples=[True]
    )


class ProjectView(View):
    """One project. Where its folder is, is told to the owner alone."""

    id: str = Field(description="Its id.", examples=["shop"])  # its name, which identifies it
    name: str = Field(description="Its name.", examples=["shop"])
    storage_mode: str = Field(description="Where the project's memory is stored.", examples=["local"])
    # None if its store doesn't answer.
    memories: int | None = Field(description="Number of memories.", examples=[1523])
    created: datetime = Field(description="When it was created.", examples=["2026-11-02T08:15:00Z"])
    settings: ProjectSettings
    description: str = Field(default="", description="A short description.", examples=["What we sell"])
    active: bool = Field(
        default=True,
        description="Whether it is in use. An inactive one keeps its memories.",
        examples=[True],
    )
    path: str | None = Field(default=None, description="Its folder or file.", examples=["/home/me/src/shop"])
    # The git common directory, or the real path.
    identity: str | None = Field(default=None, examples=["/home/me/src/shop/.git"])
    copies: list[str] = []  # stores with hidden copies of it
    moving_to: str | None = None

    @classmethod
    def of(cls, project: PlacedProject, *, owner: bool = True) -> ProjectView:
        """Return the project as a view."""
        scope, path = project.scope, project.path if owner else None
        return cls.fill(
            scope,
            id=scope.name,
            storage_mode=project.mode,
            memories=project.memories,
            settings=ProjectSettings.fill(scope, path=path, log_conversations=project.log),
            path=path,
            identity=project.identity if owner else None,
            copies=list(project.copies),
            moving_to=project.moving,
        )


class CreateProjectInput(Input):
    """A new project. Its storage mode is that of the home store unless another is chosen, and stays."""

    name: str = Field(description="Its name.", examples=["shop"])
    storage_mode: StorageMode | None = Field(
        default=None, description="Where the project's memory is stored.", examples=["local"]
    )
    path: str | None = Field(default=None, description="The project's folder on the server.")
    description: str = Field(default="", description="A short description.", examples=["What we sell"])
    log_conversations: bool | None = Field(
        default=None, description="Whether hooks feed its messages and its summary.", examples=[True]
    )


class OpenFolderInput(Input):
    """A folder. With a name its project is called so, and may be one whose folder is gone: then this is its folder."""

    folder: str
    name: str | None = None


class ListProjectsInput(Input):
    """All of them."""


class ListProjectsResult(Output):
    """Every project, by name, and the modes there are."""

    projects: list[ProjectView]
    home: str = Field(examples=["local"])
    storage_modes: list[str] = Field(examples=[["local", "postgres"]])


class ShowProjectInput(Input):
    """Which project."""

    name: str = Field(description="The project's id, which is its name.", examples=["shop"])


class ChangeProjectInput(ShowProjectInput):
    """What to change of a project; what isn't given stays. Its store is changed by migrating it.

    A path says where its folder is now, an empty one that it has none; parent Global lifts it to the top.
    """

    description: str | None = Field(
        default=None, description="A short description.", examples=["What we sell, and where"]
    )
    active: bool | None = Field(
        default=None,
        description="Whether it is in use. An inactive one keeps its memories.",
        examples=[True],
    )
    parent: str | None = Field(default=None, description="Its parent scope.")
    keywords: list[str] | None = Field(default=None, description="Keywords for search.")
    path: str | None = Field(
        default=None, description="The project's new folder on the server; empty for none."
    )
    log_conversations: bool | None = Field(
        default=None, description="Whether hooks feed its messages and its summary.", examples=[True]
    )


class DeleteProjectInput(ShowProjectInput):
    """Which project, and its name once more."""

    confirm: str = Field(
        default="",
        description="The project's name again; otherwise nothing is deleted.",
        examples=["shop"],
    )


class DeleteProjectResult(Output):
    """What became of it. `export` is the file with its memories, in the export folder of the home.

    `removed` is how much went from each place, `remaining` what a second look found there.
    """

    id: str = Field(description="Its id.", examples=["shop"])
    name: str = Field(description="Its name.", examples=["shop"])
    storage_mode: str = Field(description="Where the project's memory is stored.", examples=["local"])
    memories: int = Field(description="Number of memories.", examples=[1523])
    export: str = Field(examples=["/home/me/.mindhold/export/scope-shop-20261116T103000Z-4kq7zp.jsonl"])
    removed: dict[str, int] = Field(default={}, examples=[{"memories": 1523, "vectors": 1523}])
    remaining: dict[str, int] = Field(default={}, examples=[{"memories": 0, "vectors": 0}])
    notice: Notice = ""  # of documents that couldn't be written


async def _create(context: Context, request: CreateProjectInput) -> ProjectView:
    """Make a project in a store of your choice."""
    project = await create_project(
        context.engine,
        request.name,
        mode=request.storage_mode,
        path=request.path,
        description=request.description,
        log=request.log_conversations,
    )
    return ProjectView.of(project)


CREATE_PROJECT = operation("create_project", _create, writes=True, owner_only=True)


async def _open_folder(context: Context, request: OpenFolderInput) -> ProjectView:
    """The project of a folder, found or made."""
    name = await open_folder(context.engine, request.folder, name=request.name)
    return ProjectView.of(await show_project(context.engine, name, agent=context.agent))


OPEN_FOLDER = operation("open_folder", _open_folder, writes=True, owner_only=True)


async def _list(context: Context, _request: ListProjectsInput) -> ListProjectsResult:
    """Every project, and where it lives."""
    projects = await list_projects(context.engine, agent=context.agent)
    registry = context.engine.store_registry
    return ListProjectsResult(
        projects=[ProjectView.of(project, owner=context.owner) for project in projects],
        home=registry.home,
        storage_modes=list(registry.modes),
    )


LIST_PROJECTS = operation("list_projects", _list, reads=True)


async def _show(context: Context, request: ShowProjectInput) -> ProjectView:
    """One project, and where it lives."""
    project = await show_project(context.engine, request.name, agent=context.agent)
    return ProjectView.of(project, owner=context.owner)


SHOW_PROJECT = operation("show_project", _show, reads=True)


async def _change(context: Context, request: ChangeProjectInput) -> ProjectView:
    """Change a project's description, folder and other settings.

    Raises InvalidInput, ScopeNotFound, NotFound without such a folder, Conflict if it belongs to another project, and
    Refused for a path or a log of Global.
    """
    engine, path = context.engine, request.path
    if not request.model_dump(exclude={"name"}, exclude_none=True):
        raise InvalidInput("Nothing was given to change.", advice="Give its description, or another setting.")
    name = (await open_project(engine, request.name)).name
    if path is not None and name == GLOBAL:
        raise Refused("Global has no folder.", advice="Choose a project.")
    if request.log_conversations and name == GLOBAL:
        raise Refused("Global is no project: hooks don't feed its log.", advice="Choose a project.")
    folder = await free_folder(engine, path, besides=name) if path else None
    await change_scope(engine, name, **request.model_dump(exclude={"name", "path", "log_conversations"}))
    if folder is not None:
        await engine.store.put_entry(Entry(PATHS, name, folder, engine.clock()))
    elif path is not None:
        await engine.store.drop_entry(PATHS, name)
    if request.log_conversations is not None:
        await choose_log(engine, name, request.log_conversations)
    return ProjectView.of(await show_project(engine, name, agent=context.agent))


CHANGE_PROJECT = operation("change_project", _change, writes=True, owner_only=True)


async def _delete(context: Context, request: DeleteProjectInput) -> DeleteProjectResult:
    """Export a project's memories, then remove it and them for good.

    These are the memories of every agent. Raises InvalidInput unless `confirm` is its name, Refused for Global and for one
    that others use too, Conflict for one with child scopes or a running migration, and the stores' errors.
    """
    project = await show_project(context.engine, request.name, agent=context.agent)
    name = project.scope.name
    places = await document_places(context.engine, [name])
    if name != GLOBAL and request.confirm != name:
        raise InvalidInput(
            f"Deleting the project {name!r} takes its name once more.",
            advice=f"Give {name!r} as `confirm`: its memories are exported, then removed for good.",
        )
    dropped = await delete_scope(context.engine, name, agent=EVERYONE, always=True)
    receipt, notice = await erase_from_deleted_documents(context.engine, dropped.receipt, places)
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


DELETE_PROJECT = operation("delete_project", _delete, destroys=True, owner_only=True)
