"""How well memories are picked out of conversations by the rules, against labels made by hand (see `labels.py`).

The conversations are `transcripts/*.jsonl` under MINDHOLD_BENCH_DATA (default ../shared/data). They are followed as the hooks
follow them: whole, with and without an embedding model, and in small pieces as they grow. What fits no label counts as wrong.
The rules were made by people who had seen these conversations: on others expect less.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.environment import RESULTS, machine
from benchmarks.labels import NONE, Label, Picked, Verdict, judge, read_labels
from benchmarks.peers.door import OWN_HOME, door_options
from benchmarks.report import Aim, Table, aims_table, share, text, write

from mindhold.app.application import App, open_app
from mindhold.capture.rules.selection import extract_by_rules
from mindhold.model.errors import ModelPullFailed
from mindhold.ports.transcripts import TranscriptCursor
from mindhold.providers.model_pull import PullOptions, pull
from mindhold.providers.transcripts.claude import ClaudeTranscripts
from mindhold.settings.loader import load_settings
from mindhold.settings.sections import KINDS

LEAST_PRECISION = 0.7
MODEL = "all-MiniLM-L6-v2"
WHOLE = 4 << 20  # bytes that are read at once
PIECE = 48 << 10
HEADS = ("", "extracted", "right", "precision", "kind ignored", "labelled", "found", "recall")


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one kind, or of all. What was found again in another place is right, and found once."""

    extracted: int
    right: int
    placed: int  # right but for the kind
    labelled: int
    found: int

    @property
    def precision(self) -> float | None:
        return self.right / self.extracted if self.extracted else None

    @property
    def kindless(self) -> float | None:
        return self.placed / self.extracted if self.extracted else None

    @property
    def recall(self) -> float | None:
        return self.found / self.labelled if self.labelled else None

    def row(self, name: str) -> tuple[str, ...]:
        return (
            name,
            str(self.extracted),
            str(self.right),
            share(self.precision),
            share(self.kindless),
            str(self.labelled),
            str(self.found),
            share(self.recall),
        )


@dataclass(frozen=True, slots=True)
class Way:
    """How the conversations are followed."""

    name: str
    model: bool
    most_bytes: int


WAYS = (
    Way("words alone", model=False, most_bytes=WHOLE),
    Way("with the embedding model", model=True, most_bytes=WHOLE),
    Way("with the embedding model, in small pieces", model=True, most_bytes=PIECE),
)


async def picked_from(app: App, file: Path, *, most_bytes: int) -> list[Picked]:
    """Everything that the rules pick out of a conversation, from its beginning to its end."""
    transcripts, cursor, picked = ClaudeTranscripts(file.parent), TranscriptCursor(), list[Picked]()
    carried: Any = {}
    while (followed := transcripts.follow(file, cursor, most_bytes=most_bytes)) is not None:
        found = await extract_by_rules(app.engine, followed.steps, carried, folder=followed.cwd)
        picked += [Picked(file.name, item.line, item.kind.value, item.content) for item in found.items]
        carried, cursor = found.carried, followed.cursor
        if not followed.more:
            break
    return picked


async def measure(files: Sequence[Path], way: Way) -> list[Picked]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        arguments = {
            "home": str(OWN_HOME),
            "store.path": str(Path(folder) / "mindhold.db"),
            "embedding.model": MODEL,
            **({} if way.model else {"embedding.provider": "none"}),
        }
        async with open_app(load_settings(arguments, environ={})) as app:
            return [one for file in files for one in await picked_from(app, file, most_bytes=way.most_bytes)]


def figures(verdicts: Sequence[Verdict], labels: Sequence[Label], kind: str | None = None) -> Figures:
    """Of one kind, by what the extractor and by what the label calls it; of all without."""
    own = [one for one in verdicts if kind in (None, one.picked.kind)]
    found = {place for one in verdicts for place in one.found}
    wanted = {
        place for place, label in enumerate(labels) if label.kind != NONE and kind in (None, label.kind)
    }
    return Figures(
        extracted=len(own),
        right=sum(one.right for one in own),
        placed=sum(one.label is not None and one.label.kind != NONE for one in own),
        labelled=len(wanted),
        found=len(wanted & found),
    )


