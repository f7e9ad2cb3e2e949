"""Learns the weights of `mindhold.capture.judge` from judged conversations, and says how they carry over to other projects.

Logistic models of plain features: how probably a reader keeps a candidate, whether the person means a sentence to last, and
one for each kind. The labels are in `extraction/labels` and `extraction/typed`, the conversations are those of MINDHOLD_BENCH_DATA and of the folders
named with --transcripts. Writes src/mindhold/capture/judge.json with --write.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from benchmarks.extraction_labels import (
    FALSE,
    GOOD,
    LABELS,
    MARGINAL,
    TYPED,
    Conversation,
    found_files,
    mark,
    read_labels,
)
from benchmarks.peers.door import OWN_HOME, PRECISION
from benchmarks.report import Table, share, text
from benchmarks.vectors import Matrix, known_vectors

from mindhold.capture.candidates import Candidate
from mindhold.capture.conversation_text import redact_steps, without_skipped_turns
from mindhold.capture.judge import JUDGED_KINDS, Learned, Weights, features, understands, wish_by
from mindhold.capture.rules.conventions import preferences
from mindhold.capture.rules.korean import korean_statements
from mindhold.capture.rules.selection import LEAST_WEIGHT, RuleState, propose
from mindhold.capture.rules.sentences import Sentence, clean_sentence
from mindhold.model.errors import ModelPullFailed
from mindhold.model.memory import Kind
from mindhold.model.query import Numbers
from mindhold.ports.embedder import BETWEEN_MODELS
from mindhold.ports.transcripts import Role, TranscriptCursor, TranscriptRead, TranscriptStep
from mindhold.providers.model_pull import PullOptions, pull
from mindhold.providers.transcripts.claude import ClaudeTranscripts

TARGET = Path(__file__).resolve().parents[1] / "src" / "mindhold" / "capture" / "judge.json"
WISHES = Path(__file__).resolve().parent / "extraction" / "wishes.json"
DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
WHOLE = 1 << 30  # bytes that are read at once
KEEP, WISH = "keep", "wish"
MODELS = ("all-MiniLM-L6-v2", "all-MiniLM-L6-v2+multilingual-e5-small")  # by whose vectors wishes are told
KEEP_PENALTY, WISH_PENALTY, KIND_PENALTY = 120.0, 20.0, 20.0
MEANING_PENALTY = 330.0  # of the features and the parts of a vector, where there is one
AGAINST = 0.15  # how much the evidence that something misleads counts against what keeping it is worth
HALF = 0.5  # what a marginal candidate is worth: without it the false ones weigh no more than these
TIMES = 2  # how often each sentence made for it teaches what a wish is
FEWEST = 3  # examples of a kind to learn it from
NEVER = -5.0  # offset of a kind with fewer
LEAST_SHOWN = 5e-4  # weight that is written
MOST_FOUND = 0.95  # share of the judged candidates that are still built, at least
THRESHOLDS = (0.3, 0.4, 0.45, 0.5, 0.6, 0.7)
# What the sentences that were made to teach wishes don't have: a place in a conversation.
_PLACE = frozenset(
    (
        *("closing", "turns after", "last turn", "edits after", "repeated", "last message", "objected"),
        *("objecting", "opening", "bullet", "headed", "event", "rule", "rule's weight"),
        *("message", "of a long message"),
    )
)
_Target = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Row:
    """A candidate that a reader judged, and what is known of it."""

    repository: str
    candidate: Candidate
    label: str
    kind: str
    known: Mapping[str, float]

    @property
    def of_person(self) -> bool:
        return self.candidate.role is Role.USER


@dataclass(frozen=True, slots=True)
class Made:
    """A sentence made to teach what a wish is."""

    language: str
    wish: bool
    content: str
    known: Mapping[str, float]


def read_conversation(file: Path) -> tuple[TranscriptRead, list[TranscriptStep]]:
    """Read a whole transcript as capture does: without skipped turns, sub-agents and secrets."""
    followed = ClaudeTranscripts(file.parent).follow(file, TranscriptCursor(), most_bytes=WHOLE)
    if followed is None:
        raise SystemExit(f"{file} can't be read.")
    steps, _ = without_skipped_turns(followed.steps, skipping=False)
    return followed, redact_steps(step for step in steps if not step.aside)


def judged_rows(conversation: Conversation, candidates: Sequence[Candidate]) -> list[Row]:
    """The candidates that a reader judged, with what is known of each."""
    return [
        Row(conversation.repository, candidate, judged.label, judged.kind, features(candidate))
        for candidate in candidates
        if (judged := conversation.judged.get(mark(candidate.content))) is not None
    ]


def proposed(followed: TranscriptRead, steps: Sequence[TranscriptStep]) -> list[Candidate]:
    return propose(steps, RuleState(), folder=followed.cwd)[1]


def made_sentences(path: Path = WISHES) -> list[Made]:
    content = json.loads(path.read_text(encoding="utf-8"))
    return [
        Made(language, group == "wishes", candidate.content, features(candidate))
        for group in ("wishes", "momentary")
        for language, texts in content[group].items()
        for candidate in map(_typed, texts)
    ]


def _typed(said: str) -> Candidate:
    content = clean_sentence(said)
    sentence = Sentence(content, 1, Role.USER)
    rules = [*preferences([sentence]), *korean_statements([sentence])]
    rule = next((each for each in rules if each.kind is Kind.PREFERENCE), None)
    return Candidate(content=content, line=1, role=Role.USER, rule=rule)


def fit(
    known: Sequence[Mapping[str, float]],
    names: Sequence[str],
    target: _Target,
    penalty: float,
    meant: Matrix | None = None,
) -> Weights:
    """A logistic model with ridge penalty on the standardised features, and parts of vectors if any, by Newton's method."""
    rows = np.array([[one[name] for name in names] for one in known])
    if meant is not None:
        rows = np.hstack([rows, meant])
    mean, deviation = rows.mean(axis=0), rows.std(axis=0)
    varies = deviation > 1e-6
    scale = np.where(varies, deviation, 1.0)
    table = np.hstack([np.where(varies, (rows - mean) / scale, 0.0), np.ones((len(rows), 1))])
    ridge = np.append(np.full(table.shape[1] - 1, penalty), 1e-6)
    found = np.zeros(table.shape[1])
    for _ in range(20):
        chance = _chance(table @ found)
        curve = (table.T * (chance * (1 - chance) + 1e-9)) @ table + np.diag(ridge)
        step = np.linalg.solve(curve, table.T @ (chance - target) + ridge * found)
        found = found - step
        if np.abs(step).max() < 1e-5:
            break
    weights = np.where(varies, found[:-1] / scale, 0.0)
    return Weights(
        {name: float(weight) for name, weight in zip(names, weights[: len(names)], strict=True)},
        float(found[-1] - weights @ mean),
        tuple(weights[len(names) :].tolist()),
    )


