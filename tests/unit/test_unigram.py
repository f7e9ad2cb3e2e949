"""The tokenizer of multilingual models, against the tokenizers library on the same small vocabulary."""

from __future__ import annotations

import json
import math

import pytest
from tokenizers import Tokenizer

from mindhold.providers.embedding.onnx import TextEncoder
from mindhold.providers.embedding.unigram import (
    UnigramTokenizer,
    compact_tokenizer,
    is_unigram,
    normalize,
    unigram_json,
)

WORDS = (
    "▁ ▁we ▁de ploy deploy ▁deploy ▁every ▁Friday 毎週 金曜日 曜日 毎 週 金 に デプロイ します 。 금요일 ▁금요일 에 배포 합니다 "
    "▁jeden ▁Freitag Frei tag ▁prod 🚀 . , ! ? ～ ~ é ▁é t ▁caf ü ▁B ar"
)
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789<>/[]_-:"
PIECES = ["<s>", "<pad>", "</s>", "<unk>", *dict.fromkeys([*WORDS.split(), *LETTERS]), "<mask>"]
SCORES = [
    0.0 if piece.startswith("<") and len(piece) > 1 else -math.log2(2 + 7 * index % 31) - 2 / len(piece)
    for index, piece in enumerate(PIECES)
]
TEXTS = [
    "we deploy every Friday.",
    "毎週金曜日にデプロイします。",
    "금요일에 배포합니다",
    "jeden Freitag, Bär über café",
    "deployed 🚀 to prod 👩‍💻 !",
    "def add(a, b):\n\treturn a_b",
    "  odd \u3000 white\u00a0space\t\n here",
    "ＡＢＣ１２３ ｄｅｐｌｏｙ ～~",
    "e\u0301 cafe\u0301",
    "𓀀𓀁𓂀 x 𓀀y",
    "deploydeploydeploydeploydeploydeploydeploy",
    "x\x07y\x1bz",
]


@pytest.fixture(scope="module")
def library() -> Tokenizer:
    """The published form of the same tokenizer, without the frame of special tokens."""
    return Tokenizer.from_str(
        json.dumps(
            {
                "version": "1.0",
                "added_tokens": [],
                "normalizer": {
                    "type": "Sequence",
                    "normalizers": [
                        {"type": "Replace", "pattern": {"Regex": "[\\x{0001}-\\x{0008}\\x{000E}-\\x{001F}]"}, "content": ""},
                        {"type": "Replace", "pattern": {"Regex": "[\\s\\x{200B}-\\x{200F}]+"}, "content": " "},
                        {"type": "Replace", "pattern": {"String": "～"}, "content": "\ue000"},
                        {"type": "NFKC"},
                        {"type": "Replace", "pattern": {"String": "\ue000"}, "content": "～"},
                        {"type": "Strip", "strip_left": True, "strip_right": True},
                    ],
                },
                "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"},
                "model": {"type": "Unigram", "unk_id": 3, "vocab": list(zip(PIECES, SCORES, strict=True))},
            }
        )
    )  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_the_pieces_are_the_library_s(library: Tokenizer, text: str) -> None:
    ids = UnigramTokenizer(unigram_json(PIECES, SCORES)).encode(text)
    assert [PIECES[each] for each in ids] == [PIECES[each] for each in library.encode(text).ids]


def test_what_looks_like_a_special_token_is_text() -> None:
    ids = UnigramTokenizer(unigram_json(PIECES, SCORES)).encode("</s><mask>")
    assert [PIECES[each] for each in ids] == ["▁", *"</s><mask>"]


def test_a_text_is_framed_and_cut_into_windows() -> None:
    encoder = TextEncoder(unigram_json(PIECES, SCORES), limit=6)
    assert encoder.encode("") == [[0, 2]]
    windows = encoder.encode("we we we we we we")
    assert len(windows) > 1
    assert all(window[0] == 0 and window[-1] == 2 and len(window) <= 6 for window in windows)
    assert encoder.pad == PIECES.index("<pad>")


def test_normalizing() -> None:
    assert normalize("ｶﾀｶﾅ\u200b①\t½\x00") == "カタカナ 1 1⁄2"
    assert normalize("a \u00a8 b") == "a ̈ b"  # a space that comes of folding joins its neighbour


def test_only_the_known_vocabulary_is_compacted() -> None:
    vocabulary = [[f"p{number}", -1.0] for number in range(250_002)]
    tokenizer = {"model": {"type": "Unigram", "vocab": vocabulary}}
    assert compact_tokenizer(tokenizer) is None
    for number, piece in enumerate(("<s>", "<pad>", "</s>", "<unk>")):
        vocabulary[number][0] = piece
    text = compact_tokenizer(tokenizer)
    assert text is not None
    assert is_unigram(text)
    assert compact_tokenizer({"model": {"type": "Unigram", "vocab": vocabulary[:-1]}}) is None
    assert compact_tokenizer({"model": {"type": "WordPiece", "vocab": {"a": 1}}}) is None
    assert not is_unigram(json.dumps(tokenizer))
