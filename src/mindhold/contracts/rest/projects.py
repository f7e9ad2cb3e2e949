"""Resources for projects and scopes."""

from __future__ import annotations

from mindhold.contracts.rest.resource import Resource

PROJECTS, SCOPES = "Projects", "Scopes"
NAMED = {"project_id": "name"}

_PROJECTS = (
    Resource(
        method="POST",
        path="/api/projects",
        operation="create_project",
        section=PROJECTS,
        summary="Make a project, in a store of your choice.",
        description=(
            "For the owner. `storage_mode` is `local`, `postgres` or `mongodb`, the server's own unless one is named, and stays "
            "until the project is migrated; `path` is its folder on the server's machine. A project of that name that others "
            "have in the same database already is joined."
        ),
        status=201,
        location="/api/projects/{id}",
        codes=("NOT_FOUND", "SETTINGS_ERROR"),
    ),
    Resource(
        method="GET",
        path="/api/projects",
        operation="list_projects",
        section=PROJECTS,
        summary="Every project, and where its memory is kept.",
        description="Those that you may see, by name. Folders are told to the owner alone.",
    ),
    Resource(
        method="GET",
        path="/api/projects/{project_id}",
        operation="show_project",
        section=PROJECTS,
        summary="One project, with its settings.",
        names=NAMED,
    ),
    Resource(
        method="PATCH",
        path="/api/projects/{project_id}",
        operation="change_project",
        section=PROJECTS,
        summary="Change a project's settings; what isn't given stays.",
        description=(
            "For the owner. `path` says where its folder is now, an empty one that it has none; `active` false puts it away: it "
            "takes no messages, and keeps its memories."
        ),
        names=NAMED,
    ),
    Resource(
        method="DELETE",
        path="/api/projects/{project_id}",
        operation="delete_project",
        section=PROJECTS,
        summary="Export a project's memories, then remove it and them for good.",
        description=(
            "For the owner. `confirm` is the project's name once more. The export is written first, always, and `export` says "
            "where; then the project goes from the store that it lives in, with its hidden copies. One that is being migrated, or "
            "that others use in the same database, is refused."
        ),
        names=NAMED,
        codes=("SETTINGS_ERROR",),
    ),
    Resource(
        method="POST",
        path="/api/projects/{project_id}/migrate",
        operation="migrate_project",
        section=PROJECTS,
        summary="Move a project to another store, verified.",
        description=(
            "For the owner. Others may read it and write to it meanwhile; one that was broken off goes on where it was. What it "
            "leaves behind is hidden, and kept until `drop_source`."
        ),
        names={"project_id": "project"},
        codes=("SETTINGS_ERROR",),
    ),
)

_SCOPES = (
    Resource(
        method="POST",
        path="/api/scopes",
        operation="create_scope",
        section=SCOPES,
        summary="Make a scope.",
        status=201,
        location="/api/scopes/{name}",
    ),
    Resource(
        method="GET",
        path="/api/scopes",
        operation="list_scopes",
        section=SCOPES,
        summary="Every scope with its counts.",
    ),
    Resource(
        method="GET",
        path="/api/scopes/{name}",
        operation="show_scope",
        section=SCOPES,
        summary="One scope, closely.",
        codes=("SCOPE_NOT_FOUND",),
    ),
    Resource(
        method="PATCH",
        path="/api/scopes/{name}",
        operation="change_scope",
        section=SCOPES,
        summary="Describe, nest or switch a scope; what isn't given stays.",
        codes=("SCOPE_NOT_FOUND",),
    ),
    Resource(
        method="DELETE",
        path="/api/scopes/{name}",
        operation="delete_scope",
        section=SCOPES,
        summary="Export a scope's memories, then remove it and them for good.",
        description="For the owner. The export lies in the home's export folder; `export` says where.",
        hidden=frozenset({"export"}),  # a path on the server's disk
        codes=("SCOPE_NOT_FOUND",),
    ),
    Resource(
        method="POST",
        path="/api/scopes/{name}/rename",
        operation="rename_scope",
        section=SCOPES,
        summary="Give a scope another name; its memories follow.",
        description="For the owner. Keys that are bound to the old name follow too.",
        codes=("SCOPE_NOT_FOUND",),
        differing_answer={"name": "office", "sees": ["office", "Global"]},
    ),
)

_RETIRING = (
    Resource(
        method="POST",
        path="/api/scopes/{name}/retire",
        operation="retire_scope",
        section=SCOPES,
        summary="Back a scope up and switch it off: only who names it finds it. With `delete` it goes for good.",
        description="For the owner. The backup lies in the server's folder of backups.",
        codes=("SCOPE_NOT_FOUND",),
    ),
    Resource(
        method="POST",
        path="/api/scopes/{name}/revive",
        operation="revive_scope",
        section=SCOPES,
        summary="Switch a retired scope on again.",
        description="For the owner.",
        codes=("SCOPE_NOT_FOUND",),
    ),
)

RESOURCES = (*_PROJECTS, *_SCOPES, *_RETIRING)
