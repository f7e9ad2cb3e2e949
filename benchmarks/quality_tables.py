"""What `benchmarks.quality` tells of answers: measures, intervals by bootstrap, tables, and how far a confidence can be trusted."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
from benchmarks.report import Table, milliseconds, percentile, share
from benchmarks.retrieval import BM25, COSINE, OURS, SHOWN, Answer

Floats = npt.NDArray[np.float64]

DEPTHS = (1, 5, 10)
MEASURES = (*(f"any@{depth}" for depth in DEPTHS), *(f"all@{depth}" for depth in DEPTHS), "MRR")
OF_CONVERSATIONS, OF_FACTS = ("any@10", "all@10"), ("any@1", "any@5")  # by which a set is judged first
SURE = 0.5  # an answer at this confidence or more is given as one
BINS = 10
FEWEST = 10  # questions of a bin; fewer say nothing
DRAWS = 2_000
LITTLE = "little"  # overlap of the words of a question and its answer
SEEN = "The weights were learned from LoCoMo's dev file, BEAM's chats 1-10 and our own facts: see the tables of sets left out."
HEADS = ("", "questions", *MEASURES, "error of confidence", "unanswerable at 0.5", "right at 0.5", "p50")


@dataclass(frozen=True)
class Calibration:
    """The confidence in first answers, by bins of a tenth: how many, how sure on average, and how many were right."""

    counts: Floats
    sure: Floats  # sums
    right: Floats

    @classmethod
    def of(cls, answers: Sequence[Answer]) -> Calibration:
        """Of all questions, those without an answer too; a question for which nothing was found counts as 0."""
        chance = np.array([one.confidence or 0.0 for one in answers])
        right = np.array([bool(one.places) and one.places[0] in one.question.answers for one in answers])
        bins = np.minimum((chance * BINS).astype(np.int64), BINS - 1)
        return cls(
            counts=np.bincount(bins, minlength=BINS).astype(np.float64),
            sure=np.bincount(bins, chance, minlength=BINS).astype(np.float64),
            right=np.bincount(bins, right, minlength=BINS).astype(np.float64),
        )

    @property
    def error(self) -> float:
        """The mean distance of confidence and truth."""
        return float(np.abs(self.sure - self.right).sum() / max(1.0, self.counts.sum()))

    def share_right(self, bin_: int) -> float:
        return float(self.right[bin_] / max(1.0, self.counts[bin_]))

    def between(self, low: int, high: int) -> tuple[int, float, float]:
        """Of some bins together: how many, how sure, and what share is right."""
        count = float(self.counts[low:high].sum())
        found = max(1.0, count)
        return int(count), float(self.sure[low:high].sum() / found), float(self.right[low:high].sum() / found)


@dataclass(frozen=True)
class SetResult:
    """The answers of every method to the questions of one set."""

    name: str
    alone: bool  # facts that stand alone; else messages of conversations
    answers: Mapping[str, Sequence[Answer]]  # by method
    part: bool = False  # of another set

    @property
    def headline(self) -> tuple[str, str]:
        """The measures by which the set is judged first."""
        return OF_FACTS if self.alone else OF_CONVERSATIONS

    @property
    def categories(self) -> list[str]:
        """Of the questions that have an answer."""
        return sorted({one.question.category for one in self.answers[OURS] if one.question.answers})

    def only(self, category: str, *, name: str) -> SetResult:
        """The questions of one category."""
        chosen = {
            method: [one for one in answers if one.question.category == category]
            for method, answers in self.answers.items()
        }
        return replace(self, name=name, answers=chosen, part=True)

    @cached_property
    def scores(self) -> dict[str, dict[str, Floats]]:
        """By method and measure, a number for each question that has an answer."""
        return {method: _scores(answers) for method, answers in self.answers.items()}

    def mean(self, measure: str, method: str = OURS) -> float:
        scores = self.scores[method][measure]
        return float(scores.mean()) if len(scores) else 0.0

    def interval(self, measure: str, *, over: str | None = None) -> tuple[float, float]:
        """Where 95 of 100 draws of conversations, or of facts' questions, have ours; or how far it is over another method."""
        values = self.scores[OURS][measure]
        if over is not None:
            values = values - self.scores[over][measure]
        asked = [one for one in self.answers[OURS] if one.question.answers]
        units = list(range(len(asked))) if self.alone else [one.pool for one in asked]
        return bootstrap(values, units)

    def unanswerable(self, method: str = OURS) -> tuple[int, int]:
        """Of the questions without an answer: how many got one at 0.5 or more, and how many there are."""
        junk = [one for one in self.answers[method] if not one.question.answers]
        return sum((one.confidence or 0.0) >= SURE for one in junk), len(junk)


