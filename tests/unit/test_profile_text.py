"""What plain words say of the person who speaks, and what they don't."""

from __future__ import annotations

import pytest

from mindhold.model.errors import InvalidInput
from mindhold.text.profile_facts import find_profile_fact, split_profile_sentences
from mindhold.text.profile_values import Section, profile_key, profile_sentence

NAME, PREFERENCES, FACTS, CONTACTS = Section.NAME, Section.PREFERENCES, Section.FACTS, Section.CONTACTS

SAID = {
    "my name is Jane Doe": (NAME, "name", "Jane Doe"),
    "my name's jane": (NAME, "name", "jane"),
    "Call me Sam.": (NAME, "name", "Sam"),
    "Remember that my favorite color is blue.": (FACTS, "favorite_color", "blue"),
    "please remember my favourite colour is green": (FACTS, "favorite_color", "green"),
    "My favourite programming language is Rust!": (FACTS, "favorite_programming_language", "Rust"),
    "my favorite food is mac and cheese": (FACTS, "favorite_food", "mac and cheese"),
    "My birthday is May 15, 1990": (FACTS, "birthday", "May 15, 1990"),
    "my birthday is 1990-05-15": (FACTS, "birthday", "1990-05-15"),
    "my time zone is PST": (FACTS, "time_zone", "PST"),
    "my timezone is Europe/Berlin": (FACTS, "time_zone", "Europe/Berlin"),
    "my home city is San Francisco": (FACTS, "home_city", "San Francisco"),
    "my job is a nurse": (FACTS, "job", "a nurse"),
    "my email is jane@example.com": (FACTS, "email", "jane@example.com"),
    "my email is [redacted:email]": (FACTS, "email", "[redacted:email]"),
    "I live in Berlin": (FACTS, "home_city", "Berlin"),
    "I live in New York City": (FACTS, "home_city", "New York City"),
    "I was born on 15 May 1990": (FACTS, "birthday", "15 May 1990"),
    "I was born in 1990": (FACTS, "birth_year", "1990"),
    "I was born in Paris": (FACTS, "birthplace", "Paris"),
    "I work as a software engineer": (FACTS, "job", "software engineer"),
    "I work at Acme": (FACTS, "employer", "Acme"),
    "I work for the United Nations": (FACTS, "employer", "the United Nations"),
    "I'm allergic to penicillin": (FACTS, "allergy_penicillin", "penicillin"),
    "I am allergic to tree nuts": (FACTS, "allergy_tree_nuts", "tree nuts"),
    "I prefer tabs over spaces": (PREFERENCES, "spaces_or_tabs", "tabs over spaces"),
    "I prefer dark mode": (PREFERENCES, "dark_mode", "dark mode"),
    "I prefer tea to coffee": (PREFERENCES, "coffee_or_tea", "tea over coffee"),
    "I like answers short": (PREFERENCES, "detail_level", "concise"),
    "I like my answers concise": (PREFERENCES, "detail_level", "concise"),
    "be concise": (PREFERENCES, "detail_level", "concise"),
    "please be brief": (PREFERENCES, "detail_level", "concise"),
    "keep your answers short": (PREFERENCES, "detail_level", "concise"),
    "I prefer short answers": (PREFERENCES, "detail_level", "concise"),
    "I prefer a casual tone": (PREFERENCES, "tone", "casual"),
    "use a formal tone": (PREFERENCES, "tone", "formal"),
    "answer in Korean": (PREFERENCES, "language", "Korean"),
    "Alice is my sister": (CONTACTS, "alice", "sister"),
    "My sister is Alice": (CONTACTS, "alice", "sister"),
    "my sister's name is Alice": (CONTACTS, "alice", "sister"),
    "Bob is my coworker": (CONTACTS, "bob", "coworker"),
    "my mother-in-law is Helga": (CONTACTS, "helga", "mother-in-law"),
    "My dog's name is Rex": (FACTS, "dog_name", "Rex"),
    "my dog is called Rex": (FACTS, "dog_name", "Rex"),
    "My age is 34": (FACTS, "age", "34"),
    "my pronouns are they/them": (FACTS, "pronouns", "they/them"),
    "my native language is Korean": (FACTS, "native_language", "Korean"),
    "my favorite band is The Beatles": (FACTS, "favorite_band", "The Beatles"),
    "내 이름은 지수야": (NAME, "name", "지수"),
    "제 이름은 김지수입니다": (NAME, "name", "김지수"),
    "나를 지수라고 불러줘": (NAME, "name", "지수"),
    "내가 좋아하는 색은 파란색이야": (FACTS, "favorite_color", "파란색"),
    "제가 가장 좋아하는 음식은 김치찌개예요": (FACTS, "favorite_food", "김치찌개"),
    "내 생일은 5월 15일이야": (FACTS, "birthday", "5월 15일"),
    "내 직업은 간호사야": (FACTS, "job", "간호사"),
    "나는 서울에 살아": (FACTS, "home_city", "서울"),
    "저는 부산에 살고 있어요": (FACTS, "home_city", "부산"),
    "나는 네이버에서 일해": (FACTS, "employer", "네이버"),
    "저는 간호사로 일해요": (FACTS, "job", "간호사"),
    "나는 땅콩 알레르기가 있어": (FACTS, "allergy_땅콩", "땅콩"),
    "지수는 내 여동생이야": (CONTACTS, "지수", "여동생"),
    "내 여동생은 지수야": (CONTACTS, "지수", "여동생"),
    "짧게 대답해줘": (PREFERENCES, "detail_level", "concise"),
    "반말로 해줘": (PREFERENCES, "tone", "casual"),
    "나는 커피보다 차를 더 좋아해": (PREFERENCES, "차_or_커피", "커피보다 차"),
    "기억해줘: 내 이름은 지수야": (NAME, "name", "지수"),
    "내 생일은 5월 15일이라는 걸 기억해줘": (FACTS, "birthday", "5월 15일"),
}
UNSAID = (
    "my code is broken",
    "my build is failing",
    "my plan is to rewrite it",
    "My name is not important",
    "my name is on the list",
    "my name is wrong in the file",
    "my name is misspelled",
    "what is my name?",
    "is my favorite color blue",
    "my favorite color is not blue",
    "my favorite part is that it works",
    "my favourite is the second one",
    "my favorite thing is when it rains",
    "I don't live in Berlin",
    "I live in fear",
    "I live in a small house",
    "I used to live in Berlin",
    "if my name is Bob then",
    "call me later",
    "call me back",
    "Call me when you are done",
    "call me maybe",
    "my job is failing",
    "my job is to write code",
    "my job is stuck",
    "my birthday is tomorrow",
    "my birthday is coming up",
    "my email is not working",
    "my email is broken",
    "my time zone is wrong",
    "I prefer not to say",
    "I prefer it this way",
    "I prefer the second one",
    "I prefer that you ask first",
    "I prefer this",
    "I prefer to",
    "I work as expected",
    "it works as expected",
    "I work at night",
    "I work for free",
    "I work as hard as I can",
    "I'm not allergic to cats",
    "I might be allergic to cats",
    "My sister is tall",
    "My boss is angry",
    "She is my sister",
    "This is my friend",
    "my manager is out today",
    "my friend is coming over",
    "my test is green",
    "my function is slow",
    "my server is down",
    "my database is PostgreSQL",
    "my language is set to English",
    "I was born ready",
    "I was born in a small town",
    "He said my name is Bob",
    "my age is showing",
    "my address is wrong",
    "my company is hiring",
    "my phone is dead",
    "Do you know my name",
    "my hobby is",
    "my favorite editor isn't vim",
    "my name is undefined",
    "my name is too long for the field",
    "fix the bug in my sister's code",
    "keep the function short",
    "make the answer shorter",
    "be careful",
    "be kind",
    "answer in the file",
    "내 코드가 고장났어",
    "내 이름은 뭐야?",
    "내 이름이 뭐야",
    "나는 서울에 살지 않아",
    "내 계획은 다시 쓰는 거야",
    "내 빌드는 실패야",
    "내 생일은 내일이야",
    "그는 내 친구가 아니야",
    "좋아하는 색이 뭐야?",
    "나는 땅콩 알레르기가 없어",
    "내 직업은 비밀이야",
    "my wife is Korean",
    "my birthday is in 3 weeks",
    "my job is awesome",
    "my employer is evil",
    "There is my friend",
    "my pronouns are wrong",
    "call me on 555",
    "my sister is Busy with it",
    "I was born on a Tuesday morning in rain",
    "I prefer whatever works",
    "my favorite color is",
    "",
    "   ",
    "?",
    "My email is wrong",
    "I think my name is Bob",
    "the user's name is Bob",
    "내 동생은 키가 커요?",
)


