"""JSON changed in place: everything else stays byte for byte, what was put in can be taken out without a trace."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindhold.installers.config_text import JsonInsertion, JsonText, scan
from mindhold.model.errors import BrokenJson, WrongShape

PLAIN = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
KEYS = st.text(max_size=6) | st.sampled_from(["hooks", "Stop", "mcpServers", "mindhold"])
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=8
)
BLANKS = st.text(" \t\n", max_size=4) | st.sampled_from(["", " ", "\r\n", "\n  "])
COMMENTS = st.sampled_from(["/* a, b */", "// c, d\n", "//\r\n", "// e  \n", "//f\r", "/**/", '/* "x": [ */'])
TRIVIA = st.lists(BLANKS | COMMENTS, max_size=3).map("".join)
ENTRY = {"type": "stdio", "command": "mindhold", "args": ["mcp", "--toolsets", "core,capture"], "env": {}}


@st.composite
def documents(draw: st.DrawFn, *, loose: bool = False, value: Any = None) -> str:
    """An object, written in some form or other; `loose` has comments and commas at the end."""
    value = draw(st.dictionaries(KEYS, VALUES, max_size=4)) if value is None else value
    if not loose and draw(st.booleans()):
        indent = draw(st.sampled_from([None, 1, 2, 4, "\t"]))
        tight = draw(st.sampled_from([(",", ":"), (", ", ": ")])) if indent is None else (",", ": ")
        written = json.dumps(value, indent=indent, ensure_ascii=draw(st.booleans()), separators=tight)
        return draw(st.sampled_from(["\n", "\r\n"])).join(written.split("\n")) + draw(BLANKS)
    blank = TRIVIA if loose else BLANKS
    return draw(blank) + _written(draw, value, blank, loose=loose) + draw(blank)


def _written(draw: st.DrawFn, value: Any, blank: st.SearchStrategy[str], *, loose: bool) -> str:
    if not isinstance(value, dict | list):
        return json.dumps(value)
    pieces = []
    for one in value.items() if isinstance(value, dict) else value:
        if isinstance(value, dict):
            name, inner = one
            head = json.dumps(name) + draw(blank) + ":" + draw(blank)
        else:
            head, inner = "", one
        pieces.append(draw(blank) + head + _written(draw, inner, blank, loose=loose) + draw(blank))
    tail = "," + draw(blank) if pieces and loose and draw(st.booleans()) else "" if pieces else draw(blank)
    opened, closed = "{}" if isinstance(value, dict) else "[]"
    return opened + ",".join(pieces) + tail + closed


def undone(put: JsonInsertion, path: tuple[str, ...], *, item: Any = None) -> str:
    """What taking it out again leaves."""
    after = put.document
    if item is None:
        left = after.drop_member(path, inner=put.inner)
    else:
        left = after.drop_place(path, after.get(path).index(item), inner=put.inner)
    for made in reversed(put.created):
        assert left.is_empty(made)
        left = left.drop_member(made, inner=put.inner)
    return left.text


@settings(deadline=None)
@given(documents())
def test_it_reads_what_the_standard_library_reads(text: str) -> None:
    assert scan(text).value == json.loads(text)


@settings(deadline=None)
@given(documents(), st.data())
def test_what_is_broken_is_broken_for_both(text: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(text)))
    text = (
        text[:place]
        + data.draw(st.sampled_from(["", ",", "{", '"', "}", "x", "1", "\x01", "]"]))
        + text[place + data.draw(st.integers(0, 1)) :]
    )
    try:
        expected = json.loads(text)
    except json.JSONDecodeError:
        with pytest.raises(BrokenJson) as caught:
            scan(text)
        assert 1 <= caught.value.line <= len(re.split("\r\n|\r|\n", text))
    else:
        assert scan(text).value == expected


@settings(max_examples=2 * settings.default.max_examples)
@given(st.booleans().flatmap(lambda loose: st.tuples(st.just(loose), documents(loose=loose))), st.data())
def test_a_member_goes_in_and_out_without_a_trace(drawn: tuple[bool, str], data: st.DataObject) -> None:
    loose, source = drawn
    text = JsonText(source, loose)
    value = text.value
    path = ("mcpServers", "mindhold") if isinstance(value.get("mcpServers", {}), dict) else ("new", "one")
    if path[1] in value.get(path[0], {}) or not isinstance(value.get(path[0], {}), dict):
        return
    put = text.put_member(path, ENTRY)
    merged = {**value, path[0]: {**value.get(path[0], {}), path[1]: ENTRY}}
    assert put.document.value == merged
    assert list(put.document.value) == list(merged)
    assert undone(put, path) == source
    changed = put.document.put_member(path, ENTRY | {"env": {"A": "b"}}).document
    assert changed.text != put.document.text


@settings(max_examples=2 * settings.default.max_examples)
@given(
    st.booleans().flatmap(
        lambda loose: st.tuples(
            st.just(loose),
            st.fixed_dictionaries(
                {},
                optional={
                    "a": VALUES,
                    "hooks": st.fixed_dictionaries(
                        {}, optional={"Stop": st.lists(VALUES, max_size=3), "b": PLAIN}
                    ),
                },
            ).flatmap(lambda value: documents(loose=loose, value=value)),
        )
    )
)
def test_an_item_goes_in_and_out_without_a_trace(drawn: tuple[bool, str]) -> None:
    loose, source = drawn
    text, path = JsonText(source, loose), ("hooks", "Stop")
    before = text.get(path) or []
    item = {"hooks": [{"type": "command", "command": "mindhold", "args": ["hook", "Stop"]}]}
    put = text.put_item(path, item)
    assert put.document.get(path) == [*before, item]
    assert {key: one for key, one in put.document.value.items() if key != "hooks"} == {
        key: one for key, one in text.value.items() if key != "hooks"
    }
    assert undone(put, path, item=item) == source


@settings(deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=5), st.booleans(), st.data())
def test_items_of_others_stay_whichever_go(numbers: list[int], loose: bool, data: st.DataObject) -> None:
    source = data.draw(documents(loose=loose, value={"a": numbers, "b": 1}))
    left = JsonText(source, loose).drop_items(("a",), lambda one: one == 0)
    assert left.value == {"a": [one for one in numbers if one], "b": 1}
    for comment in re.findall(r"/\*.*?\*/|//[^\r\n]*", source):
        assert comment in left.text


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{}", '{\n  "a": {\n    "b": [1, 2]\n  }\n}'),
        ("{}\n", '{\n  "a": {\n    "b": [1, 2]\n  }\n}\n'),
        ('{\n\t"x": 1\n}', '{\n\t"x": 1,\n\t"a": {\n\t\t"b": [1, 2]\n\t}\n}'),
        ('{"x":1}', '{"x":1,"a":{"b":[1,2]}}'),
        ('{"x": 1, "y": 2}', '{"x": 1, "y": 2, "a": {"b": [1, 2]}}'),
        (
            '{\r\n    "x": 1\r\n}\r\n',
            '{\r\n    "x": 1,\r\n    "a": {\r\n        "b": [1, 2]\r\n    }\r\n}\r\n',
        ),
        ('{\n  "x": 1 // one\n}', '{\n  "x": 1, // one\n  "a": {\n    "b": [1, 2]\n  }\n}'),
        ('{\n  "x": 1, // one\n}', '{\n  "x": 1, // one\n  "a": {\n    "b": [1, 2]\n  },\n}'),
        ('{\n  "a": {}\n}', '{\n  "a": {\n    "b": [1, 2]\n  }\n}'),
    ],
)
def test_what_is_put_in_looks_like_the_rest(source: str, expected: str) -> None:
    assert JsonText(source, comments=True).put_member(("a", "b"), [1, 2]).document.text == expected


@pytest.mark.parametrize(
    ("text", "line", "column", "reason"),
    [
        ('{\n  "a": 1\n  "b": 2\n}', 3, 3, "a comma"),
        ('{"a": 1,}', 1, 9, "double quotes"),
        ('{"a": 1} x', 1, 10, "follow"),
        ("", 1, 1, "ends too early"),
        ("{", 1, 2, "double quotes"),
        ('{"a": "b', 1, 7, "string"),
        ("{\r\n// c\r\n}", 2, 1, "comments"),
        ('{"a": NaN}', 1, 7, "value"),
        ("[" * 300, 1, 202, "deeply"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text: str, line: int, column: int, reason: str) -> None:
    with pytest.raises(BrokenJson, match=reason) as caught:
        scan(text)
    assert (caught.value.line, caught.value.column) == (line, column)


@pytest.mark.parametrize(
    ("source", "line", "column"),
    [
        ('{"hooks": []}', 1, 11),
        ('{\n"hooks": {"Stop": {}}}', 2, 19),
        ("[]", 1, 1),
        ('{"a": {"b": [{}]},\r\n  "hooks": "x"}', 2, 12),
        ('{"hooks": {},\n "hooks": {}}', 2, 2),
    ],
)
def test_shapes_that_do_not_fit_are_refused(source: str, line: int, column: int) -> None:
    with pytest.raises(WrongShape, match=f"line {line}, column {column}: ") as caught:
        JsonText(source).put_item(("hooks", "Stop"), 1)
    assert (caught.value.line, caught.value.column) == (line, column)
