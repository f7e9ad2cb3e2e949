"""A REST resource, its translation to an operation and back, and the table of all resources."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from difflib import get_close_matches
from functools import cache
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin
from urllib.parse import quote

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from mindhold.model.errors import InvalidInput
from mindhold.operation_index import operation as find_operation
from mindhold.operations import Effect, Input, Operation, invalid_input

Stream = Literal["import", "export", "events"]
BODILESS = frozenset({"GET", "DELETE", "HEAD"})
# Fields that the headers If-Match and Idempotency-Key set.
BY_HEADER = frozenset({"expected", "idempotency_key"})
_IN_PATH = re.compile(r"{(\w+)}")


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """The contract's own code and text for an invalid value."""

    code: str
    error: str

    def as_error(self) -> InvalidInput:
        """The error, with the contract's own code."""
        error = InvalidInput(self.error)
        error.code = self.code
        return error


@dataclass(frozen=True, slots=True)
class ResourceRequest:
    """A request as a client sends it to a resource."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Resource:
    """One method on one path that serves an operation."""

    section: str
    route: str  # method and path; names in braces are parameters
    operation: str
    summary: str
    _: KW_ONLY
    description: str = ""
    id: str = ""  # operation id in the document; the operation's name unless several resources serve it
    names: Mapping[str, str] = field(default_factory=dict)  # parameter -> input field
    query: tuple[str, ...] | None = None  # parameters in the query; None: all of them, if there is no body
    fixed: Mapping[str, Any] = field(default_factory=dict)  # input fields that only the server sets
    preset: Mapping[str, Any] = field(default_factory=dict)  # input fields with a default of their own here
    hidden: frozenset[str] = frozenset()  # input fields that can't be set here and keep their defaults
    status: int = 200
    location: str = ""  # URL of what was created, with fields of the answer in braces
    wrong: Mapping[str, FieldProblem] = field(default_factory=dict)  # by parameter
    descriptions: Mapping[str, str] = field(default_factory=dict)  # by parameter, instead of the field's own
    own_example: Mapping[str, Any] | None = None  # instead of the request made from the fields' examples
    differing_answer: Mapping[str, Any] = field(default_factory=dict)  # parts of the example answer
    versioned: bool = False  # has an ETag, and honours If-Match and If-None-Match
    stream: Stream | None = None
    codes: tuple[str, ...] = ()  # error codes in addition to those implied by its parameters and effect

    def described(self, description: str) -> Resource:
        """This resource with what the document says beyond the summary."""
        return replace(self, description=description)

    @property
    def method(self) -> str:
        return self.route.partition(" ")[0]

    @property
    def path(self) -> str:
        return self.route.partition(" ")[2]

    @property
    def name(self) -> str:
        return self.id or self.operation

    @property
    def serves(self) -> Operation[Any, Any]:
        return find_operation(self.operation)

    @property
    def writes(self) -> bool:
        return self.serves.effect is not Effect.READS

    def fields(self) -> dict[str, str]:
        """Every parameter of the request, with its input field."""
        return dict(_fields(self.operation, tuple(self.names.items()), frozenset(self.fixed) | self.hidden))

    def in_path(self) -> tuple[str, ...]:
        return tuple(_IN_PATH.findall(self.path))

    def in_query(self) -> tuple[str, ...]:
        if self.query is not None:
            return self.query
        if self.method not in BODILESS:
            return ()
        return tuple(word for word in self.fields() if word not in self.in_path())

    def in_body(self) -> tuple[str, ...]:
        elsewhere = {*self.in_path(), *self.in_query()}
        return (
            () if self.method in BODILESS else tuple(word for word in self.fields() if word not in elsewhere)
        )

    @property
    def example(self) -> Mapping[str, Any] | None:
        """An example request by parameter, made from the examples of the operation's fields."""
        if self.own_example is not None:
            return self.own_example
        infos = {word: self.info(word) for word in self.fields()}
        return {word: info.examples[0] for word, info in infos.items() if info.examples} or None

    @property
    def answer(self) -> Mapping[str, Any] | None:
        """An example answer, made from the examples of the output's fields; None for a stream."""
        if self.stream in ("export", "events"):
            return None
        return example_of(self.serves.gives, self.differing_answer)

    def info(self, word: str) -> FieldInfo:
        """The input field of a parameter."""
        info: FieldInfo = self.serves.takes.model_fields[self.fields()[word]]
        return info

    def given(
        self,
        path: Mapping[str, str],
        query: Sequence[tuple[str, str]] = (),
        body: Mapping[str, Any] | None = None,
        **headers: Any,
    ) -> Input:
        """The operation's input. `headers` are fields that headers set. Raises InvalidInput."""
        fields = self.fields()
        parameters: dict[str, Any] = {}
        for word, value in query:
            _refuse_unknown(word, self.in_query())
            if is_list(self.info(word)):
                parameters.setdefault(word, []).append(value)
            elif word in parameters:
                raise InvalidInput(f"{word} is given twice.", advice="Give it once.")
            else:
                parameters[word] = value
        for word in body or {}:
            _refuse_unknown(word, self.in_body())
        parameters |= {**(body or {}), **self._path_values(path)}
        values = {fields[word]: value for word, value in parameters.items()}
        own = {name: value for name, value in headers.items() if name in self.serves.takes.model_fields}
        try:
            request_input: Input = self.serves.takes.model_validate(
                {**self.preset, **values, **self.fixed, **own}
            )
        except ValidationError as error:
            raise self._input_error(error) from error
        return request_input

    def _path_values(self, path: Mapping[str, str]) -> dict[str, Any]:
        """The path's values; one for a field that takes several becomes a list of one."""
        return {word: [value] if is_list(self.info(word)) else value for word, value in path.items()}

    def sent(self, given: Input) -> ResourceRequest:
        """The request for an input, without unset fields. Raises InvalidInput for fields that can't be sent to a server."""
        values = given.model_dump(mode="json", exclude_unset=True)
        words = {name: word for word, name in self.fields().items()}
        for name, value in values.items():
            if name not in words and name not in BY_HEADER and value != self._default(name):
                raise InvalidInput(f"{name} can't be asked of a server.", advice="Leave it out.")
        parameters = {
            words[name]: value for name, value in values.items() if name in words and value is not None
        }
        path = _IN_PATH.sub(lambda found: quote(_single_value(parameters.get(found[1])), safe=""), self.path)
        query = [
            (word, str(item).lower() if isinstance(item, bool) else str(item))
            for word in self.in_query()
            if word in parameters
            for item in _as_list(parameters[word])
        ]
        inside = {word: parameters[word] for word in self.in_body() if word in parameters}
        body = None if self.method in BODILESS or not (inside or self.in_body()) else inside
        return ResourceRequest(self.method, path, tuple(query), body)

    def _default(self, name: str) -> Any:
        if name in self.fixed:
            return self.fixed[name]
        return self.serves.takes.model_fields[name].get_default(call_default_factory=True)

    def _input_error(self, error: ValidationError) -> InvalidInput:
        words = {name: word for word, name in self.fields().items()}
        place = error.errors(include_url=False)[0]["loc"]
        first = words.get(str(place[0]), str(place[0])) if place else ""
        if first in self.wrong:
            return self.wrong[first].as_error()
        return invalid_input(
            error,
            known=list(self.fields()),
            named=lambda where: ".".join([words.get(where[0], where[0]), *where[1:]] if where else []),
        )


