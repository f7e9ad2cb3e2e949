"""`mindhold config`: every setting, its value and its origin; edits and imports of the settings file."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mindhold.interfaces.cli.command import Command, Group, command
from mindhold.interfaces.cli.output import neutral, plural
from mindhold.interfaces.cli.session import CARRY_OVER, CliSession
from mindhold.model.errors import InvalidInput, SettingsError, StoreReadOnly
from mindhold.model.scope import GLOBAL, LOCAL
from mindhold.settings.assistant_file import IgnoredSetting, TranslatedSetting, translate
from mindhold.settings.loader import (
    HIDDEN,
    SECTIONS,
    LoadedSettings,
    SettingInfo,
    check_address,
    checked_value,
    is_secret,
    is_setting,
    parsed_value,
    values_in_file,
)
from mindhold.settings.schema import Settings

if TYPE_CHECKING:
    from tomlkit import TOMLDocument


def settings_file(session: CliSession) -> Path:
    """Found without reading it: it may be what is wrong."""
    home = session.arguments.get("home")
    settings = Settings(home=Path(home).expanduser().absolute()) if home else Settings()
    return settings.config_file


def put_values(path: Path, values: Mapping[str, Any]) -> None:
    """Write these settings, all of them or none. Raises SettingsError, StoreReadOnly."""

    def with_values(document: TOMLDocument) -> None:
        for key, value in values.items():
            _put(document, key, value, path)

    edit_file(path, with_values)


def _put(document: TOMLDocument, key: str, value: Any, path: Path) -> None:
    import tomlkit

    section, _, name = key.rpartition(".")
    if not section:
        document[name] = value
        return
    if section not in document:
        document[section] = tomlkit.table()
    table: Any = document[section]
    if not isinstance(table, dict):
        raise SettingsError(f"{section!r} in {path} is not a table.", advice=f"Make it [{section}].")
    table[name] = value


def edit_file(path: Path, change: Callable[[TOMLDocument], None]) -> None:
    """Change it and write it, if that makes a difference. Raises SettingsError, StoreReadOnly."""
    import tomlkit
    from tomlkit.exceptions import ParseError

    try:
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        document = tomlkit.parse(text)
    except (ParseError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not valid TOML: {error}.", advice="Correct that line.") from error
    except OSError as error:
        raise SettingsError(
            f"{path} can't be read: {error.strerror}.", advice="Check its permissions."
        ) from error
    change(document)
    after = tomlkit.dumps(document)
    if after != text:
        _write(path, after)


def _write(path: Path, text: str) -> None:
    """Whole or not at all, for the owner only: mkstemp makes files 0600."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            Path(name).replace(path)
        finally:
            Path(name).unlink(missing_ok=True)
    except OSError as error:
        raise StoreReadOnly(
            f"{path} can't be written: {error.strerror}.", advice="Check the folder's permissions."
        ) from error


def reset_hook_cache(session: CliSession, key: str) -> None:
    """What hooks tell lies ready, made by the settings before: it is blank at once, and a worker makes it anew."""
    from mindhold.hooks.hook_cache_writer import blank_caches
    from mindhold.hooks.worker_start import start_cache_worker

    home = str(settings_file(session).parent)
    if not key.startswith("capture.") and key != "agent":
        return
    try:
        if blank_caches(home):
            start_cache_worker(home)
    except OSError as error:
        session.console.warn(f"note: hooks tell by the old value until their next event: {error.strerror}.")


def warn_about_local_records(session: CliSession) -> None:
    """The new store doesn't know what is in the file."""
    left = session.launcher.leftover(session.loaded()).memories
    if left:
        kept = f"The local file keeps its {plural(left, 'memory')}, which the new store doesn't have"
        session.console.note(f"{kept}: {CARRY_OVER}")


LARGEST = 1_000_000  # bytes; what is larger is no file of settings
SOME_LEFT = 1