@pytest.mark.parametrize("said", SAID)
def test_a_plain_statement_is_read(said: str) -> None:
    fact = find_profile_fact(said)
    assert fact is not None
    assert (fact.section, fact.key, fact.value) == SAID[said]


@pytest.mark.parametrize("said", UNSAID)
def test_what_says_nothing_of_the_sort_for_certain_is_left(said: str) -> None:
    assert find_profile_fact(said) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("My favourite colour is blue", "my favorite color is green"),
        ("I prefer tabs over spaces", "I prefer spaces to tabs"),
        ("I live in Berlin", "My home city is Paris"),
        ("My timezone is PST", "My time zone is CET"),
        ("I was born on 15 May 1990", "My birthday is May 15"),
        ("Be concise", "I like my answers detailed"),
        ("내가 좋아하는 색은 파란색이야", "My favorite color is red"),
        ("나는 서울에 살아", "I live in Busan"),
    ],
)
def test_what_is_said_of_one_thing_has_one_key(one: str, other: str) -> None:
    first, second = find_profile_fact(one), find_profile_fact(other)
    assert first is not None
    assert second is not None
    assert (first.section, first.key) == (second.section, second.key)
    assert first.value != second.value


def test_a_second_allergy_has_a_key_of_its_own() -> None:
    keys = {
        fact.key
        for said in ("penicillin", "tree nuts")
        if (fact := find_profile_fact(f"I'm allergic to {said}"))
    }
    assert keys == {"allergy_penicillin", "allergy_tree_nuts"}


