"""Loads settings from arguments, environment, `config.toml` and defaults. The only module that reads the environment."""

from __future__ import annotations

import json
import math
import os
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints
from urllib.parse import urlsplit

from mindhold.model.errors import SettingsError
from mindhold.model.host import LOOPBACK_HOSTS, ClientFolders, is_service_here
from mindhold.settings.schema import Settings
from mindhold.settings.sections import PASSPHRASE, LlmSettings, fallbacks, origin_of

ANTHROPIC_KEY = "llm.anthropic_key"
ANTHROPIC = "https://api.anthropic.com"
# In the user's home folder; the first that has a key wins. JSON has it under `apiKey`.
KEY_FILES = (".memory-mcp/config.json", ".config/anthropic/api_key", ".anthropic/api_key")
_LONGEST_KEY_FILE = 10_000  # bytes


class StoredKey(NamedTuple):
    """A key and the file that it was read from."""

    value: str
    source: str

    def __repr__(self) -> str:
        return f"StoredKey(source={self.source!r})"


def wants_anthropic(chosen: LlmSettings) -> bool:
    """Whether Anthropic's key is needed: otherwise its file is not read, and it is never read for another server."""
    if chosen.provider == "anthropic":
        # A program that listens on this machine could read the key's file anyway.
        return _is_anthropic(chosen.base_url) or origin_of(chosen.base_url)[1] in LOOPBACK_HOSTS
    return any(
        choice.provider == "anthropic" and _is_anthropic(choice.address)
        for choice in fallbacks(chosen.fallback)
    )


def _is_anthropic(address: str) -> bool:
    return not address or origin_of(address) == origin_of(ANTHROPIC)


def stored_key(environ: Mapping[str, str]) -> StoredKey | None:
    """The key in the first file that has one; files that are empty or can't be read are skipped."""
    home = environ.get("HOME") or environ.get("USERPROFILE")
    for name in KEY_FILES if home else ():
        path = Path(home or "", name)
        try:
            if not path.is_file():  # a pipe would never end
                continue
            with path.open("rb") as file:
                content = file.read(_LONGEST_KEY_FILE + 1)
            if len(content) > _LONGEST_KEY_FILE:
                continue
            text = content.decode("utf-8-sig")
            key = _key_in_json(text) if path.suffix == ".json" else text.strip()
        except (OSError, ValueError, RecursionError):
            continue
        if len(key.split()) == 1:
            return StoredKey(key, str(path))
    return None


def _key_in_json(text: str) -> str:
    """The `apiKey` of an object; empty if it has none. Raises ValueError, RecursionError."""
    document = json.loads(text)
    key = document.get("apiKey") if isinstance(document, dict) else None
    return key.strip() if isinstance(key, str) else ""


PREFIX = "MINDHOLD_"
# Set for programs that Mindhold calls, so that the hooks of those programs do nothing.
OWN_CALL = ("MINDHOLD_EXTRACTING", "MINDHOLD_SKIP")
NOT_SETTINGS = ("MINDHOLD_HOME", "MINDHOLD_BENCH_DATA", *OWN_CALL)
PROGRAM_KEYS = ("ANTHROPIC_API_KEY", "GEMINI_API_KEY")  # that claude_cli and gemini_cli read themselves
THIS_FOLDER = "this folder"  # the source of a scope that the working folder decides
HIDDEN = "(hidden)"  # is shown in place of a secret


