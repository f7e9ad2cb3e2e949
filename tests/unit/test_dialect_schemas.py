"""Schemas that any client can read, and contracts that say what their documents say."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from dialect_contracts import (
    ASSISTANT,
    BEYOND,
    CAPTURE,
    CONTRACTS,
    FRAGMENTS,
    HISTORY,
    OF_REVIEW,
    PROJECT,
    Contract,
)
from dialect_contracts import PROFILE as OF_THE_PERSON
from dialect_documents import SPECS, document

from mindhold.contracts.mcp.tools import input_schema, output_schema, tools_of

TOOLS = {tool.name: tool for tool in tools_of(["all"])}
SCHEMAS = [
    pytest.param(make(tool), id=f"{tool.name}-{make.__name__}")
    for tool in TOOLS.values()
    for make in (input_schema, output_schema)
]
SAID = frozenset(
    "type properties required additionalProperties items enum default description format "
    "minimum maximum minItems maxItems".split()
)
LONGEST_DESCRIPTION = 80


def nodes(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield schema
    for inner in schema.get("properties", {}).values():
        yield from nodes(inner)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from nodes(schema[key])


@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_schema_is_plain(schema: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["type"] == "object"
    for node in nodes(schema):
        assert set(node) <= SAID
        assert node["type"] in {"object", "array", "string", "integer", "number", "boolean"}
        if node["type"] == "array":
            assert "items" in node
        if node["type"] == "object":
            assert "properties" in node or "additionalProperties" in node
            assert set(node.get("required", ())) <= set(node.get("properties", ()))
        assert len(node.get("description", "")) <= LONGEST_DESCRIPTION
        if "default" in node:
            jsonschema.validate(node["default"], node)


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
def test_nothing_but_what_is_named_may_be_given(tool: Any) -> None:
    for node in nodes(input_schema(tool)):
        if "properties" in node:
            assert node["additionalProperties"] is False


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
def test_an_answer_has_no_defaults(tool: Any) -> None:
    assert not any("default" in node for node in nodes(output_schema(tool)))


def test_every_tool_of_the_five_documents_has_its_contract() -> None:
    assert {dialect: len(tools) for dialect, tools in CONTRACTS.items()} == {
        "capture": 3 + len(OF_REVIEW),
        "history": 3,
        "assistant": 14 + len(OF_THE_PERSON),
        "project": 5,
        "fragments": 11 + len(BEYOND),
    }
    named = [name for tools in CONTRACTS.values() for name in tools]
    assert len(set(named)) == len(named) == 42
    assert set(named) == set(TOOLS)


# What follows needs the documents; tests/unit/conftest.py says so where they aren't.


def fenced(text: str) -> list[str]:
    return re.findall(r"```json\n(.*?)```", text, re.DOTALL)


def keys(text: str) -> set[str]:
    """Names in a piece of JSON that may have gaps."""
    return set(re.findall(r'"([a-z_]+)":', text))


def dotted(value: Any, above: str = "") -> set[str]:
    if isinstance(value, list):
        return set().union(*(dotted(one, above) for one in value)) if value else set()
    if not isinstance(value, dict):
        return set()
    return set().union(*({f"{above}{name}"} | dotted(one, f"{above}{name}.") for name, one in value.items()))


def shape(schema: dict[str, Any], above: str = "") -> set[str]:
    inner = schema.get("items", schema)
    named = inner.get("properties", {})
    return set().union(*({f"{above}{name}"} | shape(one, f"{above}{name}.") for name, one in named.items()))


def leaves(paths: tuple[str, ...]) -> set[str]:
    return {path.rpartition(".")[2] for path in paths}


def promised(contract: Contract) -> set[str]:
    return {*contract.required, *contract.optional}


def rows(section: str) -> list[list[str]]:
    """A parameter table's rows without its head: name, type, (required,) description."""
    table = [line.strip().strip("|") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.split("|")] for row in table[2:]]


def choices(words: str) -> tuple[set[str], str | None]:
    """What a description lists between slashes, and which of it is marked as the default."""
    found = re.match(r"[a-z_]+(?:\([^)]*\))?(?: / [a-z_]+(?:\([^)]*\))?)+", words)
    if not found:
        return set(), None
    parts = found[0].split(" / ")
    default = next((part.partition("(")[0] for part in parts if "기본" in part), None)
    return {part.partition("(")[0] for part in parts}, default


def stated_default(words: str) -> Any:
    plain = re.search(r"기본:? ([\w]+|\[[^\]]*\])", re.sub(r"\([^)]*\)", "", words))
    if not plain:
        return None
    try:
        return json.loads(plain[1])
    except json.JSONDecodeError:
        return plain[1]


