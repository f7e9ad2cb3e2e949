"""Language models behind a program of this machine, which brings its own login."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from mindhold.model.errors import ModelAway, ModelBroken, ModelError, ModelMissing
from mindhold.providers.llm.patient import Answer, Asked
from mindhold.providers.llm.processes import Endless, Ran, run
from mindhold.providers.llm.programs import Program, Told, Unanswered
from mindhold.providers.remote.line import Fault, plain_words
from mindhold.providers.remote.patience import LONGEST_HOLD, unasked

AT_ONCE = 2
_UNKNOWN_FLAG = re.compile(r"unknown (?:option|argument)s?:? ['\"]?(--[\w-]+)", re.IGNORECASE)


class ByProgram:
    """The way to a model by a program. It runs in a folder of ours, so that it finds nothing there to read."""

    attempts = 1  # it tries again by itself

    def __init__(
        self,
        program: Program,
        *,
        model: str,
        command: str,
        folder: Path,
        environ: Mapping[str, str],
    ) -> None:
        self._program = program
        self._model = model
        self._command = command or program.command
        self._folder = folder
        self._environ = environ
        self._unknown: set[str] = set()  # flags that this version doesn't take
        self._places = asyncio.Semaphore(AT_ONCE)

    async def ask(self, asked: Asked, *, patience: float) -> Answer:
        try:
            async with asyncio.timeout(patience):
                async with self._places:
                    return Answer(await self._ask(asked))
        except TimeoutError as error:
            title = self._program.title
            late = ModelAway(
                f"{title} didn't answer within {patience:.0f} seconds.",
                advice="Raise llm.wait_seconds, or see what it waits for by running it by hand.",
            )
            late.lost = True
            raise Fault(late) from error

    async def close(self) -> None:
        """What runs ends with the call that asked for it."""

    async def _ask(self, asked: Asked) -> str:
        ran = await self._run(asked)
        try:
            answer = self._program.read(ran)
        except Unanswered as refused:
            raise Fault(self._advised(refused.error), holds=refused.holds) from refused
        except ValueError as error:
            told = self._words(ran.err) or str(error)
            failed = ModelBroken(
                f"{self._program.title} gave no answer (it ended with {ran.status}): {told}.",
                advice=self._program.advice,
            )
            raise Fault(failed) from error
        if not answer.strip():
            raise Fault(ModelError(f"{self._program.title} gave an empty answer."), holds=None)
        return answer

    async def _run(self, asked: Asked) -> Ran:
        found = await asyncio.to_thread(self._found)
        if found is None:
            missing = ModelMissing(
                f"There is no program {self._command!r} to ask.",
                advice=f"Install {self._program.title}, or say where it is by llm.command.",
            )
            raise Fault(unasked(missing), holds=LONGEST_HOLD)
        try:
            told = await asyncio.to_thread(self._tell, asked)
        except OSError as error:
            unusable = ModelBroken(
                f"What {self._program.title} is told can't be written to {self._folder}: {error.strerror}.",
                advice="Make room there, or let Mindhold write to it.",
            )
            raise Fault(unasked(unusable)) from error
        try:
            while True:
                ran = await self._once(found, told, asked.prompt)
                unknown = _UNKNOWN_FLAG.search(ran.err)
                known = [flag[0] for flag in self._optional(told)]
                if ran.status == 0 or unknown is None or unknown[1] not in known:
                    return ran
                self._unknown.add(unknown[1])
        except OSError as error:
            title = self._program.title
            broken = ModelBroken(f"{title} can't be run: {error.strerror}.", advice=self._program.advice)
            raise Fault(broken, holds=LONGEST_HOLD) from error
        except Endless as error:
            raise Fault(ModelBroken(f"{self._program.title} answers without end.")) from error

    def _found(self) -> str | None:
        return shutil.which(str(Path(self._command).expanduser()), path=self._environ.get("PATH"))

    def _tell(self, asked: Asked) -> Told:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self._program.tell(asked, self._model, self._folder)

    def _optional(self, told: Told) -> list[tuple[str, ...]]:
        return [flag for flag in told.optional if flag[0] not in self._unknown]

    async def _once(self, found: str, told: Told, prompt: str) -> Ran:
        return await run(
            (found, *told.arguments, *(part for flag in self._optional(told) for part in flag)),
            said=prompt,
            folder=self._folder,
            environ={**self._environ, **told.variables},
        )

    def _advised(self, error: ModelError) -> ModelError:
        words = self._words(error.message)
        return type(error)(f"{words}.", advice=error.advice or self._program.advice)

    def _words(self, text: str) -> str:
        return plain_words(text, (self._environ.get(self._program.key, ""),))