@dataclass(frozen=True, slots=True)
class SettingInfo:
    """One setting as `mindhold config show` prints it."""

    key: str
    value: Any
    source: str
    description: str
    variable: str
    default: Any
    secret: bool = False


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """Settings and the source of each value. `folder` is the working folder, where that matters.

    `hosted`: a client started this process for that folder.
    """

    settings: Settings
    sources: Mapping[str, str]
    folder: str | None = None
    hosted: bool = False

    @property
    def scope_is_usual(self) -> bool:
        """Whether no scope was named for this call. The folder's project wins over the scope of the settings file."""
        return self.sources.get("scope", str(self.settings.config_file)) == str(self.settings.config_file)

    @property
    def in_project(self) -> bool:
        """Whether the scope is the working folder's project."""
        return self.sources.get("scope") == THIS_FOLDER

    def within(self, scope: str) -> LoadedSettings:
        """The settings with the scope of the working folder's project."""
        return replace(
            self, settings=replace(self.settings, scope=scope), sources={**self.sources, "scope": THIS_FOLDER}
        )

    def __iter__(self) -> Iterator[SettingInfo]:
        for key, (section, spec) in _declared().items():
            owner = getattr(self.settings, section) if section else self.settings
            value = getattr(owner, spec.name)
            yield SettingInfo(
                key=key,
                value=HIDDEN if spec.metadata["secret"] and value else value,
                source=self.sources.get(key, "default"),
                description=spec.metadata["description"],
                variable=variable_of(key),
                default=spec.default,
                secret=spec.metadata["secret"],
            )


def variable_of(key: str) -> str:
    """The environment variable of a key."""
    return PREFIX + key.replace(".", "_").upper()


def load_settings(
    arguments: Mapping[str, Any] | None = None, *, environ: Mapping[str, str] | None = None
) -> LoadedSettings:
    """Read all sources. Raises SettingsError, naming the key and its source."""
    environment = os.environ if environ is None else environ
    overrides = {key: value for key, value in (arguments or {}).items() if value is not None}
    home = Path(overrides.pop("home", None) or environment.get("MINDHOLD_HOME") or Path.home() / ".mindhold")
    settings = Settings(home=home.expanduser().absolute())
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    file = str(settings.config_file)
    entries = [(key, raw, file) for key, raw in values_in_file(settings.config_file).items()]
    entries += _from_environment(environment)
    entries += [(key, raw, "argument") for key, raw in overrides.items()]
    for key, raw, source in entries:
        if key == PASSPHRASE and source == file:
            raise SettingsError(
                f"{key} stands in {file}: who has that file and a backup can read both.",
                advice=f"Take it out there; set {variable_of(key)}, or backup.passphrase_file.",
            )
        values[key] = parsed_value(key, raw, source=source)
        sources[key] = source
    filled = _filled(settings, values)
    if wants_anthropic(filled.llm) and not filled.llm.anthropic_key and (stored := stored_key(environment)):
        filled = _filled(filled, {ANTHROPIC_KEY: stored.value})
        sources[ANTHROPIC_KEY] = stored.source
    loaded = LoadedSettings(filled, sources)
    _check_together(loaded.settings)
    return loaded


def home_agent(loaded: LoadedSettings) -> str:
    """The agent of the home's own settings; the call may be another agent's. Raises SettingsError."""
    if loaded.sources.get("agent") in (None, str(loaded.settings.config_file)):
        return loaded.settings.agent
    return value_in_file(loaded, "agent") or Settings().agent


def value_in_file(loaded: LoadedSettings, key: str) -> str:
    """A text setting as the settings file has it, whatever the call says; empty if it has none. Raises SettingsError."""
    return str(values_in_file(loaded.settings.config_file).get(key) or "")


def _check_together(settings: Settings) -> None:
    """Check settings that depend on each other. Raises SettingsError."""
    recall = settings.recall
    total = recall.importance_weight + recall.recency_weight
    if not math.isclose(total, 1.0, abs_tol=1e-6):
        raise SettingsError(
            f"recall.importance_weight is {recall.importance_weight:g} and recall.recency_weight is "
            f"{recall.recency_weight:g}, which is {total:g} together; they must sum to 1.",
            advice=f"To keep the first, `mindhold config set recall.recency_weight "
            f"{1 - recall.importance_weight:.6g}`; to keep the second, `mindhold config set "
            f"recall.importance_weight {1 - recall.recency_weight:.6g}`.",
        )


def working_folder() -> str | None:
    """The working folder: the one that Claude Code names, else the process's own."""
    try:
        return os.environ.get("CLAUDE_PROJECT_DIR") or str(Path.cwd())
    except OSError:  # it was removed
        return None


