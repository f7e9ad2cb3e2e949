"""`mindhold init` and `mindhold connect`: hooks and tools for Claude Code, and the server's entry for other clients."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mindhold.hooks.project_identity import project_identity
from mindhold.installers.claude import markers_change, settings_change
from mindhold.installers.files import (
    TABLE,
    FileChange,
    check_writable,
    errors_name_file,
    parse_json_file,
    read,
)
from mindhold.installers.json_text import KeyPath
from mindhold.installers.manifest import (
    InstalledFile,
    install,
    plan_removal,
    read_manifest,
    server_undo,
    uninstall,
)
from mindhold.installers.mcp_clients import (
    HOME_VARIABLE,
    MCP_CLIENTS,
    NAME,
    TOML,
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
    home_as_said,
    hook_settings_file,
    hook_warnings,
    how_called,
    is_person,
    looked_like_ours,
    only_while_active,
    program_here,
    read_claude_settings,
    says_home,
    show_plan,
    this_moment,
)
from mindhold.interfaces.cli.output import Console, neutral
from mindhold.interfaces.cli.session import CliSession
from mindhold.model.errors import MindholdError, Refused
from mindhold.model.host import ClientFolders
from mindhold.settings.loader import client_places

if TYPE_CHECKING:
    pass


TOOLSETS = "core,capture"
CONSENT = (
    "Shall what is remembered be shown in {file} as well, for all to see who get that file? Mindhold then keeps a block "
    "of it up to date between two markers, and nothing else in it"
)
NOT_A_PROJECT = "{folder} is no project: all that you have is below it."
IN_COMMON = (
    "Who shares these files and hasn't Mindhold is told by Claude Code that it can't be started; `mindhold init --local` "
    "is for you alone."
)
WITHIN = (
    "This folder is within {top}: Claude Code has these hooks where it is started here, and not there. `mindhold init "
    "{top}` sets up all of it."
)
YOURS_ALONE = (
    "Unless git ignores {file} already, write it into .git/info/exclude, or it may be committed unawares."
)
CLAUDE = "claude"


@dataclass(frozen=True, slots=True)
class InitRequest:
    """What init is to do. `documents` are those that get markers."""

    level: str
    folder: Path
    server: bool = True
    status_line: bool = False
    documents: tuple[str, ...] = ()
    toolsets: str | None = None  # the usual ones, or those that are there already
    name: str | None = None

    @property
    def place(self) -> str:
        """As it is noted."""
        return "" if self.level == PERSON else str(self.folder)


@dataclass(frozen=True, slots=True)
class InitOutcome:
    """What came of it."""

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
        "mindhold init --dry-run",
    ],
)
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option("--global", "everywhere", is_flag=True, help="For all of your projects: in your own settings.")
@click.option("--local", is_flag=True, help="For you alone in this project: in no file that others share.")
@click.option("--claude-md/--no-claude-md", default=None, help="Show what is remembered in CLAUDE.md too.")
@click.option("--agents-md", is_flag=True, help="In AGENTS.md too.")
@click.option("--gemini-md", is_flag=True, help="In GEMINI.md too.")
@click.option("--statusline", is_flag=True, help="Claude Code's status line tells what is remembered.")
@click.option("--no-mcp", is_flag=True, help="Hooks only: no tools for the agent.")
@click.option("--name", metavar="NAME", help="The project's name; the folder's unless given.")
@click.option("--toolsets", metavar="NAMES", help=f"Tools for the agent; {TOOLSETS} unless given.")
@click.option("--dry-run", is_flag=True, help="Say what would change, and change nothing.")
@click.option("--yes", "-y", is_flag=True, help="Don't ask.")
@with_session
async def init(cli: CliSession, /, **given: Any) -> None:
    """Let Claude Code remember what is worked on here: hooks and tools, put into its settings.

    What others have in these files stays as it is, byte for byte; `mindhold uninstall` takes back what was put in. A
    second run changes nothing.
    """
    wish = init_request(cli.console, **given)
    outcome = await run_init(cli, wish, dry_run=given["dry_run"], yes=given["yes"])
    if cli.console.json:
        cli.console.document(init_document(wish, outcome))
    else:
        print_outcome(cli.console, outcome, wish)


def init_request(console: Console, /, **given: Any) -> InitRequest:
    """What the options ask for, and the person. Raises click.UsageError, NotFound, Refused."""
    everywhere, local = given["everywhere"], given["local"]
    if everywhere and local:
        raise click.UsageError("--global and --local exclude each other.")
    level = PERSON if everywhere else LOCAL if local else PROJECT
    names = [
        name
        for name, wanted in (
            ("CLAUDE.md", given["claude_md"]),
            ("AGENTS.md", given["agents_md"]),
            ("GEMINI.md", given["gemini_md"]),
        )
        if wanted
    ]
    if everywhere and (names or given["name"]):
        raise click.UsageError("--claude-md, --agents-md, --gemini-md and --name go with one project.")
    folder = folder_of(given["folder"])
    if not everywhere and folder in (Path.home().resolve(), Path(folder.anchor)):
        raise Refused(
            NOT_A_PROJECT.format(folder=folder), advice="Say --global, or go to a project's folder."
        )
    if given["claude_md"] is None and not everywhere and not (given["yes"] or given["dry_run"]):
        file = document_file(folder, "CLAUDE.md")
        if is_person(console) and markers_change(file).changes:
            question = CONSENT.format(file=file.relative_to(document_root(folder)))
            names += ["CLAUDE.md"] if click.confirm(question, default=False, err=True) else []
    return InitRequest(
        level=level,
        folder=folder,
        server=not given["no_mcp"],
        status_line=given["statusline"],
        documents=tuple(names),
        toolsets=given["toolsets"],
        name=given["name"],
    )


async def run_init(
    cli: CliSession, wish: InitRequest, *, dry_run: bool = False, yes: bool = False
) -> InitOutcome:
    """Plan, ask, do. Nothing is written anywhere before all files are known to be right."""
    from mindhold.contracts.mcp.tools import tools_of

    if wish.toolsets:
        tools_of([wish.toolsets])  # raises for one that there isn't
    settings = cli.loaded().settings
    program, said = program_here(), home_as_said()
    places = client_places(settings)
    changes = plan_changes(wish, places, program, said=said, home=settings.home)
    found = read_claude_settings(wish.level, wish.folder, places)
    check_home(found, wish.level, said=said, home=settings.home)
    read_manifest(settings.home)  # raises where nothing could be noted
    notes = [*_notes(wish, changes, program, home=said), *hook_warnings(found, wish.level, program)]
    outcome = InitOutcome(changes, program, notes, dry_run=dry_run)
    wanted = [change for change in changes if change.changes]
    if dry_run:
        return outcome
    for change in wanted:
        check_writable(change.path)
    agree(cli.console, wanted, yes=yes)
    project, made = await _registered(cli, wish)
    try:
        backup = install(
            settings.home,
            changes,
            place=wish.place,
            client=CLAUDE,
            now=this_moment(),
            project=project if made else None,
        )
    except MindholdError:
        if made and project:
            await _taken_back(cli, project)
        raise
    return replace(outcome, project=project, backup=backup)


def plan_changes(
    wish: InitRequest, places: ClientFolders, program: StartCommand, *, said: str | None, home: Path
) -> list[FileChange]:
    """Every file as it would be. `said` is the home if it is to be written along. Raises InvalidInput, Conflict."""
    settings = hook_settings_file(wish.level, wish.folder, places)
    changes = [settings_change(settings, program, home=said, status_line=wish.status_line)]
    if wish.server:
        path = wish.folder / ".mcp.json" if wish.level == PROJECT else places.claude_json
        local = wish.level == LOCAL
        keys: KeyPath = ("mcpServers", NAME)
        keys = claude_local_keys(wish.folder, project_identity(str(wish.folder))) if local else keys
        entry = server_entry(program, toolsets=wish.toolsets or TOOLSETS, home=said)
        changes.append(_server_change(path, keys, wish, program, entry, home=home))
    return changes + [markers_change(document_file(wish.folder, name)) for name in wish.documents]


def _server_change(
    path: Path, keys: KeyPath, wish: InitRequest, program: StartCommand, entry: dict[str, Any], *, home: Path
) -> FileChange:
    """A server that is there already keeps its tools, unless others are asked for."""
    with errors_name_file(path):
        known = parse_json_file(path, read(path)).get(keys)
    call = server_call(known)
    if call is not None:
        named = known["env"].get(HOME_VARIABLE) if isinstance(known.get("env"), dict) else None
        check_same_home(path, call.home or ("env" not in entry and named), home=home)
        if wish.toolsets is None:
            entry = {**entry, "args": program.arguments_for(*call.words)}
    return json_change(path, keys, entry)


def document_root(folder: Path) -> Path:
    """Where a project's documents are: at the top of the repository or worktree."""
    return next((one for one in (folder, *folder.parents) if (one / ".git").exists()), folder)


