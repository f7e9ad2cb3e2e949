"""Fetches a model, turns it into what we run, and puts it into the models folder in one step."""

from __future__ import annotations

import errno
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from mindhold.model.errors import ModelBroken, ModelMissing, ModelPullFailed
from mindhold.providers.embedding import convert
from mindhold.providers.embedding.clients import Progress, fetch_npm, fetch_wheel
from mindhold.providers.embedding.hub import fetch_hub
from mindhold.providers.embedding.installed import MODELS, PRECISIONS, InstalledModel, model_file
from mindhold.providers.embedding.lock import file_lock
from mindhold.providers.embedding.registry import (
    DEFAULT_HUB,
    KNOWN,
    FolderSource,
    HubSource,
    KnownModel,
    NpmSource,
    Source,
    WheelSource,
    known_model,
)
from mindhold.providers.folders import PARTIAL, describe, sha256_of

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")


def _silent(_stage: str, _done: int, _total: int | None) -> None:
    return


def pull(
    what: str,
    models_dir: Path,
    *,
    precision: str = "int8",
    force: bool = False,
    hub: str = DEFAULT_HUB,
    progress: Progress = _silent,
) -> InstalledModel:
    """Installs a known model, a hub's `org/name` or a folder; what is installed already is left alone.

    What was fetched is kept until the model is installed, so a second attempt goes on from there. Of two
    processes that pull the same model, the second waits and finds it done. Raises ModelPullFailed.
    """
    if precision not in PRECISIONS:
        raise ModelPullFailed(
            f"There is no precision {precision!r}.", advice=f"One of {', '.join(PRECISIONS)}."
        )
    model = _resolve(what)
    partial = models_dir / PARTIAL / model.name
    try:
        with file_lock(partial.with_name(f"{model.name}.lock"), waiting=lambda: progress("wait", 0, None)):
            done = None if force else _already(models_dir, model, precision)
            if done is not None:
                return done
            shutil.rmtree(partial / "ready", ignore_errors=True)
            return _Pull(
                model=model,
                models_dir=models_dir,
                partial=partial,
                precision=precision,
                hub=hub,
                progress=progress,
            ).run()
    except OSError as error:
        raise disk_failed(error, models_dir) from error
    finally:
        drop_if_empty(models_dir / PARTIAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pull:
    model: KnownModel
    models_dir: Path
    partial: Path
    precision: str
    hub: str
    progress: Progress

    def run(self) -> InstalledModel:
        folder, source = self._fetch_any()
        ready = self.partial / "ready"
        ready.mkdir(parents=True)
        traits = self._traits(folder)
        self.progress("convert", 0, None)
        path = convert.convert(folder, ready, precision=self.precision, traits=traits)
        shutil.copyfile(folder / "tokenizer.json", ready / "tokenizer.json")
        precisions = (self.precision, *self._keep_other_precisions(ready, traits))
        names = ["tokenizer.json", *(model_file(precision) for precision in precisions)]
        installed = InstalledModel(
            name=self.model.name,
            dimensions=traits.dimensions,
            pooling=traits.pooling,
            limit=traits.limit,
            source=source,
            precisions=precisions,
            files={name: describe(ready / name) for name in names},
            unrelated=convert.spread_of(folder, path, traits=traits),
            query_prefix=traits.query_prefix,
            text_prefix=traits.text_prefix,
        )
        MODELS.write(ready, installed)
        self.progress("install", 0, None)
        swap_in(ready, self.models_dir / self.model.name, partial=self.partial)
        return installed

    def _fetch_any(self) -> tuple[Path, str]:
        failures: list[ModelPullFailed] = []
        for source in self.model.sources:
            try:
                check_room(source, self.models_dir)
                folder = self._fetch(source)
                self._check_pins(folder, source)
            except ModelPullFailed as failure:
                failures.append(failure)
            else:
                return folder, str(source)
        if len(failures) == 1:
            raise failures[0]
        reasons = " ".join(f"({number}) {failure.message}" for number, failure in enumerate(failures, 1))
        raise ModelPullFailed(
            f"No source of {self.model.name} could be used. {reasons}", advice=failures[-1].advice
        )

    def _fetch(self, source: Source) -> Path:
        folder = self.partial / re.sub(r"[^\w.-]+", "-", str(source))
        match source:
            case WheelSource():
                return fetch_wheel(source, folder, progress=self.progress)
            case NpmSource():
                return fetch_npm(source, folder, progress=self.progress)
            case HubSource():
                return fetch_hub(source, folder, hub=self.hub, progress=self.progress)
            case FolderSource():
                return _checked(Path(source.path))

    def _check_pins(self, folder: Path, source: Source) -> None:
        for name, pinned in self.model.sha256.items():
            path = folder / name
            if path.is_file() and sha256_of(path) != pinned:
                shutil.rmtree(folder)
                raise ModelPullFailed(
                    f"{source}: {name} is not the file that it should be (its hash differs).",
                    advice="Run the same command again; if it stays so, report it.",
                )

    def _traits(self, folder: Path) -> convert.Traits:
        if self.model.dimensions:
            return convert.Traits(self.model.dimensions, self.model.pooling, self.model.limit)
        return convert.read_traits(folder)

    def _keep_other_precisions(self, ready: Path, traits: convert.Traits) -> list[str]:
        try:
            old = MODELS.read(self.models_dir, self.model.name)
            MODELS.check_sizes(self.models_dir / old.name, old)
        except (ModelMissing, ModelBroken):
            return []
        if (old.dimensions, old.pooling) != (traits.dimensions, traits.pooling):
            return []
        kept = [precision for precision in old.precisions if precision != self.precision]
        for precision in kept:
            shutil.copyfile(self.models_dir / old.name / model_file(precision), ready / model_file(precision))
        return kept


def check_room(source: Source, models_dir: Path) -> None:
    """Raises ModelPullFailed."""
    # The download, its unpacked weights and the float graph stand side by side for a moment.
    needed, free = 3 * source.size, shutil.disk_usage(_existing(models_dir)).free
    if free < needed:
        raise ModelPullFailed(
            f"There is too little room in {models_dir}: "
            f"{needed >> 20} MB are needed for a while, {free >> 20} MB are free.",
            advice="Make room, or choose another folder with MINDHOLD_HOME.",
        )


def swap_in(ready: Path, final: Path, *, partial: Path) -> None:
    """Put the finished folder where the model lives; what was there, and what was fetched, is gone then."""
    old = partial / "old"
    shutil.rmtree(old, ignore_errors=True)
    if final.exists():
        final.replace(old)
    ready.replace(final)
    shutil.rmtree(partial, ignore_errors=True)


def _resolve(what: str) -> KnownModel:
    known = known_model(what)
    if known is not None:
        return known
    folder = Path(what).expanduser()
    if folder.is_dir():
        return _unknown(folder.resolve().name, FolderSource(str(folder.resolve())))
    if _HUB_NAME.fullmatch(what):
        return _unknown(what.partition("/")[2], HubSource(what))
    names = ", ".join(model.name for model in KNOWN)
    raise ModelPullFailed(
        f"{what!r} is neither a known model, a folder, nor a hub's org/name.", advice=f"Known are: {names}."
    )


def _unknown(name: str, source: Source) -> KnownModel:
    return KnownModel(name=name, sources=(source,))


def _already(models_dir: Path, model: KnownModel, precision: str) -> InstalledModel | None:
    """What is installed whole, if it is what was asked for."""
    try:
        installed = MODELS.read(models_dir, model.name)
        MODELS.check_sizes(models_dir / installed.name, installed)
    except (ModelMissing, ModelBroken):
        return None
    if installed.source not in {str(source) for source in model.sources}:
        raise ModelPullFailed(
            f"Another model is installed as {model.name!r} (from {installed.source}).",
            advice=f"`mindhold models remove {model.name}` first, or pull with `--force`.",
        )
    return installed if precision in installed.precisions else None


def _checked(folder: Path) -> Path:
    weights = (convert.SAFETENSORS, *convert.ONNX_NAMES)
    missing = [name for name in convert.NEEDED if not (folder / name).is_file()]
    if not any((folder / name).is_file() for name in weights):
        missing.append(f"{weights[0]} or {weights[1]}")
    if missing:
        raise ModelPullFailed(
            f"{folder} lacks {', '.join(missing)}.",
            advice="Give a folder with config.json, tokenizer.json and the weights.",
        )
    return folder


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.absolute().parents) if path.exists())


def disk_failed(error: OSError, models_dir: Path) -> ModelPullFailed:
    """What to tell of a disk that refuses."""
    if error.errno in _NO_ROOM:
        return ModelPullFailed(
            f"The disk is full: {models_dir} can't take the model.",
            advice="Make room and run the same command again; what was fetched is kept.",
        )
    return ModelPullFailed(
        f"The model can't be written: {error}.", advice=f"Check the rights of {models_dir} and retry."
    )


def drop_if_empty(folder: Path) -> None:
    """The folder of unfinished pulls, once there is none."""
    try:
        folder.rmdir()
    except OSError:  # another pull is under way, or one can be gone on with
        return
