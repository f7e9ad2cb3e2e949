"""Tools and contracts, the translation of a tool's arguments to an operation and back, and the tools of each toolset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Annotated, Any, get_args

from pydantic import BaseModel, ConfigDict, ValidationError, ValidatorFunctionWrapHandler, WrapValidator
from pydantic.fields import FieldInfo

from mindhold.model.errors import InvalidInput
from mindhold.model.prompt_markup import NOTICE, neutralize, neutralize_values
from mindhold.operation_index import operation as find_operation
from mindhold.operations import Effect, Operation, invalid_input

AGENT = "@agent"


@dataclass(frozen=True, slots=True)
class To:
    """Where an argument goes. Dots lead inside; "@agent" is whom the call is made for; "" spreads an object's own."""

    path: str
    values: Mapping[Any, Any] = field(default_factory=dict)  # the argument's value -> the operation's
    instead: Mapping[Any, Mapping[str, Any]] = field(
        default_factory=dict
    )  # a value -> what is set in its place
    unless: str = ""  # passed over when that argument is given too
    listed: bool = False  # goes in as a list of one
    also: tuple[str, ...] = ()  # further places that it goes to


@dataclass(frozen=True, slots=True)
class From:
    """Where an answer's value comes from. Dots lead inside, through lists to each member; "" is the whole output.

    Of paths between bars, the first that leads to something.
    """

    path: str
    values: Mapping[Any, Any] = field(default_factory=dict)
    unless_empty: bool = False  # nothing is told where there is nothing to tell
    if_any: Any = None  # stands here when there is something there; else the answer's default
    own: str = ""  # where Mindhold's own words at the end of that text are found: they stay as they are


ALWAYS = From("@")  # not from the output: the answer's own constant


class ToolArguments(BaseModel):
    """Base of every tool's arguments: unknown ones are errors, so that typing mistakes are told."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class InvalidItem(ToolArguments):
    """Stands for an item of a list that isn't right; the operation answers for it, and for the others as ever."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    error: InvalidInput


