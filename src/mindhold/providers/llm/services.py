"""Language models behind a network: Anthropic, OpenAI, and whatever speaks OpenAI's protocol."""

from __future__ import annotations

from mindhold.model.errors import ModelBroken, ModelError
from mindhold.providers.llm.patient import Answer, Asked
from mindhold.providers.llm.protocols import NoAnswer, Provider, answer_of
from mindhold.providers.remote.line import Advice, Fault, Line, Remote

LARGEST_ANSWER = 4 * 1024 * 1024
ADVICE = Advice(
    later="It is tried again by itself; rules do its work meanwhile.",
    address="Correct llm.base_url.",
    model="Check llm.model and llm.base_url.",
    call="Check llm.model and llm.most_output.",
)


class ByService:
    """The way to one model of one service."""

    attempts = 3

    def __init__(self, provider: Provider, *, model: str, address: str, key: str) -> None:
        protocol = provider.protocol
        self._provider = provider
        self._model = model
        self._line = Line(
            Remote(
                provider.title,
                address,
                ADVICE,
                key=key,
                key_header=protocol.key_header,
                key_scheme=protocol.key_scheme,
                headers=protocol.headers,
                largest_answer=LARGEST_ANSWER,
            )
        )

    async def ask(self, asked: Asked, *, patience: float) -> Answer:
        title, protocol = self._provider.title, self._provider.protocol
        content = await self._line.post(protocol.body(self._model, asked), patience=patience)
        try:
            return answer_of(content, protocol)
        except NoAnswer as error:
            advice = "llm.most_output bounds the length of an answer."
            unanswered = ModelError(f"{title} gave no answer: {error}.", advice=advice)
            unanswered.lost = error.cut  # all of it is billed
            raise Fault(unanswered, holds=None) from error
        except ValueError as error:
            raise Fault(
                ModelBroken(f"{title} answers what can't be read: {error}.", advice=ADVICE.address)
            ) from error

    async def close(self) -> None:
        await self._line.close()