def is_hosted() -> bool:
    """Whether Claude Code started this process for a folder."""
    return bool(os.environ.get("CLAUDE_PROJECT_DIR"))


def is_setting(key: str) -> bool:
    """Whether there is a setting of that name."""
    return key in _declared()


def is_secret(key: str) -> bool:
    """Whether the setting's value is never shown."""
    return bool(_declared()[key][1].metadata["secret"])


def child_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment for a program that Mindhold calls: without our settings and secrets, marked as our own call."""
    environment = os.environ if environ is None else environ
    secret = {
        name
        for key, (_, spec) in _declared().items()
        if spec.metadata["secret"]
        for name in (variable_of(key), *spec.metadata["aliases"])
    }
    passed_on = {
        name: value
        for name, value in environment.items()
        if not name.startswith(PREFIX) and (name not in secret or name in PROGRAM_KEYS)
    }
    return passed_on | dict.fromkeys(OWN_CALL, "1")


@cache
def _declared() -> dict[str, tuple[str, Any]]:
    declared: dict[str, tuple[str, Any]] = {}
    for outer in fields(Settings):
        if outer.metadata:
            declared[outer.name] = ("", outer)
            continue
        section = getattr(_BLANK, outer.name)
        if is_dataclass(section):
            declared.update({f"{outer.name}.{inner.name}": (outer.name, inner) for inner in fields(section)})
    return declared


@cache
def _type_of(key: str) -> Any:
    section, spec = _declared()[key]
    owner = type(getattr(_BLANK, section)) if section else Settings
    return get_type_hints(owner)[spec.name]


def values_in_file(path: Path) -> dict[str, Any]:
    """The values of a settings file, unchecked; empty without a file. Raises SettingsError."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not valid TOML: {error}.", advice="Correct that line.") from error
    except OSError as error:
        raise SettingsError(
            f"{path} can't be read: {error.strerror}.", advice="Check its permissions."
        ) from error
    flat: dict[str, Any] = {}
    sections = {section for section, _ in _declared().values() if section}
    for name, value in document.items():
        if isinstance(value, dict) and name in sections:
            flat.update({f"{name}.{inner}": raw for inner, raw in value.items()})
        else:
            flat[name] = value
    return flat