def _chance(evidence: Numbers) -> Numbers:
    return np.asarray(1 / (1 + np.exp(-evidence)), dtype=np.float64)


def learn(
    rows: Sequence[Row], typed: Sequence[Row], made: Sequence[Made], models: Sequence[str] = ()
) -> dict[str, Weights]:
    """All that the judge knows: wishes from more of what people typed, and by the vectors of these models as well."""
    said = [*rows, *typed]
    by_models = {wish_by(model): learn_wish(said, made, model) for model in models}
    return {KEEP: learn_keep(rows), WISH: learn_wish(said, made), **by_models, **learn_kinds(rows)}


def learn_keep(rows: Sequence[Row]) -> Weights:
    """What a reader keeps, less what would mislead: a second model tells that, and counts against it."""
    once = distinct(rows)
    known, names = [row.known for row in once], tuple(rows[0].known)
    false = np.array([float(row.label == FALSE) for row in once])
    worth, misleads = fit(known, names, _worth(once), KEEP_PENALTY), fit(known, names, false, KEEP_PENALTY)
    usual = float(np.mean([misleads.sum_of(one) for one in known]))
    return Weights(
        {name: worth.weights[name] - AGAINST * misleads.weights[name] for name in names},
        worth.offset - AGAINST * (misleads.offset - usual),
    )


def learn_wish(rows: Sequence[Row], made: Sequence[Made], model: str = "") -> Weights:
    """From what people typed, and sentences in all languages of the cues; by the text alone, and a model's vector of it."""
    typed = [row for row in rows if row.of_person]
    names = [name for name in rows[0].known if _is_of_text(name)]
    examples = [(row.candidate.content, row.known, float(row.label == GOOD)) for row in typed]
    examples += [(one.content, one.known, float(one.wish)) for one in made] * TIMES
    if model:
        examples = [example for example in examples if understands(model, example[0])]
    texts, known, target = zip(*examples, strict=True)
    penalty = MEANING_PENALTY if model else WISH_PENALTY
    return fit(known, names, np.array(target), penalty, known_vectors(model).texts(texts) if model else None)


def _is_of_text(name: str) -> bool:
    if name.startswith("rule: "):
        return name == f"rule: {Kind.PREFERENCE}"
    return name not in _PLACE and not name.startswith(("person", "under "))