@pytest.mark.parametrize(
    "before",
    ["Remember that ", "Please remember: ", "Note that ", "btw, ", "For the record, ", "hey, remember "],
)
def test_what_asks_to_remember_is_no_part_of_it(before: str) -> None:
    fact = find_profile_fact(f"{before}my name is Jane Doe.")
    assert fact is not None
    assert fact.value == "Jane Doe"


def test_statements_that_are_joined_are_several() -> None:
    text = "My name is Jane and I live in Berlin. Alice is my sister!\nMy dog is called Rex"
    assert [fact.key for said in split_profile_sentences(text) if (fact := find_profile_fact(said))] == [
        "name",
        "home_city",
        "alice",
        "dog_name",
    ]


@pytest.mark.parametrize(
    ("label", "key"),
    [
        ("Favourite Colour", "favorite_color"),
        ("favorite_color", "favorite_color"),
        ("  home-city ", "home_city"),
        ("dog's name", "dog_name"),
        ("좋아하는 색", "좋아하는_색"),
    ],
)
def test_keys_are_in_one_form(label: str, key: str) -> None:
    assert profile_key(label) == key


@pytest.mark.parametrize("label", ["", "  ", "!?", "x" * 81])
def test_what_can_be_no_key_is_told(label: str) -> None:
    with pytest.raises(InvalidInput):
        profile_key(label)


def test_an_entry_is_a_sentence() -> None:
    assert profile_sentence(FACTS, "favourite colour", "blue") == "The user's favourite colour is blue."
    assert profile_sentence(NAME, "name", "Jane") == "The user's name is Jane."
    assert profile_sentence(PREFERENCES, "tone", "casual") == "The user prefers tone: casual."
    assert profile_sentence(CONTACTS, "Alice", "sister") == "Alice is the user's sister."
    assert profile_sentence(Section.NOTES, "note", "Reads on the train.") == "Reads on the train."
    assert profile_sentence(FACTS, "좋아하는 색", "파란색") == "사용자의 좋아하는 색: 파란색"
