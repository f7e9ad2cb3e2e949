"""What capture keeps of conversations of projects that it never saw, against what readers said of them.

Each judged conversation (see `extraction_labels.py`) is read whole: by the judge, whose weights are learned from the other
repositories, and by rules alone; with --model by a language model. The conversations are those of MINDHOLD_BENCH_DATA
(default ../shared/data) and of the folders named with --transcripts. With --show what is wrong and what is missing is printed, never stored.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.environment import RESULTS, machine
from benchmarks.extraction_labels import (
    FALSE,
    GOOD,
    MARGINAL,
    Conversation,
    Picked,
    Verdict,
    Wordings,
    judge,
    mark,
)
from benchmarks.extraction_model import kept_by_model
from benchmarks.learn_extraction import (
    Row,
    data_arguments,
    judged_files,
    judged_rows,
    learn,
    made_sentences,
    present,
    proposed,
    read_conversation,
    read_typed,
)
from benchmarks.peers.door import OWN_HOME
from benchmarks.report import Aim, Table, aims_table, share, text, write

from mindhold.app.application import open_app
from mindhold.capture.judge import Learned, judging_with
from mindhold.capture.rules.selection import extract_by_rules
from mindhold.ports.transcripts import TranscriptStep
from mindhold.settings.loader import load_settings

LEAST_GOOD, LEAST_LENIENT, MOST_FALSE = 0.8, 0.95, 0.01
LEAST_RECALL, LEAST_WISHES, MOST_AN_HOUR = 0.6, 0.8, 8.0
LONGEST_PAUSE = 1_800  # seconds: a longer one is no time of the conversation
EMBEDDER = "all-MiniLM-L6-v2"
JUDGE, RULES = "judge", "rules alone"
HEADS = (
    *("", "kept", "good", "or marginal", "false", "not judged"),
    *("noted found", "wishes found", "each", "an hour"),
)


@dataclass(frozen=True, slots=True)
class Case:
    """A judged conversation that was read. `hours`: without long pauses."""

    conversation: Conversation
    file: Path
    folder: str
    steps: Sequence[TranscriptStep]
    hours: float
    rows: tuple[Row, ...]
    wordings: Wordings


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one or more conversations. Shares of the good, marginal and false are of the memories that match a judged candidate."""

    conversations: int
    kept: int
    judged: int
    good: int
    lenient: int
    false: int
    noted: int
    found: int
    wishes: int
    wishes_found: int
    hours: float

    @property
    def precision(self) -> float | None:
        return _ratio(self.good, self.judged)

    @property
    def lenient_precision(self) -> float | None:
        return _ratio(self.lenient, self.judged)

    @property
    def misleading(self) -> float | None:
        return _ratio(self.false, self.judged)

    @property
    def recall(self) -> float | None:
        return _ratio(self.found, self.noted)

    @property
    def wish_recall(self) -> float | None:
        return _ratio(self.wishes_found, self.wishes)

    @property
    def an_hour(self) -> float | None:
        return _ratio(self.kept, self.hours)

    def row(self, name: str) -> tuple[str, ...]:
        return (
            name,
            str(self.kept),
            share(self.precision),
            share(self.lenient_precision),
            share(self.misleading),
            str(self.kept - self.judged),
            f"{self.found} of {self.noted}",
            f"{self.wishes_found} of {self.wishes}",
            f"{self.kept / self.conversations:.1f}",
            "-" if self.an_hour is None else f"{self.an_hour:.1f}",
        )


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


@dataclass(frozen=True, slots=True)
class Judgement:
    """What was kept of a conversation, and the readers' verdict on each."""

    case: Case
    verdicts: tuple[Verdict, ...]


def read_case(conversation: Conversation, file: Path) -> Case:
    followed, steps = read_conversation(file)
    candidates = proposed(followed, steps)
    rows = tuple(judged_rows(conversation, candidates))
    return Case(conversation, file, followed.cwd, steps, hours_of(steps), rows, Wordings.of(candidates))


def hours_of(steps: Sequence[TranscriptStep]) -> float:
    """The time of a conversation, in hours, without long pauses."""
    moments = sorted(step.timestamp for step in steps if step.timestamp is not None)
    gaps = ((after - before).total_seconds() for before, after in zip(moments, moments[1:], strict=False))
    return sum(gap for gap in gaps if gap <= LONGEST_PAUSE) / 3_600


