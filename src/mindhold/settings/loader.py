"""Loads settings from arguments, environment, `config.toml` and defaults. The only module that reads the environment."""

from __future__ import annotations

import math
import os
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints
from urllib.parse import urlsplit

from mindhold.model.errors import SettingsError
from mindhold.model.host import ClientFolders
from mindhold.settings.schema import Settings
from mindhold.settings.sections import PASSPHRASE, LlmSettings, fallbacks, origin_of

ANTHROPIC_KEY = "llm.anthropic_key"
ANTHROPIC = "https://api.anthropic.com"  # whose key it is
OF_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")  # where whoever listens could read the file anyway
PLACES = (".config/anthropic/api_key", ".anthropic/api_key")  # in the person's own folder; the first wins
_LONGEST = 10_000  # bytes; what is longer is no key


class StoredKey(NamedTuple):
    """A key, and the file that it stands in."""

    value: str
    source: str

    def __repr__(self) -> str:
        return f"FoundKey(source={self.source!r})"


def wants_anthropic(chosen: LlmSettings) -> bool:
    """Whether Anthropic is asked at all: a secret that nobody needs is not read, nor one that would go to somebody else."""
    if chosen.provider == "anthropic":
        return _is_theirs(chosen.base_url) or origin_of(chosen.base_url)[1] in OF_THIS_MACHINE
    return any(
        rung.provider == "anthropic" and _is_theirs(rung.address) for rung in fallbacks(chosen.fallback)
    )


def _is_theirs(address: str) -> bool:
    return not address or origin_of(address) == origin_of(ANTHROPIC)


def stored_key(environ: Mapping[str, str]) -> StoredKey | None:
    """In the first of the places that has one; what can't be read, or is empty, is passed over."""
    own = environ.get("HOME") or environ.get("USERPROFILE")
    for place in PLACES if own else ():
        path = Path(own or "", place)
        try:
            if not path.is_file():  # a pipe would never end
                continue
            with path.open("rb") as file:
                text = file.read(_LONGEST + 1).decode("utf-8-sig").strip()
        except (OSError, ValueError):
            continue
        if text and len(text) <= _LONGEST and len(text.split()) == 1:
            return StoredKey(text, str(path))
    return None


PREFIX = "MINDHOLD_"
# Set for programs that Mindhold itself asks, so that hooks which they fire know whose call it is.
OWN_CALL = ("MINDHOLD_EXTRACTING", "MINDHOLD_SKIP")
NOT_SETTINGS = ("MINDHOLD_HOME", "MINDHOLD_BENCH_DATA", *OWN_CALL)
THEIR_KEYS = ("ANTHROPIC_API_KEY", "GEMINI_API_KEY")  # which the programs that are asked read themselves
THIS_FOLDER = "this folder"  # where the scope comes from that nobody named
HIDDEN = "(hidden)"  # stands for a secret wherever settings are shown


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
    """Settings and where each value came from. `folder` is the one that the call is made in, where that matters.

    `hosted`: a client works in it that has told so, by starting this process for it.
    """

    settings: Settings
    sources: Mapping[str, str]
    folder: str | None = None
    hosted: bool = False

    @property
    def scope_is_usual(self) -> bool:
        """Whether nobody named the scope for this call: a folder's project goes before what the settings file says."""
        return self.sources.get("scope", str(self.settings.config_file)) == str(self.settings.config_file)

    @property
    def in_project(self) -> bool:
        """Whether the scope is that of the folder."""
        return self.sources.get("scope") == THIS_FOLDER

    def within(self, scope: str) -> LoadedSettings:
        """In the scope of the project that the folder is."""
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
    """Read all sources. Raises SettingsError, naming the key and where it stands."""
    environment = os.environ if environ is None else environ
    given = {key: value for key, value in (arguments or {}).items() if value is not None}
    home = Path(given.pop("home", None) or environment.get("MINDHOLD_HOME") or Path.home() / ".mindhold")
    settings = Settings(home=home.expanduser().absolute())
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    file = str(settings.config_file)
    found = [(key, raw, file) for key, raw in values_in_file(settings.config_file).items()]
    found += _from_environment(environment)
    found += [(key, raw, "argument") for key, raw in given.items()]
    for key, raw, source in found:
        if key == PASSPHRASE and source == file:
            raise SettingsError(
                f"{key} stands in {file}: who has that file and a backup can read both.",
                advice=f"Take it out there; set {variable_of(key)}, or backup.passphrase_file.",
            )
        values[key] = _checked(key, raw, source=source)
        sources[key] = source
    filled = _filled(settings, values)
    if wants_anthropic(filled.llm) and not filled.llm.anthropic_key and (kept := stored_key(environment)):
        filled = _filled(filled, {ANTHROPIC_KEY: kept.value})
        sources[ANTHROPIC_KEY] = kept.source
    loaded = LoadedSettings(filled, sources)
    _check_together(loaded.settings)
    return loaded


