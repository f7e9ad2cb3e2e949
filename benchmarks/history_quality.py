"""How often the conversation that made a commit is found by what the commit is called.

Questions are the first lines of commits (see benchmarks/commits.py), answers the conversations that made them. The conversations are
those in `transcripts/*.jsonl` under MINDHOLD_BENCH_DATA (default ../shared/data), in folders given by --transcripts, and in clones given by
--checkpoints. Where none of them made a commit, questions are what was asked for last in each, which is taken out in the same way.
Sessions are split in two halves by their ids: weights are chosen on the one that is called dev.
Beside memory_recall, by words and with the local model's vectors, stand two plain ways over the same text: how many of the question's
words a conversation has, as a grep for each would tell, and BM25 over whole conversations.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.commits import Talk, blanked, checkpoints, committed, prompted, questions, talks_in
from benchmarks.environment import HERE, RESULTS, machine
from benchmarks.report import Table, share, text, write
from benchmarks.served import data_folder

from mindhold.app.application import App, open_app
from mindhold.history.index import INDEX_HISTORY, IndexHistoryInput
from mindhold.history.passages import EMBED_HISTORY, EmbedHistoryInput
from mindhold.history.search import SEARCH_HISTORY, SearchHistoryInput
from mindhold.model.lexemes import query_lexemes
from mindhold.settings.loader import LoadedSettings, load_settings

MODEL = "all-MiniLM-L6-v2"
DEEPEST = 20  # results that are looked at
DEV, OTHER = "dev", "other"
MEASURES = ("hit@1", "hit@5", "MRR")
SATURATION, LENGTH_SHARE = 1.2, 0.75  # BM25's usual ones
BATCH = 2_000

Questions = Mapping[str, frozenset[str]]
Found = Mapping[str, Sequence[str]]  # sessions by question, best first


@dataclass(frozen=True, slots=True)
class Method:
    """A way of searching, and what it found."""

    name: str
    found: Found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transcripts", action="append", type=Path, default=[], metavar="DIR")
    parser.add_argument("--checkpoints", action="append", type=Path, default=[], metavar="CLONE")
    parser.add_argument("--words", action="store_true", help="without vectors, which take minutes to make")
    parser.add_argument("--show", action="store_true", help="what is not among the first five")
    chosen = parser.parse_args()
    talks, asked = _gathered(chosen.transcripts or [data_folder() / "transcripts"], chosen.checkpoints)
    if not asked:
        print("None of them made a commit, so that each is asked for by its last prompt.")
        asked = questions(prompted(talks), talks)
    print(f"{len(talks)} conversations, {len(asked)} questions", flush=True)
    if not asked:
        print("Nobody asked for anything in them: give others by --transcripts or --checkpoints.")
        return
    with TemporaryDirectory() as folder:
        methods = asyncio.run(_methods(Path(folder), talks, asked, vectors=not chosen.words))
    table = _table(methods, asked, len(talks))
    print("\n" + text(table))
    if chosen.show:
        _show(methods[-1], asked)
    path = write(RESULTS, "history-quality", _facts(methods, asked, len(talks)), [table])
    print(f"\n{path.relative_to(HERE.parent)} and .md")


def _gathered(folders: Sequence[Path], clones: Sequence[Path]) -> tuple[dict[str, Talk], Questions]:
    talks: dict[str, Talk] = {}
    asked: dict[str, set[str]] = {}
    for folder in folders:
        talks |= talks_in(folder)
    for clone in clones:
        found, named = checkpoints(clone)
        talks |= found
        for subject, sessions in named.items():
            asked.setdefault(subject, set()).update(sessions)
    for subject, sessions in committed(talks).items():
        asked.setdefault(subject, set()).update(sessions)
    return talks, questions(asked, talks)


async def _methods(
    folder: Path, talks: Mapping[str, Talk], asked: Questions, *, vectors: bool
) -> list[Method]:
    desk = folder / "claude"
    for talk in talks.values():
        place = desk / "projects" / "-srv-shop" / f"{talk.session_id}.jsonl"
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("wb") as file:
            file.writelines(blanked(talk, list(asked)))
    async with open_app(_settings(folder, desk, vectors=False)) as app:
        indexed = await app.run(INDEX_HISTORY, IndexHistoryInput())
        print(f"{indexed.passages:,} passages in {indexed.seconds:.0f} s", flush=True)
        words = _words(app)
        methods = [
            Method("words that it has", _by(asked, lambda question: _counted(question, words))),
            Method("BM25, whole conversations", _by(asked, _whole(words))),
            Method("memory_recall, words", await _recalled(app, asked)),
        ]
    if not vectors:
        return methods
    models = load_settings(environ=dict(os.environ)).settings.models_dir
    if not (models / MODEL).is_dir():
        print(f"Without vectors: {MODEL} isn't there. `mindhold models pull` fetches it.")
        return methods
    shutil.copytree(models / MODEL, folder / "home" / "models" / MODEL)
    async with open_app(_settings(folder, desk, vectors=True)) as app:
        while (done := await app.run(EMBED_HISTORY, EmbedHistoryInput(most=BATCH))).embedded:
            print(f"{done.left:,} passages without a vector", flush=True)
        methods.append(Method(f"memory_recall, words and {MODEL}", await _recalled(app, asked)))
    return methods


def _settings(folder: Path, desk: Path, *, vectors: bool) -> LoadedSettings:
    given: dict[str, Any] = {
        "home": str(folder / "home"),
        "history.claude_dir": str(desk),
        "history.agents": "claude",
        "history.vectors": vectors,
        "embedding.provider": "local" if vectors else "none",
        "embedding.model": MODEL,
    }
    return load_settings(given, environ={})


def _words(app: App) -> dict[str, Counter[str]]:
    """The lexemes of each session, as the index has them."""
    words: dict[str, Counter[str]] = {}
    for conversation in app.engine.history.conversations():
        own = words.setdefault(conversation.belongs_to, Counter())
        for _, passage in app.engine.history.passages_of(conversation.row):
            if not passage.head:
                own.update(passage.lexemes.split())
    return words


def _by(asked: Questions, score: Callable[[str], Mapping[str, float]]) -> Found:
    found = {}
    for question in asked:
        scores = score(question)
        best = sorted((one for one in scores if scores[one] > 0), key=lambda one: (-scores[one], one))
        found[question] = best[:DEEPEST]
    return found


def _counted(question: str, words: Mapping[str, Counter[str]]) -> Mapping[str, float]:
    wanted = query_lexemes(question)
    return {session: float(sum(one in own for one in wanted)) for session, own in words.items()}


def _whole(words: Mapping[str, Counter[str]]) -> Callable[[str], Mapping[str, float]]:
    lengths = {session: own.total() for session, own in words.items()}
    average = sum(lengths.values()) / max(1, len(lengths))

    def score(question: str) -> Mapping[str, float]:
        scores = dict.fromkeys(words, 0.0)
        for one in query_lexemes(question):
            having = [session for session, own in words.items() if one in own]
            rarity = math.log1p((len(words) - len(having) + 0.5) / (len(having) + 0.5))
            for session in having:
                count = words[session][one]
                slack = SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * lengths[session] / average)
                scores[session] += rarity * count * (SATURATION + 1) / (count + slack)
        return scores

    return score


async def _recalled(app: App, asked: Questions) -> Found:
    found = {}
    for question in asked:
        answer = await app.run(SEARCH_HISTORY, SearchHistoryInput(query=question, limit=DEEPEST))
        found[question] = [one.session_id for one in answer.results]
    return found


def half(sessions: frozenset[str]) -> str:
    """Which half of the sessions a question is about; one of several is on the side of the first."""
    return DEV if blake2b(min(sessions).encode(), digest_size=1).digest()[0] % 2 else OTHER


def scores(found: Found, asked: Questions) -> dict[str, float]:
    """Means over the questions."""
    ranks = []
    for question, right in asked.items():
        places = [place for place, session in enumerate(found[question], 1) if session in right]
        ranks.append(places[0] if places else math.inf)
    return {
        "hit@1": sum(rank <= 1 for rank in ranks) / max(1, len(ranks)),
        "hit@5": sum(rank <= 5 for rank in ranks) / max(1, len(ranks)),
        "MRR": sum(1 / rank for rank in ranks) / max(1, len(ranks)),
    }


def _halves(asked: Questions) -> dict[str, Questions]:
    return {
        side: {question: right for question, right in asked.items() if half(right) == side}
        for side in (DEV, OTHER)
    }


def _table(methods: Sequence[Method], asked: Questions, conversations: int) -> Table:
    halves = _halves(asked)
    heads = ["", *(f"{side} {measure}" for side in halves for measure in MEASURES)]
    rows = [
        [
            one.name,
            *(share(scores(one.found, own)[measure]) for own in halves.values() for measure in MEASURES),
        ]
        for one in methods
    ]
    counts = ", ".join(f"{len(own)} {side}" for side, own in halves.items())
    return Table(f"The conversation asked for: {counts}; {conversations} conversations", heads, rows)


def _facts(methods: Sequence[Method], asked: Questions, conversations: int) -> dict[str, Any]:
    rows = [
        {"method": one.name, "half": side, "questions": len(own), **scores(one.found, own)}
        for one in methods
        for side, own in _halves(asked).items()
    ]
    return {"machine": machine(), "conversations": conversations, "rows": rows}


def _show(method: Method, asked: Questions) -> None:
    for question, right in asked.items():
        if right.isdisjoint(method.found[question][:5]):
            print(f"{question!r}: {', '.join(sorted(right))}; found {', '.join(method.found[question][:5])}")


if __name__ == "__main__":
    main()
