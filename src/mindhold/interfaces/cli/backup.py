"""`mindhold backup` and `mindhold restore`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from mindhold.interfaces.cli.command import Group, command, with_open_session, with_session, words
from mindhold.interfaces.cli.forget import confirm
from mindhold.interfaces.cli.output import local_time, megabytes, neutral, plural
from mindhold.interfaces.cli.session import CliSession, OpenSession
from mindhold.model.errors import InvalidInput, Refused

PASSPHRASE = "backup.passphrase"


class _BackupGroup(Group):
    """A group in which an unknown command is the name of a backup to make."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        first = next((argument for argument in args if not argument.startswith("-")), None)
        if first not in self.commands and not {"-h", "--help"} & set(args):
            args = ["make", *args]
        return super().parse_args(ctx, args)


with_passphrase = click.option(
    "--passphrase-file",
    type=click.Path(path_type=Path),
    help="A file with the passphrase on its first line (default: MINDHOLD_BACKUP_PASSPHRASE, or a prompt).",
)


@click.group(
    "backup",
    cls=_BackupGroup,
    examples=[
        "mindhold backup",
        "mindhold backup before-the-move --encrypt",
        "mindhold backup list",
        "mindhold backup verify --all",
    ],
)
def backup() -> None:
    """Everything in one verified file: `mindhold backup [NAME]`.

    A backup is a snapshot of all stores, taken while others write: memories of every status with vectors, versions,
    links, scopes, contradictions, keys and jobs. The file is in the folder `backups` of the home, readable by you alone.
    """


@backup.command("make", examples=["mindhold backup make", "mindhold backup make before-the-move --encrypt"])
@click.argument("name", required=False)
@click.option("--encrypt/--plain", default=None, help="Encrypt it or not (default: backup.encrypt).")
@with_passphrase
@words("--without", metavar="STORE", help="Leave out this store of projects if it doesn't answer.")
@with_session
async def make(
    cli: CliSession, /, *, encrypt: bool | None, passphrase_file: Path | None, **fields: Any
) -> None:
    """Make a backup now; `mindhold backup NAME` does the same."""
    from mindhold.backup.create import BACKUP

    settings = cli.loaded().settings.backup
    secret: dict[str, str] = {}
    if settings.encrypt if encrypt is None else encrypt:
        secret = _file_secret(passphrase_file)
        if not secret and not settings.read_passphrase() and sys.stdin.isatty():
            secret = {PASSPHRASE: _prompt_passphrase(again=True)}
    async with cli.open(**secret) as session:
        result = await session.run(BACKUP, encrypt=encrypt, **fields)
    if cli.console.as_json(result):
        return
    suffix = ", encrypted" if result.encrypted else ""
    cli.console.line(f"{neutral(result.path)}  {megabytes(result.bytes)}{suffix}")
    cli.console.note(
        f"{plural(result.memories, 'memory')}, {result.vectors:,} with a vector, {result.versions:,} earlier versions, "
        f"{plural(result.links, 'link')}, {plural(result.scopes, 'scope')}; read back, and whole."
    )


@backup.command("list", examples=["mindhold backup list", "mindhold backup list --json"])
@with_open_session
async def list_backups(session: OpenSession) -> None:
    """List the backups, newest first."""
    from mindhold.backup.create import LIST_BACKUPS

    result = await session.run(LIST_BACKUPS)
    console = session.console
    if console.as_json(result):
        return
    if not result.backups:
        console.line("There is no backup.")
        console.note("`mindhold backup` makes one.")
        return
    rows = []
    for backup_file in result.backups:
        unsummed = "no sum" if backup_file.sha256 is None else ""
        remarks = (backup_file.made, "encrypted" if backup_file.encrypted else "", unsummed)
        created = local_time(backup_file.created, session.zone)
        rows.append(
            (backup_file.file, created, megabytes(backup_file.bytes), ", ".join(filter(None, remarks)))
        )
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
@click.option("--all", "every", is_flag=True, help="Verify all backups.")
@with_passphrase
@with_session
async def verify(cli: CliSession, /, *, file: str | None, every: bool, passphrase_file: Path | None) -> int:
    """Verify a backup, or the newest, by a trial restore.

    The exit status is 1 if one is bad.
    """
    from mindhold.backup.verify import VERIFY_BACKUPS

    async with cli.open(**_file_secret(passphrase_file)) as session:
        result = await session.run(VERIFY_BACKUPS, file=file, all=every)
    console = cli.console
    if not console.as_json(result):
        for check in result.backups:
            mark = console.style("good ", fg="green") if check.good else console.style("BAD  ", fg="red")
            text = check.problem or (
                f"{plural(check.memories, 'memory')} restored" if check.memories else "it is whole"
            )
            console.line(f"{mark} {neutral(check.file)}: {neutral(text)}")
    return 0 if result.good else 1


