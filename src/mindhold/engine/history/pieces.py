"""Conversations in the pieces that a recursive language model's server is asked about, and which of them there is room for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any

from mindhold.engine.core import Engine
from mindhold.engine.history.reading import SPEECH, Row, row_value, rows_of

if TYPE_CHECKING:
    from mindhold.engine.history.finding import Candidate

MOST_PIECES = 60  # for one answer; such a server lets no more calls through in a minute
LONGEST_PIECE = 40_000  # characters, about: where lines are long there are fewer in a piece
MOST_CHARACTERS = 64 << 20  # that are held for one answer


@dataclass(frozen=True, slots=True)
class Plan:
    """A conversation: all of it, what was said in it, `size` lines of which are a piece, and the pieces that are asked about."""

    row: int
    rows: Sequence[Row]
    said: Sequence[Row]
    matching: frozenset[int]  # lines that have to do with the question
    size: int
    chosen: Sequence[int] = ()
    name: str = ""  # what the server knows it by

    @property
    def count(self) -> int:
        """Pieces that there are."""
        return -(-len(self.said) // self.size)

    def piece(self, at: int) -> Sequence[Row]:
        """What was said in it."""
        return self.said[at * self.size : (at + 1) * self.size]

    def weight(self, at: int) -> int:
        """Its characters."""
        return sum(len(row.content) for row in self.piece(at))

    def likely(self) -> tuple[list[int], list[int]]:
        """The pieces that have to do with the question, and the others."""
        likely = [at for at in range(self.count) if any(row.line in self.matching for row in self.piece(at))]
        return likely, sorted(set(range(self.count)) - set(likely))

    def at(self, name: str, count: int) -> Plan:
        """As the server has it, in so many pieces."""
        return replace(self, name=name, chosen=[one for one in self.chosen if one < count])


def planned(engine: Engine, chosen: Sequence[Candidate]) -> list[Plan]:
    """Those in which something is said. Reads the disk."""
    plans: list[Plan] = []
    room = MOST_CHARACTERS
    for candidate in chosen:
        passages = engine.history.passages_of(candidate.conversation.row)
        found = {match.passage for match in candidate.matches}
        matching = frozenset(said.line for row, one in passages if row in found for said in one.utterances)
        rows: list[Row] = []
        for row in rows_of((one for _, one in passages), redacting=engine.policy.redact):
            room -= len(row.content)
            if room < 0:
                break
            rows.append(row)
        if rows:
            said = [row for row in rows if row.role in SPEECH] or rows
            size = _lines(said, most=engine.policy.rlm.chunk_lines)
            plans.append(Plan(candidate.conversation.row, rows, said, matching, size))
    return plans


def shared_out(plans: Sequence[Plan], *, most: int) -> list[Plan]:
    """With the pieces that are asked about, of at most so many characters: those that have the question's words first, of each
    conversation in turn. One there is always."""
    parts = [plan.likely() for plan in plans]
    likely = [[(number, at) for at in one] for number, (one, _) in enumerate(parts)]
    others = [[(number, at) for at in one] for number, (_, one) in enumerate(parts)]
    chosen: dict[int, list[int]] = {}
    left, characters = MOST_PIECES, most
    for number, at in chain(_in_turn(likely), _in_turn(others)):
        weight = plans[number].weight(at)
        if left and (weight <= characters or not chosen):
            chosen.setdefault(number, []).append(at)
            left, characters = left - 1, characters - weight
    return [replace(plan, chosen=sorted(chosen.get(number, ()))) for number, plan in enumerate(plans)]


def plan_of(plan: Plan, said: Sequence[Row]) -> Plan:
    """The same where something else was said than we thought: as many pieces."""
    other = replace(plan, said=said)
    likely, others = other.likely()
    return replace(other, chosen=sorted([*likely, *others][: len(plan.chosen)]))


def extracted_of(picked: Any, rows: Sequence[Row]) -> list[Row]:
    """Those of our rows that somebody else picked."""
    given = picked if isinstance(picked, list) else []
    wanted = {(one["line"], one["content"]) for one in given if _is_row(one)}
    return [row for row in rows if (row.line, row.content) in wanted]


def jsonl(rows: Sequence[Row], *, plain: bool = False) -> str:
    """Plain: in ASCII, which survives whatever encoding the server's programs read it in."""
    return "\n".join(json.dumps(row_value(row), ensure_ascii=plain) for row in rows)


def _lines(said: Sequence[Row], *, most: int) -> int:
    usual = max(1, sum(len(row.content) for row in said) // len(said))
    return max(1, min(most, LONGEST_PIECE // usual))


def _in_turn(lists: Sequence[Sequence[tuple[int, int]]]) -> Iterator[tuple[int, int]]:
    return (one for one in chain.from_iterable(zip_longest(*lists)) if one is not None)


def _is_row(value: Any) -> bool:
    return (
        isinstance(value, Mapping)
        and type(value.get("line")) is int
        and isinstance(value.get("content"), str)
    )
