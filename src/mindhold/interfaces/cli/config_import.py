"""`mindhold config import`: settings from a JSON file in the words of the assistant's contract."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from mindhold.interfaces.cli.command import command
from mindhold.interfaces.cli.config_file import put_values, settings_file, tell_anew, tell_leftover
from mindhold.interfaces.cli.output import neutral
from mindhold.interfaces.cli.session import Session
from mindhold.model.errors import InvalidInput, SettingsError
from mindhold.model.scope import GLOBAL
from mindhold.model.storage import LOCAL
from mindhold.settings import HIDDEN, checked_value, is_secret, is_setting, values_in_file
from mindhold.settings.assistant_file import Left, Taken, translated

LARGEST = 1_000_000  # bytes; what is larger is no file of settings
SOME_LEFT = 1


@dataclass(slots=True)
class _Plan:
    """What the file comes to, checked."""

    taken: list[Taken] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    wrong: bool = False


@command(
    "import",
    examples=[
        "mindhold config import infinite_memory_config.json --dry-run",
        "mindhold config import infinite_memory_config.json",
    ],
)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--dry-run", is_flag=True, help="Say what would be set; write nothing.")
@click.pass_obj
def import_config(session: Session, file: Path, dry_run: bool) -> int:
    """Take over a JSON file of settings: database, limits, backups, embedding, scope, log.

    What it sets is shown, and every word that isn't known is named. Comments and all other settings of config.toml stay.
    """
    plan = _checked(_read(file), str(file))
    path = settings_file(session)
    before = values_in_file(path)
    fresh = {one.key: one.value for one in plan.taken if before.get(one.key) != one.value}
    if fresh and not dry_run:
        put_values(path, fresh)
        for key in fresh:
            tell_anew(session, key)
    if session.console.json:
        session.console.document(_document(plan, fresh, path, dry_run=dry_run))
    else:
        _print(session, plan, fresh, path, dry_run=dry_run)
    if fresh.get("store.mode", LOCAL) != LOCAL and not dry_run:
        tell_leftover(session)
    if fresh.get("scope", GLOBAL) != GLOBAL:
        session.console.note(
            f"If there is no such scope yet: mindhold scopes create {neutral(fresh['scope'])!r}"
        )
    return SOME_LEFT if plan.wrong else 0


def _read(file: Path) -> Mapping[str, Any]:
    try:
        if file.stat().st_size > LARGEST:
            raise InvalidInput(f"{file} is too large for a file of settings.", advice="Name another one.")
        document = json.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InvalidInput(f"{file} can't be read: {error.strerror}.", advice="Check the name.") from error
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{file} is no JSON: {error}.", advice="Correct it there.") from error
    if not isinstance(document, dict):
        raise InvalidInput(f"{file} holds no object of settings.", advice='It begins with "{".')
    return document


def _checked(document: Mapping[str, Any], source: str) -> _Plan:
    found = translated(document)
    plan = _Plan(left=list(found.left), unknown=list(found.unknown))
    for one in found.taken:
        if not is_setting(one.key):
            plan.left.append(Left(one.said, f"this version has no setting {one.key}"))
            continue
        try:
            value = checked_value(one.key, one.value, source=source)
        except SettingsError as error:
            plan.left.append(Left(one.said, error.message))
            plan.wrong = True
            continue
        plan.taken.append(Taken(one.key, value, one.said))
    return plan


def _shown(one: Taken) -> Any:
    return HIDDEN if is_secret(one.key) else one.value


def _document(plan: _Plan, fresh: Mapping[str, Any], path: Path, *, dry_run: bool) -> dict[str, Any]:
    return {
        "file": str(path),
        "dry_run": dry_run,
        "settings": [
            {"key": one.key, "value": _shown(one), "from": one.said, "changed": one.key in fresh}
            for one in plan.taken
        ],
        "left": [{"from": one.said, "why": one.why} for one in plan.left],
        "unknown": plan.unknown,
    }


def _print(session: Session, plan: _Plan, fresh: Mapping[str, Any], path: Path, *, dry_run: bool) -> None:
    console = session.console
    for one in plan.taken:
        value = _shown(one)
        told = "true" if value is True else "false" if value is False else neutral(str(value))
        mark = "" if one.key in fresh else "  (as it was)"
        console.line(f"{one.key} = {told}  (from {neutral(one.said)}){mark}")
    for left in plan.left:
        console.line(f"not taken: {neutral(left.said)}: {neutral(left.why)}")
    for said in plan.unknown:
        console.line(f"not known: {neutral(said)}")
    if not plan.taken:
        console.line("Nothing in it is a setting here.")
    elif not fresh:
        console.line(f"{path} says all of it already.")
    else:
        console.line(f"{'Would set' if dry_run else 'Set'} {len(fresh)} in {path}")
