"""The catalogue: what an operation is, and readable errors for a caller's invalid input."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from mindhold.model.errors import InvalidInput, MemoryNotFound
from mindhold.ports.llm import LanguageModel

if TYPE_CHECKING:
    from mindhold.engine import Engine


class Effect(StrEnum):
    """What an operation may change."""

    READS = "reads"
    WRITES = "writes"
    DESTROYS = "destroys"


class Input(BaseModel):
    """Base of every operation's input: unknown fields are errors, so that typing mistakes are told."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class Output(BaseModel):
    """Base of every operation's answer."""

    model_config = ConfigDict(frozen=True, defer_build=True)


def no_progress(_step: str, _done: int, _total: int | None) -> None:
    """Ignore progress."""


def do_nothing() -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True)
class Context:
    """The engine and the caller of an operation, and the callback for its progress."""

    engine: Engine
    agent: str
    progress: Callable[[str, int, int | None], None] = no_progress
    model: LanguageModel | None = None  # the caller's own model, if it offers one
    conversation: str | None = None  # the conversation of the call, if the interface knows it
    owner: bool = True  # whether the caller may see what concerns everybody


I = TypeVar("I", bound=Input)  # noqa: E741
O = TypeVar("O", bound=Output)  # noqa: E741


@dataclass(frozen=True, slots=True)
class Operation(Generic[I, O]):
    """One ability, declared once. Its flags are all that interfaces and the application know about it."""

    name: str
    summary: str
    takes: type[I]
    gives: type[O]
    run: Callable[[Context, I], Awaitable[O]]
    effect: Effect
    owner_only: bool = False  # concerns everybody: refused to callers who are bound to an agent or to scopes
    needs_vectors: bool = False  # the embedding model is loaded while the caller prepares the call
    default_scope: bool = False  # works in the configured scope when the call names none
    erases: bool = False  # may erase memories for good, though it only counts as writing
    changes_memories: bool = True  # whether hook caches are rebuilt after it; only for what writes
    refreshes_hook_caches: bool = False  # rebuilds all of them if its input says `others`
    runs_jobs: bool = False  # works off the job queue, so it doesn't wake those who wait for new jobs
    shown_ids: Callable[[O], Iterable[str]] | None = None  # the memories that a result shows
    stored_ids: Callable[[O], Iterable[str]] | None = None  # the memories that it stored


def operation(
    name: str,
    run: Callable[[Context, I], Awaitable[O]],
    *,
    reads: bool = False,
    writes: bool = False,
    destroys: bool = False,
    owner_only: bool = False,
    needs_vectors: bool = False,
    default_scope: bool = False,
    erases: bool = False,
    changes_memories: bool = True,
    refreshes_hook_caches: bool = False,
    runs_jobs: bool = False,
    shown_ids: Callable[[O], Iterable[str]] | None = None,
    stored_ids: Callable[[O], Iterable[str]] | None = None,
) -> Operation[I, O]:
    """Declare a use case as an operation; its summary, input and output are those of the function."""
    if reads + writes + destroys != 1:
        raise TypeError(f"{name} must be one of reads, writes, destroys")
    takes, gives = (eval(text, run.__globals__) for text in list(run.__annotations__.values())[1:])
    return Operation(
        name,
        (run.__doc__ or "").partition("\n")[0],
        takes,
        gives,
        run,
        Effect.READS if reads else Effect.WRITES if writes else Effect.DESTROYS,
        owner_only=owner_only,
        needs_vectors=needs_vectors,
        default_scope=default_scope,
        erases=erases or destroys,
        changes_memories=changes_memories and not reads,
        refreshes_hook_caches=refreshes_hook_caches,
        runs_jobs=runs_jobs,
        shown_ids=shown_ids,
        stored_ids=stored_ids,
    )


def created_ids(results: Iterable[Any]) -> list[str]:
    """Return the ids of memories that these results created; all parts of a long text."""
    return [
        memory_id
        for result in results
        if result.created
        for memory_id in (result.parts or [result.id])
        if memory_id
    ]


async def full_id(context: Context, given: str) -> str:
    """Return the full id for the start of one. Raises MemoryNotFound, InvalidInput if several match."""
    prefix = given.strip()
    if not prefix:
        raise InvalidInput("An id is empty.", advice="`mindhold list` shows ids.")
    matches = await context.engine.store.resolve(prefix, viewer=context.agent)
    if prefix in matches:
        return prefix
    if not matches:
        raise MemoryNotFound(prefix)
    if len(matches) > 1:
        raise InvalidInput(f"{prefix!r} begins several ids: {', '.join(matches)}.", advice="Give more of it.")
    return matches[0]


async def full_ids(context: Context, given: list[str]) -> list[str]:
    """Return the full ids, each once."""
    return list(dict.fromkeys([await full_id(context, prefix) for prefix in given]))


LONGEST_QUOTE = 60
_KINDS = {
    "string_type": "must be text",
    "string_sub_type": "must be text",
    "string_unicode": "must be valid Unicode text",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "datetime_parsing": "must be a time such as 2026-03-01T09:00:00Z",
    "datetime_from_date_parsing": "must be a time such as 2026-03-01T09:00:00Z",
    "datetime_type": "must be a time such as 2026-03-01T09:00:00Z",
}
_LIMITS = {
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be less than {lt}",
    "too_short": "must have at least {min_length} entries",
    "too_long": "must have at most {max_length} entries",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "literal_error": "must be one of {expected}",
    "enum": "must be one of {expected}",
}
_COUNTED = dict.fromkeys(("too_short", "too_long"), "it had {}")


def invalid_input(
    error: ValidationError, *, known: list[str], named: Callable[[list[str]], str] = ".".join
) -> InvalidInput:
    """Translate pydantic's error; `known` are the valid names, `named` turns a location into the caller's term."""
    first = error.errors(include_url=False)[0]
    place = [str(part) for part in first["loc"]]
    name = named(place) or "The input"
    kind, context = first["type"], first.get("ctx", {})
    if kind == "missing":
        return InvalidInput(f"{name} is missing.", advice="Give it and call again.")
    if kind == "extra_forbidden":
        close = get_close_matches(place[-1], known, n=1)
        hint = f"Did you mean {close[0]}?" if close else f"Known are: {', '.join(known) or 'none'}."
        return InvalidInput(f"{name} is not known here.", advice=hint)
    if kind == "string_too_short" and not first.get("input"):
        return InvalidInput(f"{name} must not be empty.")
    if kind in _LIMITS:
        words = _LIMITS[kind].format(**context)
    else:
        words = _KINDS.get(kind, first["msg"][:1].lower() + first["msg"][1:])
    had = _COUNTED.get(kind, "it was {}").format(context.get("actual_length") or _quoted(first.get("input")))
    return InvalidInput(f"{name} {words}; {had}.")


def _quoted(given: Any) -> str:
    text = repr(given) if not isinstance(given, list | dict) else f"a {type(given).__name__}"
    from mindhold.text.redaction import redact  # imported late: its patterns take time to load

    text = redact(text).text  # before it is cut
    return text if len(text) <= LONGEST_QUOTE else text[:LONGEST_QUOTE] + "…"