def _from_environment(environ: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Key, value and variable. Our variable wins, then the first alias that is set.

    An empty alias of a secret is ignored: people empty another program's variable to disable it there.
    """
    by_variable = {variable_of(key): key for key in _declared()}
    for name in environ:
        if name.startswith(PREFIX) and name not in NOT_SETTINGS and name not in by_variable:
            raise SettingsError(
                f"The environment variable {name} is no setting.{_nearest(name, by_variable)}",
                advice="`mindhold config show` lists them all.",
            )
    entries = []
    for key, (_, spec) in _declared().items():
        aliases = [
            name for name in spec.metadata["aliases"] if environ.get(name) or not spec.metadata["secret"]
        ]
        variable = next((name for name in (variable_of(key), *aliases) if name in environ), None)
        if variable is not None:
            entries.append((key, environ[variable], variable))
    return entries


def parsed_value(key: str, raw: Any, *, source: str = "the command line") -> Any:
    """A value from the source, checked and converted. Raises SettingsError."""
    declared = _declared()
    if key not in declared:
        raise SettingsError(
            f"{key!r} in {source} is no setting.{_nearest(key, declared)}",
            advice="`mindhold config show` lists them all.",
        )
    where, meta, kind = f"{key} in {source}", declared[key][1].metadata, _type_of(key)
    value = _converted(raw, kind)
    if value is None:
        shown = "hidden" if meta["secret"] else repr(raw)
        raise SettingsError(
            f"{where} is {shown}, which is not {_type_name(kind)}.", advice="Correct the value."
        )
    least, most = meta["least"], meta["most"]
    if (least is not None and value < least) or (most is not None and value > most):
        span = f"at least {least}" if most is None else f"between {least} and {most}"
        raise SettingsError(f"{where} is {value}; it must be {span}.", advice="Correct the value.")
    if meta["problem"] and (wrong := meta["problem"](value)):
        raise SettingsError(f"{where} is {value!r}, which is {wrong}.", advice="Correct the value.")
    return value


def _converted(raw: Any, kind: Any) -> Any:
    """The value as `kind`; None if it can't be converted."""
    if get_origin(kind) is Literal:
        return raw if raw in get_args(kind) else None
    if kind is bool:
        words = dict.fromkeys(("true", "1", "yes", "on"), True)
        words |= dict.fromkeys(("false", "0", "no", "off"), False)
        return raw if isinstance(raw, bool) else words.get(str(raw).strip().lower())
    if isinstance(raw, bool):
        return None
    if kind is str:
        return raw if isinstance(raw, str) else None
    if kind is int and isinstance(raw, float):
        return None
    try:
        value = kind(raw)
    except (TypeError, ValueError):
        return None
    return value if math.isfinite(value) else None


def _type_name(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(get_args(kind))
    return {bool: "true or false", int: "a whole number", float: "a number", str: "text"}[kind]


def _nearest(word: str, keys: Mapping[str, Any]) -> str:
    """A hint at the most similar key, looked for within the section first."""
    from difflib import get_close_matches

    section, _, name = word.rpartition(".")
    inside = {
        key.removeprefix(f"{section}."): key for key in keys if section and key.startswith(f"{section}.")
    }
    if inside:
        close = [inside[match] for match in get_close_matches(name, inside, n=1)]
        close = close or [key for key in keys if key.endswith(f".{name}")]
        otherwise = f" `mindhold config show {section}` lists those of [{section}]."
    else:
        close, otherwise = get_close_matches(word, keys, n=1), ""
    return f" Did you mean {close[0]}?" if close else otherwise


def _filled(settings: Settings, values: Mapping[str, Any]) -> Settings:
    for key, value in values.items():
        section, _, name = key.rpartition(".")
        if section:
            name, value = section, replace(getattr(settings, section), **{name: value})
        settings = replace(settings, **{name: value})
    return settings


_BLANK = Settings(home=Path())

ADDRESSES = ("llm.base_url", "embedding.base_url")


def check_address(settings: Settings, key: str, value: str) -> None:
    """Check the address of a service, if the key is one and the value isn't empty. Raises SettingsError."""
    if key not in ADDRESSES or not value.strip():
        return
    section = key.partition(".")[0]
    try:
        parts = urlsplit(value.strip())
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        raise _wrong(key, value) from error
    if parts.scheme not in ("http", "https") or not host or any(map(str.isspace, value.strip())):
        raise _wrong(key, value)
    plain_http: bool = getattr(settings, section).plain_http
    if parts.scheme == "http" and not is_service_here(host) and not plain_http:
        raise SettingsError(
            f"{key} would lead to {host} by plain http, where others can read every text and the key.",
            advice=f"Use https://, or for a network that you trust `mindhold config set {section}.plain_http true` first.",
        )


def _wrong(key: str, value: str) -> SettingsError:
    return SettingsError(
        f"{key} can't be {value[:80]!r}, which is no address.",
        advice="Give one with http:// or https://, such as http://localhost:11434/v1.",
    )


def client_places(
    settings: Settings, *, environ: Mapping[str, str] | None = None, platform: str = sys.platform
) -> ClientFolders:
    """The settings folders of other programs, for this user on this machine."""
    environment = os.environ if environ is None else environ
    user = Path.home() if environ is None else Path(environment.get("HOME") or Path.home())
    if platform == "darwin":
        programs = user / "Library" / "Application Support"
    elif platform == "win32":
        programs = Path(environment.get("APPDATA") or user / "AppData" / "Roaming")
    else:
        programs = Path(environment.get("XDG_CONFIG_HOME") or user / ".config")
    codex = Path(environment.get("CODEX_HOME") or user / ".codex")
    claude = settings.claude_dir if settings.history.claude_dir else user / ".claude"
    return ClientFolders(
        user=user, programs=programs.expanduser(), codex=codex.expanduser(), claude=claude.absolute()
    )
