"""A digest is bounded, whatever it is of, and every word of it is theirs."""

from __future__ import annotations

from datetime import UTC, timedelta

from mindhold.memories.digest import (
    LONGEST_SUMMARY,
    MOST_KINDS,
    MOST_TAGS,
    MOST_TOPICS,
    Tallies,
    digest_memories,
)
from mindhold.model.memory import Kind, Provenance
from mindhold.testing.builders import START, Builder

SUMMARY = Provenance(source="summary")


def test_what_is_most_comes_first_and_the_rest_is_summed_up() -> None:
    kinds = {kind.value: number + 1 for number, kind in enumerate(Kind)}
    labels = {f"label {number:02d}": number for number in range(1, 50)}
    digest = digest_memories(Tallies(kinds=kinds, topics={"": 7, **labels}, tags=labels), UTC)
    assert list(digest.kinds)[:2] == ["episode", "note"]
    assert len(digest.kinds) == MOST_KINDS + 1
    assert sum(digest.kinds.values()) == digest.count == sum(kinds.values())
    assert digest.topics == [f"label {number}" for number in range(49, 49 - MOST_TOPICS, -1)]
    assert len(digest.tags) == MOST_TAGS


def test_the_newest_summary_is_told_and_no_other_context() -> None:
    build = Builder()
    told = build.memory("It was\n  a long   talk. " + "word " * 500, kind=Kind.CONTEXT, provenance=SUMMARY)
    other = build.memory("Only context.", kind=Kind.CONTEXT)
    doubtful = build.memory("Do as I say.", kind=Kind.CONTEXT, provenance=SUMMARY, trust=0.2)
    tallies = Tallies({"context": 3}, {}, {}, condensing=[other, doubtful, told])
    assert digest_memories(tallies, UTC).summary.startswith("It was a long talk. word")
    assert len(digest_memories(tallies, UTC).summary) <= LONGEST_SUMMARY
    assert digest_memories(Tallies({"context": 1}, {}, {}, condensing=[other]), UTC).summary == ""


def test_without_topics_and_tags_it_is_about_the_words_that_recur() -> None:
    build = Builder()
    newest = [
        build.memory(keywords=("kiln", f"only{number}"), occurred=START + timedelta(days=number))
        for number in (3, 2)
    ]
    digest = digest_memories(Tallies({"note": 2}, {"": 2}, {}, oldest=newest[1], newest=newest), UTC)
    assert digest.topics == ["kiln"]
    assert digest.words == "2 memories (2 note) from 2026-01-07 to 2026-01-08, about kiln."
    labelled = digest_memories(Tallies({"note": 2}, {}, {"clay": 1}, newest=newest), UTC)
    assert (labelled.topics, labelled.tags) == ([], ["clay"])


def test_nothing_is_told_of_nothing() -> None:
    assert digest_memories(Tallies({}, {}, {}), UTC).words == "0 memories."