def document_file(folder: Path, name: str) -> Path:
    """CLAUDE.md may also be in .claude."""
    root = document_root(folder)
    hidden = root / ".claude" / name
    return hidden if name == "CLAUDE.md" and hidden.exists() and not (root / name).exists() else root / name


async def _registered(cli: CliSession, wish: InitRequest) -> tuple[str | None, bool]:
    """The project's name, and whether it was made now. Raises Conflict for a name that is taken, Refused.

    What is known already is laid out for the first conversation, which would be told nothing otherwise.
    """
    from mindhold.capture.hook_cache import MAKE_LEAFLET
    from mindhold.projects.projects import LIST_PROJECTS, OPEN_FOLDER

    async with cli.open() as session:
        if wish.level == PERSON:
            await session.run(MAKE_LEAFLET, folders=[""])
            return None, False
        before = await session.run(LIST_PROJECTS)
        here = await session.run(OPEN_FOLDER, folder=str(wish.folder), name=wish.name)
        await session.run(MAKE_LEAFLET, folders=[str(wish.folder)], others=False)
    return here.name, here.name not in {one.name for one in before.projects}


async def _taken_back(cli: CliSession, project: str) -> None:
    """A project that was made for files which then couldn't be written."""
    from mindhold.projects.projects import SHOW_PROJECT
    from mindhold.projects.scope_operations import DELETE_SCOPE

    with suppress(MindholdError):
        async with cli.open() as session:
            made = await session.run(SHOW_PROJECT, name=project)
            if made.memories == 0:
                await session.run(DELETE_SCOPE, name=project)


