"""The shelf of local models behind the port."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mindhold.model.errors import ModelBroken, ModelMissing, ModelPullFailed
from mindhold.ports.models import ModelCard, Progress
from mindhold.providers.embedding.installed import MODELS, InstalledModel
from mindhold.providers.embedding.registry import DEFAULT_HUB, KNOWN, KnownModel, known_model
from mindhold.providers.folders import ModelFolders
from mindhold.providers.nli.installed import CLASSIFIERS, InstalledClassifier


class LocalShelf:
    """Models in one folder; the first known one is the default."""

    def __init__(self, models_dir: Path, *, hub: str = DEFAULT_HUB) -> None:
        self._models_dir = models_dir
        self._hub = hub

    def catalogue(self) -> Sequence[ModelCard]:
        """The models known by name, the best first; installed ones say so."""
        here = {card.name: card for card in self.installed()}
        return [here.get(model.name) or _known(model) for model in KNOWN]

    def installed(self) -> Sequence[ModelCard]:
        """What is here: the known ones first, then the person's own, which `models use` chooses."""
        order = {model.name: place for place, model in enumerate(KNOWN)}
        found = MODELS.readable(self._models_dir)
        return [_card(model) for model in sorted(found, key=lambda each: order.get(each.name, len(order)))]

    def classifiers(self) -> Sequence[ModelCard]:
        """Models that tell contradictions: what is here, then what can be had by name."""
        from mindhold.providers.nli.pull import KNOWN as NAMED

        here = [_classifier(model) for model in CLASSIFIERS.readable(self._models_dir)]
        names = {card.name for card in here}
        return [
            *here,
            *(ModelCard(model.name, 0, model.about) for model in NAMED if model.name not in names),
        ]

    def pull(self, name: str, *, precision: str, force: bool, progress: Progress) -> ModelCard:
        """One by name; the default when the name is empty, or the next best if that can't be had."""
        if name:
            classifier = self._pull_classifier(name, precision=precision, force=force, progress=progress)
            return classifier or self._pull(name, precision=precision, force=force, progress=progress)
        failures: list[ModelPullFailed] = []
        for model in KNOWN:
            try:
                return self._pull(model.name, precision=precision, force=force, progress=progress)
            except ModelPullFailed as failure:
                failures.append(failure)
                progress(f"{model.name} can't be had ({failure.message}), trying the next", 0, None)
        raise ModelPullFailed(
            " ".join(failure.message for failure in failures), advice=failures[0].advice
        ) from failures[0]

    def remove(self, name: str) -> None:
        """Raises ModelMissing."""
        self._sort_of(name).remove(self._models_dir, name)

    def verify(self, name: str) -> list[str]:
        """What is wrong with its files; nothing when they are whole."""
        try:
            self._sort_of(name).verify(self._models_dir, name)
        except (ModelBroken, ModelMissing) as error:
            return [error.message]
        return []

    def _sort_of(self, name: str) -> ModelFolders[Any]:
        return CLASSIFIERS if name in CLASSIFIERS.names(self._models_dir) else MODELS

    def _pull(self, name: str, *, precision: str, force: bool, progress: Progress) -> ModelCard:
        from mindhold.providers.embedding.pull import pull  # brings clients that no other command needs

        return _card(
            pull(name, self._models_dir, precision=precision, force=force, hub=self._hub, progress=progress)
        )

    def _pull_classifier(
        self, name: str, *, precision: str, force: bool, progress: Progress
    ) -> ModelCard | None:
        """None for what is no classifier."""
        from mindhold.providers.nli import pull as classifiers

        model = classifiers.resolve(name)
        if model is None and known_model(name) is None and not Path(name).expanduser().is_dir():
            model = classifiers.resolve_on_hub(name, self._models_dir, hub=self._hub, progress=progress)
        if model is None:
            return None
        return _classifier(
            classifiers.pull_classifier(
                model, self._models_dir, precision=precision, force=force, hub=self._hub, progress=progress
            )
        )


def _classifier(model: InstalledClassifier) -> ModelCard:
    return ModelCard(
        name=model.name,
        dimensions=0,
        description="tells contradictions",
        installed=True,
        precision=model.precision,
        bytes_used=model.bytes,
        source=model.source,
    )


def _card(model: InstalledModel) -> ModelCard:
    known = known_model(model.name)
    return ModelCard(
        name=model.name,
        dimensions=model.dimensions,
        description=known.about if known else "your own",
        installed=True,
        precision=", ".join(model.precisions),
        bytes_used=model.bytes,
        source=model.source,
    )


def _known(model: KnownModel) -> ModelCard:
    return ModelCard(name=model.name, dimensions=model.dimensions, description=model.about)