if SPECS.is_dir():

    def test_the_capture_document_names_the_same() -> None:
        text = document("1")
        assert set(re.findall(r"(memory_(?:search|ask|related))\(", text)) == set(CAPTURE)
        model = re.search(r"Memory \{\n(.*?)\n\}", text, re.DOTALL)
        assert model
        fields = set(re.findall(r"^ +(\w+)\??:", model[1], re.MULTILINE))
        for name in ("memory_search", "memory_related"):
            assert leaves(CAPTURE[name].gives) - {"results"} == fields

    @pytest.mark.parametrize("name", HISTORY)
    def test_the_history_document_says_the_same(name: str) -> None:
        section = document("2").split(f"#### `{name}`")[1].split("####")[0]
        takes, gives = (json.loads(block) for block in fenced(section)[:2])
        contract = HISTORY[name]
        assert set(takes["properties"]) == promised(contract)
        assert set(takes.get("required", ())) == set(contract.required)
        for argument, one in takes["properties"].items():
            assert one["type"] == input_schema(TOOLS[name])["properties"][argument]["type"]
            assert one.get("default") == contract.optional.get(argument)
        assert shape(gives) == set(contract.gives) - {"suggestion"}
        assert output_schema(TOOLS[name])["properties"].get("results", {}).get("maxItems") == gives[
            "properties"
        ].get("results", {}).get("maxItems")

    def test_the_history_document_suggests_something_when_nothing_is_found() -> None:
        assert '"suggestion":' in document("2")
        assert "suggestion" in HISTORY["memory_recall"].gives

    def test_the_assistant_document_says_the_same() -> None:
        text = document("3").split("## MCP Protocol Integration")[1].split("## Semantic Search")[0]
        asked = {}
        for block in fenced(text):
            if '"action"' in block:
                request = json.loads(block)
                asked[request["action"]] = dotted(request) - {"action"}
        assert {name: promised(ASSISTANT[name]) for name in asked} == asked
        named = set(re.findall(r"`([a-z]+_[a-z_]+)`", text)) & set(ASSISTANT)
        assert set(ASSISTANT) - named == {"restore_memory"}
        assert "`restore_memory`" in document("3")
        assert re.search(r'`forget_mode`: could be `"soft"` \(the default\) or `"hard"`', text)
        assert re.findall(r'"top_k": (\d+)', text) == [str(ASSISTANT["retrieve_memory"].optional["top_k"])]

    @pytest.mark.parametrize(
        ("name", "beginning"),
        [
            ("store_memory", '"memory_id": "<generated id>"'),
            ("retrieve_memory", '"text": "<retrieved memory text>"'),
            ("recall_memory_by_time", '"text": "<memory content>"'),
            ("delete_memory", '"deleted_count"'),
            ("get_memory_stats", '"stats"'),
            ("backup_memory", '"backup_file"'),
            ("optimize_memory", '"operations"'),
        ],
    )
    def test_the_assistant_document_answers_the_same(name: str, beginning: str) -> None:
        block = next(block for block in fenced(document("3")) if beginning in block)
        assert keys(block) == leaves(ASSISTANT[name].gives)

    PARAMETER = re.compile(r"^- `(\w+)` \((\w+), (required|optional)\): (.*)$", re.MULTILINE)
    ENDPOINTS = {
        "save_conversation_message": "### 1.",
        "search_project_memories": "### 3.",
        "update_project_summary": "### 4.",
        "intelligent_update_project_summary": "### 8.",
    }

    def test_the_project_document_names_the_same() -> None:
        text = document("4").split("## MCP Tools Integration")[1].split("## Usage")[0]
        assert set(re.findall(r"### `(\w+)`", text)) == set(PROJECT)
        returned = re.search(r"# Returns: \{([^}]*)\}", document("4"))
        assert returned
        tops = {path for path in PROJECT["get_project_memory_context"].gives if "." not in path}
        assert set(returned[1].split(", ")) == tops

    @pytest.mark.parametrize("name", ENDPOINTS)
    def test_the_project_document_says_the_same(name: str) -> None:
        section = document("4").split(f"\n{ENDPOINTS[name]}")[1].split("\n### ")[0]
        contract, schema = PROJECT[name], input_schema(TOOLS[name])["properties"]
        listed = PARAMETER.findall(section)
        assert {one for one, _, need, _ in listed if need == "required"} == set(contract.required)
        assert {one for one, *_ in listed} == promised(contract) - {"project_id"}
        for argument, kind, _, words in listed:
            assert schema[argument]["type"] == kind
            if default := re.search(r"default: (\d+)", words):
                assert contract.optional[argument] == int(default[1])
            if most := re.search(r"max: (\d+)", words):
                assert schema[argument]["maximum"] == int(most[1])
            if argument in contract.enums:
                assert set(re.findall(r'"(\w+)"', words)) == set(contract.enums[argument])
        answer = fenced(section.split("**Response**")[1])[0]
        inside = {"session_id", "context"}  # of some message's own metadata
        assert keys(answer) - inside == leaves(contract.gives) - inside

    @pytest.mark.parametrize("name", FRAGMENTS)
    def test_the_fragments_document_says_the_same(name: str) -> None:
        text = document("5").split("## MCP 도구")[1].split("## 권장 사용 흐름")[0]
        section = text.split(f"\n### {name}\n")[1].split("\n### ")[0]
        contract, schema = FRAGMENTS[name], input_schema(TOOLS[name])["properties"]
        table = rows(section)
        tops = {argument for argument in promised(contract) if "." not in argument}
        assert {row[0] for row in table} == tops
        assert {row[0] for row in table if len(row) == 4 and row[2] == "Y"} == set(contract.required)
        for argument, kind, *_, words in table:
            one = schema[argument]
            said = f"{one['items']['type']}[]" if one["type"] == "array" else one["type"]
            assert said.replace("integer", "number") == kind
            listed, marked = choices(words)
            if listed:
                assert listed == set(contract.enums[argument])
            default = marked or stated_default(words)
            if default is not None:
                assert contract.optional[argument] == default

    def test_the_documents_have_no_tool_more() -> None:
        text = document("5").split("## MCP 도구")[1].split("## 권장 사용 흐름")[0]
        assert re.findall(r"^### (\w+)$", text, re.MULTILINE) == list(FRAGMENTS)
