"""Whether a text is English."""

from __future__ import annotations

import pytest

from mindhold.text.language import is_english


@pytest.mark.parametrize(
    "text",
    [
        "We deploy with Helm to the staging cluster every Friday.",
        "I prefer tabs over spaces in this repository.",
        "Müller said that the façade in Zürich is done.",
        "The customer 田中 asked for an invoice in Japanese, and we sent it.",
        "the tests are run with `pytest -q -n 1 tests/unit`",
        "Die hard is on at nine, and he was in it.",
    ],
)
def test_english(text: str) -> None:
    assert is_english(text) is True


@pytest.mark.parametrize(
    "text",
    [
        "우리는 매주 금요일에 스테이징 클러스터에 배포합니다.",
        "毎週金曜日にHelmでステージング環境へデプロイします。",
        "我们每周五用Helm部署到Kubernetes集群",
        "Мы выкатываем каждую пятницу.",
        "Wir veröffentlichen jeden Freitag mit Helm auf das Staging.",
        "Nous déployons tous les vendredis avec Helm sur le cluster.",
        "Desplegamos los viernes con Helm en el cluster de pruebas.",
        "Distribuiamo ogni venerdì con Helm sul cluster di prova.",
        "Nós fazemos deploy toda sexta-feira com o Helm no cluster.",
        "We rollen elke vrijdag met Helm uit naar het cluster.",
        "Wdrażamy w każdy piątek przez Helm na klaster i nie w weekend.",
        "نشحن كل جمعة إلى بيئة الاختبار",
        "เราปรับใช้ทุกวันศุกร์",
        "Εκδίδουμε κάθε Παρασκευή",
    ],
)
def test_not_english(text: str) -> None:
    assert is_english(text) is False


@pytest.mark.parametrize(
    "text", ["", "42", "PostgreSQL 16", "x = y + 1", "kubectl apply -f pod.yaml", "Anna Schmidt"]
)
def test_cannot_be_told(text: str) -> None:
    assert is_english(text) is None