def learn_kinds(rows: Sequence[Row]) -> dict[str, Weights]:
    good = [row for row in distinct(rows) if row.label == GOOD]
    learned = {}
    for kind in JUDGED_KINDS:
        target = np.array([float(row.kind == kind) for row in good])
        if target.sum() >= FEWEST:
            learned[kind.value] = fit([row.known for row in good], tuple(rows[0].known), target, KIND_PENALTY)
        else:
            learned[kind.value] = Weights({}, NEVER)
    return learned


def distinct(rows: Sequence[Row]) -> list[Row]:
    """Each thing that was said in a project once: what comes in ten of its conversations teaches no more than what comes in one."""
    return list({(row.repository, mark(row.candidate.content)): row for row in rows}.values())


def _worth(rows: Sequence[Row]) -> _Target:
    return np.array([{GOOD: 1.0, MARGINAL: HALF}.get(row.label, 0.0) for row in rows])


def chances(
    weights: Weights, known: Sequence[Mapping[str, float]], meant: Sequence[Numbers] | None = None
) -> Numbers:
    return _chance(
        np.array(
            [
                weights.sum_of(one, vector)
                for one, vector in zip(known, meant or [None] * len(known), strict=True)
            ]
        )
    )


def left_out(rows: Sequence[Row], learn_from: Callable[[Sequence[Row]], Weights], model: str = "") -> Numbers:
    """The probability of each row, by what the other repositories teach; by its meaning as well with a model."""
    judged = np.zeros(len(rows))
    for repository in dict.fromkeys(row.repository for row in rows):
        own = [row for row in rows if row.repository == repository]
        weights = learn_from([row for row in rows if row.repository != repository])
        meant = _meant([row.candidate.content for row in own], model)
        judged[[row.repository == repository for row in rows]] = chances(
            weights, [row.known for row in own], meant
        )
    return judged


def _meant(texts: Sequence[str], model: str) -> list[Numbers] | None:
    return list(known_vectors(model).texts(texts).astype(np.float64)) if model and texts else None


def order(chance: Numbers, right: npt.NDArray[np.bool_]) -> float:
    """The probability that a right one is before a wrong one: the area under the ROC curve."""
    better = chance[right][:, np.newaxis] - chance[~right][np.newaxis, :]
    return float(((better > 0) + 0.5 * (better == 0)).mean())


def keep_table(rows: Sequence[Row], chance: Numbers) -> Table:
    labels = np.array([row.label for row in rows])
    weights = np.array([row.candidate.weight for row in rows])
    lines = [_kept_row(f"rules alone, weight of {LEAST_WEIGHT}", weights >= LEAST_WEIGHT, labels)]
    lines += [_kept_row(f"judge, probability of {least}", chance >= least, labels) for least in THRESHOLDS]
    repositories = len({row.repository for row in rows})
    return Table(
        f"{len(rows)} judged candidates, each project by what the others of {repositories} teach: order {order(chance, labels == GOOD):.3f}",
        ("", "kept", "good", "or marginal", "false", "share of the good"),
        lines,
    )


def _kept_row(name: str, kept: npt.NDArray[np.bool_], labels: npt.NDArray[np.str_]) -> tuple[str, ...]:
    if not kept.any():
        return (name, "0", "-", "-", "-", share(0.0))
    own = labels[kept]
    return (
        name,
        str(int(kept.sum())),
        share(float((own == GOOD).mean())),
        share(float(np.isin(own, [GOOD, MARGINAL]).mean())),
        share(float((own == FALSE).mean())),
        share(float((own == GOOD).sum() / (labels == GOOD).sum())),
    )