def _scores(answers: Sequence[Answer]) -> dict[str, Floats]:
    rows = []
    for one in answers:
        wanted = one.question.answers
        if not wanted:
            continue
        hits = [wanted.intersection(one.places[:depth]) for depth in DEPTHS]
        ranks = [rank for rank, place in enumerate(one.places[:SHOWN], 1) if place in wanted]
        reciprocal = 1 / ranks[0] if ranks else 0.0
        rows.append([*(bool(hit) for hit in hits), *(hit == wanted for hit in hits), reciprocal])
    table = np.array(rows, dtype=np.float64).reshape(len(rows), len(MEASURES))
    return {measure: table[:, column] for column, measure in enumerate(MEASURES)}


def bootstrap(values: Floats, units: Sequence[int | str], *, seed: int = 17) -> tuple[float, float]:
    """The interval that has 95 of 100 means, if units (conversations or questions) are drawn anew with repetition."""
    names = list(dict.fromkeys(units))
    if len(names) < 2:
        return float("nan"), float("nan")
    rows = {name: row for row, name in enumerate(names)}
    of = np.array([rows[unit] for unit in units])
    sums, counts = np.bincount(of, values), np.bincount(of).astype(np.float64)
    drawn = np.random.default_rng(seed).integers(0, len(names), (DRAWS, len(names)))
    means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)


def with_parts(results: Sequence[SetResult]) -> list[SetResult]:
    """After each set of facts, its questions that hardly share a word with their answers."""
    shown = []
    for one in results:
        shown.append(one)
        if one.alone and LITTLE in one.categories:
            shown.append(one.only(LITTLE, name=f"{one.name}, little overlap"))
    return shown


def measures_table(title: str, results: Sequence[SetResult]) -> Table:
    """Every set by every method."""
    rows = []
    for one in results:
        for method in one.answers:
            rows.append((f"{one.name}: {method}", *_measured(one, method)))
    return Table(title, HEADS, rows)


def _measured(one: SetResult, method: str) -> list[str]:
    answers = one.answers[method]
    cells = [str(len(one.scores[method]["MRR"])), *(share(one.mean(measure, method)) for measure in MEASURES)]
    if one.part or all(answer.confidence is None for answer in answers):
        cells += ["", "", ""]
    else:
        junk, of = one.unanswerable(method)
        calibration = Calibration.of(answers)
        sure, _, right = calibration.between(int(SURE * BINS), BINS)
        cells += [share(calibration.error), f"{junk} of {of}" if of else "-", share(right) if sure else "-"]
    return [*cells, milliseconds(percentile([answer.milliseconds for answer in answers], 0.5))]


def intervals_table(title: str, results: Sequence[SetResult]) -> Table:
    """A row a set: ours by its first two measures, and how far above the plain methods it is."""
    rows: list[Sequence[str]] = []
    for one in results:
        for measure in one.headline:
            low, high = one.interval(measure)
            cells = [f"{one.mean(measure):.3f} [{low:.3f}, {high:.3f}]"]
            for other in (COSINE, BM25):
                low, high = one.interval(measure, over=other)
                cells.append(f"{one.mean(measure) - one.mean(measure, other):+.3f} [{low:+.3f}, {high:+.3f}]")
            rows.append((one.name, measure, *cells))
    rows.append((SEEN,))
    return Table(title, ("", "", OURS, f"over {COSINE}", f"over {BM25}"), rows)