def table(verdicts: Sequence[Verdict], labels: Sequence[Label], *, way: Way) -> Table:
    other = sorted({one.picked.kind for one in verdicts} - set(KINDS))
    rows: list[Sequence[str]] = [figures(verdicts, labels, kind).row(kind) for kind in (*KINDS, *other)]
    rows.append(figures(verdicts, labels).row("all"))
    tempted = sum(one.label is not None and one.label.kind == NONE for one in verdicts)
    distinct = len({(one.picked.file, place) for one in verdicts for place in one.found})
    rows.append((f"{tempted} of them from lines marked as not worth keeping; {distinct} labels found",))
    return Table(f"Memories by rules out of conversations, {way.name}", HEADS, rows)


def show(verdicts: Sequence[Verdict], labels: Sequence[Label]) -> None:
    """What is wrong and what is missing, for whoever works on the rules."""
    for one in sorted(verdicts, key=lambda one: (one.picked.file, one.picked.line)):
        if not one.right:
            print(f"WRONG {one.picked.file}:{one.picked.line} {one.picked.kind} ({_why(one)})")
            print(f"      {' '.join(one.picked.content.split())[:300]}")
    found = {place for one in verdicts for place in one.found}
    for place, label in enumerate(labels):
        if label.kind != NONE and place not in found:
            print(f"MISSED {label.file}:{label.lines[0]} {'/'.join(label.kinds)} {' '.join(label.about)}")


def _why(verdict: Verdict) -> str:
    if verdict.label is None:
        return "no label"
    if verdict.label.kind == NONE:
        return "not worth keeping"
    return f"kind: should be {'/'.join(verdict.label.kinds)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    data = Path(os.environ.get("MINDHOLD_BENCH_DATA", default))
    parser.add_argument(
        "--folder", type=Path, default=data / "transcripts", help="where the conversations lie"
    )
    parser.add_argument("--show", action="store_true", help="say what is wrong and what is missing")
    chosen = parser.parse_args()
    labels = read_labels()
    names = {label.file for label in labels}
    files = sorted(file for file in chosen.folder.glob("*.jsonl") if file.name in names)
    if not files:
        raise SystemExit(f"There are no labelled conversations in {chosen.folder}: set MINDHOLD_BENCH_DATA.")
    if not _measured(files, labels, told=chosen.show):
        raise SystemExit(1)


def _measured(files: Sequence[Path], labels: Sequence[Label], *, told: bool) -> bool:
    """Whether what was promised was kept."""
    printed, aims, facts = list[Table](), list[Aim](), dict[str, Any]()
    modelled = _model_there()
    for way in WAYS:
        promise = f"at least {LEAST_PRECISION} of what is picked out is worth keeping ({way.name})"
        if way.model and not modelled:
            aims.append(Aim(promise, "no model", None))
            continue
        verdicts = judge(asyncio.run(measure(files, way)), labels)
        printed.append(table(verdicts, labels, way=way))
        print("\n" + text(printed[-1]), flush=True)
        if told:
            show(verdicts, labels)
        whole = figures(verdicts, labels)
        precise = whole.precision is not None and whole.precision >= LEAST_PRECISION
        aims.append(Aim(promise, share(whole.precision), precise))
        facts[way.name] = _plain(verdicts, labels)
    printed.append(aims_table(aims))
    print("\n" + text(printed[-1]))
    results = {"machine": machine(), "files": [file.name for file in files], "ways": facts}
    print(f"\nwritten to {write(RESULTS, 'extraction', results, printed).name}")
    return all(aim.met is not False for aim in aims)


def _model_there() -> bool:
    try:
        pull(MODEL, PullOptions(OWN_HOME / "models", precision=door_options(MODEL)["precision"]))
    except ModelPullFailed as reason:
        print(f"MISSING {MODEL}: {reason}", flush=True)
        return False
    return True


def _plain(verdicts: Sequence[Verdict], labels: Sequence[Label]) -> dict[str, Any]:
    """Figures, and where the wrong ones stand; nothing of what was said."""
    kinds = {kind: figures(verdicts, labels, kind) for kind in KINDS} | {"all": figures(verdicts, labels)}
    return {
        "figures": {
            kind: {
                "extracted": own.extracted,
                "right": own.right,
                "precision": own.precision,
                "precision, kind ignored": own.kindless,
                "labelled": own.labelled,
                "found": own.found,
                "recall": own.recall,
            }
            for kind, own in kinds.items()
        },
        "wrong": [
            f"{one.picked.file}:{one.picked.line} {one.picked.kind}" for one in verdicts if not one.right
        ],
    }


if __name__ == "__main__":
    main()
