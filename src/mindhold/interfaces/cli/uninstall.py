"""`mindhold uninstall`: removes what init and connect wrote into other programs' files."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mindhold.hooks.project_identity import project_identity
from mindhold.installers.files import FileChange, check_writable, read
from mindhold.installers.manifest import (
    EMPTY_BLOCK_UNDO,
    SETTINGS_UNDO,
    InstalledFile,
    Manifest,
    drop_project,
    join_changes,
    plan_removal,
    read_manifest,
    server_undo,
    uninstall,
)
from mindhold.installers.mcp_clients import MCP_CLIENTS, NAME, claude_local_keys
from mindhold.interfaces.cli.command import command, with_session
from mindhold.interfaces.cli.init import CLAUDE, document_root
from mindhold.interfaces.cli.installation import (
    agree,
    documents,
    unrecorded_entry,
    unrecorded_file,
    whole_path,
)
from mindhold.interfaces.cli.output import neutral, plural
from mindhold.interfaces.cli.session import CliSession
from mindhold.model.errors import MarkersWrong, MindholdError, NotFound, Refused
from mindhold.model.host import ClientFolders
from mindhold.model.markers import find_block
from mindhold.settings.loader import client_places

if TYPE_CHECKING:
    from mindhold.projects.projects import ProjectView


Planned = list[tuple[InstalledFile, FileChange]]
OUR_WORDS = b"_What Mindhold remembers of this project"  # the beginning of each block
DOCUMENTS = ("CLAUDE.md", ".claude/CLAUDE.md", "AGENTS.md", "GEMINI.md")


@command(
    "uninstall",
    local=True,
    examples=[
        "mindhold uninstall",
        "mindhold uninstall ~/src/shop --yes",
        "mindhold uninstall --global",
        "mindhold uninstall --all",
    ],
)
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option("--global", "everywhere", is_flag=True, help="Remove it from your own settings of Claude Code.")
@click.option("--all", "all_of_it", is_flag=True, help="Remove it from every known file of every client.")
@click.option("--keep-project", is_flag=True, help="Keep the project even if it has no memories.")
@click.option("--yes", "-y", is_flag=True, help="Don't ask for confirmation.")
@with_session
async def uninstall_command(
    cli: CliSession,
    /,
    *,
    folder: Path | None,
    everywhere: bool,
    all_of_it: bool,
    keep_project: bool,
    yes: bool,
) -> int:
    """Remove hooks, server entry and markers of this folder.

    A file that nobody changed since becomes what it was before, byte for byte; from others only Mindhold's entries are
    removed. Memories stay. A file that can't be read is reported, and the exit status is 1.
    """
    if everywhere + all_of_it + (folder is not None) > 1:
        raise click.UsageError("FOLDER, --global and --all exclude each other.")
    console, settings = cli.console, cli.loaded().settings
    places, installed = client_places(settings), read_manifest(settings.home)
    at = None if everywhere or all_of_it else whole_path(folder)
    if at is not None and not at.is_dir() and not installed.at(str(at)):
        raise NotFound(f"There is no folder {at}.", advice="Give the project's folder.")
    planned, problems = _plan(settings.home, installed, places, at, all_of_it=all_of_it)
    changes = [change for change in join_changes(planned) if change.changes]
    agree(console, changes, yes=yes)
    removed_folders = uninstall(settings.home, planned)
    folders = {place for _, place in installed.projects} if all_of_it else {str(at)} if at else set()
    kept_projects, removed_projects = await _remove_projects(cli, installed, folders, keep=keep_project)
    notes = _notes(installed, places, at, has_changes=bool(changes))
    for problem in problems:
        console.warn(f"Left as it is: {problem}")
    document = {
        "changes": documents(changes),
        "folders_removed": removed_folders,
        "projects_removed": removed_projects,
        "projects_kept": [{"name": project.name, "memories": project.memories} for project in kept_projects],
        "problems": problems,
        "notes": notes,
    }
    status = 1 if problems else 0
    if console.as_json(document):
        return status
    if not changes:
        console.line("Nothing of Mindhold's is in these files.")
    for change in changes:
        verb = "Removed" if change.after is None else "Cleared"
        console.line(neutral(f"{verb} {change.path}"))
    for removed_folder in removed_folders:
        console.line(neutral(f"Removed {removed_folder}"))
    for name in removed_projects:
        console.line(f"Removed the project {neutral(name)}, which had no memories.")
    for project in kept_projects:
        if project.memories:
            console.note(
                f"The project {project.name} keeps {plural(project.memories, 'memory')}; "
                f"`mindhold scopes delete {project.name!r}` deletes them."
            )
    for note in notes:
        console.note(note)
    return status


def _plan(
    home: Path, installed: Manifest, places: ClientFolders, at: Path | None, *, all_of_it: bool
) -> tuple[Planned, list[str]]:
    """Plan the removal; return it with the problems of recorded files that can't be read or written.

    Files that aren't recorded are searched too; those that can't be read are skipped.
    """
    if all_of_it:
        recorded = list(installed.records)
    elif at is None:
        recorded = [record for record in installed.at("") if record.client == CLAUDE]
    else:
        recorded = [record for record in installed.at(str(at)) if Path(record.path) != places.claude_settings]
    paths = {record.path for record in recorded}
    possible = _personal_files(places) if at is None else _folder_files(at, places)
    unrecorded = [record for record in possible if record.path not in paths and Path(record.path).exists()]
    errors: list[MindholdError] = []
    planned = [*_readable(home, unrecorded), *plan_removal(home, recorded, passed_over=errors)]
    for folder in {record.place for record, _ in planned if record.place}:
        planned += _readable(home, _filled_documents(Path(folder), paths))
    writable = []
    for record, change in planned:
        try:
            if change.changes:
                check_writable(change.path)
            writable.append((record, change))
        except Refused as error:
            errors.append(error)
    return writable, list(dict.fromkeys(map(str, errors)))


def _readable(home: Path, records: list[InstalledFile]) -> Planned:
    """Plan the removal from files that can be read and have something of ours."""
    planned = plan_removal(home, records, passed_over=[])
    return [(record, change) for record, change in planned if change.changes]


def _personal_files(places: ClientFolders) -> list[InstalledFile]:
    return [
        unrecorded_file(places.claude_settings, "", CLAUDE, SETTINGS_UNDO),
        unrecorded_file(places.claude_json, "", CLAUDE, server_undo("mcpServers", NAME)),
    ]


def _folder_files(folder: Path, places: ClientFolders) -> list[InstalledFile]:
    """Return the files of a project that may have entries. In the home folder, Claude's settings are no project's."""
    place = str(folder)
    settings = {folder / ".claude" / name for name in ("settings.json", "settings.local.json")}
    records = [
        unrecorded_file(path, place, CLAUDE, SETTINGS_UNDO)
        for path in sorted(settings - {places.claude_settings})
    ]
    for client in MCP_CLIENTS.values():
        if client.project is not None:
            records.append(unrecorded_entry(folder / client.project, place, client))
    keys = claude_local_keys(folder, project_identity(place))
    return [*records, unrecorded_file(places.claude_json, place, CLAUDE, server_undo(*keys))]


def _filled_documents(folder: Path, recorded: set[str]) -> list[InstalledFile]:
    """Return unrecorded documents with our block: it is removed, the markers stay."""
    files = [document_root(folder) / name for name in DOCUMENTS]
    return [
        unrecorded_file(path, str(folder), CLAUDE, EMPTY_BLOCK_UNDO)
        for path in files
        if str(path) not in recorded and path.is_file() and _is_ours(read(path) or b"", path)
    ]


def _is_ours(content: bytes, path: Path) -> bool:
    """Whether the text between the markers is ours or empty."""
    try:
        place = find_block(content, name=str(path))
    except MarkersWrong:
        return False
    between = content[place.start : place.end].strip() if place else b"of nobody"
    return not between or OUR_WORDS in between


def _notes(installed: Manifest, places: ClientFolders, at: Path | None, *, has_changes: bool) -> list[str]:
    """Return notes on other places where Mindhold is set up."""
    if at is None:
        return []
    notes = []
    if at / ".claude" / "settings.json" == places.claude_settings:
        notes.append("Your own settings are left alone: `mindhold uninstall --global` is for them.")
    if not has_changes:
        others = {record.place for record in installed.records if Path(record.path).is_relative_to(at)}
        notes += [
            f"Mindhold was set up in {place}: `mindhold uninstall {shlex.quote(place)}` takes that back."
            for place in sorted(others - {"", str(at)})
        ]
    return notes


async def _remove_projects(
    cli: CliSession, installed: Manifest, folders: set[str], *, keep: bool
) -> tuple[list[ProjectView], list[str]]:
    """Remove the empty projects that init made in these folders; return those that stay and the names of the removed."""
    from mindhold.projects.projects import LIST_PROJECTS
    from mindhold.projects.scope_operations import DELETE_SCOPE

    identities = {project_identity(folder) for folder in folders}
    own_names = {name for name, folder in installed.projects if folder in folders}
    settings = cli.loaded().settings
    kept: list[ProjectView] = []
    dropped: list[str] = []
    if not identities or (settings.store.mode == "local" and not settings.database.exists()):
        return kept, dropped
    try:
        async with cli.open() as session:
            result = await session.run(LIST_PROJECTS)
            for project in result.projects:
                is_own = project.name in own_names
                if not is_own and project.identity not in identities:  # of an own one the folder may be gone
                    continue
                if is_own and project.memories == 0 and not keep:
                    await session.run(DELETE_SCOPE, name=project.name)
                    dropped.append(project.name)
                else:
                    kept.append(project)
    except MindholdError as error:
        cli.console.note(f"The project itself was left alone: {error}")
    for name in sorted(own_names - {project.name for project in kept if keep}):
        drop_project(settings.home, name)
    return kept, dropped
