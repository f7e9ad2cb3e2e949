"""`mindhold config`: every setting, its value and its origin; edits and imports of the settings file."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mindhold.interfaces.cli.command import Command, Group, command
from mindhold.interfaces.cli.output import neutral, plural
from mindhold.interfaces.cli.session import CARRY_OVER, CliSession
from mindhold.model.errors import InvalidInput, SettingsError, StoreReadOnly
from mindhold.model.scope import GLOBAL, LOCAL
from mindhold.settings.assistant_file import AssistantSettings, IgnoredSetting, TranslatedSetting, translate
from mindhold.settings.loader import (
    ADDRESSES,
    HIDDEN,
    LoadedSettings,
    SettingInfo,
    check_address,
    is_secret,
    is_setting,
    parsed_value,
    values_in_file,
)
from mindhold.settings.schema import Settings

if TYPE_CHECKING:
    from tomlkit import TOMLDocument


def settings_file(session: CliSession) -> Path:
    """The path of config.toml, found without reading it: the file may be what is wrong."""
    home = session.arguments.get("home")
    settings = Settings(home=Path(home).expanduser().absolute()) if home else Settings()
    return settings.config_file


def put_values(path: Path, values: Mapping[str, Any]) -> None:
    """Write settings to the file, all of them or none. Raises SettingsError, StoreReadOnly."""
    with edited_file(path) as document:
        for key, value in values.items():
            _put(document, key, value, path)


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


@contextmanager
def edited_file(path: Path) -> Iterator[TOMLDocument]:
    """Yield the document of the file, and write it at the end if it differs. Raises SettingsError, StoreReadOnly."""
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
    yield document
    after = tomlkit.dumps(document)
    if after != text:
        _write(path, after)


def _write(path: Path, text: str) -> None:
    """Write the file atomically, readable by its owner only: mkstemp makes files 0600."""
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
    """Empty the hook caches, which were made with the old setting, and have a worker write them again."""
    from mindhold.hooks.hook_cache_writer import blank_caches
    from mindhold.hooks.worker import start_cache_worker

    home = str(settings_file(session).parent)
    if not key.startswith("capture.") and key != "agent":
        return
    try:
        if blank_caches(home):
            start_cache_worker(home)
    except OSError as error:
        session.console.warn(f"note: hooks tell by the old value until their next event: {error.strerror}.")


def warn_about_local_records(session: CliSession) -> None:
    """Note that the memories of the local file are not in the new store."""
    count = session.launcher.leftover(session.loaded()).memories
    if count:
        note = f"The local file keeps its {plural(count, 'memory')}, which the new store doesn't have"
        session.console.note(f"{note}: {CARRY_OVER}")


LARGEST = 1_000_000  # bytes of a file of settings


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
    translation, valid = _checked(_read(file), str(file))
    path = settings_file(session)
    present = values_in_file(path)
    changes = {
        setting.key: setting.value
        for setting in translation.settings
        if present.get(setting.key) != setting.value
    }
    if changes and not dry_run:
        put_values(path, changes)
        for key in changes:
            reset_hook_cache(session, key)
    if not session.console.as_json(_import_document(translation, changes, path, dry_run=dry_run)):
        _print(session, translation, changes, path, dry_run=dry_run)
    if changes.get("store.mode", LOCAL) != LOCAL and not dry_run:
        warn_about_local_records(session)
    if changes.get("scope", GLOBAL) != GLOBAL:
        session.console.note(
            f"If there is no such scope yet: mindhold scopes create {neutral(changes['scope'])!r}"
        )
    return 0 if valid else 1


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


def _checked(document: Mapping[str, Any], source: str) -> tuple[AssistantSettings, bool]:
    """The settings of the document whose values are valid, the others as ignored; and whether all were valid."""
    translation, valid = translate(document), True
    settings, translation.settings = translation.settings, []
    for setting in settings:
        if not is_setting(setting.key):
            reason = f"this version has no setting {setting.key}"
            translation.ignored.append(IgnoredSetting(setting.name, reason))
            continue
        try:
            value = parsed_value(setting.key, setting.value, source=source)
        except SettingsError as error:
            translation.ignored.append(IgnoredSetting(setting.name, error.message))
            valid = False
            continue
        translation.settings.append(replace(setting, value=value))
    return translation, valid


def _shown_import(setting: TranslatedSetting) -> Any:
    return HIDDEN if is_secret(setting.key) else setting.value


def _import_document(
    translation: AssistantSettings, changes: Mapping[str, Any], path: Path, *, dry_run: bool
) -> dict[str, Any]:
    return {
        "file": str(path),
        "dry_run": dry_run,
        "settings": [
            {
                "key": setting.key,
                "value": _shown_import(setting),
                "from": setting.name,
                "changed": setting.key in changes,
            }
            for setting in translation.settings
        ],
        "left": [{"from": setting.name, "why": setting.reason} for setting in translation.ignored],
        "unknown": translation.unknown,
    }


def _print(
    session: CliSession,
    translation: AssistantSettings,
    changes: Mapping[str, Any],
    path: Path,
    *,
    dry_run: bool,
) -> None:
    console = session.console
    for setting in translation.settings:
        value = _shown_import(setting)
        mark = "" if setting.key in changes else "  (as it was)"
        shown = neutral(_shown(value, quoted=False))
        console.line(f"{setting.key} = {shown}  (from {neutral(setting.name)}){mark}")
    for ignored in translation.ignored:
        console.line(f"not taken: {neutral(ignored.name)}: {neutral(ignored.reason)}")
    for name in translation.unknown:
        console.line(f"not known: {neutral(name)}")
    if not translation.settings:
        console.line("Nothing in it is a setting here.")
    elif not changes:
        console.line(f"{path} says all of it already.")
    else:
        console.line(f"{'Would set' if dry_run else 'Set'} {len(changes)} in {path}")


_NEGATIVE = re.compile(r"-\d+(\.\d+)?")
VARIABLES = "In the environment a.b is MINDHOLD_A_B, and some have another name besides"


@click.group(
    "config",
    cls=Group,
    local=True,
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
    console, file = session.console, str(loaded.settings.config_file)
    settings = [_document(info) for info in shown]
    if console.as_json({"home": str(loaded.settings.home), "file": file, "settings": settings}):
        return
    for info in shown:
        source = "" if info.source == "default" else "config.toml" if info.source == file else info.source
        head = f"{info.key} = {_shown(info.value)}" + (f"  ({source})" if source else "")
        for line in console.paragraphs(head, indent=0):
            console.line(console.style(line, bold=True))
        console.text(info.description, indent=4)
    console.note(f"home: {loaded.settings.home}; -o KEY=VALUE sets one for one call")
    console.note(f"{VARIABLES}; --json names each.")


@config.command("get", examples=["mindhold config get recall.limit"])
@click.argument("key")
@click.pass_obj
def get_config(session: CliSession, key: str) -> None:
    """One setting's value."""
    info = _info(session.loaded(), key)
    if not session.console.as_json(_document(info)):
        session.console.line(neutral(_shown(info.value, quoted=False)))