@backup.command("drop", examples=["mindhold backup drop before-the-move"])
@click.argument("file")
@click.option("--yes", "-y", is_flag=True, help="Don't ask for confirmation.")
@with_open_session
async def drop(session: OpenSession, /, *, file: str, yes: bool) -> None:
    """Remove a backup for good."""
    from mindhold.backup.create import DROP_BACKUP

    confirm(session.console, f"Remove the backup {file} for good?", yes=yes)
    result = await session.run(DROP_BACKUP, file=file)
    if not session.console.as_json(result):
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
@click.option("--merge", is_flag=True, help="Only bring back what is missing; change nothing else.")
@click.option(
    "--drop-old", is_flag=True, help="Remove the databases that restores have replaced, or only FILE."
)
@click.option("--yes", "-y", is_flag=True, help="Don't ask for confirmation.")
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
    """Replace everything with a backup, or the newest.

    The backup is verified and restored to a new place first; then the two are swapped. The replaced data is kept until
    --drop-old. Stop servers and sessions that use the store before.
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
    confirm(
        console, f"Put {file or 'the newest backup'} in the place of everything that is there now?", yes=yes
    )
    loaded = cli.loaded(**_file_secret(secret))
    with console.progress() as progress:
        try:
            result = await cli.launcher.restore(loaded, file, told=progress)
        except Refused as error:
            has_passphrase = bool(loaded.settings.backup.passphrase)
            if has_passphrase or "is encrypted" not in error.message or not sys.stdin.isatty():
                raise
            loaded = cli.loaded(**{PASSPHRASE: _prompt_passphrase(again=False)})
            result = await cli.launcher.restore(loaded, file, told=progress)
    if console.as_json(result):
        return
    console.line(f"Restored {plural(result.memories, 'memory')} from {neutral(result.file)}.")
    for old in result.old:
        console.note(
            f"What was there is kept: {neutral(old.location)}. `mindhold restore --drop-old` removes it."
        )
    for problem in result.problems:
        console.warn(problem)


async def _merge(cli: CliSession, file: str | None, secret: Path | None) -> None:
    from mindhold.backup.restore import RESTORE

    async with cli.open(**_file_secret(secret)) as session:
        result = await session.run(RESTORE, file=file)
    console = cli.console
    if console.as_json(result):
        return
    console.line(
        f"Brought back {plural(result.memories, 'memory')} from {neutral(result.file)}; "
        f"{result.skipped:,} were there already."
    )
    console.note(f"What was there before is in {neutral(result.safety)}.")
    console.note(result.note)


async def _drop_old(cli: CliSession, name: str | None, *, yes: bool) -> None:
    console = cli.console
    confirm(console, f"Remove {name or 'all that restores have put aside'} for good?", yes=yes)
    result = await cli.launcher.drop_old(cli.loaded(), name)
    if console.as_json(result):
        return
    for old in result.dropped:
        console.line(f"Removed {neutral(old.location)}, {megabytes(old.bytes)}.")


def _file_secret(path: Path | None) -> dict[str, str]:
    """Return the passphrase setting from a file; empty without a file. Raises InvalidInput."""
    from mindhold.settings.sections import first_line

    if path is None:
        return {}
    passphrase = first_line(path.expanduser())
    if passphrase is None:
        raise InvalidInput(
            f"There is no passphrase in {path}.",
            advice="Its first line is the passphrase, without blanks around it.",
        )
    return {PASSPHRASE: passphrase}


def _prompt_passphrase(*, again: bool) -> str:
    return str(click.prompt("Passphrase", hide_input=True, confirmation_prompt=again, err=True))
