"""Every field of every record once: its name in each store, its type, how values are encoded, and the rows and documents made from that."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields
from datetime import UTC, datetime, timedelta
from enum import Enum, StrEnum
from itertools import takewhile
from operator import attrgetter, itemgetter
from typing import Any, Generic, Literal, TypeVar
from unicodedata import normalize

from mindhold.model.errors import InvalidInput
from mindhold.model.job import Entry, Job, JobState
from mindhold.model.memory import Kind, Link, Memory, Provenance, Relation, Status, Tier, Version
from mindhold.model.scope import Scope
from mindhold.ports.store import Tend

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@contextmanager
def storable() -> Iterator[None]:
    """Turn the errors of values that no driver accepts into InvalidInput."""
    try:
        yield
    except OverflowError as error:
        raise InvalidInput(
            f"A number is too large for the database: {error}.", advice="Give a smaller one."
        ) from error
    except UnicodeEncodeError as error:
        raise InvalidInput(
            "The text has half of a surrogate pair.", advice="Send text that can be written as UTF-8."
        ) from error


def number(value: float) -> float:
    """The number. Raises InvalidInput for NaN."""
    if math.isnan(value):
        raise InvalidInput("The database takes no such value: what is no number can't be stored.")
    return value


def to_micros(moment: datetime) -> int:
    """Exact microseconds since 1970 in UTC."""
    return (moment - _EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)


def to_optional_micros(moment: datetime | None) -> int | None:
    return None if moment is None else to_micros(moment)


def from_optional_micros(micros: int | None) -> datetime | None:
    return None if micros is None else from_micros(micros)


def list_json(values: Iterable[str]) -> str:
    """A list as JSON, unescaped, so that a search for the bytes of a phrase finds them."""
    return json.dumps(list(values), ensure_ascii=False) if values else "[]"


def mapping_json(values: Mapping[str, Any]) -> str:
    """A mapping as JSON. Raises InvalidInput for values that JSON can't express."""
    if not values:
        return "{}"
    try:
        return json.dumps(dict(values), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"Metadata can't be stored: {error}.", advice="Use text, numbers, lists and mappings of them."
        ) from error


def from_list_json(text: str) -> tuple[str, ...]:
    return () if text == "[]" else tuple(json.loads(text))


def from_mapping_json(text: str) -> dict[str, Any]:
    return {} if text == "{}" else dict(json.loads(text))


WORDS = "words"  # the field of an entry that may quote records
_WORD = re.compile(r"[\w-]+")


@dataclass(frozen=True, slots=True)
class JobRemainder:
    """What remains of a job that named an erased record; it is dropped if it was about nothing else."""

    dropped: bool
    payload: dict[str, Any]
    result: dict[str, Any] | None


def beginning(ids: Iterable[str]) -> str:
    """The common prefix of the ids."""
    listed = tuple(ids)
    if not listed:
        return ""
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(min(listed), max(listed), strict=False))
    return "".join(character for character, _ in pairs)


def mentions(texts: Iterable[str], gone: frozenset[str]) -> int:
    """The number of texts that contain one of the ids as a word."""
    return sum(not gone.isdisjoint(_WORD.findall(text)) for text in texts)


def without(value: Any, gone: frozenset[str]) -> tuple[Any, bool]:
    """The JSON value without the ids (None if that leaves nothing), and whether it changed."""
    if isinstance(value, str):
        return (None, True) if value in gone else (value, False)
    if isinstance(value, list):
        parts = [without(item, gone) for item in value]
        changed = any(change for _, change in parts)
        items = [item for item, change in parts if not (change and item is None)]
        return (items if items or not changed else None), changed
    if isinstance(value, dict):
        pairs = {key: without(item, gone) for key, item in value.items() if key not in gone}
        changed = len(pairs) < len(value) or any(change for _, change in pairs.values())
        fields = {key: item for key, (item, change) in pairs.items() if not (change and item is None)}
        return (fields if fields or not changed else None), changed
    return value, False


def job_without(
    payload: Mapping[str, Any], result: Mapping[str, Any] | None, gone: frozenset[str]
) -> JobRemainder | None:
    """What remains of a job without the ids; None if it named none of them."""
    remaining, changed = without(payload, gone)
    outcome, also = without(result, gone)
    if not changed and not also:
        return None
    return JobRemainder(changed and len(remaining or ()) < len(payload), remaining or {}, outcome)


def entry_without(value: Mapping[str, Any], gone: frozenset[str]) -> dict[str, Any] | None:
    """The entry's fields without the ids; `words` is removed if it contains one. None if it named none of them."""
    spoken = mentions(texts_in(value.get(WORDS)), gone) > 0
    remaining, changed = without({**value, WORDS: None} if spoken else value, gone)
    if not changed and not spoken:
        return None
    fields = {name: (remaining or {}).get(name) for name in value if name not in gone}
    emptied: dict[str, Any] = {
        name: [] for name, item in fields.items() if item is None and isinstance(value[name], list)
    }
    return fields | emptied


