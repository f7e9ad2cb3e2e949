"""Texts to token ids, and ids to the arrays that the graph takes."""

from __future__ import annotations

from collections.abc import Container, Sequence

import numpy as np
import numpy.typing as npt

from mindhold.providers.embedding.windows import windows

Inputs = dict[str, npt.NDArray[np.int64]]


class TextEncoder:
    """A tokenizer.json, freed of the padding and cutting that was saved in it."""

    def __init__(self, tokenizer_json: str, *, limit: int) -> None:
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_str(tokenizer_json)
        self.pad = int((self._tokenizer.padding or {}).get("pad_id", 0))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        frame = self._tokenizer.encode("a")
        special = frame.special_tokens_mask
        first = special.index(0) if 0 in special else len(special)
        last = len(special) - special[::-1].index(0) if 0 in special else len(special)
        self._before, self._after = list(frame.ids[:first]), list(frame.ids[last:])
        self._room = max(1, limit - len(self._before) - len(self._after))

    def encode(self, text: str) -> list[list[int]]:
        """Ids of the text's windows, each framed by the model's special tokens; one if it is short."""
        # One by one: encode_batch starts a thread pool that complains in forked children.
        ids = self._tokenizer.encode(text, add_special_tokens=False).ids
        return [[*self._before, *window, *self._after] for window in windows(ids, self._room)]


def padded_inputs(encoded: Sequence[Sequence[int]], *, names: Container[str], pad: int) -> Inputs:
    """Padded to the longest. Only the inputs that the graph has."""
    lengths = np.array([len(ids) for ids in encoded])
    mask = np.arange(lengths.max()) < lengths[:, None]
    ids = np.full(mask.shape, pad, dtype=np.int64)
    ids[mask] = np.concatenate([np.asarray(row, dtype=np.int64) for row in encoded])
    inputs = {
        "input_ids": ids,
        "attention_mask": mask.astype(np.int64),
        "token_type_ids": np.zeros_like(ids),
    }
    return {name: values for name, values in inputs.items() if name in names}
