"""Text to token ids: bytes for the small presets, a Hugging Face tokenizer for the large ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from ptr_robot.errors import ConfigError, DataError, require
from ptr_robot.policy.vla.config import BYTES, LanguageConfig


class TextTokenizer(Protocol):
    """What the policy asks of a tokenizer."""

    def encode(self, text: str) -> list[int]:
        """The ids of a text, nothing added."""

    def save(self, folder: Path) -> None:
        """Write what ``LanguageConfig.tokenizer`` needs to find the same tokenizer again, if anything."""


class ByteTokenizer:
    """UTF-8 bytes as ids 0 to 255: no vocabulary to ship, every language covered."""

    def encode(self, text: str) -> list[int]:
        """One id a byte."""
        return list(text.encode())

    def save(self, folder: Path) -> None:
        """Nothing to write."""


class HuggingFaceTokenizer:
    """A tokenizer from a folder or the hub, loaded when it is first used."""

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
        is_bytes = config.tokenizer == BYTES
        self.tokenizer: TextTokenizer = ByteTokenizer() if is_bytes else HuggingFaceTokenizer(config.tokenizer)
        self._start = [256] if is_bytes else []  # bytes need a first token of their own: the prompt may be empty
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
