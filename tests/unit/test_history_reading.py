"""What a reader says of a conversation: read leniently, believed only as far as it stands there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mindhold.history.excerpts import (
    ReaderFinding,
    ReaderReport,
    ReaderVerdict,
    TranscriptRow,
    best_findings,
    checked_finding,
    json_in,
    verdict_of,
)
from mindhold.model.errors import RlmToolFailed
from mindhold.ports.history import IndexedConversation

ROWS = [
    TranscriptRow("user", "Why does the nightly build fail?", 3),
    TranscriptRow(
        "assistant",
        "The disk of the runner\nwas full, so I pruned “old” images with `docker system prune`.",
        5,
    ),
    TranscriptRow("user", "Yes", 7),
]


def found(verdict: ReaderVerdict, *, above: float = 0.5) -> ReaderFinding | None:
    return checked_finding(verdict, 1, ROWS, above=above, wanted=())


@pytest.mark.parametrize(
    "answer",
    [
        '{"relevance": 1}',
        '```json\n{"relevance": 1}\n```',
        'Here it is: {"relevance": 1} I hope that helps {you}.',
        'I looked at [1] and {this}. {"relevance": 1}',
    ],
)
def test_json_is_found_in_whatever_stands_around_it(answer: str) -> None:
    assert json_in(answer) == {"relevance": 1}


@pytest.mark.parametrize("answer", ["", "It is relevant.", "{half", "[1, 2]" + "[" * 5_000])
def test_what_has_none_is_nothing(answer: str) -> None:
    assert not isinstance(json_in(answer), dict)


@pytest.mark.parametrize(
    ("value", "relevance"),
    [
        ({"relevance": 0.7}, 0.7),
        ({"relevance_score": "0.7"}, 0.7),
        ({"score": "70 %"}, 0.7),
        ({"relevance": 85}, 1.0),
        ({"relevance": -1}, 0.0),
        ({"relevance": float("nan")}, None),
        ({"relevance": True}, None),
        ({"relevance": "very"}, None),
        ({"excerpt": "words"}, None),
        ("0.7", None),
    ],
)
def test_relevance_is_a_share(value: Any, relevance: float | None) -> None:
    verdict = verdict_of(value)
    assert (verdict.relevance if verdict else None) == relevance


@pytest.mark.parametrize(
    "excerpt",
    [
        "disk of the runner was full",
        "disk of the  runner\nwas full",
        '... pruned "old" images with "docker system prune" ...',
        "full, so I pruned 'old' images […] and more",
    ],
)
def test_an_excerpt_stands_where_it_is_but_for_blanks_and_quotes(excerpt: str) -> None:
    finding = found(ReaderVerdict(0.9, excerpt))
    assert finding is not None
    assert finding.line == 5
    assert finding.excerpt in " ".join(ROWS[1].content.split())


def test_what_is_nearly_said_is_replaced_by_what_was() -> None:
    finding = found(ReaderVerdict(0.9, "the runner's disk was full and images were pruned", "cause", None))
    assert finding is not None
    assert (finding.line, finding.excerpt) == (5, " ".join(ROWS[1].content.split()))
    named = found(ReaderVerdict(0.9, "Yes", line=7))
    assert named is not None
    assert (named.line, named.excerpt) == (7, "Yes")


def test_what_nobody_said_is_dropped() -> None:
    assert found(ReaderVerdict(1.0, "The certificate of the proxy had expired", line=99)) is None
    assert found(ReaderVerdict(1.0)) is None
    assert found(ReaderVerdict(0.5, "disk of the runner was full")) is None
    assert found(ReaderVerdict(0.5, "disk of the runner was full"), above=0.4) is not None


def test_a_reason_is_short_and_bears_no_secret() -> None:
    finding = found(
        ReaderVerdict(0.9, "disk of the runner was full", f"key AKIAIOSFODNN7EXAMPLE {'so ' * 200}")
    )
    assert finding is not None
    assert "AKIA" not in finding.why
    assert len(finding.why) <= 200


def test_each_session_once_the_most_relevant_first() -> None:
    file = Path("/talks/one.jsonl")
    talks = {row: IndexedConversation(f"s{row}", "claude", file, row=row) for row in range(1, 8)}
    talks[8] = IndexedConversation("agent-1", "claude", file, row=8, part_of="s1")
    findings = [ReaderFinding(row, row / 10, "", "") for row in talks]
    assert [one.row for one in best_findings(findings, talks)] == [8, 7, 6, 5, 4, 3, 2]


def test_a_reading_failed_when_nothing_came_of_it() -> None:
    assert not ReaderReport().failed
    assert ReaderReport(error=RlmToolFailed("no")).failed
    assert not ReaderReport((ReaderFinding(1, 1.0, "", ""),), error=RlmToolFailed("no")).failed