def categories_table(title: str, results: Sequence[SetResult]) -> Table:
    """The kinds of questions about conversations."""
    rows = []
    for one in results:
        for category in one.categories if not one.alone else ():
            chosen = one.only(category, name=category)
            cells = [
                f"{chosen.mean('any@10', method):.3f} / {chosen.mean('all@10', method):.3f}"
                for method in one.answers
            ]
            rows.append((f"{one.name}: {category}", str(len(chosen.scores[OURS]["MRR"])), *cells))
    return Table(title, ("any@10 / all@10", "questions", *(results[0].answers if results else ())), rows)


def reliability_table(title: str, results: Sequence[SetResult]) -> Table:
    """A row a bin of confidence, a column a set: what share of the first answers is right, and of how many."""
    found = [Calibration.of(one.answers[OURS]) for one in results]
    rows = [
        (
            f"{place / BINS:.1f} to {(place + 1) / BINS:.1f}",
            *(
                f"{one.share_right(place):.2f} ({one.counts[place]:.0f})" if one.counts[place] else "-"
                for one in found
            ),
        )
        for place in range(BINS)
    ]
    rows.append(("error", *(share(one.error) for one in found)))
    return Table(title, ("confidence", *(one.name for one in results)), rows)


_COLOURS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#e69f00",
    "#56b4e9",
    "#7f3b08",
    "#444444",
    "#8a2be2",
    "#2e8b57",
    "#b22222",
    "#708090",
)
_SIDE, _LEFT, _TOP = 420, 50, 56


def reliability_plot(title: str, results: Sequence[SetResult]) -> str:
    """An SVG: confidence to the right, the share that is right upwards, a line a set; on the dashed line both agree.

    The area of a point grows with its number of questions; bins of fewer than ten are left out.
    """
    body = [
        _label(_LEFT, 22, title, size=14),
        f'<rect x="{_LEFT}" y="{_TOP}" width="{_SIDE}" height="{_SIDE}" fill="none" stroke="#999"/>',
        f'<path d="M{_x(0)} {_y(0)}L{_x(1)} {_y(1)}" stroke="#999" stroke-dasharray="4 4"/>',
        _label(_LEFT + _SIDE / 2 - 80, _TOP + _SIDE + 38, "confidence in the first answer"),
        _label(8, _TOP - 8, "share right"),
    ]
    for tick in range(0, 11, 2):
        body.append(_label(_x(tick / 10) - 8, _TOP + _SIDE + 18, f"{tick / 10:.1f}"))
        body.append(_label(_LEFT - 28, _y(tick / 10) + 4, f"{tick / 10:.1f}"))
    for row, one in enumerate(results):
        colour = _COLOURS[row % len(_COLOURS)]
        calibration = Calibration.of(one.answers[OURS])
        points = [
            (
                calibration.sure[place] / calibration.counts[place],
                calibration.share_right(place),
                calibration.counts[place],
            )
            for place in range(BINS)
            if calibration.counts[place] >= FEWEST
        ]
        line = " ".join(f"{_x(sure):.1f},{_y(right):.1f}" for sure, right, _ in points)
        body.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        body += [
            f'<circle cx="{_x(sure):.1f}" cy="{_y(right):.1f}" r="{max(2.0, count**0.5 / 2.5):.1f}" fill="{colour}"'
            f' fill-opacity="0.6"><title>{html.escape(one.name)}: {count:.0f} questions</title></circle>'
            for sure, right, count in points
        ]
        at = _TOP + 14 + 20 * row
        body.append(f'<rect x="{_LEFT + _SIDE + 20}" y="{at - 10}" width="12" height="12" fill="{colour}"/>')
        note = f"{one.name} ({calibration.counts.sum():.0f}), error {calibration.error:.3f}"
        body.append(_label(_LEFT + _SIDE + 38, at, note))
    height = max(_TOP + _SIDE + 50, _TOP + 20 * len(results) + 20)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="860" height="{height}" font-family="sans-serif">'
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *body, "</svg>", ""])


def _x(value: float) -> float:
    return _LEFT + value * _SIDE


def _y(value: float) -> float:
    return _TOP + (1 - value) * _SIDE


def _label(x: float, y: float, words: str, *, size: int = 12) -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}">{html.escape(words)}</text>'
