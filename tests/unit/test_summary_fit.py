"""A summary that never grows without end: what goes first, what goes last, and what is put together."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from mindhold.projects.summary import (
    HEADINGS,
    SummaryKnowledge,
    cut_sentences,
    entries_of,
    fits,
    merge_knowledge,
    render_summary,
    shorten_knowledge,
)

TITLE = "Summary of shop"
LONGEST = 12_000


def fitted(knowledge: SummaryKnowledge, *, longest: int = LONGEST) -> SummaryKnowledge:
    return shorten_knowledge(knowledge, title=TITLE, longest=longest)


def test_three_hundred_updates_stay_bounded_and_keep_what_matters() -> None:
    known = SummaryKnowledge(narrative="A shop that sells tea.")
    for number in range(300):
        entries = entries_of(
            f"Session {number} was about page p{number}. It went on for long and touched many files of the shop.",
            into="insights",
        )
        if number % 10 == 0:
            entries += entries_of(f"Chose library l{number} for step {number}.", into="key_decisions")
        known = fitted(merge_knowledge(known, entries))
        assert fits(known, title=TITLE, longest=LONGEST)
    assert len(known.key_decisions) == 30, "no decision goes while there is an insight more than the newest"
    assert known.narrative == "A shop that sells tea."
    assert known.insights[-1].startswith("Session 299 was about page p299. It went on")
    assert len(render_summary(known, title=TITLE)) > LONGEST * 0.8, "and no more goes than has to"


def test_decisions_alone_keep_the_newest() -> None:
    known = SummaryKnowledge(
        key_decisions=tuple(f"Chose library l{number} for its speed. " * 5 for number in range(300))
    )
    kept = fitted(known).key_decisions
    assert 40 <= len(kept) < 300
    assert "l299 " in kept[-1]


def test_what_is_shortened_first() -> None:
    long = "It began well. " + "Then it went on for a long while with nothing to tell. " * 40
    known = SummaryKnowledge(
        key_decisions=(long,), gotchas=(long,), insights=tuple(f"{n}. {long}" for n in range(6))
    )
    less = fitted(known, longest=12_800)
    assert (less.key_decisions, less.gotchas, less.insights[3:]) == ((long,), (long,), known.insights[3:])
    assert len(less.insights[0]) <= 240


def test_one_entry_that_is_too_long_by_itself() -> None:
    for section in HEADINGS:
        known = SummaryKnowledge().with_entries(section, ["word " * 4_000])
        less = fitted(known)
        assert fits(less, title=TITLE, longest=LONGEST)
    assert fits(fitted(SummaryKnowledge(narrative="x" * 50_000)), title=TITLE, longest=LONGEST)


def test_a_cut_is_at_a_sentence_or_a_word() -> None:
    assert cut_sentences("First one. Second one. Third one.", 25) == "First one. Second one."
    assert cut_sentences("A sentence that is far too long for it", 20) == "A sentence that is…"
    assert cut_sentences("short", 20) == "short"
    assert len(cut_sentences("x" * 100, 20)) == 20


_texts = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=400)


@settings(max_examples=40)
@given(
    _texts,
    st.dictionaries(st.sampled_from(sorted(HEADINGS)), st.lists(_texts, max_size=12)),
    st.integers(300, 2_000),
)
def test_whatever_there_is_fits(narrative: str, lists: dict[str, list[str]], longest: int) -> None:
    known = SummaryKnowledge(narrative=narrative)
    for name, entries in lists.items():
        known = known.with_entries(name, (" ".join(entry.split()) or "x" for entry in entries))
    less = fitted(known, longest=longest)
    assert len(render_summary(less, title=TITLE)) <= max(longest, 700)
    if fits(known, title=TITLE, longest=longest):
        assert less == known
