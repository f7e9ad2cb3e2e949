"""`mindhold init` and `mindhold connect`: hooks and tools for Claude Code, and the server's entry for other clients."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from mindhold.hooks.project_identity import project_identity
from mindhold.installers.claude import markers_change, settings_change
from mindhold.installers.config_text import KeyPath
from mindhold.installers.files import (
    FileChange,
    check_writable,
    errors_name_file,
    parse_json_file,
    read,
)
from mindhold.installers.manifest import (
    install,
    plan_removal,
    read_manifest,
    uninstall,
)
from mindhold.installers.mcp_clients import (
    HOME_VARIABLE,
    MCP_CLIENTS,
    NAME,
    McpClient,
    StartCommand,
    claude_local_keys,
    json_change,
    server_call,
    server_entry,
)
from mindhold.interfaces.cli.command import command, with_session
from mindhold.interfaces.cli.installation import (
    LOCAL,
    NOT_FOR_OTHERS,
    PERSON,
    PROJECT,
    agree,
    check_home,
    check_same_home,
    documents,
    folder_of,
    home_of_option,
    hook_settings_file,
    hook_warnings,
    only_while_active,
    program_here,
    read_claude_settings,
    show_plan,
    unrecorded_entry,
)
from mindhold.interfaces.cli.output import Console, neutral
from mindhold.interfaces.cli.past import read_past
from mindhold.interfaces.cli.session import CliSession
from mindhold.model.errors import MindholdError, Refused
from mindhold.model.host import ClientFolders
from mindhold.settings.loader import client_places

TOOLSETS = "core,capture"
CLAUDE = "claude"


@dataclass(frozen=True, slots=True)
class InitRequest:
    """What init shall do. `documents` are the files that get markers."""

    level: str
    folder: Path
    server: bool = True
    status_line: bool = False
    documents: tuple[str, ...] = ()
    toolsets: str | None = None  # None keeps the present ones, or takes the usual ones
    name: str | None = None

    @property
    def place(self) -> str:
        """The place as written in the manifest."""
        return "" if self.level == PERSON else str(self.folder)


@dataclass(frozen=True, slots=True)
class InitOutcome:
    """What init did."""

    request: InitRequest
    changes: list[FileChange]
    program: StartCommand
    notes: list[str]
    project: str | None = None
    backup: Path | None = None
    dry_run: bool = False


@command(
    "init",
    local=True,
    examples=[
        "mindhold init",
        "mindhold init --claude-md --yes",
        "mindhold init --global --statusline",
        "mindhold init --past --yes",
        "mindhold init --dry-run",
    ],
)
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option("--global", "everywhere", is_flag=True, help="For all your projects, in your own settings.")
@click.option("--local", is_flag=True, help="For you alone in this project, in no shared file.")
@click.option("--claude-md/--no-claude-md", default=None, help="Also show memories in CLAUDE.md.")
@click.option("--agents-md", is_flag=True, help="Also show them in AGENTS.md.")
@click.option("--gemini-md", is_flag=True, help="Also show them in GEMINI.md.")
@click.option("--statusline", is_flag=True, help="Show memories in Claude Code's status line.")
@click.option("--no-mcp", is_flag=True, help="Install hooks only, no tools for the agent.")
@click.option("--name", metavar="NAME", help="The project's name (default: the folder's).")
@click.option("--toolsets", metavar="NAMES", help=f"Tools for the agent (default: {TOOLSETS}).")
@click.option(
    "--past/--no-past", default=None, help="Also read the project's past conversations (else init asks)."
)
@click.option("--dry-run", is_flag=True, help="Show what would change; change nothing.")
@click.option("--yes", "-y", is_flag=True, help="Don't ask for confirmation.")
@with_session
async def init(cli: CliSession, /, **options: Any) -> None:
    """Install hooks and tools for Claude Code in this folder.

    Other content of the settings files stays as it is, byte for byte. A second run changes nothing. `mindhold
    uninstall` removes what was installed. Past conversations are read if you agree, or with --past; --yes alone leaves
    them out.
    """
    past, everywhere = options.pop("past"), options["everywhere"]
    if past and (everywhere or options["dry_run"]):
        raise click.UsageError("--past goes with one project, and changes something.")
    request = init_request(cli.console, **options)
    outcome = await run_init(cli, request, dry_run=options["dry_run"], yes=options["yes"])
    if not cli.console.json:
        print_outcome(cli.console, outcome)
    if outcome.dry_run or everywhere or (past is None and options["yes"]):
        past = False
    captured = await read_past(cli, request.folder, wanted=past)
    document = {"past": captured.model_dump(mode="json")} if captured else {}
    cli.console.as_json({**init_document(outcome), **document})


def init_request(console: Console, /, **options: Any) -> InitRequest:
    """Build the request from the options, and a question to the user. Raises click.UsageError, NotFound, Refused."""
    everywhere, local = options["everywhere"], options["local"]
    if everywhere and local:
        raise click.UsageError("--global and --local exclude each other.")
    level = PERSON if everywhere else LOCAL if local else PROJECT
    names = [f"{name.upper()}.md" for name in ("claude", "agents", "gemini") if options[f"{name}_md"]]
    if everywhere and (names or options["name"]):
        raise click.UsageError("--claude-md, --agents-md, --gemini-md and --name go with one project.")
    folder = folder_of(options["folder"])
    if not everywhere and folder in (Path.home().resolve(), Path(folder.anchor)):
        raise Refused(
            f"{folder} is no project: all that you have is below it.",
            advice="Say --global, or go to a project's folder.",
        )
    if options["claude_md"] is None and not everywhere and not (options["yes"] or options["dry_run"]):
        file = document_file(folder, "CLAUDE.md")
        if console.is_interactive and markers_change(file).changes:
            question = (
                f"Shall what is remembered be shown in {file.relative_to(document_root(folder))} as well, for all to see "
                "who get that file? Mindhold then keeps a block of it up to date between two markers, and nothing else in it"
            )
            names += ["CLAUDE.md"] if click.confirm(question, default=False, err=True) else []
    return InitRequest(
        level=level,
        folder=folder,
        server=not options["no_mcp"],
        status_line=options["statusline"],
        documents=tuple(names),
        toolsets=options["toolsets"],
        name=options["name"],
    )


async def run_init(
    cli: CliSession, request: InitRequest, *, dry_run: bool = False, yes: bool = False
) -> InitOutcome:
    """Plan, ask and install. Nothing is written before all files have been checked."""
    from mindhold.contracts.mcp.tools import tools_of

    if request.toolsets:
        tools_of([request.toolsets])  # raises for an unknown toolset
    settings = cli.loaded().settings
    program, new_home = program_here(), home_of_option()
    places = client_places(settings)
    changes = plan_changes(request, places, program, new_home=new_home, home=settings.home)
    claude_settings = read_claude_settings(request.level, request.folder, places)
    check_home(claude_settings, request.level, new_home=new_home, home=settings.home)
    read_manifest(settings.home)  # raises if the manifest can't be used
    notes = [
        *_notes(request, changes, program, home=new_home),
        *hook_warnings(claude_settings, request.level, program),
    ]
    outcome = InitOutcome(request, changes, program, notes, dry_run=dry_run)
    pending = [change for change in changes if change.changes]
    if dry_run:
        return outcome
    for change in pending:
        check_writable(change.path)
    agree(cli.console, pending, yes=yes)
    project, is_new = await _register_project(cli, request)
    try:
        backup = install(
            settings.home,
            changes,
            place=request.place,
            client=CLAUDE,
            now=datetime.now(UTC),
            project=project if is_new else None,
        )
    except MindholdError:
        if is_new and project:
            await _remove_project(cli, project)
        raise
    return replace(outcome, project=project, backup=backup)


def plan_changes(
    request: InitRequest, places: ClientFolders, program: StartCommand, *, new_home: str | None, home: Path
) -> list[FileChange]:
    """Plan the change of every file; `new_home` is a home folder to write into the entry. Raises InvalidInput, Conflict."""
    settings = hook_settings_file(request.level, request.folder, places)
    changes = [settings_change(settings, program, home=new_home, status_line=request.status_line)]
    if request.server:
        changes.append(_server_change(request, places, program, new_home=new_home, home=home))
    return changes + [markers_change(document_file(request.folder, name)) for name in request.documents]


def _server_change(
    request: InitRequest, places: ClientFolders, program: StartCommand, *, new_home: str | None, home: Path
) -> FileChange:
    """Plan the server's entry. An existing entry keeps its toolsets unless others are requested."""
    path = request.folder / ".mcp.json" if request.level == PROJECT else places.claude_json
    keys: KeyPath = ("mcpServers", NAME)
    if request.level == LOCAL:
        keys = claude_local_keys(request.folder, project_identity(str(request.folder)))
    entry = server_entry(program, toolsets=request.toolsets or TOOLSETS, home=new_home)
    with errors_name_file(path):
        existing = parse_json_file(path, read(path)).get(keys)
    call = server_call(existing)
    if call is not None:
        named_home = existing["env"].get(HOME_VARIABLE) if isinstance(existing.get("env"), dict) else None
        check_same_home(path, call.home or ("env" not in entry and named_home), home=home)
        if request.toolsets is None:
            entry = {**entry, "args": program.arguments_for(*call.words)}
    return json_change(path, keys, entry)