def _notes(
    wish: InitRequest, changes: list[FileChange], program: StartCommand, *, home: str | None
) -> list[str]:
    notes = []
    root = document_root(wish.folder)
    shared = wish.level == PROJECT and any(change.changes for change in changes[: 1 + wish.server])
    if shared and not program.portable:
        notes.append(NOT_FOR_OTHERS.format(command=program.command))
    elif shared and (root / ".git").exists():
        notes.append(IN_COMMON)
    if wish.level == LOCAL and changes[0].before is None and (root / ".git").exists():
        notes.append(YOURS_ALONE.format(file=changes[0].path.relative_to(root).as_posix()))
    if wish.level != PERSON and root != wish.folder:
        notes.append(WITHIN.format(top=root))
    if only_while_active(program):
        notes.append(
            "mindhold is on the PATH by an active virtual environment only: start Claude Code within it, or install "
            "Mindhold outside of it."
        )
    if home:
        notes.append(says_home(home))
    if any(change.path.name == ".mcp.json" and change.changes for change in changes):
        notes.append("Claude Code asks once whether it may use the server of .mcp.json.")
    return notes


def init_document(wish: InitRequest, done: InitOutcome) -> dict[str, Any]:
    """For --json."""
    return {
        "dry_run": done.dry_run,
        "level": wish.level,
        "folder": None if wish.level == PERSON else str(wish.folder),
        "project": done.project,
        "command": [done.program.command, *done.program.arguments],
        "portable": done.program.portable,
        "changes": documents(done.changes),
        "unchanged": [str(change.path) for change in done.changes if not change.changes],
        "backup": str(done.backup) if done.backup else None,
        "notes": done.notes,
    }


