"""Every setting, once: its name, its default, what it means. The only module that reads the environment.

Sources, the first that speaks wins: arguments, environment, `config.toml` in the home folder, defaults.
"""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from recollect.model.errors import SettingsError

PREFIX = "RECOLLECT_"
NOT_SETTINGS = ("RECOLLECT_HOME", "RECOLLECT_BENCH_DATA")
CONFIG_FILE = "config.toml"


def _setting(
    default: Any,
    description: str,
    *,
    aliases: tuple[str, ...] = (),
    least: float | None = None,
    most: float | None = None,
    doubt: Callable[[Any], str] | None = None,
) -> Any:
    """`doubt` says what is wrong with a value of the right type; nothing when it will do."""
    return field(
        default=default,
        metadata={
            "description": description,
            "aliases": aliases,
            "least": least,
            "most": most,
            "doubt": doubt,
        },
    )


def _no_time_zone(name: str) -> str:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        if name:
            ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return "no time zone; a name such as Europe/Berlin is"
    return ""


@dataclass(frozen=True, slots=True)
class StoreSettings:
    path: str = _setting("", "Database file; empty means data/recollect.db in the home folder.")
    busy_timeout_ms: int = _setting(10_000, "How long to wait for another process's write.", least=0)
    durability: Literal["full", "normal"] = _setting(
        "full", "full survives a power cut; normal is faster and survives a crash of the program."
    )


@dataclass(frozen=True, slots=True)
class EmbeddingSettings:
    provider: Literal["local", "hashing", "none"] = _setting(
        "local",
        "local runs a pulled model; hashing needs no model but knows no meaning; none is full text only.",
    )
    model: str = _setting(
        "auto",
        "Which pulled model; auto keeps the one that made the stored vectors, else the best one pulled.",
    )
    precision: Literal["auto", "int8", "float"] = _setting(
        "auto", "int8 is half again as fast and ranks alike; auto keeps what is pulled."
    )
    threads: int = _setting(0, "Threads for one inference; 0 chooses by the machine.", least=0, most=64)
    cache_size: int = _setting(4096, "How many vectors of repeated texts are kept in memory.", least=0)


@dataclass(frozen=True, slots=True)
class IntakeSettings:
    longest: int = _setting(1_000_000, "Most characters that one call may store.", least=100)
    part_length: int = _setting(4_000, "Longer texts are split into linked parts of at most this.", least=200)
    redact: bool = _setting(True, "Replace secrets and personal data before anything is written.")
    noise_gate: bool = _setting(True, "Pass over texts such as 'ok' and 'thanks'.")
    link_threshold: float = _setting(0.7, "Similarity above which memories are linked.", least=0.0, most=1.0)
    near_duplicate: float = _setting(
        0.85, "Similarity above which two texts are compared for saying the same.", least=0.0, most=1.0
    )
    most_links: int = _setting(3, "Most automatic links of one memory.", least=0, most=50)


@dataclass(frozen=True, slots=True)
class RecallSettings:
    limit: int = _setting(10, "How many memories a recall returns unless asked otherwise.", least=1, most=200)
    floor: float = _setting(
        -1.0, "Score below which nothing is returned; -1 takes the measured one.", least=-1, most=1
    )
    longest_hit: int = _setting(2_000, "Most characters of one hit in an answer.", least=80)
    longest_answer: int = _setting(60_000, "Most characters of all hits together.", least=200)


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that can be set. `home` is where all of it lives."""

    home: Path = field(default_factory=lambda: Path.home() / ".recollect")
    agent: str = _setting("default", "Whose memories these are.")
    scope: str = _setting("Global", "The scope that calls are made in.")
    time_zone: str = _setting(
        "",
        "The person's time zone, such as Europe/Berlin; empty means the machine's.",
        doubt=_no_time_zone,
    )
    date_order: Literal["YMD", "MDY", "DMY"] = _setting("MDY", "How 3/4/2024 is read.")
    store: StoreSettings = field(default_factory=StoreSettings)
    embedding: EmbeddingSettings = field(default_factory=EmbeddingSettings)
    intake: IntakeSettings = field(default_factory=IntakeSettings)
    recall: RecallSettings = field(default_factory=RecallSettings)

    @property
    def database(self) -> Path:
        return Path(self.store.path).expanduser() if self.store.path else self.home / "data" / "recollect.db"

    @property
    def models_dir(self) -> Path:
        return self.home / "models"

    @property
    def export_dir(self) -> Path:
        return self.home / "export"

    @property
    def config_file(self) -> Path:
        return self.home / CONFIG_FILE


@dataclass(frozen=True, slots=True)
class SettingInfo:
    """One setting as `recollect config show` prints it."""

    key: str
    value: Any
    source: str
    description: str
    variable: str
    default: Any


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """Settings and where each value came from."""

    settings: Settings
    sources: Mapping[str, str]

    def __iter__(self) -> Iterator[SettingInfo]:
        for key, (section, spec) in _declared().items():
            owner = getattr(self.settings, section) if section else self.settings
            yield SettingInfo(
                key=key,
                value=getattr(owner, spec.name),
                source=self.sources.get(key, "default"),
                description=spec.metadata["description"],
                variable=variable_of(key),
                default=spec.default,
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
    home = Path(given.pop("home", None) or environment.get("RECOLLECT_HOME") or Path.home() / ".recollect")
    settings = Settings(home=home.expanduser().absolute())
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for source, found in (
        (str(settings.config_file), _from_file(settings.config_file)),
        ("environment", _from_environment(environment)),
        ("argument", given),
    ):
        for key, raw in found.items():
            values[key] = _checked(key, raw, source=source)
            sources[key] = variable_of(key) if source == "environment" else source
    return LoadedSettings(_filled(settings, values), sources)


def parsed_value(key: str, raw: str) -> Any:
    """A value typed by a person, checked. Raises SettingsError."""
    return _checked(key, raw, source="the command line")


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


def _from_file(path: Path) -> dict[str, Any]:
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


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    by_variable = {variable_of(key): key for key in _declared()}
    found: dict[str, Any] = {}
    for key, (_, spec) in _declared().items():
        for alias in spec.metadata["aliases"]:
            if alias in environ:
                found[key] = environ[alias]
    for name, value in environ.items():
        if not name.startswith(PREFIX) or name in NOT_SETTINGS:
            continue
        if name not in by_variable:
            raise SettingsError(
                f"The environment variable {name} is no setting.{_nearest(name, by_variable)}",
                advice="`recollect config show` lists them all.",
            )
        found[by_variable[name]] = value
    return found


def _checked(key: str, raw: Any, *, source: str) -> Any:
    declared = _declared()
    if key not in declared:
        raise SettingsError(
            f"{key!r} in {source} is no setting.{_nearest(key, declared)}",
            advice="`recollect config show` lists them all.",
        )
    where = f"{key} ({variable_of(key)})" if source == "environment" else f"{key} in {source}"
    kind = _type_of(key)
    value = _converted(raw, kind)
    if value is None:
        raise SettingsError(f"{where} is {raw!r}, which is not {_named(kind)}.", advice="Correct the value.")
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
    from difflib import get_close_matches

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
