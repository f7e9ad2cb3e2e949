"""The figures of benchmarks/quality.py: what they count, and how sets of others are read."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks.quality_aims import aims
from benchmarks.quality_tables import (
    Calibration,
    SetResult,
    bootstrap,
    intervals_table,
    measures_table,
    reliability_plot,
    with_parts,
)
from benchmarks.questions import Pool, Question, across_languages, facts, memsim, realtalk
from benchmarks.retrieval import BM25, COSINE, METHODS, OURS, WORDS, Answer, by_bm25, by_front_door

QUESTION = Question("Which port?", frozenset({1, 2}), "some")


def answer(places: list[int], *, confidence: float | None = None, question: Question = QUESTION) -> Answer:
    return Answer("pool", question, places, 1.0, confidence)


def result(*answers: Answer, alone: bool = True) -> SetResult:
    return SetResult("facts: shop", alone, dict.fromkeys(METHODS, answers))


class TestMeasures:
    def test_any_is_one_of_the_answers_and_all_is_every_one(self) -> None:
        found = result(answer([7, 1, 8, 9, 3, 2]))
        assert found.mean("any@1") == 0
        assert found.mean("any@5") == 1
        assert found.mean("all@5") == 0
        assert found.mean("all@10") == 1
        assert found.mean("MRR") == 0.5

    def test_questions_without_an_answer_are_only_counted_as_such(self) -> None:
        nothing = replace(QUESTION, answers=frozenset())
        found = result(
            answer([1, 2]),
            answer([5], confidence=0.5, question=nothing),
            answer([5], confidence=0.49, question=nothing),
        )
        assert found.mean("all@5") == 1
        assert found.unanswerable() == (1, 2)

    def test_little_overlap_is_a_row_of_its_own(self) -> None:
        little = replace(QUESTION, category="little")
        shown = with_parts([result(answer([1, 2]), answer([9], question=little))])
        assert [one.name for one in shown] == ["facts: shop", "facts: shop, little overlap"]
        assert [one.mean("any@5") for one in shown] == [0.5, 0]


class TestCalibration:
    def test_a_confidence_that_means_what_it_says_has_no_error(self) -> None:
        right, wrong = answer([1], confidence=0.75), answer([9], confidence=0.75)
        assert Calibration.of([right, right, right, wrong]).error == pytest.approx(0)

    def test_being_sure_of_nothing_is_an_error(self) -> None:
        found = Calibration.of([answer([9], confidence=0.9), answer([], confidence=0.0)])
        assert found.error == pytest.approx(0.45)
        assert found.between(5, 10) == (1, 0.9, 0.0)


class TestIntervals:
    def test_holds_the_mean_and_is_wider_if_few_conversations_differ_than_if_many_questions_do(self) -> None:
        values = np.array([1.0] * 50 + [0.0] * 50)
        questions = bootstrap(values, range(100))
        conversations = bootstrap(values, [row // 25 for row in range(100)])
        assert questions[0] < 0.5 < questions[1]
        assert conversations[1] - conversations[0] > questions[1] - questions[0]

    def test_one_conversation_says_nothing_about_others(self) -> None:
        assert all(map(math.isnan, bootstrap(np.ones(9), ["only"] * 9)))

    def test_a_set_below_a_plain_method_misses_its_aim(self) -> None:
        worse = SetResult(
            "facts: shop",
            True,
            {OURS: [answer([9, 1])], WORDS: [answer([])], COSINE: [answer([1])], BM25: [answer([])]},
        )
        [aim] = [aim for aim in aims([worse]) if "neither plain" in aim.promise]
        assert aim.met is False
        assert aim.measured == "-1.000 (any@1, plain cosine)"


def test_every_set_is_in_the_tables_and_the_plot() -> None:
    found = result(*[answer([1], confidence=0.8)] * 12)
    assert len(measures_table("", [found]).rows) == len(METHODS)
    assert [row[1] for row in intervals_table("", [found]).rows if len(row) > 1] == ["any@1", "any@5"]
    assert "facts: shop (12), error 0.200" in reliability_plot("", [found])


class TestMethods:
    POOL = Pool(
        of="facts: shop",
        name="shop",
        texts=["Parcels leave on Mondays.", "Staging listens on port 5433.", "The shop's colour is green."],
        conversations=[None] * 3,
        positions=[-1] * 3,
        questions=[Question("Which port does staging use?", frozenset({1}), "some")],
    )

    def test_bm25_gives_what_shares_words_the_rarest_first(self) -> None:
        [found] = by_bm25(self.POOL)
        assert found.places == [1]

    async def test_the_front_door_finds_the_place_even_by_the_last_part_of_a_long_text(
        self, tmp_path: Path
    ) -> None:
        long = "\n\n".join(["Nothing of interest happened on that day in the warehouse."] * 200)
        pool = replace(
            self.POOL,
            texts=["Parcels leave on Mondays.", f"{long}\n\nStaging listens on port 5433.", "It is green."],
        )
        home = {"home": str(tmp_path), "store.path": str(tmp_path / "shop.db")}
        found = await by_front_door(pool, {**home, "embedding.provider": "hashing"})
        assert [found[method][0].places[0] for method in (OURS, WORDS)] == [1, 1]
        assert found[OURS][0].confidence


class TestSets:
    def test_realtalk_names_evidence_in_many_ways(self, tmp_path: Path) -> None:
        turns = [
            {
                "dia_id": f"D1:{number}",
                "speaker": "A",
                "clean_text": words,
                "date_time": "29.12.2023, 22:42:04",
            }
            for number, words in enumerate(["Hi!", "I like tea.", "Hi!", "And cake."], 1)
        ]
        asked = [("tea", ["D1:2"]), ("both", ["D1:2-D1:4"]), ("greeting", ["D1:3; D9:1"]), ("gone", ["D9:1"])]
        document = {
            "session_1": turns,
            "session_1_date_time": "",
            "qa": [{"question": words, "evidence": evidence, "category": 1} for words, evidence in asked],
        }
        (tmp_path / "data").mkdir()
        (tmp_path / "data" / "Chat_1.json").write_text(json.dumps(document), encoding="utf-8")
        [pool] = realtalk(tmp_path)
        assert pool.texts == ["A: Hi!", "A: I like tea.", "A: And cake."]  # said twice, remembered once
        assert [one.answers for one in pool.questions] == [{1}, {0, 1, 2}, {0}]

    def test_memsim_searches_the_messages_of_many_questions_together(self, tmp_path: Path) -> None:
        folder = tmp_path / "data_generation" / "final_dataset" / "messages_and_QAs"
        folder.mkdir(parents=True)
        whole = [
            {
                "message_list": [
                    {"message": f"{number}{words}", "time": "2024年04月01日 周一 08:39"} for words in "甲乙"
                ],
                "question_list": [{"question": question, "answer": None, "target_step_id": [1]}],
            }
            for number, question in enumerate(["谁？", "[ERRORQ]", "几岁？"])
        ]
        (folder / "01_simple_roles.json").write_text(json.dumps(whole), encoding="utf-8")
        [pool] = memsim(tmp_path)
        assert pool.texts == ["0甲", "0乙", "2甲", "2乙"]
        assert [one.answers for one in pool.questions] == [{1}, {3}]
        assert pool.occurred[0].hour == 8

    def test_the_english_facts_are_asked_in_other_languages(self) -> None:
        [english] = [pool for pool in facts() if pool.name == "parallel-en"]
        korean = next(pool for pool in across_languages() if pool.name.endswith("ko"))
        assert korean.texts == english.texts
        assert [one.answers for one in korean.questions] == [one.answers for one in english.questions]
        assert korean.questions[0].text != english.questions[0].text
