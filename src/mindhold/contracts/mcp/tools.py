"""Tools and contracts: the translation between a tool's arguments and its operation, their schemas, and the tools of each toolset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from typing import Annotated, Any, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
)
from pydantic.fields import FieldInfo

from mindhold.model.errors import InvalidInput
from mindhold.model.prompt_markup import NOTICE, neutralize, neutralize_values
from mindhold.operation_index import operation as find_operation
from mindhold.operations import Effect, Operation, invalid_input

AGENT = "@agent"


@dataclass(frozen=True, slots=True)
class To:
    """The input field that an argument sets. Dots reach nested fields; "@agent" is the caller's agent; "" spreads an object's fields."""

    path: str
    values: Mapping[Any, Any] = field(default_factory=dict)  # the argument's value -> the operation's
    instead: Mapping[Any, Mapping[str, Any]] = field(default_factory=dict)  # a value -> fields to set instead
    unless: str = ""  # ignored if that argument is given too
    listed: bool = False  # becomes a list of one
    also: tuple[str, ...] = ()  # further fields that it sets


@dataclass(frozen=True, slots=True)
class From:
    """The output field that an answer's value comes from. Dots reach nested fields, also of each list item; "" is the whole output.

    Of several paths separated by bars, the first that exists is used.
    """

    path: str
    values: Mapping[Any, Any] = field(default_factory=dict)
    unless_empty: bool = False  # omitted if it is empty
    if_any: Any = None  # the value if there is anything; else the answer's default
    own: str = ""  # path of Mindhold's own words at the end of the text, which are not neutralized


ALWAYS = From("@")  # the answer's own constant, not from the output

# What is nearest if nothing probably answers. Its items look like results, which the schema needn't say twice.
NEAREST = From("nearest", unless_empty=True)
NEAREST_SCHEMA = WithJsonSchema({"items": {"additionalProperties": True, "type": "object"}, "type": "array"})
Doubt = Annotated[
    str | None,
    From("nearest", if_any="Nothing that is remembered clearly answers this; `nearest` is doubtful."),
]


class ToolArguments(BaseModel):
    """Base of every tool's arguments: unknown ones are errors, so that typing mistakes are told."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class NoArguments(ToolArguments):
    """The arguments of a tool that takes none."""


