"""Text as Being-H0.5 was trained to read it: a chat of system, user and assistant, tokenized piece by piece.

The sequence is: system message, the user's views, state and instruction, and the assistant's turn, which the actions
begin. Instructions come from datasets: they are put into their template as plain text.
"""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from ptr_robot.errors import ConfigError
from ptr_robot.policy.being_h.config import STEPS, TASK, BeingHConfig
from ptr_robot.policy.vla.language import HuggingFaceTokenizer, TextEncoder

TURN_START, TURN_END = "<|im_start|>", "<|im_end|>"
IMAGE_START, IMAGE_END = "<img>", "</img>"
STATE_START, STATE_END = "<|state_start|>", "<|state_end|>"


class ChatEncoder(TextEncoder):
    """The texts around images, state and actions; ``instructions`` gives all that comes between state and actions."""

    def __init__(self, config: BeingHConfig) -> None:
        super().__init__(config.language)
        self.ask(config)

    def ask(self, config: BeingHConfig) -> None:
        """Take another template for instructions."""
        self.question = config.instruction.replace(STEPS, str(config.chunk_length))
        self._known.clear()

    def prompt(self, batch_size: int, device: torch.device) -> tuple[Tensor, Tensor]:  # (N, P) int64, (N, P) bool
        """The system's turn and the beginning of the user's."""
        ids = torch.tensor(self._opening, device=device).expand(batch_size, -1)
        return ids, torch.ones_like(ids, dtype=torch.bool)

    def marker(self, text: str, batch_size: int, device: torch.device) -> Tensor:  # (N, 1) int64
        """One special token."""
        return torch.full((batch_size, 1), self._special(text), device=device)

    @cached_property
    def _opening(self) -> list[int]:
        return [*self._turn(f"system\n{self.config.prompt}"), self._special(TURN_START), *self._pieces("user\n")]

    @cached_property
    def _answer(self) -> list[int]:
        return [self._special(TURN_START), *self._pieces("assistant\n")]

    def _encode(self, text: str) -> list[int]:
        if text not in self._known:
            question = self._pieces(self.question.replace(TASK, text))
            ids = [*question, self._special(TURN_END), *self._pieces("\n"), *self._answer]
            self._check(text, ids)
            self._known[text] = ids
        return self._known[text]

    def _turn(self, text: str) -> list[int]:
        return [self._special(TURN_START), *self._pieces(text), self._special(TURN_END), *self._pieces("\n")]

    def _pieces(self, text: str) -> list[int]:
        return self.tokenizer.encode(text)

    def _special(self, text: str) -> int:
        """The id of a token that must be one: a tokenizer without it belongs to another model."""
        assert isinstance(self.tokenizer, HuggingFaceTokenizer)
        known: dict[str, int] = self.tokenizer.tokenizer.get_added_vocab()
        if text not in known:
            raise ConfigError(
                f"the tokenizer {self.config.tokenizer!r} has no token {text!r}; give a Being-H0.5 checkpoint with its "
                "own tokenizer files"
            )
        return known[text]