def document_root(folder: Path) -> Path:
    """Return the folder of a project's documents: the top of the repository or worktree."""
    return next((parent for parent in (folder, *folder.parents) if (parent / ".git").exists()), folder)


def document_file(folder: Path, name: str) -> Path:
    """Return the path of a document; CLAUDE.md may be in .claude."""
    root = document_root(folder)
    hidden = root / ".claude" / name
    return hidden if name == "CLAUDE.md" and hidden.exists() and not (root / name).exists() else root / name


async def _register_project(cli: CliSession, request: InitRequest) -> tuple[str | None, bool]:
    """Register the project; return its name and whether it is new. Raises Conflict for a used name, Refused.

    The hook cache is filled, so that the first conversation gets memories too.
    """
    from mindhold.capture.hook_cache import MAKE_HOOK_CACHE
    from mindhold.projects.projects import LIST_PROJECTS, OPEN_FOLDER

    async with cli.open() as session:
        if request.level == PERSON:
            await session.run(MAKE_HOOK_CACHE, folders=[""])
            return None, False
        before = await session.run(LIST_PROJECTS)
        project = await session.run(OPEN_FOLDER, folder=str(request.folder), name=request.name)
        await session.run(MAKE_HOOK_CACHE, folders=[str(request.folder)], others=False)
    return project.name, project.name not in {known_project.name for known_project in before.projects}