class InvalidItem(ToolArguments):
    """Stands for an item of a list that isn't right; the operation answers for it, and for the others as ever."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    error: InvalidInput


def validate_each(model: type[ToolArguments]) -> WrapValidator:
    """Marks list items that are validated one by one: an invalid one becomes an InvalidItem and doesn't affect the others."""

    def checked(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
        try:
            return check(value)
        except ValidationError as error:
            return InvalidItem(error=invalid_input(error, known=_known_beside(model, error)))

    return WrapValidator(checked)


class ToolAnswer(BaseModel):
    """Base of every tool's answer. A value of None is left out; every text is made harmless."""

    model_config = ConfigDict(frozen=True, defer_build=True)


class RememberedAnswer(ToolAnswer):
    """Base of an answer that carries remembered text, and says so."""

    notice: Annotated[str, ALWAYS] = NOTICE


@dataclass(frozen=True, slots=True)
class OperationCall:
    """A tool call translated to an operation."""

    operation: Operation[Any, Any]
    given: Any
    agent: str | None = None


@dataclass(frozen=True, slots=True)
class Tool:
    """A name under which an operation is served."""

    name: str
    title: str
    operation: str
    takes: type[ToolArguments]
    gives: type[ToolAnswer]
    fixed: Mapping[str, Any] = field(default_factory=dict)  # input fields that this contract always sets
    idempotent: bool = False
    description: str = ""

    def described(self, description: str) -> Tool:
        """This tool with the text that tells a model when to use it."""
        return replace(self, description=description)

    @property
    def effect(self) -> Effect:
        """What the tool may change."""
        return find_operation(self.operation).effect

    def request(self, arguments: Mapping[str, Any]) -> OperationCall:
        """The operation call for these arguments. Raises InvalidInput."""
        try:
            parsed = self.takes.model_validate(dict(arguments))
        except ValidationError as error:
            raise invalid_input(error, known=_known_beside(self.takes, error)) from error
        routed = _spread(parsed)
        values = {path: value for path, (_, value) in routed.items()}
        agent = values.pop(AGENT, None)
        operation = find_operation(self.operation)
        try:
            request_input = operation.takes.model_validate(_nested({**values, **self.fixed}))
        except ValidationError as error:
            argument_names = {path: name for path, (name, _) in routed.items()}
            raise invalid_input(
                error, known=[], named=lambda place: _argument_name(place, argument_names)
            ) from error
        return OperationCall(operation, request_input, agent)

    def answer(self, output: Any) -> dict[str, Any]:
        """The operation's output in the shape of this tool, ready for JSON."""
        filled = self.gives.model_validate(_filled(self.gives, output))
        return filled.model_dump(mode="json", by_alias=True, exclude_none=True)


@dataclass(frozen=True, slots=True)
class Contract:
    """The tools of one contract."""

    name: str
    summary: str
    tools: tuple[Tool, ...]


def _spread(taken: ToolArguments, *, within: str = "") -> dict[str, tuple[str, Any]]:
    """The values by input field, each with the name of its argument."""
    routed: dict[str, tuple[str, Any]] = {}
    for name, info in type(taken).model_fields.items():
        value = getattr(taken, name)
        mark = _mark(info, To) or To(name)
        argument = f"{within}{info.alias or name}"
        if value is None or (mark.unless and getattr(taken, mark.unless) is not None):
            continue
        if isinstance(value, ToolArguments) and not mark.path:
            routed.update(_spread(value, within=f"{argument}."))
        elif isinstance(value, str | bool | int) and value in mark.instead:
            routed.update({path: (argument, other) for path, other in mark.instead[value].items()})
        else:
            mapped = mark.values[value] if isinstance(value, str) and value in mark.values else value
            for path in (mark.path, *mark.also):
                routed[path] = (argument, [mapped] if mark.listed else _plain(mapped))
    return routed


def _plain(value: Any) -> Any:
    if isinstance(value, list) and value and isinstance(value[0], ToolArguments):
        return [
            item.error
            if isinstance(item, InvalidItem)
            else _nested({path: inner for path, (_, inner) in _spread(item).items()})
            for item in value
        ]
    return value.model_dump(by_alias=True, exclude_none=True) if isinstance(value, ToolArguments) else value


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Turns dotted names into nested objects."""
    tree: dict[str, Any] = {}
    for path, value in flat.items():
        *above, last = path.split(".")
        place = tree
        for name in above:
            place = place.setdefault(name, {})
        place[last] = value
    return tree


def _argument_name(place: list[str], argument_names: Mapping[str, str]) -> str:
    """The argument's name for a field of the operation's input."""
    for length in range(len(place), 0, -1):
        if name := argument_names.get(".".join(place[:length])):
            return ".".join([name, *place[length:]])
    return ".".join(place)


def _known_beside(model: type[BaseModel], error: ValidationError) -> list[str]:
    """The field names of the object that has the error."""
    for part in error.errors(include_url=False)[0]["loc"][:-1]:
        if isinstance(part, int):  # an index of a list
            continue
        fields = {info.alias or name: info for name, info in model.model_fields.items()}
        inner = _inner(fields[str(part)].annotation, ToolArguments) if str(part) in fields else None
        if inner is None:
            return []
        model = inner
    return [info.alias or name for name, info in model.model_fields.items()]


@dataclass(frozen=True, slots=True)
class _Slot:
    """One field of an answer, computed once per model because an answer may have hundreds of hits."""

    key: str
    mark: From
    ways: tuple[str, ...]
    inner: type[BaseModel] | None


@cache
def _slots(model: type[BaseModel]) -> tuple[_Slot, ...]:
    slots = []
    for name, info in model.model_fields.items():
        mark = _mark(info, From) or From(name)
        inner = _inner(info.annotation, ToolAnswer)
        slots.append(_Slot(info.alias or name, mark, tuple(mark.path.split("|")), inner))
    return tuple(slots)


def _filled(model: type[BaseModel], source: Any) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for slot in _slots(model):
        mark = slot.mark
        ways = (_walked(source, path) for path in slot.ways)
        exists, value = next((way for way in ways if way[0]), (False, None))
        if not exists or ((mark.unless_empty or mark.if_any is not None) and not value):
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
        return [_filled(inner, item) for item in value]
    if isinstance(value, Mapping):
        return {neutralize(str(key)): _filled(inner, item) for key, item in value.items()}
    return _filled(inner, value)


def _walked(source: Any, path: str) -> tuple[bool, Any]:
    for name in path.split(".") if path else ():
        if isinstance(source, list | tuple):
            source = [_walked(item, name)[1] for item in source]
            if all(isinstance(item, list | tuple) for item in source):
                source = [inner for item in source for inner in item]
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
    return next((annotation for annotation in info.metadata if isinstance(annotation, kind)), None)


def _inner(annotation: Any, kind: type[BaseModel]) -> type[BaseModel] | None:
    """The model of that kind in `X`, `X | None`, `list[X]` or `dict[str, X]`."""
    if isinstance(annotation, type) and issubclass(annotation, kind):
        return annotation
    return next((model for part in get_args(annotation) if (model := _inner(part, kind))), None)


_OMITTED_KEYS = frozenset({"title", "$defs"})


def input_schema(tool: Tool) -> dict[str, Any]:
    """The schema of the tool's arguments; no others are allowed."""
    return _compact_schema(tool.takes, "validation")


def output_schema(tool: Tool) -> dict[str, Any]:
    """The schema of the tool's answer."""
    return _compact_schema(tool.gives, "serialization")


@cache
def _compact_schema(model: type[BaseModel], mode: Any) -> dict[str, Any]:
    whole = model.model_json_schema(mode=mode)
    shared = {name: _undescribed(model_schema) for name, model_schema in whole.get("$defs", {}).items()}
    compact: dict[str, Any] = _compact(_undescribed(whole), shared, defaults=mode == "validation")
    return compact


def _undescribed(model: Mapping[str, Any]) -> dict[str, Any]:
    """The schema without the class docstring: the descriptions are on the properties."""
    return {key: value for key, value in model.items() if key != "description"}


def _compact(node: Any, shared: Mapping[str, Any], *, defaults: bool) -> Any:
    """The schema without titles, references and unions with null; an optional value is just not required."""
    if isinstance(node, list):
        return [_compact(part, shared, defaults=defaults) for part in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        rest = {key: value for key, value in node.items() if key != "$ref"}
        return _compact({**shared[node["$ref"].rpartition("/")[2]], **rest}, shared, defaults=defaults)
    if "anyOf" in node:
        options = [part for part in node["anyOf"] if part.get("type") != "null"]
        rest = {key: value for key, value in node.items() if key != "anyOf"}
        if len(options) == 1:
            return _compact({**options[0], **rest}, shared, defaults=defaults)
    compact: dict[str, Any] = {}
    for key, value in node.items():
        if key == "properties":
            compact[key] = {name: _compact(part, shared, defaults=defaults) for name, part in value.items()}
        elif key == "default":
            if defaults and value is not None:
                compact[key] = value
        elif key not in _OMITTED_KEYS:
            compact[key] = _compact(value, shared, defaults=defaults)
    return compact


CONTRACTS = ("capture", "history", "assistant", "project", "fragments")
CORE = "core"
ALL = "all"
KNOWN = (CORE, *CONTRACTS, ALL)
DEFAULT = (CORE,)

# Only what daily work needs: each tool costs context in every call.
CORE_TOOLS: Mapping[str, tuple[str, ...]] = {
    "fragments": ("context", "remember", "recall", "amend", "forget", "link", "reflect"),
    "history": ("memory_recall",),
}


def contract(name: str) -> Contract:
    """The contract of that name."""
    loaded: Contract = getattr(import_module(f"mindhold.contracts.mcp.{name}"), name.upper())
    return loaded


def tools_of(toolsets: Iterable[str]) -> tuple[Tool, ...]:
    """The tools of these toolsets (names may be joined by commas) in a fixed order, each once. Raises InvalidInput."""
    requested = {name.strip().casefold() for names in toolsets for name in names.split(",") if name.strip()}
    if not requested or not requested.issubset(KNOWN):
        unknown = ", ".join(sorted(requested.difference(KNOWN))) or "nothing"
        raise InvalidInput(f"There is no toolset {unknown}.", advice=f"Known are: {', '.join(KNOWN)}.")
    tools: dict[str, Tool] = {}
    if requested & {CORE, ALL}:
        for name, names in CORE_TOOLS.items():
            by_name = {tool.name: tool for tool in contract(name).tools}
            tools.update({tool_name: by_name[tool_name] for tool_name in names})
    for name in CONTRACTS:
        if name in requested or ALL in requested:
            tools.update({tool.name: tool for tool in contract(name).tools if tool.name not in tools})
    return tuple(tools.values())


def contract_of(name: str) -> str | None:
    """The contract that has a tool of that name."""
    return next((home for home in CONTRACTS if any(tool.name == name for tool in contract(home).tools)), None)
