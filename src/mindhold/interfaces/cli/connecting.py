"""`mindhold connect`: the server's entry in the settings of other clients."""

from __future__ import annotations

from pathlib import Path

import click

from mindhold.clients.connect import CLIENTS, TOML, Client
from mindhold.clients.files import Change
from mindhold.clients.installed import Record, install, manifest, plan_removal, uninstall
from mindhold.clients.notes import TABLE
from mindhold.clients.taking import of_server
from mindhold.interfaces.cli.command import command
from mindhold.interfaces.cli.output import neutral
from mindhold.interfaces.cli.placing import (
    NOT_FOR_OTHERS,
    agree,
    documents,
    folder_of,
    home_as_said,
    looked_like_ours,
    program_here,
    this_moment,
)
from mindhold.interfaces.cli.session import Session
from mindhold.settings.places import places as places_of


@command(
    "connect",
    examples=[
        "mindhold connect desktop",
        "mindhold connect cursor --project .",
        "mindhold connect codex --print",
        "mindhold connect vscode --remove",
    ],
)
@click.argument("client", type=click.Choice(list(CLIENTS)))
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
    session: Session,
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
    chosen = CLIENTS[client]
    folder = None if project is None else folder_of(project)
    path = chosen.file(places_of(session.loaded().settings), folder)
    if remove:
        _take_out(session, chosen, path, folder, yes=yes)
        return
    if toolsets:
        from mindhold.dialects.toolsets import tools_of

        tools_of([toolsets])  # raises for one that there isn't
    program = program_here(absolute=folder is None)
    entry = chosen.entry(program, toolsets=toolsets, home=home_as_said())
    if shown_only:
        if session.console.json:
            session.console.document({"file": str(path), "entry": entry})
        else:
            session.console.line(chosen.shown(path, entry).rstrip("\n"))
            session.console.note(f"belongs into {path}")
        return
    change = chosen.change(path, entry)
    _put_in(session, chosen, change, folder, yes=yes)
    if folder is not None and not program.portable:
        session.console.note(
            NOT_FOR_OTHERS.format(command=program.command).removesuffix(", or say --local.") + "."
        )


def _put_in(session: Session, client: Client, change: Change, folder: Path | None, *, yes: bool) -> None:
    console, home = session.console, session.loaded().settings.home
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


def _take_out(session: Session, client: Client, path: Path, folder: Path | None, *, yes: bool) -> None:
    console, home = session.console, session.loaded().settings.home
    place = str(folder) if folder else ""
    noted = [one for one in manifest(home).at(place) if one.client == client.name and one.path == str(path)]
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


def _unnoted(client: Client, path: Path, place: str) -> Record:
    keys = client.keys()
    undo = ({"do": TABLE, "path": list(keys)},) if path.suffix == TOML else of_server(*keys)
    return looked_like_ours(path, place, client.name, undo)
