"""Which classifier of contradictions the settings ask for: the rules, and a pulled model behind them where there is one."""

from __future__ import annotations

from mindhold.engine.classifiers import LayeredClassifier, RuleClassifier
from mindhold.ports.classifier import Classifier
from mindhold.providers.embedding.shelf import LocalShelf
from mindhold.settings.declared import Settings


def classifier_of(settings: Settings, shelf: LocalShelf) -> Classifier:
    """Nothing is loaded from here; a model that was named and isn't here says so when it is first asked."""
    rules, chosen = RuleClassifier(), settings.nli
    if chosen.model == "none":
        return rules
    name = chosen.model if chosen.model != "auto" else _usual(shelf)
    if name is None:
        return rules
    from mindhold.providers.nli.onnx import OnnxClassifier  # for those who have one

    return LayeredClassifier(rules, OnnxClassifier(settings.models_dir, name, threads=chosen.threads))


def _usual(shelf: LocalShelf) -> str | None:
    return next((card.name for card in shelf.classifiers() if card.installed), None)
