"""`mindhold conversations`: the log and its summaries, from the shell."""

from __future__ import annotations

import asyncio

from cli_shell import Shell

from mindhold.__main__ import AppLauncher
from mindhold.conversations.message_log import SAVE_MESSAGE
from mindhold.interfaces.cli.output import Console
from mindhold.interfaces.cli.session import CliSession, OpenSession
from mindhold.settings.loader import load_settings


async def _said(shell: Shell, texts: list[str]) -> None:
    async with AppLauncher().open(load_settings({"home": shell.home})) as running:
        session = OpenSession(running, CliSession(AppLauncher(), Console()))
        for text in texts:
            await session.run(
                SAVE_MESSAGE, message_type="user", content=text, conversation="abc-123", project="shop"
            )


def test_the_log_and_its_summaries(shell: Shell) -> None:
    assert "mindhold history" in shell.fine("conversations").out
    texts = [
        f"Pier {number} of the harbour is {number * 11} metres long and was painted in {1950 + number}."
        for number in range(9)
    ]
    asyncio.run(_said(shell, ["We decided to rent pier 7 to the ferry company.", *texts]))
    listed = shell.fine("conversations", "list", "--scope", "shop").out
    assert "abc-123" in listed
    assert "no summary yet" in shell.fine("conversations", "show", "abc-123").err
    told = shell.fine("conversations", "recap", "abc-123", "--scope", "shop")
    assert "- user: We decided to rent pier 7 to the ferry company." in told.out
    assert "by rules, 10 messages" in told.err
    assert "Nothing is new" in shell.fine("conversations", "recap", "abc-123", "--scope", "shop").err
    shown = shell.fine("conversations", "show", "abc-123", "-n", "3")
    assert "user: We decided to rent pier 7" in shown.out
    assert "3 of 10" in shown.err
    document = shell.fine("conversations", "show", "abc-123", "--json").json
    [recap] = document["recaps"]
    assert recap["count"] == document["conversations"][0]["messages"] == 10
    why = shell.fine("why", recap["id"]).out
    assert "It stands for 10 messages" in why
    assert "in the conversation abc-123" in why
    assert "We decided to rent pier 7" in shell.fine("conversations", "list").out
    assert shell("conversations", "recap", "nobody", "--scope", "shop").status == 3
