"""`mindhold backup` and `mindhold restore`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mindhold.interfaces.cli.command import Group, command, with_open_session, with_session, words
from mindhold.interfaces.cli.forget import confirm
from mindhold.interfaces.cli.output import local_time, megabytes, neutral, plural
from mindhold.interfaces.cli.session import CliSession, OpenSession
from mindhold.model.errors import InvalidInput, Refused

if TYPE_CHECKING:
    from mindhold.backup.restore import ReplaceResult


UNPROVEN = 1
PASSPHRASE = "backup.passphrase"


class _Backup(Group):
    """What isn't one of its commands is the name of a backup to make."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        first = next((one for one in args if not one.startswith("-")), None)
        if first not in self.commands and not {"-h", "--help"} & set(args):
            args = ["make", *args]
        return super().parse_args(ctx, args)


def with_passphrase(callback: Any) -> Any:
    """The option that names a file."""
    return click.option(
        "--passphrase-file",
        type=click.Path(path_type=Path),
        help="A file whose first line is the passphrase. Else MINDHOLD_BACKUP_PASSPHRASE, else it is asked for.",
    )(callback)


@click.group(
    "backup",
    cls=_Backup,
    examples=[
        "mindhold backup",
        "mindhold backup before-the-move --encrypt",
        "mindhold backup list",
        "mindhold backup verify --all",
    ],
)
def backup() -> None:
    """Everything in one verified file: `mindhold backup [NAME]`.

    Memories of every status with their vectors, versions, links, scopes, contradictions, keys and jobs, of all stores, as they are
    at one moment, while others write. The file lies in the folder `backups` of the home, for you alone.
    """


@backup.command("make", examples=["mindhold backup make", "mindhold backup make before-the-move --encrypt"])
@click.argument("name", required=False)
@click.option("--encrypt/--plain", default=None, help="Encrypt it, or not; else as backup.encrypt says.")
@with_passphrase
@words("--without", metavar="STORE", help="Leave out this store, where projects live, if it doesn't answer.")
@with_session
async def make(
    cli: CliSession,
    /,
    *,
    name: str | None,
    encrypt: bool | None,
    passphrase_file: Path | None,
    without: tuple[str, ...],
) -> None:
    """Make a backup now. `mindhold backup NAME` is the same."""
    from mindhold.backup.create import BACKUP

    wanted = cli.loaded().settings.backup.encrypt if encrypt is None else encrypt
    secret = _secret(cli, passphrase_file, again=True) if wanted else {}
    async with cli.open(**secret) as session:
        made = await session.run(BACKUP, name=name, encrypt=encrypt, without=without)
    if cli.console.json:
        cli.console.document(made)
        return
    sealed = ", encrypted" if made.encrypted else ""
    cli.console.line(f"{neutral(made.path)}  {megabytes(made.bytes)}{sealed}")
    cli.console.note(
        f"{plural(made.memories, 'memory')}, {made.vectors:,} with a vector, {made.versions:,} earlier versions, "
        f"{plural(made.links, 'link')}, {plural(made.scopes, 'scope')}; read back, and whole."
    )


@backup.command("list", examples=["mindhold backup list", "mindhold backup list --json"])
@with_open_session
async def list_backups(session: OpenSession) -> None:
    """The backups that there are, the newest first."""
    from mindhold.backup.create import LIST_BACKUPS

    result = await session.run(LIST_BACKUPS)
    console = session.console
    if console.json:
        console.document(result)
        return
    if not result.backups:
        console.line("There is no backup.")
        console.note("`mindhold backup` makes one.")
        return
    rows = [
        (
            neutral(one.file),
            local_time(one.created, session.zone),
            megabytes(one.bytes),
            ", ".join(filter(None, (one.made, "encrypted" * one.encrypted, "no sum" * (one.sha256 is None)))),
        )
        for one in result.backups
    ]
    console.table(("file", "made", "size", ""), rows)


@backup.command(
    "verify",
    examples=[
        "mindhold backup verify",
        "mindhold backup verify --all",
        "mindhold backup verify before-the-move",
    ],
)
@click.argument("file", required=False)
@click.option("--all", "every", is_flag=True, help="All that there are.")
@with_passphrase
@with_session
async def verify(cli: CliSession, /, *, file: str | None, every: bool, passphrase_file: Path | None) -> int:
    """Prove a backup, or the newest: restore it to a temporary place, and count and compare. Status 1 if one is bad."""
    from mindhold.backup.verify import VERIFY_BACKUPS

    async with cli.open(**_given_secret(cli, passphrase_file)) as session:
        result = await session.run(VERIFY_BACKUPS, file=file, all=every)
    console = cli.console
    if console.json:
        console.document(result)
    else:
        for one in result.backups:
            mark = console.style("good ", fg="green") if one.good else console.style("BAD  ", fg="red")
            told = one.problem or (
                f"{plural(one.memories, 'memory')} restored" if one.memories else "it is whole"
            )
            console.line(f"{mark} {neutral(one.file)}: {neutral(told)}")
    return 0 if result.good else UNPROVEN