def wish_tables(rows: Sequence[Row], made: Sequence[Made], model: str) -> list[Table]:
    """How well wishes are told; without a model by the cues alone."""
    typed = [
        row for row in rows if row.of_person and (not model or understands(model, row.candidate.content))
    ]
    labels = np.array([row.label for row in typed])
    chance = left_out(typed, lambda others: learn_wish(others, made, model), model)
    ruled = np.array([row.candidate.kind is Kind.PREFERENCE for row in typed])
    lines = [_kept_row("rules alone", ruled, labels)]
    lines += [_kept_row(f"judge, probability of {least}", chance >= least, labels) for least in THRESHOLDS]
    by = model or "cues alone"
    real = Table(
        f"{len(typed)} sentences that people typed, judged as wishes, by other projects, {by}: order {order(chance, labels == GOOD):.3f}",
        ("", "kept", "good", "or marginal", "false", "share of the good"),
        lines,
    )
    if model and BETWEEN_MODELS not in model:
        return [real]  # of a model for English nothing is learned from other languages
    by_language = []
    for language in dict.fromkeys(one.language for one in made):
        own = [one for one in made if one.language == language]
        weights = learn_wish(rows, [one for one in made if one.language != language], model)
        judged = chances(weights, [one.known for one in own], _meant([one.content for one in own], model))
        wishes = np.array([one.wish for one in own])
        ruled = np.array([one.known[f"rule: {Kind.PREFERENCE}"] > 0 for one in own])
        by_language.append(
            (
                language,
                f"{int(wishes.sum())} / {int((~wishes).sum())}",
                share(order(judged, wishes)),
                *(
                    f"{(judged[wishes] >= at).mean():.2f} / {(judged[~wishes] >= at).mean():.2f}"
                    for at in (0.5, 0.6)
                ),
                f"{ruled[wishes].mean():.2f} / {ruled[~wishes].mean():.2f}",
            )
        )
    heads = ("language", "wishes / of the moment", "order", "taken at 0.5", "at 0.6", "by rules")
    return [
        real,
        Table(
            f"Sentences made for it, each language judged by what the others teach, {by}", heads, by_language
        ),
    ]


def as_json(learned: Learned) -> str:
    content = {
        name: {
            "weights": {
                feature: round(weight, 3)
                for feature, weight in each.weights.items()
                if abs(weight) >= LEAST_SHOWN
            },
            "offset": round(each.offset, 3),
            **({"meaning": " ".join(f"{part:.3g}" for part in each.meaning)} if each.meaning else {}),
        }
        for name, each in learned.items()
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def data_arguments(parser: argparse.ArgumentParser) -> None:
    """Where the conversations are."""
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("MINDHOLD_BENCH_DATA", DATA)))
    parser.add_argument(
        "--transcripts",
        type=Path,
        action="append",
        default=[],
        help="a folder with more of the judged conversations; repeat for several",
    )


def judged_files(
    data: Path, others: Sequence[Path], folder: Path = LABELS
) -> list[tuple[Conversation, Path]]:
    """The judged conversations that are there. Says how many are not."""
    labels, files = read_labels(folder), found_files(data, others)
    there = [(each, files[each.file]) for each in labels if each.file in files]
    if not there and folder == LABELS:
        raise SystemExit(f"There are no judged conversations in {data}: set MINDHOLD_BENCH_DATA.")
    if len(there) < len(labels):
        print(
            f"{len(labels) - len(there)} of {len(labels)} conversations of {folder.name} aren't there (--transcripts)."
        )
    return there


def read_rows(there: Sequence[tuple[Conversation, Path]]) -> list[Row]:
    return [
        row
        for conversation, file in there
        for row in judged_rows(conversation, proposed(*read_conversation(file)))
    ]


def present(models: Sequence[str]) -> list[str]:
    """Those of the models that are installed or can be pulled. Says why others aren't."""
    there = []
    for model in models:
        try:
            for each in model.split(BETWEEN_MODELS):
                pull(each, PullOptions(OWN_HOME / "models", precision=PRECISION))
            there.append(model)
        except ModelPullFailed as reason:
            print(f"Without {model}: {reason}", flush=True)
    return there


def read_typed(data: Path, others: Sequence[Path]) -> list[Row]:
    """What people typed in other conversations, and readers judged."""
    return [row for row in read_rows(judged_files(data, others, TYPED)) if row.of_person]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    data_arguments(parser)
    parser.add_argument("--write", action="store_true", help="write the weights into the package")
    chosen = parser.parse_args()
    there = judged_files(chosen.data, chosen.transcripts)
    rows, typed, made = (
        read_rows(there),
        read_typed(chosen.data, chosen.transcripts),
        made_sentences(),
    )
    wanted = sum(len(each.judged) for folder in (LABELS, TYPED) for each in read_labels(folder))
    if chosen.write and len(rows) + len(typed) < MOST_FOUND * wanted:
        parser.error("--write needs every judged conversation: name their folders with --transcripts.")
    models = present(MODELS)
    by_wish = [table for model in ("", *models) for table in wish_tables([*rows, *typed], made, model)]
    for table in (keep_table(rows, left_out(rows, learn_keep)), *by_wish):
        print("\n" + text(table), flush=True)
    if chosen.write and len(models) < len(MODELS):
        parser.error(f"--write needs the models {', '.join(MODELS)}.")
    content = as_json(learn(rows, typed, made, models))
    print(f"\n{len(content.encode())} bytes of weights")
    if chosen.write:
        TARGET.write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