def learned_elsewhere(
    cases: Sequence[Case], typed: Sequence[Row], models: Sequence[str]
) -> dict[str, Learned]:
    """For each repository the weights that the others teach."""
    made, rows = made_sentences(), [row for case in cases for row in case.rows]

    def others(those: Sequence[Row], own: str) -> list[Row]:
        return [row for row in those if row.repository != own]

    return {
        own: learn(others(rows, own), others(typed, own), made, models)
        for own in {case.conversation.repository for case in cases}
    }


async def kept_here(
    cases: Sequence[Case], learned: Mapping[str, Learned] | None, *, embedder: bool
) -> list[list[Picked]]:
    """What is kept of each conversation: by the judge with these weights, without them by rules alone."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        arguments = {
            "home": str(OWN_HOME),
            "store.path": str(Path(folder) / "mindhold.db"),
            "embedding.model": EMBEDDER,
            **({} if embedder else {"embedding.provider": "none"}),
        }
        kept = []
        async with open_app(load_settings(arguments, environ={})) as app:
            for case in cases:
                with judging_with(learned[case.conversation.repository] if learned else {}):
                    found = await extract_by_rules(
                        app.engine, case.steps, {}, folder=case.folder, judging=learned is not None
                    )
                kept.append(
                    [Picked(case.file.name, item.line, item.kind.value, item.content) for item in found.items]
                )
    return kept


def judged_all(cases: Sequence[Case], kept: Sequence[Sequence[Picked]]) -> list[Judgement]:
    return [
        Judgement(case, tuple(judge(picked, case.conversation, case.wordings)))
        for case, picked in zip(cases, kept, strict=True)
    ]


def figures(judgements: Sequence[Judgement]) -> Figures:
    labels = list(_kept_once(judgements))
    noted = wishes = found = wishes_found = 0
    for each in judgements:
        said = {index for verdict in each.verdicts for index in verdict.found}
        for index, one in enumerate(each.case.conversation.noted):
            noted += 1
            wishes += one.wish
            found += index in said
            wishes_found += one.wish and index in said
    return Figures(
        conversations=len(judgements),
        kept=len(labels),
        judged=sum(label is not None for label in labels),
        good=labels.count(GOOD),
        lenient=labels.count(GOOD) + labels.count(MARGINAL),
        false=labels.count(FALSE),
        noted=noted,
        found=found,
        wishes=wishes,
        wishes_found=wishes_found,
        hours=sum(each.case.hours for each in judgements),
    )


def _kept_once(judgements: Sequence[Judgement]) -> Iterator[str | None]:
    """The labels of what is kept; a store keeps what several conversations of a project say alike only once."""
    seen: set[tuple[str, str]] = set()
    for each in judgements:
        for verdict in each.verdicts:
            known = each.case.conversation.repository, mark(verdict.picked.content)
            if known not in seen:
                seen.add(known)
                yield verdict.label


def by_repository(name: str, judgements: Sequence[Judgement]) -> Table:
    rows = [
        figures([each for each in judgements if each.case.conversation.repository == repository]).row(
            repository
        )
        for repository in sorted({each.case.conversation.repository for each in judgements})
    ]
    return Table(f"By project, {name}", HEADS, [*rows, figures(judgements).row("all")])


def aims(whole: Figures, name: str) -> list[Aim]:
    def at_least(promise: str, least: float, measured: float | None) -> Aim:
        met = None if measured is None else measured >= least
        return Aim(f"{promise} ({name})", share(measured), met)

    def at_most(promise: str, most: float, measured: float | None) -> Aim:
        met = None if measured is None else measured <= most
        return Aim(f"{promise} ({name})", share(measured), met)

    return [
        at_least(f"at least {LEAST_GOOD} of what is kept is good", LEAST_GOOD, whole.precision),
        at_least(f"at least {LEAST_LENIENT} is good or marginal", LEAST_LENIENT, whole.lenient_precision),
        at_most(f"at most {MOST_FALSE} of it is misleading", MOST_FALSE, whole.misleading),
        at_least(f"at least {LEAST_RECALL} of what readers noted is found", LEAST_RECALL, whole.recall),
        at_least(
            f"at least {LEAST_WISHES} of the standing wishes are found", LEAST_WISHES, whole.wish_recall
        ),
        at_most(f"at most {MOST_AN_HOUR} memories an hour of conversation", MOST_AN_HOUR, whole.an_hour),
    ]


def show(name: str, judgements: Sequence[Judgement]) -> None:
    """What is kept and not good, and what is missing, for whoever works on it."""
    for each in judgements:
        for verdict in sorted(each.verdicts, key=lambda one: one.picked.line):
            if verdict.label != GOOD:
                picked = verdict.picked
                label = verdict.label or "not judged"
                print(
                    f"{label.upper()} ({name}) {picked.file}:{picked.line} {picked.kind}: {_line(picked.content)}"
                )
        said = {index for verdict in each.verdicts for index in verdict.found}
        for index, noted in enumerate(each.case.conversation.noted):
            if index in said:
                continue
            texts = [content for own in noted.marks if (content := each.case.wordings.texts.get(own))]
            told = " | ".join(map(_line, texts)) or "no candidate says it"
            print(f"MISSED{' WISH' * noted.wish} ({name}) {each.case.file.name}:{noted.line}: {told}")


def _line(content: str) -> str:
    return " ".join(content.split())[:300]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    data_arguments(parser)
    parser.add_argument("--show", action="store_true", help="say what is wrong and what is missing")
    parser.add_argument("--model", help="a language model to ask as well, such as claude_cli:haiku")
    parser.add_argument("--most", type=int, help="only so many conversations, from all over the projects")
    chosen = parser.parse_args()
    there = judged_files(chosen.data, chosen.transcripts)
    cases = [read_case(conversation, file) for conversation, file in there]
    models = present([EMBEDDER])
    learned = learned_elsewhere(cases, read_typed(chosen.data, chosen.transcripts), models)
    if not measured(
        cases,
        learned,
        told=chosen.show,
        model=chosen.model or "",
        most=chosen.most or len(cases),
        embedder=bool(models),
    ):
        raise SystemExit(1)


def measured(
    cases: Sequence[Case],
    learned: Mapping[str, Learned],
    *,
    told: bool,
    model: str,
    most: int,
    embedder: bool,
) -> bool:
    """Print all tables; whether every aim is met by the judge, or by the model if one is asked."""
    chosen = cases[:: max(1, len(cases) // most)][:most]
    ways = {
        JUDGE: asyncio.run(kept_here(chosen, learned, embedder=embedder)),
        RULES: asyncio.run(kept_here(chosen, None, embedder=embedder)),
    }
    if model:
        run = kept_by_model([case.file for case in chosen], model, environment=os.environ)
        for notice in dict.fromkeys(run.notices):
            print(notice)
        ways[model] = [[one for one in run.picked if one.file == case.file.name] for case in chosen]
    judgements = {name: judged_all(chosen, kept) for name, kept in ways.items()}
    wholes = {name: figures(each) for name, each in judgements.items()}
    if told:
        for name, each in judgements.items():
            show(name, each)
    unsaid = [noted for case in chosen for noted in case.conversation.noted if not noted.marks]
    title = f"What is kept of {len(chosen)} conversations, each project by what the others teach"
    rows: list[Sequence[str]] = [whole.row(name) for name, whole in wholes.items()]
    lost = sum(noted.wish for noted in unsaid)
    rows.append(
        (f"{len(unsaid)} of the noted, {lost} of them wishes, are said by no single sentence or event",)
    )
    best = model or JUDGE
    goals = aims(wholes[best], best)
    printed = [
        Table(title, HEADS, rows),
        *(by_repository(name, each) for name, each in judgements.items()),
        aims_table(goals),
    ]
    for table in printed:
        print("\n" + text(table), flush=True)
    facts = {
        "machine": machine(),
        "embedder": EMBEDDER if embedder else "none",
        "ways": {name: _plain(each) for name, each in judgements.items()},
    }
    print(f"\nwritten to {write(RESULTS, 'extraction', facts, printed).name}")
    return all(aim.met is not False for aim in goals)


def _plain(judgements: Sequence[Judgement]) -> dict[str, Any]:
    """Figures, and where the wrong ones are; nothing of what was said."""
    whole = figures(judgements)
    return {
        "conversations": whole.conversations,
        "hours": whole.hours,
        "kept": whole.kept,
        "judged": whole.judged,
        "good": whole.good,
        "good or marginal": whole.lenient,
        "false": whole.false,
        "noted": whole.noted,
        "found": whole.found,
        "wishes": whole.wishes,
        "wishes found": whole.wishes_found,
        "not good": [
            f"{verdict.picked.file}:{verdict.picked.line} {verdict.picked.kind} {verdict.label or 'not judged'}"
            for each in judgements
            for verdict in each.verdicts
            if verdict.label != GOOD
        ],
    }


if __name__ == "__main__":
    main()