def print_outcome(console: Console, done: InitOutcome, wish: InitRequest) -> None:
    """For people."""
    wanted = [change for change in done.changes if change.changes]
    if not wanted:
        console.line("All is in place already: nothing was changed.")
    elif done.dry_run:
        console.line("This would")
        show_plan(console.line, wanted, whole=True)
    else:
        for change in wanted:
            console.line(neutral(f"{'Made' if change.before is None else 'Changed'} {change.path}"))
    if done.project:
        console.line(f"What is said here is remembered as the project {neutral(done.project)}.")
    console.note(f"{how_called(done.program)}.")
    if done.backup:
        console.note(f"What was there before is in {done.backup}.")
    for note in done.notes:
        console.note(note)
    if wanted and not done.dry_run:
        back = "mindhold uninstall --global" if wish.level == PERSON else "mindhold uninstall"
        console.note(f"`mindhold status` tells what was captured; `{back}` takes this back.")


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
    help="In that project's file instead of yours.",
)
@click.option("--toolsets", metavar="NAMES", help="Which tools to serve; `mindhold mcp --help` lists them.")
@click.option("--remove", is_flag=True, help="Take the entry out again.")
@click.option("--print", "shown_only", is_flag=True, help="Print the entry, and write nothing.")
@click.option("--yes", "-y", is_flag=True, help="Don't ask.")
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
    """Give a client the memory tools: Claude Desktop, Cursor, VS Code, Codex, Gemini CLI, or Claude Code without hooks.

    What others have in the file stays as it is; a second run changes nothing.
    """
    if remove and (shown_only or toolsets):
        raise click.UsageError("--remove goes alone.")
    chosen = MCP_CLIENTS[client]
    folder = None if project is None else folder_of(project)
    path = chosen.file(client_places(cli.loaded().settings), folder)
    if remove:
        _take_out(cli, chosen, path, folder, yes=yes)
        return
    if toolsets:
        from mindhold.contracts.mcp.tools import tools_of

        tools_of([toolsets])  # raises for one that there isn't
    program = program_here(absolute=folder is None)
    entry = chosen.entry(program, toolsets=toolsets, home=home_as_said())
    if shown_only:
        if cli.console.json:
            cli.console.document({"file": str(path), "entry": entry})
        else:
            cli.console.line(chosen.shown(path, entry).rstrip("\n"))
            cli.console.note(f"belongs into {path}")
        return
    change = chosen.change(path, entry)
    _put_in(cli, chosen, change, folder, yes=yes)
    if folder is not None and not program.portable:
        cli.console.note(
            NOT_FOR_OTHERS.format(command=program.command).removesuffix(", or say --local.") + "."
        )


def _put_in(
    cli: CliSession, client: McpClient, change: FileChange, folder: Path | None, *, yes: bool
) -> None:
    console, home = cli.console, cli.loaded().settings.home
    agree(console, [change], yes=yes)
    place = str(folder) if folder else ""
    backup = install(home, [change], place=place, client=client.name, now=this_moment())
    if console.json:
        told = {"client": client.name, "file": str(change.path), "changes": documents([change])}
        console.document({**told, "backup": str(backup) if backup else None})
        return
    if not change.changes:
        console.line(neutral(f"{change.path} has it already: nothing was changed."))
        return
    console.line(neutral(f"{'Made' if change.before is None else 'Changed'} {change.path}"))
    if backup:
        console.note(f"What was there before is in {backup}.")
    console.note(client.after)


def _take_out(cli: CliSession, client: McpClient, path: Path, folder: Path | None, *, yes: bool) -> None:
    console, home = cli.console, cli.loaded().settings.home
    place = str(folder) if folder else ""
    noted = [
        one for one in read_manifest(home).at(place) if one.client == client.name and one.path == str(path)
    ]
    planned = plan_removal(home, noted or [_unnoted(client, path, place)])
    changes = [change for _, change in planned]
    agree(console, changes, yes=yes)
    gone = uninstall(home, planned)
    if console.json:
        told = {"client": client.name, "file": str(path), "changes": documents(changes)}
        console.document({**told, "folders_removed": gone})
        return
    for change in changes:
        verb = "Removed" if change.after is None else "Cleared"
        told_of = (
            neutral(f"{verb} {path}") if change.changes else neutral(f"Nothing of Mindhold's is in {path}.")
        )
        console.line(told_of)


def _unnoted(client: McpClient, path: Path, place: str) -> InstalledFile:
    keys = client.keys()
    undo = ({"do": TABLE, "path": list(keys)},) if path.suffix == TOML else server_undo(*keys)
    return looked_like_ours(path, place, client.name, undo)