def validate_each(model: type[ToolArguments]) -> WrapValidator:
    """The mark of a list's items that are checked one by one: a wrong one is Unread and keeps no other back."""

    def checked(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
        try:
            return check(value)
        except ValidationError as error:
            return InvalidItem(error=invalid_input(error, known=_known_beside(model, error)))

    return WrapValidator(checked)


class ToolAnswer(BaseModel):
    """Base of every tool's answer. A value of None is left out; every text is made harmless."""

    model_config = ConfigDict(frozen=True, defer_build=True)


class MemoryAnswer(ToolAnswer):
    """Base of an answer that carries remembered text, and says so."""

    notice: Annotated[str, ALWAYS] = NOTICE


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call, understood."""

    operation: Operation[Any, Any]
    given: Any
    agent: str | None = None


@dataclass(frozen=True, slots=True)
class Tool:
    """One name under which an operation is served."""

    name: str
    title: str
    description: str
    operation: str
    takes: type[ToolArguments]
    gives: type[ToolAnswer]
    fixed: Mapping[str, Any] = field(default_factory=dict)  # what this dialect always asks of the operation
    idempotent: bool = False

    @property
    def effect(self) -> Effect:
        """What it may touch."""
        return find_operation(self.operation).effect

    def request(self, arguments: Mapping[str, Any]) -> ToolCall:
        """The operation that these arguments ask for. Raises InvalidInput."""
        try:
            taken = self.takes.model_validate(dict(arguments))
        except ValidationError as error:
            raise invalid_input(error, known=_known_beside(self.takes, error)) from error
        sent = _spread(taken)
        values = {path: value for path, (_, value) in sent.items()}
        agent = values.pop(AGENT, None)
        operation = find_operation(self.operation)
        try:
            given = operation.takes.model_validate(_nested({**values, **self.fixed}))
        except ValidationError as error:
            said = {path: name for path, (name, _) in sent.items()}
            raise invalid_input(error, known=[], named=lambda place: _told(place, said)) from error
        return ToolCall(operation, given, agent)

    def answer(self, output: Any) -> dict[str, Any]:
        """The operation's output in this tool's shape, ready for JSON."""
        filled = self.gives.model_validate(_filled(self.gives, output))
        return filled.model_dump(mode="json", by_alias=True, exclude_none=True)


@dataclass(frozen=True, slots=True)
class Contract:
    """The tools of one contract."""

    name: str
    summary: str
    tools: tuple[Tool, ...]


def _spread(taken: ToolArguments, *, within: str = "") -> dict[str, tuple[str, Any]]:
    """Where each value goes, with the name of the argument that it came by."""
    sent: dict[str, tuple[str, Any]] = {}
    for name, info in type(taken).model_fields.items():
        value = getattr(taken, name)
        mark = _mark(info, To) or To(name)
        said = f"{within}{info.alias or name}"
        if value is None or (mark.unless and getattr(taken, mark.unless) is not None):
            continue
        if isinstance(value, ToolArguments) and not mark.path:
            sent.update(_spread(value, within=f"{said}."))
        elif isinstance(value, str | bool | int) and value in mark.instead:
            sent.update({path: (said, other) for path, other in mark.instead[value].items()})
        else:
            chosen = mark.values[value] if isinstance(value, str) and value in mark.values else value
            for path in (mark.path, *mark.also):
                sent[path] = (said, [chosen] if mark.listed else _plain(chosen))
    return sent


def _plain(value: Any) -> Any:
    if isinstance(value, list) and value and isinstance(value[0], ToolArguments):
        return [
            one.error
            if isinstance(one, InvalidItem)
            else _nested({path: given for path, (_, given) in _spread(one).items()})
            for one in value
        ]
    return value.model_dump(by_alias=True, exclude_none=True) if isinstance(value, ToolArguments) else value


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted names as objects within objects."""
    made: dict[str, Any] = {}
    for path, value in flat.items():
        *above, last = path.split(".")
        place = made
        for name in above:
            place = place.setdefault(name, {})
        place[last] = value
    return made


def _told(place: list[str], said: Mapping[str, str]) -> str:
    """The caller's word for a place in the operation's input."""
    for length in range(len(place), 0, -1):
        if name := said.get(".".join(place[:length])):
            return ".".join([name, *place[length:]])
    return ".".join(place)


def _known_beside(model: type[BaseModel], error: ValidationError) -> list[str]:
    """The names that there are in the object that the error lies in."""
    for part in error.errors(include_url=False)[0]["loc"][:-1]:
        if isinstance(part, int):  # a place in a list
            continue
        fields = {info.alias or name: info for name, info in model.model_fields.items()}
        inner = _inner(fields[str(part)].annotation, ToolArguments) if str(part) in fields else None
        if inner is None:
            return []
        model = inner
    return [info.alias or name for name, info in model.model_fields.items()]


@dataclass(frozen=True, slots=True)
class _Slot:
    """One field of an answer, worked out once: an answer may have hundreds of hits."""

    key: str
    mark: From
    ways: tuple[str, ...]
    inner: type[BaseModel] | None


@cache
def _slots(model: type[BaseModel]) -> tuple[_Slot, ...]:
    made = []
    for name, info in model.model_fields.items():
        mark = _mark(info, From) or From(name)
        inner = _inner(info.annotation, ToolAnswer)
        made.append(_Slot(info.alias or name, mark, tuple(mark.path.split("|")), inner))
    return tuple(made)


def _filled(model: type[BaseModel], source: Any) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for slot in _slots(model):
        mark = slot.mark
        ways = (_walked(source, path) for path in slot.ways)
        found, value = next((way for way in ways if way[0]), (False, None))
        if not found or ((mark.unless_empty or mark.if_any is not None) and not value):
            continue
        if mark.if_any is not None:
            value = mark.if_any
        if mark.values and isinstance(value, str | bool | int):
            value = mark.values.get(value, value)
        if mark.own and isinstance(value, str):
            own = _walked(source, mark.own)[1] or ""
            values[slot.key] = neutralize(value.removesuffix(own)) + own
        else:
            values[slot.key] = _shaped(slot.inner, value)
    return values


def _shaped(inner: type[BaseModel] | None, value: Any) -> Any:
    if value is None or inner is None:
        return neutralize_values(value.model_dump() if isinstance(value, BaseModel) else value)
    if isinstance(value, list | tuple):
        return [_filled(inner, one) for one in value]
    if isinstance(value, Mapping):
        return {neutralize(str(key)): _filled(inner, one) for key, one in value.items()}
    return _filled(inner, value)


def _walked(source: Any, path: str) -> tuple[bool, Any]:
    for name in path.split(".") if path else ():
        if isinstance(source, list | tuple):
            source = [_walked(one, name)[1] for one in source]
            if all(isinstance(one, list | tuple) for one in source):
                source = [inner for one in source for inner in one]
        elif isinstance(source, Mapping):
            if name not in source:
                return False, None
            source = source[name]
        elif source is None or not hasattr(source, name):
            return False, None
        else:
            source = getattr(source, name)
    return True, source


def _mark(info: FieldInfo, kind: type[Any]) -> Any:
    return next((one for one in info.metadata if isinstance(one, kind)), None)


def _inner(annotation: Any, kind: type[BaseModel]) -> type[BaseModel] | None:
    """The model of that kind within `X`, `X | None`, `list[X]` or `dict[str, X]`."""
    if isinstance(annotation, type) and issubclass(annotation, kind):
        return annotation
    return next((found for part in get_args(annotation) if (found := _inner(part, kind))), None)


CONTRACTS = ("capture", "history", "assistant", "project", "fragments")
CORE = "core"
ALL = "all"
KNOWN = (CORE, *CONTRACTS, ALL)
DEFAULT = (CORE,)

# What daily work needs, and no more: each tool costs context in every call.
CORE_TOOLS: Mapping[str, tuple[str, ...]] = {
    "fragments": ("context", "remember", "recall", "amend", "forget", "link", "reflect"),
    "history": ("memory_recall",),
}


def contract(name: str) -> Contract:
    """The dialect of that name."""
    found: Contract = getattr(import_module(f"mindhold.contracts.mcp.{name}"), name.upper())
    return found


def tools_of(toolsets: Iterable[str]) -> tuple[Tool, ...]:
    """The tools of these toolsets, which may also be joined by commas: in a fixed order, each once. Raises InvalidInput."""
    wanted = {name.strip().casefold() for names in toolsets for name in names.split(",") if name.strip()}
    if not wanted or not wanted.issubset(KNOWN):
        unknown = ", ".join(sorted(wanted.difference(KNOWN))) or "nothing"
        raise InvalidInput(f"There is no toolset {unknown}.", advice=f"Known are: {', '.join(KNOWN)}.")
    chosen: dict[str, Tool] = {}
    if wanted & {CORE, ALL}:
        for name, names in CORE_TOOLS.items():
            by_name = {tool.name: tool for tool in contract(name).tools}
            chosen.update({one: by_name[one] for one in names})
    for name in CONTRACTS:
        if name in wanted or ALL in wanted:
            chosen.update({tool.name: tool for tool in contract(name).tools if tool.name not in chosen})
    return tuple(chosen.values())


def contract_of(name: str) -> str | None:
    """The dialect that has a tool of that name."""
    return next((home for home in CONTRACTS if any(tool.name == name for tool in contract(home).tools)), None)