@backup.command("drop", examples=["mindhold backup drop before-the-move"])
@click.argument("file")
@click.option("--yes", "-y", is_flag=True, help="Don't ask.")
@with_open_session
async def drop(session: OpenSession, /, *, file: str, yes: bool) -> None:
    """Remove a backup for good."""
    from mindhold.backup.create import DROP_BACKUP

    if not yes:
        confirm(session.console, f"Remove the backup {file} for good?")
    result = await session.run(DROP_BACKUP, file=file)
    if session.console.json:
        session.console.document(result)
    else:
        session.console.line(f"Removed {neutral(result.dropped.file)}.")


@command(
    "restore",
    examples=[
        "mindhold restore",
        "mindhold restore before-the-move --yes",
        "mindhold restore --merge",
        "mindhold restore --drop-old",
    ],
)
@click.argument("file", required=False)
@click.option("--merge", is_flag=True, help="Only bring back what is missing; what is there stays as it is.")
@click.option("--drop-old", is_flag=True, help="Remove what earlier restores put aside, or FILE of it.")
@click.option("--yes", "-y", is_flag=True, help="Don't ask.")
@with_passphrase
@with_session
async def restore(
    cli: CliSession,
    /,
    *,
    file: str | None,
    merge: bool,
    drop_old: bool,
    yes: bool,
    passphrase_file: Path | None,
) -> None:
    """Put a backup, or the newest, in the place of everything that is there now.

    It is verified first, restored to a new place, and proved there; then the two change places. What was there is kept aside
    until --drop-old. Servers and sessions that use the store are to be ended first.
    """
    if merge and drop_old:
        raise click.UsageError("--merge and --drop-old are two things: give one.")
    if drop_old:
        await _drop_old(cli, file, yes=yes)
    elif merge:
        await _merge(cli, file, passphrase_file)
    else:
        await _replace(cli, file, passphrase_file, yes=yes)


async def _replace(cli: CliSession, file: str | None, secret: Path | None, *, yes: bool) -> None:
    console = cli.console
    if not yes:
        confirm(console, f"Put {file or 'the newest backup'} in the place of everything that is there now?")
    loaded = cli.loaded(**_given_secret(cli, secret))
    with console.progress() as told:
        result: ReplaceResult = await _asked_again(cli, loaded, file, told)
    if console.json:
        console.document(result)
        return
    console.line(f"Restored {plural(result.memories, 'memory')} from {neutral(result.file)}.")
    for old in result.old:
        console.note(
            f"What was there is kept: {neutral(old.location)}. `mindhold restore --drop-old` removes it."
        )
    for problem in result.problems:
        console.warn(problem)


async def _asked_again(cli: CliSession, loaded: Any, file: str | None, told: Any) -> ReplaceResult:
    """With the passphrase of the person, where it is wanted and nobody has given one."""
    try:
        return await cli.launcher.restore(loaded, file, told=told)
    except Refused as error:
        if loaded.settings.backup.passphrase or "is encrypted" not in error.message or not sys.stdin.isatty():
            raise
    loaded = cli.loaded(**{PASSPHRASE: _typed(again=False)})
    return await cli.launcher.restore(loaded, file, told=told)


async def _merge(cli: CliSession, file: str | None, secret: Path | None) -> None:
    from mindhold.backup.restore import RESTORE

    async with cli.open(**_given_secret(cli, secret)) as session:
        result = await session.run(RESTORE, file=file)
    console = cli.console
    if console.json:
        console.document(result)
        return
    console.line(
        f"Brought back {plural(result.memories, 'memory')} from {neutral(result.file)}; "
        f"{result.skipped:,} were there already."
    )
    console.note(f"What was there before is in {neutral(result.safety)}.")
    console.note(result.note)


async def _drop_old(cli: CliSession, name: str | None, *, yes: bool) -> None:
    console = cli.console
    if not yes:
        confirm(console, f"Remove {name or 'all that restores have put aside'} for good?")
    result = await cli.launcher.drop_old(cli.loaded(), name)
    if console.json:
        console.document(result)
        return
    for old in result.dropped:
        console.line(f"Removed {neutral(old.location)}, {megabytes(old.bytes)}.")


def _given_secret(cli: CliSession, file: Path | None) -> dict[str, str]:
    """What a file says; nothing where none is named: then the settings may know."""
    return {} if file is None else {PASSPHRASE: _of_file(file)}


def _secret(cli: CliSession, file: Path | None, *, again: bool) -> dict[str, str]:
    """What a file says, or the settings know, or a person types. Raises Refused."""
    if file is not None:
        return {PASSPHRASE: _of_file(file)}
    if cli.loaded().settings.backup.read_passphrase() or not sys.stdin.isatty():
        return {}
    return {PASSPHRASE: _typed(again=again)}


def _typed(*, again: bool) -> str:
    return str(click.prompt("Passphrase", hide_input=True, confirmation_prompt=again, err=True))


def _of_file(path: Path) -> str:
    from mindhold.settings.sections import first_line

    found = first_line(path.expanduser())
    if found is None:
        raise InvalidInput(
            f"There is no passphrase in {path}.",
            advice="Its first line is the passphrase, without blanks around it.",
        )
    return found