class _WithNumbers(Command):
    """A command whose arguments may be negative numbers: `-3` is no option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at = next((index for index, word in enumerate(args) if _NEGATIVE.fullmatch(word)), None)
        if at is not None and "--" not in args:
            args = [*args[:at], *args[at + 1 :], "--", args[at]]
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
    value = _value(session, key, value)
    path = write_setting(session, key, value)
    warn_if_overridden(session, key)
    secret = _info(session.loaded(), key).secret
    shown = HIDDEN if secret else parsed_value(key, value)
    if not session.console.as_json({"key": key, "value": shown, "file": str(path)}):
        session.console.line(f"{key} = {HIDDEN if secret else neutral(value)} in {path}")
    if key == "store.mode" and value != "local":
        warn_about_local_records(session)


@config.command("unset", examples=["mindhold config unset recall.limit"])
@click.argument("key")
@click.pass_obj
def unset_config(session: CliSession, key: str) -> None:
    """Remove a setting from config.toml, so that its default holds again."""
    path = settings_file(session)
    section, _, name = key.rpartition(".")
    with edited_file(path) as document:
        table: Any = document.get(section, {}) if section else document
        removed = isinstance(table, dict) and name in table
        if removed:
            del table[name]
    if removed:
        reset_hook_cache(session, key)
    if not session.console.as_json({"key": key, "removed": removed, "file": str(path)}):
        session.console.line(f"{'Removed' if removed else 'There was no'} {neutral(key)} in {path}")


@config.command("path", examples=["mindhold config path"])
@click.pass_obj
def config_path(session: CliSession) -> None:
    """Where config.toml is, or would be."""
    path = settings_file(session)
    if not session.console.as_json({"file": str(path), "exists": path.exists()}):
        session.console.line(str(path))


config.add_command(import_config)


def _value(session: CliSession, key: str, value: str | None) -> str:
    """The value of the argument, of stdin, or typed by the user."""
    if value == "-":
        return sys.stdin.read().strip()
    if value is not None:
        return value
    if not _info(session.loaded(), key).secret:
        raise click.UsageError(f"{key} needs a value.")
    if not session.console.is_interactive:
        raise click.UsageError(f"{key} needs a value; `-` reads it from stdin.")
    return str(click.prompt(key, hide_input=True, err=True)).strip()


def write_setting(session: CliSession, key: str, value: str) -> Path:
    """Check, then write atomically. Raises SettingsError, StoreReadOnly."""
    parsed = parsed_value(key, value)
    if key in ADDRESSES:
        check_address(session.loaded().settings, key, value)
    path = settings_file(session)
    put_values(path, {key: parsed})
    reset_hook_cache(session, key)
    return path


def warn_if_overridden(session: CliSession, key: str) -> None:
    """Warn that the environment or an argument wins over the value in the file."""
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
    infos = [info for info in loaded if info.key.startswith(prefix or "")]
    if not infos and prefix:
        _info(loaded, prefix)  # raises, naming the nearest one
    return [info for info in infos if not changed or info.source != "default"]


def _document(info: SettingInfo) -> dict[str, Any]:
    names = ("key", "value", "default", "source", "variable", "description")
    return {name: getattr(info, name) for name in names}


def _shown(value: Any, *, quoted: bool = True) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return '""' if quoted and value == "" else str(value)
