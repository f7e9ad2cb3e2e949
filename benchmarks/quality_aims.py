"""What retrieval quality should reach, set by set, and whether it does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.quality_tables import BINS, FEWEST, MEASURES, Calibration, SetResult, with_parts
from benchmarks.questions import ASKED_IN, PARALLEL
from benchmarks.report import Aim, share
from benchmarks.retrieval import BM25, COSINE, OURS
from benchmarks.sites import LOCAL, NAMES

DATED, UNDATED = "with dates", "without dates"  # how names of sets end
OWN_FACTS = ("facts: personal", f"facts: {PARALLEL}")  # others are of projects
ACROSS = 0.85  # any@5 of a question in another language than the facts
LANGUAGES_APART = 0.05
MOST_FALSE = 0.2  # of the questions without an answer, at 0.5 or more
TRUSTED = 0.1  # how far the share of right answers may be from a confidence of 0.7 to 0.9
MOST_APART = 0.01  # a store's figures from SQLite's


def promised(one: SetResult) -> dict[str, float]:
    """What a set should reach if nothing was learned from it."""
    if one.name.startswith("LoCoMo"):
        return (
            {"any@10": 0.91, "all@10": 0.78} if one.name.endswith(DATED) else {"any@10": 0.90, "all@10": 0.75}
        )
    if one.name.startswith("REALTALK"):
        return {"any@10": 0.80, "all@10": 0.52}
    if one.name.startswith("BEAM"):
        return {"any@10": 0.75, "all@10": 0.48}
    if one.alone and not one.name.startswith(OWN_FACTS):
        return {"any@5": 0.83} if one.part else {"any@1": 0.75, "any@5": 0.90}
    return {}


def aims(results: Sequence[SetResult]) -> list[Aim]:
    """What was promised, for the sets that took part."""
    made = [
        Aim(
            f"{one.name}: {measure} at least {least:.2f}",
            share(one.mean(measure)),
            one.mean(measure) >= least,
        )
        for one in with_parts(results)
        for measure, least in promised(one).items()
    ]
    made += map(_no_worse, results)
    for one in results:
        junk, of = one.unanswerable()
        if of:
            promise = f"{one.name}: at most one in five questions without an answer gets one at 0.5"
            made.append(Aim(promise, f"{junk} of {of}", junk <= MOST_FALSE * of))
    for one in results:
        count, sure, right = Calibration.of(one.answers[OURS]).between(BINS - 3, BINS - 1)
        if count >= FEWEST:
            promise = f"{one.name}: a confidence of 0.7 to 0.9 is right as often, within {TRUSTED}"
            made.append(Aim(promise, f"{right:.2f} of {count} at {sure:.2f}", abs(right - sure) <= TRUSTED))
    return [*made, *_language_aims(results)]


def _no_worse(one: SetResult) -> Aim:
    margins = {
        f"{measure}, {other}": one.mean(measure) - one.mean(measure, other)
        for measure in one.headline
        for other in (COSINE, BM25)
    }
    worst = min(margins, key=lambda name: margins[name])
    return Aim(
        f"{one.name}: below neither plain method", f"{margins[worst]:+.3f} ({worst})", margins[worst] >= -1e-9
    )


def _language_aims(results: Sequence[SetResult]) -> list[Aim]:
    made = []
    named = {one.name: one for one in results}
    english = named.get(f"facts: {PARALLEL}-en")
    for name, one in named.items():
        if ASKED_IN in name:
            made.append(
                Aim(f"{name}: any@5 at least {ACROSS}", share(one.mean("any@5")), one.mean("any@5") >= ACROSS)
            )
        elif english and name.startswith(f"facts: {PARALLEL}-") and one is not english:
            behind = max(english.mean(measure) - one.mean(measure) for measure in one.headline)
            made.append(
                Aim(
                    f"{name}: within 5 points of English",
                    f"{behind:.3f} behind",
                    behind <= LANGUAGES_APART + 1e-9,
                )
            )
    return made


def store_aims(results: Mapping[str, SetResult]) -> list[Aim]:
    """Every other store against SQLite."""
    made = []
    for store in (store for store in results if store != LOCAL):
        apart = {name: results[store].mean(name) - results[LOCAL].mean(name) for name in MEASURES}
        worst = max(apart, key=lambda name: abs(apart[name]))
        promise = f"{NAMES[store]} within {MOST_APART * 100:.0f} point of SQLite in every figure"
        made.append(
            Aim(promise, f"{apart[worst]:+.3f} at most ({worst})", abs(apart[worst]) <= MOST_APART + 1e-9)
        )
    return made