@dataclass(slots=True)
class _Plan:
    """What the file comes to, checked."""

    taken: list[TranslatedSetting] = field(default_factory=list)
    left: list[IgnoredSetting] = field(default_factory=list)
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
def import_config(session: CliSession, file: Path, dry_run: bool) -> int:
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
            reset_hook_cache(session, key)
    if session.console.json:
        session.console.document(_import_document(plan, fresh, path, dry_run=dry_run))
    else:
        _print(session, plan, fresh, path, dry_run=dry_run)
    if fresh.get("store.mode", LOCAL) != LOCAL and not dry_run:
        warn_about_local_records(session)
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
    found = translate(document)
    plan = _Plan(left=list(found.left), unknown=list(found.unknown))
    for one in found.taken:
        if not is_setting(one.key):
            plan.left.append(IgnoredSetting(one.said, f"this version has no setting {one.key}"))
            continue
        try:
            value = checked_value(one.key, one.value, source=source)
        except SettingsError as error:
            plan.left.append(IgnoredSetting(one.said, error.message))
            plan.wrong = True
            continue
        plan.taken.append(TranslatedSetting(one.key, value, one.said))
    return plan


def _shown_import(one: TranslatedSetting) -> Any:
    return HIDDEN if is_secret(one.key) else one.value


def _import_document(plan: _Plan, fresh: Mapping[str, Any], path: Path, *, dry_run: bool) -> dict[str, Any]:
    return {
        "file": str(path),
        "dry_run": dry_run,
        "settings": [
            {"key": one.key, "value": _shown_import(one), "from": one.said, "changed": one.key in fresh}
            for one in plan.taken
        ],
        "left": [{"from": one.said, "why": one.why} for one in plan.left],
        "unknown": plan.unknown,
    }


def _print(session: CliSession, plan: _Plan, fresh: Mapping[str, Any], path: Path, *, dry_run: bool) -> None:
    console = session.console
    for one in plan.taken:
        value = _shown_import(one)
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


_NEGATIVE = re.compile(r"-\d+(\.\d+)?")
VARIABLES = "In the environment a.b is MINDHOLD_A_B, and some have another name besides"


@click.group(
    "config",
    cls=Group,
    examples=[
        "mindhold config show",
        "mindhold config set recall.limit 5",
        "mindhold config unset recall.limit",
    ],
)
def config() -> None:
    """Settings, and where their values come from.

    Arguments win over the environment, that over config.toml, that over defaults.
    """


@config.command(
    "show",
    examples=["mindhold config show", "mindhold config show postgres", "mindhold config show --changed"],
)
@click.argument("prefix", required=False)
@click.option("--changed", is_flag=True, help="Only what was set somewhere.")
@click.pass_obj
def show_config(session: CliSession, prefix: str | None, changed: bool) -> None:
    """Settings with their values, their sources and what they mean: all, or those that begin with PREFIX."""
    loaded = session.loaded()
    shown = _chosen(loaded, prefix, changed=changed)
    if session.console.json:
        settings = loaded.settings
        session.console.document(
            {
                "home": str(settings.home),
                "file": str(settings.config_file),
                "settings": [_document(info) for info in shown],
            }
        )
        return
    console, file = session.console, str(loaded.settings.config_file)
    for info in shown:
        source = "" if info.source == "default" else "config.toml" if info.source == file else info.source
        head = f"{info.key} = {_shown(info.value)}" + (f"  ({source})" if source else "")
        for line in console.paragraphs(head, indent=0):
            console.line(console.style(line, bold=True))
        for line in console.paragraphs(info.description, indent=4):
            console.line(f"    {line}")
    console.note(f"home: {loaded.settings.home}; -o KEY=VALUE sets one for one call")
    console.note(f"{VARIABLES}; --json names each.")


@config.command("get", examples=["mindhold config get recall.limit"])
@click.argument("key")
@click.pass_obj
def get_config(session: CliSession, key: str) -> None:
    """One setting's value."""
    info = _info(session.loaded(), key)
    if session.console.json:
        session.console.document(_document(info))
    else:
        session.console.line(neutral(_shown(info.value, quoted=False)))


