"""Public pairs of sentences that people labelled: entailment, neutral or contradiction. None of them is kept in this repository.

They are read from `nli/` under MINDHOLD_BENCH_DATA if it is there, else from benchmarks/.cache/nli, and what is missing is
fetched once, each file at a named commit of a public repository and checked by its hash.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from benchmarks.environment import CACHE

_RAW = "https://raw.githubusercontent.com"
_SICK = f"{_RAW}/brmson/dataset-sts/e1d3375f5b3bc24f21aa4e46f96eb379e9fc1081/data/sts/sick2014"
_SNLI = f"{_RAW}/Deltaus/sBiMPM/8f1b040cd1a4b5ef3515a14b2a401906a5b82bbf/snli_1.0"
_KOR = f"{_RAW}/kakaobrain/KorNLUDatasets/0df0fe7d496eb61b092e022e238c2230b29f1cbc/KorNLI"
_KLUE = f"{_RAW}/KLUE-benchmark/KLUE/3efd98708a40ff49251fddde35453f8fbb11f536/klue_benchmark/klue-nli-v1.1"
_BREAKING = f"{_RAW}/BIU-NLP/Breaking_NLI/8a7658c1ce6b732f4e8af3b06560f1a13b8b18b0"
_TIMEOUT_SECONDS = 60
TUNED, REPORTED = "tuned on", "reported"


@dataclass(frozen=True, slots=True)
class Pair:
    """Two sentences and what people said of the second, given the first."""

    first: str
    second: str
    label: str


@dataclass(frozen=True, slots=True)
class Source:
    """A file, where it comes from, and its hash; `member` is its name inside a zip."""

    name: str
    url: str
    sha256: str
    member: str = ""


@dataclass(frozen=True, slots=True)
class Dataset:
    """Pairs of one kind. `part` says whether the rules were made by looking at them."""

    name: str
    language: str
    part: str
    source: Source
    read: Callable[[str], Iterator[Pair]]
    half: int | None = None  # of a file that has no parts of its own: by the hash of the first sentence


class DataMissing(Exception):
    """A file is neither here nor to be had; the message says how to get it."""


def _sick(text: str) -> Iterator[Pair]:
    for row in csv.DictReader(io.StringIO(text), delimiter="\t", quoting=csv.QUOTE_NONE):
        yield Pair(row["sentence_A"], row["sentence_B"], row["entailment_judgment"].lower())


def _json_lines(text: str) -> Iterator[Pair]:
    for line in text.splitlines():
        row = json.loads(line)
        yield Pair(row["sentence1"], row["sentence2"], row["gold_label"])


def _tsv(text: str) -> Iterator[Pair]:
    for row in csv.DictReader(io.StringIO(text), delimiter="\t", quoting=csv.QUOTE_NONE):
        yield Pair(row["sentence1"], row["sentence2"], row["gold_label"])


def _klue(text: str) -> Iterator[Pair]:
    for row in json.loads(text):
        yield Pair(row["premise"], row["hypothesis"], row["gold_label"])


_SICK_TRAIN = Source(
    "SICK_train.txt",
    f"{_SICK}/SICK_train.txt",
    "266cf8047149bd1d68138dd30439f3122bff30069740ac6705bb6197d9f1b48e",
)
_SICK_TEST = Source(
    "SICK_test_annotated.txt",
    f"{_SICK}/SICK_test_annotated.txt",
    "2b8aa806658d6fc23c6824c83776c2d4fee7556000817b5ec0f982861413b7d0",
)
_SNLI_DEV = Source(
    "snli_dev.jsonl",
    f"{_SNLI}/snli_1.0_dev.jsonl",
    "d28f65fc66b8943787b53ff1db0a8e69a9ca86ebafd1a140c741323402f3cf34",
)
_SNLI_TEST = Source(
    "snli_test.jsonl",
    f"{_SNLI}/snli_1.0_test.jsonl",
    "032b2d5720d402c7c521fb92363ba0d435839ad1bb822308ddec5b247be0482e",
)
_BREAKING_ALL = Source(
    "breaking_nli.jsonl",
    f"{_BREAKING}/breaking_nli_dataset.zip",
    "72d182edc66b20e404295567d2dc5c50751071c7ab980e791273a51df4334cf1",
    member="data/dataset.jsonl",
)
_XNLI_DEV = Source(
    "xnli.dev.ko.tsv",
    f"{_KOR}/xnli.dev.ko.tsv",
    "821fb1c1c2e538ac2724a6132da36ffa379eb9a542ceb89243b3cf711377382c",
)
_XNLI_TEST = Source(
    "xnli.test.ko.tsv",
    f"{_KOR}/xnli.test.ko.tsv",
    "0db53cf8e182283a0d0404ec3fe1b15d1e29236d23d22082dc20d43067254b3e",
)
_KLUE_DEV = Source(
    "klue-nli-v1.1_dev.json",
    f"{_KLUE}/klue-nli-v1.1_dev.json",
    "0699db82be17766b26e199864e6260443e17ec6e91d1870e876419e388f245b1",
)

DATASETS: tuple[Dataset, ...] = (
    Dataset("SICK train", "English", TUNED, _SICK_TRAIN, _sick),
    Dataset("SNLI dev, a part", "English", TUNED, _SNLI_DEV, _json_lines),
    Dataset("Breaking NLI, half", "English", TUNED, _BREAKING_ALL, _json_lines, half=0),
    Dataset("XNLI dev", "Korean", TUNED, _XNLI_DEV, _tsv),
    Dataset("KLUE-NLI dev, half", "Korean", TUNED, _KLUE_DEV, _klue, half=0),
    Dataset("SICK test", "English", REPORTED, _SICK_TEST, _sick),
    Dataset("SNLI test, a part", "English", REPORTED, _SNLI_TEST, _json_lines),
    Dataset("Breaking NLI, other half", "English", REPORTED, _BREAKING_ALL, _json_lines, half=1),
    Dataset("XNLI test", "Korean", REPORTED, _XNLI_TEST, _tsv),
    Dataset("KLUE-NLI dev, other half", "Korean", REPORTED, _KLUE_DEV, _klue, half=1),
)


def pairs_of(dataset: Dataset) -> list[Pair]:
    """The labelled pairs; those that people didn't agree on are left out. Raises DataMissing."""
    text = _file(dataset.source).read_text(encoding="utf-8")
    labelled = [
        pair for pair in dataset.read(text) if pair.label in ("entailment", "neutral", "contradiction")
    ]
    if dataset.half is None:
        return labelled
    return [pair for pair in labelled if crc32(pair.first.encode()) % 2 == dataset.half]


def _file(source: Source) -> Path:
    given = os.environ.get("MINDHOLD_BENCH_DATA")
    for folder in (Path(given) / "nli" if given else CACHE / "nli", CACHE / "nli"):
        if (folder / source.name).is_file():
            return folder / source.name
    return _fetched(source, CACHE / "nli" / source.name)


def _fetched(source: Source, path: Path) -> Path:
    how = f"Put it at {path.parent.name}/{source.name} under MINDHOLD_BENCH_DATA; it comes from {source.url}."
    try:
        with urllib.request.urlopen(source.url, timeout=_TIMEOUT_SECONDS) as answer:
            content: bytes = answer.read()
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        reason = str(getattr(error, "reason", error))
        raise DataMissing(f"{source.name} is not here and could not be fetched ({reason}). {how}") from error
    if source.member:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            content = archive.read(source.member)
    if hashlib.sha256(content).hexdigest() != source.sha256:
        raise DataMissing(f"{source.name} came with another hash than it should have. {how}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path
