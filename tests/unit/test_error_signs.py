"""Signs of failures: the same for the same failure, whatever the day, the machine and the line."""

from __future__ import annotations

import pytest

from mindhold.model.error_signs import LONGEST_SIGN, MOST_SIGNS, error_signs, sign_of


@pytest.mark.parametrize(
    ("text", "sign"),
    [
        (
            'Traceback (most recent call last):\n  File "a.py", line 3, in <module>\n    import tomli\n'
            "ModuleNotFoundError: No module named 'tomli'",
            "modulenotfounderror: no module named tomli",
        ),
        ("E   KeyError: 'amount'", "keyerror: amount"),
        (
            "sqlalchemy.exc.OperationalError: database is locked",
            "sqlalchemy.exc.operationalerror: database is locked",
        ),
        ("Uncaught TypeError: x is not a function", "typeerror: x is not a function"),
        (
            "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'left'",
            "error [err_module_not_found]: cannot find package left",
        ),
        (
            "error[E0277]: the trait bound `A: B` is not satisfied\n --> src/main.rs:4:2",
            "error[e0277]: the trait bound a: b is not satisfied",
        ),
        ("src/x.ts(10,5): error TS2345: Argument is wrong.", "error ts2345: argument is wrong"),
        ("src/x.ts:10:5 - error TS2345: Argument is wrong.", "error ts2345: argument is wrong"),
        ("./cmd/serve.go:10:5: undefined: handler", "undefined: handler"),
        (
            "app/job.py:3: error: Incompatible return value type  [return-value]",
            "error: incompatible return value type [return-value]",
        ),
        ("lib/a.py:1:1: F401 `os` imported but unused", "f401 os imported but unused"),
        (
            "FAILED tests/unit/test_job.py::test_retry - AssertionError: assert 1 == 2",
            "failed test_job.py::test_retry",
        ),
        ("--- FAIL: TestRetry (0.01s)", "fail: testretry"),
        ("npm ERR! code ERESOLVE", "code eresolve"),
        ('npm error Missing script: "lint"', "missing script: lint"),
        (
            "fatal: not a git repository (or any of the parent directories): .git",
            "fatal: not a git repository (or any of the parent directories): .git",
        ),
        ("CONFLICT (content): Merge conflict in src/deep/a.py", "conflict (content): merge conflict in a.py"),
        (
            "thread 'main' panicked at src/x.rs:10:5:\ncalled `Option::unwrap()` on a `None` value",
            "panic: called option::unwrap() on a none value",
        ),
        (
            'Exception in thread "main" java.lang.IllegalStateException: no bean',
            "java.lang.illegalstateexception: no bean",
        ),
        (
            "x.rb:1:in `run': undefined method `go' for nil (NoMethodError)",
            "undefined method go for nil (nomethoderror)",
        ),
        (
            '2025-01-02 10:11:12 ERROR release failed error="upload refused by the server"',
            "upload refused by the server",
        ),
        ("main.c:(.text+0x1f): undefined reference to `parse'", "undefined reference to parse"),
    ],
)
def test_the_telling_line(text: str, sign: str) -> None:
    assert sign in error_signs(text)


def test_a_missing_command_is_the_same_in_every_shell() -> None:
    shells = [
        "zsh: command not found: mise",
        "bash: line 1: mise: command not found",
        "/bin/sh: 1: mise: not found",
    ]
    assert {error_signs(text) for text in shells} == {("command not found: mise",)}


@pytest.mark.parametrize(
    ("here", "there"),
    [
        (
            "\x1b[31mError: ENOENT: no such file or directory, open '/home/ann/app/data/users.json'\x1b[0m",
            "Error: ENOENT: no such file or directory, open 'C:\\Users\\bob\\app\\data\\users.json'",
        ),
        (
            "TimeoutError: request 8f14e45fceea167a to 10.0.0.3:5432 took 3.2 s",
            "TimeoutError: request c9f0f895fb98ab91 to 10.1.2.9:5432 took 11 s",
        ),
        (
            "src/a/serve.go:10:5: undefined: handler",
            "/tmp/tmpk3_9x2/src/b/serve.go:99:12: undefined: handler",
        ),
        ("ValueError: row 17 has no 'id'", 'ValueError: row 2041 has no "id"'),
        ("MemoryError: at 0x7ffee4 in pool", "MemoryError: at 0x10 in pool"),
        (
            "AppError: job 3f2504e0-4f89-11d3-9a0c-0305e82c3301 is gone",
            "AppError: job 00000000-4f89-11d3-9a0c-0305e82c3301 is gone",
        ),
    ],
)
def test_the_same_failure_elsewhere(here: str, there: str) -> None:
    assert error_signs(here) == error_signs(there) != ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "exit code 1",
        "Exit code 127",
        "make: *** [Makefile:12: test] Error 2",
        "error: could not compile `app` (lib) due to 2 previous errors",
        "npm ERR! code ELIFECYCLE",
        "AssertionError",
        "ValueError: 3",
        "Error: Process completed with exit code 1.",
        "<tool_use_error>File has not been read yet. Read it first before writing to it.</tool_use_error>",
        "Error: String to replace not found in file.",
        "The user doesn't want to proceed with this tool use.",
        "3 failed, 10 passed in 0.3s",
        "all good\nok  \tapp/cmd\t1.2s",
        "    job_test.go:12: starting the second phase",
    ],
)
def test_what_tells_nothing(text: str) -> None:
    assert error_signs(text) == ()


def test_different_failures_have_different_signs() -> None:
    assert not set(error_signs("KeyError: 'amount'")) & set(error_signs("KeyError: 'total'"))
    assert error_signs("Error: status code 404") != error_signs("Error: status code 500")


def test_few_and_short() -> None:
    text = "\n".join(f"Bad{'x' * number}Error: {'word ' * 90}" for number in range(20))
    signs = error_signs(text)
    assert len(signs) == MOST_SIGNS
    assert all(len(sign) <= LONGEST_SIGN for sign in signs)


def test_the_error_counts_more_than_the_test() -> None:
    signs = error_signs("FAILED tests/test_a.py::test_b\nConnectionError: no route to database")
    assert signs[0] == "connectionerror: no route to database"


def test_the_end_of_a_long_answer_is_looked_at() -> None:
    assert error_signs("fine\n" * 100_000 + "KeyError: 'amount'") == ("keyerror: amount",)


def test_one_line_in_the_form_of_signs() -> None:
    assert sign_of("/srv/app/job.py:12: Row 3 'x' ") == "job.py: row # x"