def home_agent(loaded: LoadedSettings) -> str:
    """Whose the home is, as its file or the default says; the call may be another's. Raises SettingsError."""
    if loaded.sources.get("agent") in (None, str(loaded.settings.config_file)):
        return loaded.settings.agent
    return value_in_file(loaded, "agent") or Settings().agent


def value_in_file(loaded: LoadedSettings, key: str) -> str:
    """What the home's file says of a text, whatever the call says; empty for nothing. Raises SettingsError."""
    return str(values_in_file(loaded.settings.config_file).get(key) or "")


def _check_together(settings: Settings) -> None:
    """What no value shows by itself. Raises SettingsError."""
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


def working_folder(environ: Mapping[str, str] | None = None) -> str | None:
    """The folder that is worked in: the one that Claude Code names to what it starts, else the process's own."""
    named = (os.environ if environ is None else environ).get("CLAUDE_PROJECT_DIR", "")
    try:
        return named or str(Path.cwd())
    except OSError:  # it was removed meanwhile
        return None


def is_hosted(environ: Mapping[str, str] | None = None) -> bool:
    """Whether Claude Code has started this process, for a folder that it names."""
    return bool((os.environ if environ is None else environ).get("CLAUDE_PROJECT_DIR"))


def parsed_value(key: str, raw: str) -> Any:
    """A value typed by a person, checked. Raises SettingsError."""
    return _checked(key, raw, source="the command line")


def checked_value(key: str, raw: Any, *, source: str) -> Any:
    """A value that stands in another program's file, checked. Raises SettingsError."""
    return _checked(key, raw, source=source)


def is_setting(key: str) -> bool:
    """Whether there is one of that name."""
    return key in _declared()


def is_secret(key: str) -> bool:
    """Whether its value is never shown."""
    return bool(_declared()[key][1].metadata["secret"])


def child_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a program that is asked: all but what is only ours, and with the sign that the call is our own."""
    environment = os.environ if environ is None else environ
    secret = {
        name
        for key, (_, spec) in _declared().items()
        if spec.metadata["secret"]
        for name in (variable_of(key), *spec.metadata["aliases"])
    }
    kept = {
        name: value
        for name, value in environment.items()
        if not name.startswith(PREFIX) and (name not in secret or name in THEIR_KEYS)
    }
    return kept | dict.fromkeys(OWN_CALL, "1")


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
    """What a settings file says, as it stands there; nothing where there is none. Raises SettingsError."""
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
            flat.update({f"{name}.{inner}": given for inner, given in value.items()})
        else:
            flat[name] = value
    return flat


def _from_environment(environ: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Key, value and variable; of the names that a setting has, ours wins, then the first of the others.

    A secret of another program's that is empty says nothing: that is how people take one away from it.
    """
    by_variable = {variable_of(key): key for key in _declared()}
    for name in environ:
        if name.startswith(PREFIX) and name not in NOT_SETTINGS and name not in by_variable:
            raise SettingsError(
                f"The environment variable {name} is no setting.{_nearest(name, by_variable)}",
                advice="`mindhold config show` lists them all.",
            )
    found = []
    for key, (_, spec) in _declared().items():
        others = [
            name for name in spec.metadata["aliases"] if environ.get(name) or not spec.metadata["secret"]
        ]
        spoken = next((name for name in (variable_of(key), *others) if name in environ), None)
        if spoken is not None:
            found.append((key, environ[spoken], spoken))
    return found