@cache
def _fields(
    operation: str, names: tuple[tuple[str, str], ...], hidden: frozenset[str]
) -> tuple[tuple[str, str], ...]:
    words = {name: word for word, name in names}
    visible = [
        name for name in find_operation(operation).takes.model_fields if name not in hidden | BY_HEADER
    ]
    return tuple((words.get(name, name), name) for name in visible)


def example_of(model: type[BaseModel], differing: Mapping[str, Any]) -> dict[str, Any]:
    """An example of a model: the first example of each field, with other values for those in `differing`.

    A required field that holds models needs no example: it gets theirs. An example of such a field has only what
    differs from theirs, so `{}` means no difference.
    """
    example: dict[str, Any] = {}
    for name, info in model.model_fields.items():
        if name in differing:
            value = differing[name]
        elif info.examples:
            value = info.examples[0]
        elif info.is_required() and _model_in(info.annotation):
            value = [{}] if is_list(info) else {}
        else:
            continue
        inner = _model_in(info.annotation)
        if inner and isinstance(value, list):
            value = [example_of(inner, item) for item in value]
        elif inner and isinstance(value, dict):
            value = example_of(inner, value)
        example[name] = value
    return example


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model of a field that holds one or a list of them."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (list, Union, UnionType):
        return next((model for part in get_args(annotation) if (model := _model_in(part))), None)
    return None


@cache
def _listed(annotation: Any) -> bool:
    return get_origin(annotation) is list or any(_listed(part) for part in get_args(annotation))


def is_list(info: FieldInfo) -> bool:
    """Whether a field takes several values."""
    annotation: Any = info.annotation
    return _listed(annotation)


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _single_value(value: Any) -> str:
    """The single value. Raises InvalidInput if there are several or none."""
    values = _as_list(value)
    if len(values) != 1 or values[0] in (None, ""):
        raise InvalidInput(f"{len(values)} can't be named by one path.", advice="Name one.")
    return str(values[0])


def _refuse_unknown(word: str, known: Collection[str]) -> None:
    if word in known:
        return
    close = get_close_matches(word, known, n=1)
    hint = f"Did you mean {close[0]}?" if close else f"Known are: {', '.join(known) or 'none'}."
    raise InvalidInput(f"{word} is not known here.", advice=hint)


@cache
def resources() -> tuple[Resource, ...]:
    """All resources, in the order of the document."""
    from mindhold.contracts.rest.resources import RESOURCES

    return RESOURCES


@cache
def by_name() -> Mapping[str, Resource]:
    """The resources by their unique names in the document."""
    return {row.name: row for row in resources()}


@cache
def resource_for(operation: str) -> Resource:
    """The first resource that serves the operation. Raises KeyError."""
    for row in resources():
        if row.operation == operation:
            return row
    raise KeyError(operation)
