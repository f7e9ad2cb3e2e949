"""The OpenAPI document: valid, complete, and with examples that fit what it says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from openapi_spec_validator import validate

from mindhold import __version__
from mindhold.contracts.rest.errors import BY_CODE, FAILURES, TITLES, failures_of
from mindhold.contracts.rest.openapi import codes_of, openapi_document, resolve_reference
from mindhold.contracts.rest.resource import Resource, resources
from mindhold.model.errors import InvalidInput, MindholdError, NotFound, StoreError
from mindhold.operation_index import operation

JSON = "application/json"
ROWS = resources()


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in openapi_document()["paths"].items():
        for method, told in methods.items():
            yield path, method.upper(), told


def told(row: Resource) -> dict[str, Any]:
    found: dict[str, Any] = openapi_document()["paths"][row.path][row.method.lower()]
    return found


def fits(value: Any, schema: dict[str, Any]) -> None:
    """Raises for a value that the schema of the document refuses."""
    whole = {**schema, "components": openapi_document()["components"]}
    jsonschema.Draft202012Validator(whole).validate(value)


def every(kind: type[MindholdError]) -> Iterator[type[MindholdError]]:
    yield kind
    for one in kind.__subclasses__():
        yield from every(one)


def by_name(row: Resource) -> str:
    return row.name


def test_is_valid() -> None:
    validate(openapi_document())
    assert openapi_document()["openapi"].startswith("3.1")
    assert openapi_document()["info"]["version"] == __version__


def test_is_made_alike_every_time() -> None:
    before = openapi_document()
    openapi_document.cache_clear()
    assert openapi_document() == before
    assert [*openapi_document()["paths"]] == [*before["paths"]]


def test_names_are_all_different() -> None:
    names = [one["operationId"] for _, _, one in operations()]
    assert len(names) == len(set(names))


def test_every_section_is_described() -> None:
    assert all(tag.get("description") for tag in openapi_document()["tags"])


@pytest.mark.parametrize("row", ROWS, ids=by_name)
def test_every_row_is_in_it_with_all_its_words(row: Resource) -> None:
    found = told(row)
    assert found["operationId"] == row.name
    said = {one["name"]: one for one in map(resolve_reference, found["parameters"])}
    assert {*row.in_path(), *row.in_query()} == {name for name, one in said.items() if one["in"] != "header"}
    if row.in_body() and row.stream is None:
        content = resolve_reference(found["requestBody"]["content"][JSON]["schema"])
        assert set(content["properties"]) == set(row.in_body())
    assert str(row.status) in found["responses"]
    assert ("Idempotency-Key" in said) == row.writes


@pytest.mark.parametrize("row", ROWS, ids=by_name)
def test_every_word_says_what_it_means(row: Resource) -> None:
    said = {one["name"]: one.get("description") for one in map(resolve_reference, told(row)["parameters"])}
    if row.in_body() and row.stream is None:
        content = resolve_reference(told(row)["requestBody"]["content"][JSON]["schema"])
        said |= {name: one.get("description") for name, one in content["properties"].items()}
    assert [name for name, words in said.items() if not words] == []


@pytest.mark.parametrize("row", ROWS, ids=by_name)
def test_every_row_has_an_example_that_it_takes(row: Resource) -> None:
    example = dict(row.example or {})
    if row.in_body():
        assert row.example is not None, "a row with a body needs an example"
    assert set(example) <= set(row.fields())
    path = {word: str(example.get(word, "1")) for word in row.in_path()}
    query = [(word, example[word]) for word in row.in_query() if word in example]
    pairs = [
        (word, str(one)) for word, value in query for one in (value if isinstance(value, list) else [value])
    ]
    body = {word: example[word] for word in row.in_body() if word in example}
    row.given(path, pairs, body)
    for one in map(resolve_reference, told(row)["parameters"]):
        if "example" in one:
            fits(one["example"], one["schema"])
    content = told(row).get("requestBody", {}).get("content", {}).get(JSON)
    if content is not None and "example" in content:
        fits(content["example"], content["schema"])


@pytest.mark.parametrize("row", [row for row in ROWS if row.answer is not None], ids=by_name)
def test_every_answer_shown_is_one_that_it_could_give(row: Resource) -> None:
    content = told(row)["responses"][str(row.status)]["content"][JSON]
    fits(content["example"], content["schema"])
    row.serves.gives.model_validate(dict(row.answer or {}))


@pytest.mark.parametrize("row", ROWS, ids=by_name)
def test_every_code_that_a_row_can_give_is_listed(row: Resource) -> None:
    expected = {one.code for one in failures_of(row)}
    statuses = [int(status) for status in told(row)["responses"] if status >= "400"]
    assert expected == {code for status in statuses for code in codes_of(told(row), status)}
    assert {one.code for one in row.wrong.values()} <= expected
    if "project_id" in row.in_path():
        assert "PROJECT_NOT_FOUND" in expected
    if row.versioned and row.method != "GET":
        assert "PRECONDITION_FAILED" in expected


def test_every_error_shown_has_the_form_of_an_error() -> None:
    for one in FAILURES:
        fits(one.example(), {"$ref": "#/components/schemas/Error"})
        assert one.status in TITLES
    assert len(BY_CODE) == len(FAILURES)


@pytest.mark.parametrize(("kind", "status"), [(StoreError, 503), (NotFound, 404), (InvalidInput, 400)])
def test_every_kind_of_error_that_operations_raise_is_known(kind: type[MindholdError], status: int) -> None:
    for row in ROWS:  # whatever they define themselves is defined now
        operation(row.operation)
    of_files = {"MARKERS_WRONG", "BROKEN_JSON", "WRONG_SHAPE"}  # of other programs' files, which no row reads
    ours = [one for one in every(kind) if one.__module__.startswith("mindhold.")]
    codes = {one.code for one in ours if ".interfaces." not in one.__module__} - of_files
    assert {code: BY_CODE[code].status for code in codes if code in BY_CODE} == dict.fromkeys(codes, status)


def test_no_component_is_left_over() -> None:
    text = repr(openapi_document())
    for kind in ("schemas", "parameters", "headers", "examples"):
        for name in openapi_document()["components"][kind]:
            assert f"'#/components/{kind}/{name}'" in text, f"{kind}/{name}"
