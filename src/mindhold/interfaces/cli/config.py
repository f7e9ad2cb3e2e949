"""`mindhold config`: every setting, its value and where that comes from. Needs no database."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mindhold.interfaces.cli.command import Command, Group
from mindhold.interfaces.cli.config_file import (
    edit_file,
    put_values,
    settings_file,
    tell_anew,
    tell_leftover,
)
from mindhold.interfaces.cli.config_import import import_config
from mindhold.interfaces.cli.output import neutral
from mindhold.interfaces.cli.session import Session
from mindhold.settings import HIDDEN, LoadedSettings, SettingInfo, parsed_value
from mindhold.settings.address import SECTIONS, check_address

if TYPE_CHECKING:
    from tomlkit import TOMLDocument


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
def show_config(session: Session, prefix: str | None, changed: bool) -> None:
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
def get_config(session: Session, key: str) -> None:
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
def set_config(session: Session, key: str, value: str | None) -> None:
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
        tell_leftover(session)


@config.command("unset", examples=["mindhold config unset recall.limit"])
@click.argument("key")
@click.pass_obj
def unset_config(session: Session, key: str) -> None:
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
        tell_anew(session, key)
    if session.console.json:
        session.console.document({"key": key, "removed": removed, "file": str(path)})
    else:
        session.console.line(f"{'Removed' if removed else 'There was no'} {neutral(key)} in {path}")


@config.command("path", examples=["mindhold config path"])
@click.pass_obj
def config_path(session: Session) -> None:
    """Where config.toml is, or would be."""
    path = settings_file(session)
    if session.console.json:
        session.console.document({"file": str(path), "exists": path.exists()})
    else:
        session.console.line(str(path))


config.add_command(import_config)


def _given(session: Session, key: str, value: str | None) -> str:
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


def write_setting(session: Session, key: str, value: str) -> Path:
    """Check, then write atomically. Raises SettingsError, StoreReadOnly."""
    parsed = parsed_value(key, value)
    if key in SECTIONS:
        check_address(session.loaded().settings, key, value)
    path = settings_file(session)
    put_values(path, {key: parsed})
    tell_anew(session, key)
    return path


def warn_if_overridden(session: Session, key: str) -> None:
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
