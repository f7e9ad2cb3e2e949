"""The judge of candidates: what it learned is there, and wishes count in every language of the cues."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from spoken import Conversation

from mindhold.capture.candidates import Candidate
from mindhold.capture.cues import CUES, cues_in
from mindhold.capture.extracted_items import RuleCandidate
from mindhold.capture.judge import (
    JUDGED_KINDS,
    Meaning,
    features,
    keep_probability,
    learned,
    understands,
    wish_by,
    wish_probability,
)
from mindhold.capture.rules.selection import RuleState, judged, propose
from mindhold.model.memory import Kind
from mindhold.ports.transcripts import Role

PERSON = Candidate(content="", line=1, role=Role.USER)
MODELS = {"all-MiniLM-L6-v2": 384, "all-MiniLM-L6-v2+multilingual-e5-small": 768}
ASSISTANT = Candidate(content="", line=1, role=Role.CLAUDE, closing=True, last=True)


def test_all_that_is_weighed_is_known() -> None:
    known = features(replace(PERSON, content="Never push sensitive data."))
    by_models = {wish_by(model): size for model, size in MODELS.items()}
    assert learned().keys() == {"keep", "wish", *by_models, *JUDGED_KINDS}
    assert {name: len(weights.meaning) for name, weights in learned().items() if weights.meaning} == by_models
    assert all(weights.weights.keys() <= known.keys() for weights in learned().values())
    assert set(CUES) < known.keys()


# None of these is among the sentences that the judge learned from.
@pytest.mark.parametrize(
    ("wish", "momentary"),
    [
        ("Never commit directly to main, always use a branch.", "Commit it to main."),
        ("Please don't write tests with mocks anymore.", "Why is this mock not called?"),
        ("Bitte schreib Commit-Nachrichten immer auf Englisch.", "Mach das jetzt rückgängig."),
        ("Ne pousse jamais sans ma permission.", "Pousse la branche maintenant."),
        ("No añadas más comentarios sin preguntarme.", "Añade un comentario aquí."),
        ("Никогда не коммить без моего разрешения.", "Покажи мне тест."),
        ("今後はコメントを必ず英語で書いてください。", "今のテストを実行して。"),
        ("以后请始终用英文写提交信息。", "现在运行测试。"),
        ("앞으로는 항상 테스트를 작성해 주세요.", "지금 테스트 돌려 줘."),
    ],
)
def test_a_lasting_wish_is_more_than_an_order_of_the_moment(wish: str, momentary: str) -> None:
    lasting, passing = (
        wish_probability(features(replace(PERSON, content=text))) for text in (wish, momentary)
    )
    assert lasting > 0.6
    assert passing < 0.5
    assert [item.kind for item in judged([replace(PERSON, content=wish)])] == [Kind.PREFERENCE]


@pytest.mark.parametrize(
    ("text", "english"),
    [
        ("Do not commit by yourself", True),
        ("squash before merging", True),
        ("Bitte keine Kommentare im Code", False),
        ("Nächstes Mal frag mich vorher", False),
        ("No hagas commits sin preguntarme", False),
        ("corrige cette erreur", False),
        ("никогда не коммить", False),
        ("コミットしないで", False),
    ],
)
def test_a_model_for_english_is_asked_of_english(text: str, *, english: bool) -> None:
    assert understands("all-MiniLM-L6-v2", text) is english
    assert understands("all-MiniLM-L6-v2+multilingual-e5-small", text)


def test_a_meaning_counts_where_weights_were_learned_for_its_model() -> None:
    known = features(replace(PERSON, content="Squash before merging."))
    weights = np.array(learned()[wish_by("all-MiniLM-L6-v2")].meaning)
    towards = weights / np.linalg.norm(weights)
    alike, unlike = (
        wish_probability(known, Meaning("all-MiniLM-L6-v2", vector)) for vector in (towards, -towards)
    )
    assert unlike < 0.1 < 0.9 < alike
    assert wish_probability(known, Meaning("another", towards)) == wish_probability(known)


@pytest.mark.parametrize("text", ["Is there a list that is always sorted by id?", "I'd prefer that."])
def test_questions_and_what_only_points_are_no_wishes(text: str) -> None:
    assert judged([replace(PERSON, content=text)]) == []


def test_what_was_planned_is_left_to_the_story() -> None:
    plan = RuleCandidate(Kind.DECISION, "Plan agreed: Cache rendered pages.", 1, 0.9)
    assert judged([Candidate(content=plan.content, line=1, role=Role.TOOL, rule=plan)]) == []


def test_only_a_person_wishes() -> None:
    assert judged([replace(ASSISTANT, content="Never commit directly to main, always use a branch.")]) == []


def test_an_objection_of_the_person_outweighs_a_rule() -> None:
    text = "We use `asyncpg` instead of `psycopg` because it supports prepared statements."
    rule = RuleCandidate(Kind.DECISION, text, 1, 0.9)
    accepted = replace(ASSISTANT, content=text, rule=rule)
    assert [item.content for item in judged([accepted])] == [text]
    assert judged([replace(accepted, objected=True)]) == []


@pytest.mark.parametrize("said", ["Actually let's go with the key", "I misread that, use the key", "Thanks"])
def test_a_choice_that_is_taken_back_later_is_objected(said: str) -> None:
    answer = 'Your questions have been answered: "How should the job log in?"="With an app".'
    talk = Conversation().user("Set it up.").tool("AskUserQuestion", "How should the job log in?", answer)
    steps = talk.claude("The app is set up.").user(said).steps
    _, candidates = propose(steps, RuleState(), folder="/srv/shop")
    [choice] = [one for one in candidates if one.content.endswith("Chosen: With an app.")]
    assert choice.objected is (said != "Thanks")


def test_what_stands_alone_is_kept_rather_than_what_points_somewhere() -> None:
    alone = replace(
        ASSISTANT, content="`Client.close()` must be called before exit, otherwise queued events are lost."
    )
    pointing = replace(ASSISTANT, content="It must be called before that, otherwise they are lost.")
    assert keep_probability(features(alone)) > keep_probability(features(pointing))


@pytest.mark.parametrize(
    ("text", "cues"),
    [
        (
            "Can you stop adding comments everywhere?",
            {"lasting", "ban", "order", "practice", "question", "complaint"},
        ),
        ("제발 커밋하지 마세요", {"ban", "order", "practice"}),
        ("因为测试很慢", {"reason", "practice"}),
        ("ok go ahead", {"momentary"}),
    ],
)
def test_cues_are_found_by_language(text: str, cues: set[str]) -> None:
    assert {name for name, value in cues_in(text).items() if value} == cues
