"""What a prompt and a failure bring to mind: what they are about, and mostly nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from mindhold.hooks.hook_cache import HookCache, read_cache
from mindhold.hooks.hook_cache_writer import write_cache
from mindhold.hooks.memory_match import _lexemes, match_failure, match_prompt
from mindhold.model.error_signs import error_signs
from mindhold.model.lexemes import lexemes

KNOWN = [
    "The webshop stores prices as integer cents in PostgreSQL, never as floats",
    "The test database listens on port 5433, staging on 5434",
    "Deploys go out on Tuesdays and Thursdays only, never on Fridays",
    "Tests of the cart are flaky because of the shared Redis; use a fresh key prefix per test",
    "CouponService.validate must stay idempotent, the gateway calls it twice",
    "Stripe webhooks need the raw request body, so express.json must not run before them",
    "The user prefers small pull requests with one commit each",
    "Audio uses kira; rodio had latency problems on Windows",
    "결제 금액은 데이터베이스에 정수로 저장한다",
    "The admin panel is React 18 with Vite; the storefront is Next.js 14 with the app router",
]
REDIS = "Exit code 1\nError: connect ECONNREFUSED 127.0.0.1:6379\n    at TCPConnectWrap.afterConnect"
MODULE = (
    "Traceback (most recent call last):\n  File \"x.py\", line 1\nModuleNotFoundError: No module named 'yaml'"
)


@pytest.fixture
def leaflet(tmp_path: Path) -> HookCache:
    return made(tmp_path, KNOWN)


def made(home: Path, texts: list[str]) -> HookCache:
    memories = [{"id": str(number), "kind": "fact", "text": text} for number, text in enumerate(texts)]
    errors = [
        {"id": "redis", "text": "Solved by `docker compose up redis`", "signs": list(error_signs(REDIS))},
        {"id": "yaml", "text": "Solved by `pip install pyyaml`", "signs": list(error_signs(MODULE))},
    ]
    write_cache(str(home), "global", {"memories": memories, "errors": errors})
    found = read_cache(str(home), "x")
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("prompt", "number"),
    [
        ("which port does the test database listen on?", 1),
        ("Can we deploy on Friday?", 2),
        ("the cart tests are flaky again", 3),
        ("why is CouponService.validate called so often", 4),
        ("the stripe webhook signature check fails, why?", 5),
        ("audio latency on windows is awful — “please” fix it", 7),
        ("결제 금액을 데이터베이스에 어떻게 저장하나요?", 8),
    ],
)
def test_a_prompt_brings_what_it_is_about(leaflet: HookCache, prompt: str, number: int) -> None:
    found = match_prompt(leaflet, prompt)
    assert [one["id"] for one in found][:1] == [str(number)]
    assert match_prompt(leaflet, prompt, {str(number)}) == found[1:]


@pytest.mark.parametrize(
    "prompt",
    [
        "",
        "continue",
        "yes, do it",
        "rename the variable foo to bar in all files",
        "the tests take too long, make them faster",
        "can you write unit tests for the parser module?",
        "fix the typo in the header and push it",
        "write a haiku about autumn",
        "why is the build red?",
        "implement an LRU cache with a size limit",
        "git rebase main\n" * 500,
        "\ud800 \x00 ½ 🙂",
    ],
)
def test_other_prompts_bring_nothing(leaflet: HookCache, prompt: str) -> None:
    assert match_prompt(leaflet, prompt) == []


@pytest.mark.parametrize(
    "text",
    [
        "데이터베이스 포트를 API로 바꿔",
        "数据库的端口是什么",
        "データベースのポートはAPIです",
        "naïve café",
        "Ωmega x₂",
        "กรุงเทพ",
        "A",
    ],
)
def test_words_are_those_that_memories_are_kept_by(text: str) -> None:
    for piece in text.split():
        assert set(_lexemes(piece)) <= set(lexemes(piece))
        assert _lexemes(piece) or not lexemes(piece) or piece == "A"


def test_words_of_every_memory_tell_nothing(tmp_path: Path) -> None:
    leaflet = made(tmp_path, [f"The frobnicator of Zanzibar has part {name}" for name in "abcdefghijklmnop"])
    assert match_prompt(leaflet, "tell me about the frobnicator of Zanzibar") == []


def test_a_long_paste_that_touches_on_much_brings_little(tmp_path: Path, leaflet: HookCache) -> None:
    log = "\n".join(
        f"{place} INFO worker{place} finished batch {place * 7} of stage {place % 5}" for place in range(900)
    )
    assert match_prompt(leaflet, f"what happened here?\n{log}") == []
    assert match_prompt(leaflet, f"{log}\nwhich port does the test database listen on?\n{log}") == []


@pytest.mark.parametrize(
    ("text", "known"),
    [
        (REDIS, ["redis"]),
        ("Error: connect ECONNREFUSED 10.0.0.7:6380", ["redis"]),
        (MODULE.replace("x.py", "/srv/app/other.py"), ["yaml"]),
        (f"{MODULE}\n{REDIS}", ["redis", "yaml"]),
        ("ModuleNotFoundError: No module named 'numpy'", []),
        ("make: *** [all] Error 2", []),
        ("", []),
    ],
)
def test_a_failure_brings_the_same_failure(leaflet: HookCache, text: str, known: list[str]) -> None:
    assert sorted(one["id"] for one in match_failure(leaflet, text)) == known
    assert match_failure(leaflet, text, known) == []


PROSE = "ModuleNotFoundError: No module named 'frobnicate'{0} Solved by: pip install frobnicate-core."


@pytest.mark.parametrize("more", [" when running pytest.", ", as soon as anything is imported.", "."])
def test_a_failure_is_known_from_what_a_person_wrote_of_it(more: str, tmp_path: Path) -> None:
    errors = [{"id": "f", "text": "Solved", "signs": list(error_signs(PROSE.format(more)))}]
    write_cache(str(tmp_path), "global", {"memories": [], "errors": errors})
    found = read_cache(str(tmp_path), "x")
    assert found is not None
    assert [one["id"] for one in match_failure(found, MODULE.replace("yaml", "frobnicate"))] == ["f"]
    assert match_failure(found, MODULE) == []
    assert match_failure(found, "ModuleNotFoundError: No module") == []


def test_a_panic_that_says_why_in_its_next_line(tmp_path: Path) -> None:
    panic = "thread 'main' (77) panicked at src/main.rs:4:10:\ncalled `Option::unwrap()` on a `None` value\nnote: run with"
    errors = [{"id": "p", "text": "Solved", "signs": list(error_signs(panic))}]
    write_cache(str(tmp_path), "global", {"memories": [], "errors": errors})
    found = read_cache(str(tmp_path), "x")
    assert found is not None
    assert error_signs(panic)
    assert [one["id"] for one in match_failure(found, "compiling\n" + panic.replace("4:10", "99:1"))] == ["p"]


def test_a_failure_in_much_output_is_found(leaflet: HookCache) -> None:
    noise = "compiling something or other\n" * 20_000
    assert [one["id"] for one in match_failure(leaflet, noise + MODULE)] == ["yaml"]