def _checked(key: str, raw: Any, *, source: str) -> Any:
    declared = _declared()
    if key not in declared:
        raise SettingsError(
            f"{key!r} in {source} is no setting.{_nearest(key, declared)}",
            advice="`mindhold config show` lists them all.",
        )
    where = f"{key} in {source}"
    shown = "hidden" if declared[key][1].metadata["secret"] else repr(raw)
    kind = _type_of(key)
    value = _converted(raw, kind)
    if value is None:
        raise SettingsError(f"{where} is {shown}, which is not {_named(kind)}.", advice="Correct the value.")
    meta = declared[key][1].metadata
    least, most = meta["least"], meta["most"]
    if (least is not None and value < least) or (most is not None and value > most):
        span = f"at least {least}" if most is None else f"between {least} and {most}"
        raise SettingsError(f"{where} is {value}; it must be {span}.", advice="Correct the value.")
    if meta["doubt"] and (wrong := meta["doubt"](value)):
        raise SettingsError(f"{where} is {value!r}, which is {wrong}.", advice="Correct the value.")
    return value


def _converted(raw: Any, kind: Any) -> Any:
    """The value as `kind`, or None where it can't be."""
    if get_origin(kind) is Literal:
        return raw if raw in get_args(kind) else None
    if kind is bool:
        words = {
            "true": True,
            "1": True,
            "yes": True,
            "on": True,
            "false": False,
            "0": False,
            "no": False,
            "off": False,
        }
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


def _named(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(get_args(kind))
    return {bool: "true or false", int: "a whole number", float: "a number", str: "text"}[kind]


def _nearest(word: str, known: Mapping[str, Any]) -> str:
    """Within its section, if there is one of that name: that alone makes two keys alike."""
    from difflib import get_close_matches

    section, _, name = word.rpartition(".")
    inside = {
        key.removeprefix(f"{section}."): key for key in known if section and key.startswith(f"{section}.")
    }
    if inside:
        close = [inside[one] for one in get_close_matches(name, inside, n=1)]
        elsewhere = [key for key in known if key.endswith(f".{name}")]
        close = close or elsewhere[:1]
        return (
            f" Did you mean {close[0]}?"
            if close
            else f" `mindhold config show {section}` lists those of [{section}]."
        )
    close = get_close_matches(word, known, n=1)
    return f" Did you mean {close[0]}?" if close else ""


def _filled(settings: Settings, values: Mapping[str, Any]) -> Settings:
    for key, value in values.items():
        section, _, name = key.rpartition(".")
        if section:
            settings = replace(settings, **{section: replace(getattr(settings, section), **{name: value})})
        else:
            settings = replace(settings, **{name: value})
    return settings


_BLANK = Settings(home=Path())

SECTIONS = {"llm.base_url": "llm", "embedding.base_url": "embedding"}


def check_address(settings: Settings, key: str, value: str) -> None:
    """Nothing for other keys, and for an empty one. Raises SettingsError."""
    if key not in SECTIONS or not value.strip():
        return
    section = SECTIONS[key]
    try:
        parts = urlsplit(value.strip())
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        raise _wrong(key, value) from error
    if parts.scheme not in ("http", "https") or not host or any(map(str.isspace, value.strip())):
        raise _wrong(key, value)
    plain_http: bool = getattr(settings, section).plain_http
    if parts.scheme == "http" and not _is_here(host) and not plain_http:
        raise SettingsError(
            f"{key} would lead to {host} by plain http, where others can read every text and the key.",
            advice=f"Use https://, or for a network that you trust `mindhold config set {section}.plain_http true` first.",
        )


def _wrong(key: str, value: str) -> SettingsError:
    return SettingsError(
        f"{key} can't be {value[:80]!r}, which is no address.",
        advice="Give one with http:// or https://, such as http://localhost:11434/v1.",
    )


def _is_here(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def client_places(
    settings: Settings, *, environ: Mapping[str, str] | None = None, platform: str = sys.platform
) -> ClientFolders:
    """For this person, on this machine."""
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