class _WithNumbers(Command):
    """`-3` is a number here, and no option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        place = next((at for at, word in enumerate(args) if _NEGATIVE.fullmatch(word)), None)
        if place is not None and "--" not in args:
            args = [*args[:place], *args[place + 1 :], "--", args[place]]
        return super().parse_args(ctx, args)


@config.command(
    "set",
    cls=_WithNumbers,
    examples=[
        "mindhold config set time_zone Europe/Berlin",
        "mindhold config set embedding.openai_key",
        "mindhold config set postgres.url - < url.txt",
    ],
)
@click.argument("key")
@click.argument("value", required=False)
@click.pass_obj
def set_config(session: CliSession, key: str, value: str | None) -> None:
    """Write a setting to config.toml; comments and everything else in it stay.

    `-` reads the value from stdin. A secret that isn't given is asked for, and not shown: what stands in a command is
    kept by the shell, and other programs can see it.
    """
    value = _given(session, key, value)
    path = write_setting(session, key, value)
    warn_if_overridden(session, key)
    secret = _info(session.loaded(), key).secret
    if session.console.json:
        shown = HIDDEN if secret else parsed_value(key, value)
        session.console.document({"key": key, "value": shown, "file": str(path)})
    else:
        session.console.line(f"{key} = {HIDDEN if secret else neutral(value)} in {path}")
    if key == "store.mode" and value != "local":
        warn_about_local_records(session)


@config.command("unset", examples=["mindhold config unset recall.limit"])
@click.argument("key")
@click.pass_obj
def unset_config(session: CliSession, key: str) -> None:
    """Remove a setting from config.toml, so that its default holds again."""
    path = settings_file(session)
    removed = False

    def without(document: TOMLDocument) -> None:
        nonlocal removed
        section, _, name = key.rpartition(".")
        table: Any = document.get(section, {}) if section else document
        removed = isinstance(table, dict) and name in table
        if removed:
            del table[name]

    edit_file(path, without)
    if removed:
        reset_hook_cache(session, key)
    if session.console.json:
        session.console.document({"key": key, "removed": removed, "file": str(path)})
    else:
        session.console.line(f"{'Removed' if removed else 'There was no'} {neutral(key)} in {path}")


@config.command("path", examples=["mindhold config path"])
@click.pass_obj
def config_path(session: CliSession) -> None:
    """Where config.toml is, or would be."""
    path = settings_file(session)
    if session.console.json:
        session.console.document({"file": str(path), "exists": path.exists()})
    else:
        session.console.line(str(path))


config.add_command(import_config)


def _given(session: CliSession, key: str, value: str | None) -> str:
    if value == "-":
        return sys.stdin.read().strip()
    if value is not None:
        return value
    if not _info(session.loaded(), key).secret:
        raise click.UsageError(f"{key} needs a value.")
    if session.console.json or sys.stdin is None or not sys.stdin.isatty():
        raise click.UsageError(f"{key} needs a value; `-` reads it from stdin.")
    asked: str = click.prompt(key, hide_input=True, err=True)
    return asked.strip()


def write_setting(session: CliSession, key: str, value: str) -> Path:
    """Check, then write atomically. Raises SettingsError, StoreReadOnly."""
    parsed = parsed_value(key, value)
    if key in SECTIONS:
        check_address(session.loaded().settings, key, value)
    path = settings_file(session)
    put_values(path, {key: parsed})
    reset_hook_cache(session, key)
    return path


def warn_if_overridden(session: CliSession, key: str) -> None:
    """A value in the file may be silent: the environment and arguments win."""
    source = _info(session.loaded(), key).source
    if source != str(settings_file(session)):
        session.console.warn(f"note: {key} still comes from {source}, which wins over the file.")


def _info(loaded: LoadedSettings, key: str) -> SettingInfo:
    for info in loaded:
        if info.key == key:
            return info
    parsed_value(key, "")  # raises, naming the nearest one
    raise AssertionError(key)


def _chosen(loaded: LoadedSettings, prefix: str | None, *, changed: bool) -> list[SettingInfo]:
    found = [info for info in loaded if info.key.startswith(prefix or "")]
    if not found and prefix:
        _info(loaded, prefix)  # raises, naming the nearest one
    return [info for info in found if not changed or info.source != "default"]


def _document(info: SettingInfo) -> dict[str, Any]:
    return {
        "key": info.key,
        "value": info.value,
        "default": info.default,
        "source": info.source,
        "variable": info.variable,
        "description": info.description,
    }


def _shown(value: Any, *, quoted: bool = True) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return '""' if quoted and value == "" else str(value)
