"""Text to token ids: bytes or words for the small presets, a Hugging Face tokenizer for the large ones."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from ptr_robot.errors import ConfigError, DataError, require
from ptr_robot.policy.vla.config import BYTES, WORDS, LanguageConfig

_WORD = re.compile(r"\w+|[^\w\s]")


class TextTokenizer(Protocol):
    """What the policy asks of a tokenizer."""

    @property
    def start(self) -> int | None:
        """The id that every sequence begins with; None: it begins with the prompt's own."""

    def encode(self, text: str) -> list[int]:
        """The ids of a text, nothing added."""

    def save(self, folder: Path) -> None:
        """Write what ``LanguageConfig.tokenizer`` needs to find the same tokenizer again, if anything."""


class ByteTokenizer:
    """UTF-8 bytes as ids 0 to 255: no vocabulary to ship, every language covered."""

    start = 256  # every sequence begins with it: the prompt may be empty

    def encode(self, text: str) -> list[int]:
        """One id a byte."""
        return list(text.encode())

    def save(self, folder: Path) -> None:
        """Nothing to write."""


class WordTokenizer:
    """Words and marks by a checksum of their spelling: a fifth of the tokens that bytes are, and no vocabulary to ship.

    Two words may share an id: of 100 words in a vocabulary of 2048, two or three pairs do. Case is not told apart.
    """

    start = 0  # every sequence begins with it; no word has it

    def __init__(self, vocabulary_size: int) -> None:
        if vocabulary_size < 2:
            raise ConfigError(f"language.vocabulary_size is {vocabulary_size}; words need at least 2")
        self.vocabulary_size = vocabulary_size

    def encode(self, text: str) -> list[int]:
        """One id a word or mark."""
        return [1 + zlib.crc32(word.encode()) % (self.vocabulary_size - 1) for word in _WORD.findall(text.casefold())]

    def save(self, folder: Path) -> None:
        """Nothing to write."""


class HuggingFaceTokenizer:
    """A tokenizer from a folder or the hub, loaded when it is first used."""

    start = None

    def __init__(self, source: str) -> None:
        self.source = source
        self._tokenizer: Any = None

    @property
    def tokenizer(self) -> Any:
        """The transformers tokenizer itself."""
        if self._tokenizer is None:
            transformers = require("transformers", "lerobot")
            try:
                self._tokenizer = transformers.AutoTokenizer.from_pretrained(self.source, trust_remote_code=False)
            except (OSError, ValueError) as error:
                first_line = str(error).strip().splitlines()[0]
                raise ConfigError(
                    f"language.tokenizer={self.source!r} cannot be loaded ({first_line}); give a folder with "
                    "tokenizer files or a hub id that can be reached"
                ) from error
        return self._tokenizer

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without special tokens."""
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def save(self, folder: Path) -> None:
        """Write the tokenizer's files into ``folder``."""
        self.tokenizer.save_pretrained(folder)


class TextEncoder:
    """Batches of texts to padded ids; each distinct text is tokenized once."""

    def __init__(self, config: LanguageConfig) -> None:
        self.config = config
        self.tokenizer = _tokenizer(config)
        self._start = [] if self.tokenizer.start is None else [self.tokenizer.start]
        self._known: dict[str, list[int]] = {}

    def prompt(self, batch_size: int, device: torch.device) -> tuple[Tensor, Tensor]:  # (N, P) int64, (N, P) bool
        """The ids that every sequence begins with."""
        ids = self._start + self._encode(self.config.prompt)
        if not ids:
            raise ConfigError("language.prompt is empty; this tokenizer needs a prompt of at least one token")
        tokens = torch.tensor(ids, device=device).expand(batch_size, -1)
        return tokens, torch.ones_like(tokens, dtype=torch.bool)

    def instructions(
        self, texts: Sequence[str], device: torch.device
    ) -> tuple[Tensor, Tensor]:  # (N, S) int64, (N, S) bool
        """The ids of each text, padded on the right to the longest, and which of them are real."""
        distinct = list(dict.fromkeys(texts))
        rows = [torch.tensor(self._encode(text), dtype=torch.int64) for text in distinct]
        lengths = torch.tensor([len(row) for row in rows])
        ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        mask = torch.arange(ids.shape[1]) < lengths.unsqueeze(1)
        numbers = {text: number for number, text in enumerate(distinct)}
        index = torch.tensor([numbers[text] for text in texts])
        return ids[index].to(device), mask[index].to(device)

    def check(self, texts: Iterable[str]) -> None:
        """Tokenize texts that will come, so that one too long is named now."""
        for text in texts:
            self._encode(text)

    def _encode(self, text: str) -> list[int]:
        if text not in self._known:
            ids = self.tokenizer.encode(text)
            self._check(text, ids)
            self._known[text] = ids
        return self._known[text]

    def _check(self, text: str, ids: list[int]) -> None:
        if len(ids) > self.config.max_tokens:
            raise DataError(
                f"the instruction {text[:40]!r}... has {len(ids)} tokens; the limit is {self.config.max_tokens}: "
                "shorten it or raise the policy's max_tokens"
            )
        if ids and max(ids) >= self.config.vocabulary_size:
            raise ConfigError(
                f"the tokenizer {self.config.tokenizer!r} gives the id {max(ids)}, but language.vocabulary_size is "
                f"{self.config.vocabulary_size}; raise it to the tokenizer's size"
            )


def _tokenizer(config: LanguageConfig) -> TextTokenizer:
    if config.tokenizer == BYTES:
        return ByteTokenizer()
    if config.tokenizer == WORDS:
        return WordTokenizer(config.vocabulary_size)
    return HuggingFaceTokenizer(config.tokenizer)
