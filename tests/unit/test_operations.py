"""The catalogue is whole: what is declared is found by name, and the other way round."""

from __future__ import annotations

from functools import cache
from importlib import import_module

import pytest
from pydantic import BaseModel, Field, ValidationError
from tools.operation_index import INDEX, declared_operations, index_text

from mindhold.operation_index import names, operation
from mindhold.operations import Effect, Input, Operation, Output, invalid_input


@cache
def declared() -> dict[str, Operation[Input, Output]]:
    return {
        value.name: value
        for module in set(declared_operations().values())
        for value in vars(import_module(module)).values()
        if isinstance(value, Operation)
    }


def test_the_index_is_the_generated_one() -> None:
    assert INDEX.read_text(encoding="utf-8") == index_text(), "run `make index`"


def test_every_declared_operation_is_in_the_index() -> None:
    assert sorted(declared()) == sorted(names())


@pytest.mark.parametrize("name", names())
def test_an_operation_is_found_and_says_what_it_does(name: str) -> None:
    found = operation(name)
    assert found is declared()[name]
    assert found.summary.endswith(".")
    assert isinstance(found.effect, Effect)
    assert found.takes.model_json_schema()["type"] == "object"
    assert found.gives.model_json_schema()["type"] == "object"


def test_an_unknown_name_is_no_operation() -> None:
    with pytest.raises(KeyError):
        operation("conjure")


def test_what_is_wrong_with_a_list_or_an_empty_text_is_said_in_numbers_and_words() -> None:
    class Few(BaseModel):
        items: list[int] = Field(max_length=2)
        name: str = Field(min_length=1)

    def told(**given: object) -> str:
        with pytest.raises(ValidationError) as caught:
            Few(**given)  # type: ignore[arg-type]
        return invalid_input(caught.value, known=[]).message

    assert told(items=[1, 2, 3], name="a") == "items must have at most 2 entries; it had 3."
    assert told(items=[], name="") == "name must not be empty."