def texts_in(value: Any) -> Iterator[str]:
    """Every text in a JSON value, including field names."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from texts_in(item)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield key
            yield from texts_in(item)


def phrase_forms(phrases: Iterable[str]) -> set[str]:
    """The phrases as given, and in Unicode's composed form."""
    return {form for phrase in phrases for form in (phrase, normalize("NFC", phrase)) if form}


FORM = "%Y%m%dT%H%M%S%fZ"
_STALE = timedelta(days=1)


def moment_of(stamp: str) -> datetime | None:
    """The time of a stamp; None if it is no stamp."""
    try:
        return datetime.strptime(stamp.upper(), FORM).replace(tzinfo=UTC)
    except ValueError:
        return None


def is_stale(stamp: str, now: datetime) -> bool:
    """Whether a restore with that stamp is over or dead."""
    started = moment_of(stamp)
    return started is not None and started + _STALE < now


R = TypeVar("R")
StoreName = Literal["sqlite", "postgres", "mongo"]


class Type(Enum):
    """What a column holds."""

    TEXT = "text"
    INTEGER = "integer"
    REAL = "real"
    FLAG = "flag"
    MOMENT = "moment"
    TEXTS = "texts"  # a list of texts
    MAPPING = "mapping"  # JSON that queries may look into
    JSON = "json"  # JSON that no query looks into


@dataclass(frozen=True, slots=True)
class Column:
    """A field, and the column that holds it; the column has the field's name unless another is given."""

    field: str  # of the record; `provenance.file` is a field of a field
    type: Type | type[StrEnum] = Type.TEXT
    sqlite: str = ""
    postgres: str = ""
    mongo: str = ""
    content: bool = False  # belongs to the content: a Revise leaves it as it is
    counted: bool = False  # is counted by the store: replacing a record leaves it as it is

    def name(self, store: StoreName) -> str:
        return getattr(self, store) or self.field.rpartition(".")[2]


# In the order of the fields of each class.
MEMORY = (
    Column("id", mongo="_id"),
    Column("content", content=True),
    Column("kind", Kind, postgres="type"),
    Column("scope"),
    Column("agent", postgres="agent_id"),
    Column("created", Type.MOMENT, postgres="created_at"),
    Column("updated", Type.MOMENT, postgres="updated_at"),
    Column("occurred", Type.MOMENT, postgres="occurred_at"),
    Column("content_hash", content=True),
    Column("tokens", Type.INTEGER, postgres="estimated_tokens", content=True),
    Column("topic"),
    Column("tags", Type.TEXTS),
    Column("keywords", Type.TEXTS),
    Column("importance", Type.REAL),
    Column("confidence", Type.REAL),
    Column("utility", Type.REAL, postgres="utility_score"),
    Column("trust", Type.REAL),
    Column("tier", Tier, postgres="ttl_tier"),
    Column("anchor", Type.FLAG, postgres="is_anchor"),
    Column("status", Status),
    Column("previous_status", Status),
    Column("uses", Type.INTEGER, postgres="access_count", counted=True),
    Column("last_used", Type.MOMENT, postgres="accessed_at", counted=True),
    Column("shown", Type.INTEGER, counted=True),
    Column("usefulness", Type.REAL, counted=True),
    Column("verified", Type.MOMENT, postgres="verified_at"),
    Column("examined", Type.MOMENT, postgres="examined_at"),
    Column("decayed", Type.MOMENT, postgres="decayed_at"),
    Column("review", Type.MOMENT, postgres="review_at"),
    Column("supersedes"),
    Column("merged_from", Type.TEXTS),
    Column("provenance.dialect"),
    Column("provenance.source"),
    Column("provenance.conversation"),
    Column("provenance.position", Type.INTEGER),
    Column("provenance.file"),
    Column("provenance.line", Type.INTEGER),
    Column("metadata", Type.MAPPING),
    Column("embedded_by", content=True),
)
_MEMORY_COLUMNS = {column.field: column for column in MEMORY}


def _of_memory(record: type[Any]) -> tuple[Column, ...]:
    """The columns of the fields that the class has in common with a memory, by their names."""
    return tuple(_MEMORY_COLUMNS[field.name] for field in fields(record) if field.name in _MEMORY_COLUMNS)


TENDED = _of_memory(Tend)

VERSION = (
    Column("memory_id", sqlite="memory", postgres="fragment_id", mongo="memory"),
    Column("number", Type.INTEGER),
    *_of_memory(Version),
    Column("amended", Type.MOMENT, postgres="amended_at"),
    Column("amended_by"),
)

LINK = (
    Column("origin", postgres="from_id"),
    Column("target", postgres="to_id"),
    Column("relation", Relation, postgres="relation_type"),
    Column("created", Type.MOMENT, postgres="created_at"),
    Column("weight", Type.REAL),
    Column("automatic", Type.FLAG),
)

SCOPE = (
    Column("name", mongo="scope_name"),
    Column("created", Type.MOMENT, postgres="created_at"),
    Column("description"),
    Column("kind"),
    Column("parent", mongo="parent_scope"),
    Column("keywords", Type.TEXTS, mongo="related_keywords"),
    Column("active", Type.FLAG),
)

