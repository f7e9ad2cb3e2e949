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
    typed_worth,
    understands,
    wish_by,
    wish_probability,
)
from mindhold.capture.rules.selection import (
    FEWEST_MEMORIES,
    LEAST_BY_CUES,
    RuleState,
    judged,
    propose,
    surest,
)
from mindhold.model.memory import Kind
from mindhold.ports.transcripts import Role

PERSON = Candidate(content="", line=1, role=Role.USER)
MODELS = {"all-MiniLM-L6-v2": 384, "all-MiniLM-L6-v2+multilingual-e5-small": 768}
ASSISTANT = Candidate(content="", line=1, role=Role.CLAUDE, closing=True, last=True)


TOWARDS = np.array(learned()[wish_by("all-MiniLM-L6-v2")].meaning)
TOWARDS /= np.linalg.norm(TOWARDS)


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
        ("My team uses pnpm.", True),
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
    alike, unlike = (
        wish_probability(known, Meaning("all-MiniLM-L6-v2", vector)) for vector in (TOWARDS, -TOWARDS)
    )
    assert unlike < 0.1 < 0.9 < alike
    for other in (Meaning("another", TOWARDS), Meaning("all-MiniLM-L6-v2", TOWARDS[:100])):
        assert wish_probability(known, other) == wish_probability(known)


# What the judge would take for a wish, and the same in other words or another place.
@pytest.mark.parametrize(
    ("taken", "left"),
    [
        ("Never write docs without examples.", "Should we write docs without examples?"),
        (
            "You should avoid emojis in commit messages.",
            "You should do 2, then avoid emojis in commit messages.",
        ),
        ("Tests should never touch the network.", "I got an error: tests touch the network."),
        ("Please avoid comments everywhere.", "Please avoid it."),
    ],
)
def test_questions_references_and_errors_are_no_wishes(taken: str, left: str) -> None:
    assert [item.content for item in judged([replace(PERSON, content=taken)])] == [taken]
    sure = {left: Meaning("all-MiniLM-L6-v2", TOWARDS)}
    assert wish_probability(features(replace(PERSON, content=left)), sure[left]) > 0.9
    assert judged([replace(PERSON, content=left)], sure) == []


@pytest.mark.parametrize(
    "text", ["Never swallow an error silently.", "Always raise ValueError, never a bare exception."]
)
def test_a_lasting_wish_may_be_about_errors(text: str) -> None:
    assert [item.content for item in judged([replace(PERSON, content=text)])] == [text]


def test_a_wish_in_a_long_message_is_pasted_but_a_decision_that_a_rule_knows_is_kept() -> None:
    wish = replace(PERSON, content="Never commit directly to main, always use a branch.")
    assert judged([wish])
    assert judged([replace(wish, message=2_000)]) == []
    text = "We decided to store the orders in PostgreSQL instead of MySQL because of JSON columns."
    rule = RuleCandidate(Kind.DECISION, text, 1, 0.95)
    for length in (0, 2_000):
        [kept] = judged([replace(PERSON, content=text, rule=rule, message=length)])
        assert kept.kind is Kind.DECISION


def test_without_a_known_model_a_wish_has_to_be_plainer() -> None:
    text = "Docstrings only where they help."
    candidate = replace(PERSON, content=text)
    known = features(candidate)
    assert typed_worth(keep_probability(known), wish_probability(known)) < LEAST_BY_CUES
    assert judged([candidate]) == []
    assert judged([candidate], {text: Meaning("all-MiniLM-L6-v2", TOWARDS)})


@pytest.mark.parametrize(
    ("kept", "left"),
    [
        (
            "How should deleted users be stored? Chosen: soft delete.",
            "How should I proceed? Chosen: soft delete.",
        ),
        (
            "Where should rate limits live? Chosen: Add a middleware.",
            "Plan agreed: Add a middleware for rate limits.",
        ),
    ],
)
def test_steps_of_a_conversation_are_not_kept(kept: str, left: str) -> None:
    for text, count in ((kept, 1), (left, 0)):
        rule = RuleCandidate(Kind.DECISION, text, 1, 0.95)
        assert len(judged([Candidate(content=text, line=1, role=Role.TOOL, rule=rule)])) == count


def test_what_only_the_conversation_has_numbered_is_not_kept() -> None:
    text = "`Client.close()` must be called before exit, otherwise queued events are lost in {}."
    kept, left = (replace(ASSISTANT, content=text.format(where)) for where in ("Python 3.12", "case 2"))
    assert [item.content for item in judged([kept, left])] == [kept.content]


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
        ("I never asked for emojis", {"lasting", "ban", "practice", "complaint"}),
    ],
)
def test_cues_are_found_by_language(text: str, cues: set[str]) -> None:
    assert {name for name, value in cues_in(text).items() if value} == cues


def test_a_short_conversation_keeps_sure_wishes_then_the_surest() -> None:
    doubtful = [RuleCandidate(Kind.PREFERENCE, f"Perhaps {n}.", n, 0.4) for n in range(FEWEST_MEMORIES)]
    decision = RuleCandidate(Kind.DECISION, "We chose PostgreSQL.", 20, 0.9)
    wish = RuleCandidate(Kind.PREFERENCE, "Never push to main.", 21, 0.6)
    kept = surest([*doubtful, decision, wish], [])
    assert len(kept) == FEWEST_MEMORIES
    assert {decision.content, wish.content} < {one.content for one in kept}


def test_what_is_left_of_code_is_no_candidate() -> None:
    told = "} to `settings.json`, which applies to every project and cannot be changed."
    steps = (
        Conversation()
        .user("Go on.")
        .claude(f"{told}\n\nThe rest of `settings.json` applies to one project.")
        .steps
    )
    _, candidates = propose(steps, RuleState(), folder="/srv/shop")
    assert [one.content[:8] for one in candidates if one.role is Role.CLAUDE] == ["The rest"]