async def _remove_project(cli: CliSession, project: str) -> None:
    """Remove a new project whose files could not be written."""
    from mindhold.projects.projects import SHOW_PROJECT
    from mindhold.projects.scope_operations import DELETE_SCOPE

    with suppress(MindholdError):
        async with cli.open() as session:
            view = await session.run(SHOW_PROJECT, name=project)
            if view.memories == 0:
                await session.run(DELETE_SCOPE, name=project)


def _notes(
    request: InitRequest, changes: list[FileChange], program: StartCommand, *, home: str | None
) -> list[str]:
    notes = []
    root = document_root(request.folder)
    shared = request.level == PROJECT and any(change.changes for change in changes[: 1 + request.server])
    if shared and not program.portable:
        notes.append(f"{NOT_FOR_OTHERS.format(command=program.command)}, or say --local.")
    elif shared and (root / ".git").exists():
        notes.append(
            "Who shares these files and hasn't Mindhold is told by Claude Code that it can't be started; `mindhold init "
            "--local` is for you alone."
        )
    if request.level == LOCAL and changes[0].before is None and (root / ".git").exists():
        file = changes[0].path.relative_to(root).as_posix()
        notes.append(
            f"Unless git ignores {file} already, write it into .git/info/exclude, or it may be committed unawares."
        )
    if request.level != PERSON and root != request.folder:
        notes.append(
            f"This folder is within {root}: Claude Code has these hooks where it is started here, and not there. "
            f"`mindhold init {root}` sets up all of it."
        )
    if only_while_active(program):
        notes.append(
            "mindhold is on the PATH by an active virtual environment only: start Claude Code within it, or install "
            "Mindhold outside of it."
        )
    if home:
        notes.append(f"{HOME_VARIABLE}={home} is written along, since --home said so.")
    if any(change.path.name == ".mcp.json" and change.changes for change in changes):
        notes.append("Claude Code asks once whether it may use the server of .mcp.json.")
    return notes


def init_document(outcome: InitOutcome) -> dict[str, Any]:
    """Return the outcome for --json."""
    request = outcome.request
    return {
        "dry_run": outcome.dry_run,
        "level": request.level,
        "folder": None if request.level == PERSON else str(request.folder),
        "project": outcome.project,
        "command": [outcome.program.command, *outcome.program.arguments],
        "portable": outcome.program.portable,
        "changes": documents(outcome.changes),
        "unchanged": [str(change.path) for change in outcome.changes if not change.changes],
        "backup": str(outcome.backup) if outcome.backup else None,
        "notes": outcome.notes,
    }