JOB = (
    Column("id", mongo="_id"),
    Column("name"),
    Column("created", Type.MOMENT, postgres="created_at"),
    Column("due", Type.MOMENT),
    Column("payload", Type.JSON),
    Column("state", JobState),
    Column("attempts", Type.INTEGER),
    Column("most_attempts", Type.INTEGER),
    Column("lease_owner"),
    Column("lease_until", Type.MOMENT),
    Column("finished", Type.MOMENT),
    Column("error"),
    Column("result", Type.JSON),
    Column("key"),
)

ENTRY = (
    Column("namespace", sqlite="drawer", postgres="drawer", mongo="drawer"),
    Column("key"),
    Column("value", Type.JSON),
    Column("created", Type.MOMENT, postgres="created_at"),
    Column("expires", Type.MOMENT),
)

Convert = Callable[[Any], Any]
Conversions = Mapping[Type, tuple[Convert | None, Convert | None]]  # into the store, out of the store


class RecordColumns(Generic[R]):
    """A class of records in one store: its column names, and its records as rows or documents.

    The two functions that convert are compiled from the columns, as dataclasses compile their methods: reading and
    writing records is most of what a store does.
    """

    def __init__(
        self, record: type[R], columns: Sequence[Column], store: StoreName, conversions: Conversions
    ) -> None:
        self.columns = tuple(columns)
        self.names = tuple(column.name(store) for column in columns)
        self.place = {column.field: place for place, column in enumerate(columns)}
        self._items = itemgetter(*self.names)
        self._defaults = dict(zip(self.names, _defaults(record, columns), strict=True))
        optional = _optional_fields(record)
        namespace: dict[str, Any] = {"record_class": record, "Provenance": Provenance}
        reads, written = [], []
        for place, column in enumerate(columns):
            into, out_of = _conversion(column.type, conversions)
            namespace[f"into_{place}"], namespace[f"out_of_{place}"] = into, out_of
            may_be_none = column.field in optional
            written.append(_converted(f"record.{column.field}", into and f"into_{place}", may_be_none))
            reads.append(_converted(f"row[{place}]", out_of and f"out_of_{place}", may_be_none))
        nested = [place for place, column in enumerate(columns) if column.field.startswith("provenance.")]
        if nested:
            inner = slice(nested[0], nested[-1] + 1)
            reads[inner] = [f"Provenance({', '.join(reads[inner])})"]
        self._values: Callable[[Any], list[Any]] = eval(f"lambda record: [{', '.join(written)}]", namespace)
        self.record: Callable[[Sequence[Any]], R] = eval(
            f"lambda row: record_class({', '.join(reads)})", namespace
        )

    def listed(self, prefix: str = "", **instead: str) -> str:
        """The column names for a statement; `instead` has other expressions by the field's name."""
        return ", ".join(
            instead.get(column.field, prefix + name)
            for column, name in zip(self.columns, self.names, strict=True)
        )

    def values(self, record: Any, **instead: Any) -> list[Any]:
        """The record's values in the order of the columns; `instead` has some as the store takes them."""
        values = self._values(record)
        for field, value in instead.items():
            values[self.place[field]] = value
        return values

    def document(self, record: Any) -> dict[str, Any]:
        return dict(zip(self.names, self._values(record), strict=True))

    def record_of(self, document: Mapping[str, Any]) -> R:
        """The record in a document; a field that is newer than the document has its default."""
        try:
            items = self._items(document)
        except KeyError:
            items = self._items({**self._defaults, **document})
        return self.record(items)


def _conversion(
    kind: Type | type[StrEnum], conversions: Conversions
) -> tuple[Convert | None, Convert | None]:
    if isinstance(kind, Type):
        return conversions.get(kind, (None, None))
    return attrgetter("value"), {member.value: member for member in kind}.__getitem__


def _converted(value: str, function: str | None, may_be_none: bool) -> str:
    """The source of a converted value; None is None in every store."""
    if function is None:
        return value
    return f"None if {value} is None else {function}({value})" if may_be_none else f"{function}({value})"


def _optional_fields(record: type[Any]) -> frozenset[str]:
    own = {field.name for field in fields(record) if field.type.endswith("None")}
    inner = {f"provenance.{field.name}" for field in fields(Provenance) if field.type.endswith("None")}
    return frozenset(own | inner)


def _defaults(record: type[Any], columns: Iterable[Column]) -> list[Any]:
    """The default of each column's field that has a plain one, else None."""
    plain = {field.name: field.default for field in fields(record) if field.default is not MISSING}
    return [plain.get(column.field) for column in columns]


class StoreColumns:
    """The columns of all records in one store."""

    def __init__(self, store: StoreName, conversions: Conversions) -> None:
        self.memory = RecordColumns(Memory, MEMORY, store, conversions)
        self.tended = RecordColumns(Tend, TENDED, store, conversions)
        self.version = RecordColumns(Version, VERSION, store, conversions)
        self.link = RecordColumns(Link, LINK, store, conversions)
        self.scope = RecordColumns(Scope, SCOPE, store, conversions)
        self.job = RecordColumns(Job, JOB, store, conversions)
        self.entry = RecordColumns(Entry, ENTRY, store, conversions)
