"""The catalogue is whole: what is declared is found by name, and the other way round."""

from __future__ import annotations

from importlib import import_module

import pytest

from recollect.operations.catalogue import Effect, Input, Operation, Output
from recollect.operations.index import MODULES, names, operation


def declared() -> dict[str, Operation[Input, Output]]:
    return {
        value.name: value
        for module in MODULES
        for value in vars(import_module(f"recollect.operations.{module}")).values()
        if isinstance(value, Operation)
    }


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