def print_outcome(console: Console, outcome: InitOutcome) -> None:
    """Print the outcome."""
    changes = [change for change in outcome.changes if change.changes]
    if not changes:
        console.line("All is in place already: nothing was changed.")
    elif outcome.dry_run:
        console.line("This would")
        show_plan(console.line, changes, whole=True)
    else:
        for change in changes:
            console.line(neutral(f"{'Made' if change.before is None else 'Changed'} {change.path}"))
    if outcome.project:
        console.line(f"What is said here is remembered as the project {neutral(outcome.project)}.")
    program = outcome.program
    call = " ".join((program.command, *program.arguments))
    console.note(f"Clients call it by {'its name' if program.portable else 'its path'}, {call}.")
    if outcome.backup:
        console.note(f"What was there before is in {outcome.backup}.")
    for note in outcome.notes:
        console.note(note)
    if changes and not outcome.dry_run:
        command = "mindhold uninstall --global" if outcome.request.level == PERSON else "mindhold uninstall"
        console.note(f"`mindhold status` tells what was captured; `{command}` takes this back.")


@command(
    "connect",
    local=True,
    examples=[
        "mindhold connect desktop",
        "mindhold connect cursor --project .",
        "mindhold connect codex --print",
        "mindhold connect vscode --remove",
    ],
)
@click.argument("client", type=click.Choice(list(MCP_CLIENTS)))
@click.option(
    "--project",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    help="Write that project's file instead of yours.",
)
@click.option("--toolsets", metavar="NAMES", help="The tools to serve; `mindhold mcp --help` lists them.")
@click.option("--remove", is_flag=True, help="Remove the entry.")
@click.option("--print", "shown_only", is_flag=True, help="Print the entry; write nothing.")
@click.option("--yes", "-y", is_flag=True, help="Don't ask for confirmation.")
@click.pass_obj
def connect(
    cli: CliSession,
    client: str,
    project: Path | None,
    toolsets: str | None,
    remove: bool,
    shown_only: bool,
    yes: bool,
) -> None:
    """Add the memory tools to an MCP client.

    Such as Claude Desktop, Cursor, VS Code, Codex, Gemini CLI, or Claude Code without hooks. Other content of the file
    stays as it is; a second run changes nothing.
    """
    if remove and (shown_only or toolsets):
        raise click.UsageError("--remove goes alone.")
    mcp_client = MCP_CLIENTS[client]
    folder = None if project is None else folder_of(project)
    path = mcp_client.file(client_places(cli.loaded().settings), folder)
    if remove:
        _remove_entry(cli, mcp_client, path, folder, yes=yes)
        return
    if toolsets:
        from mindhold.contracts.mcp.tools import tools_of

        tools_of([toolsets])  # raises for an unknown toolset
    program = program_here(absolute=folder is None)
    entry = mcp_client.entry(program, toolsets=toolsets, home=home_of_option())
    if shown_only:
        if not cli.console.as_json({"file": str(path), "entry": entry}):
            cli.console.line(mcp_client.shown(path, entry).rstrip("\n"))
            cli.console.note(f"belongs into {path}")
        return
    change = mcp_client.change(path, entry)
    _add_entry(cli, mcp_client, change, folder, yes=yes)
    if folder is not None and not program.portable:
        cli.console.note(f"{NOT_FOR_OTHERS.format(command=program.command)}.")


def _add_entry(
    cli: CliSession, client: McpClient, change: FileChange, folder: Path | None, *, yes: bool
) -> None:
    console, home = cli.console, cli.loaded().settings.home
    agree(console, [change], yes=yes)
    place = str(folder) if folder else ""
    backup = install(home, [change], place=place, client=client.name, now=datetime.now(UTC))
    document = {"client": client.name, "file": str(change.path), "changes": documents([change])}
    if console.as_json({**document, "backup": str(backup) if backup else None}):
        return
    if not change.changes:
        console.line(neutral(f"{change.path} has it already: nothing was changed."))
        return
    console.line(neutral(f"{'Made' if change.before is None else 'Changed'} {change.path}"))
    if backup:
        console.note(f"What was there before is in {backup}.")
    console.note(client.after)


def _remove_entry(cli: CliSession, client: McpClient, path: Path, folder: Path | None, *, yes: bool) -> None:
    console, home = cli.console, cli.loaded().settings.home
    place = str(folder) if folder else ""
    records = [
        record
        for record in read_manifest(home).at(place)
        if record.client == client.name and record.path == str(path)
    ]
    planned = plan_removal(home, records or [unrecorded_entry(path, place, client)])
    changes = [change for _, change in planned]
    agree(console, changes, yes=yes)
    folders = uninstall(home, planned)
    document = {"client": client.name, "file": str(path), "changes": documents(changes)}
    if console.as_json({**document, "folders_removed": folders}):
        return
    for change in changes:
        verb = "Removed" if change.after is None else "Cleared"
        console.line(neutral(f"{verb} {path}" if change.changes else f"Nothing of Mindhold's is in {path}."))
