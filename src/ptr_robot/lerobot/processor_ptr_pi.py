"""The processors of ``ptr_pi0`` and ``ptr_pi05`` are their base policies', which look at the present state alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lerobot.policies.pi05.processor_pi05 import Pi05PrepareStateTokenizerProcessorStep
from lerobot.processor.converters import TransitionKey
from lerobot.processor.relative_action_processor import RelativeActionsProcessorStep

STATE = "observation.state"
PRESENT = 0  # of the frames of a sample: these policies look at no history
Step = Callable[[Any, Any], Any]


def make_ptr_pi0_pre_post_processors(config: Any, dataset_stats: Any = None) -> tuple[Any, Any]:
    """π0's."""
    from lerobot.policies.pi0.processor_pi0 import make_pi0_pre_post_processors

    return make_pi0_pre_post_processors(config, dataset_stats=dataset_stats)  # type: ignore[no-any-return]


def make_ptr_pi05_pre_post_processors(config: Any, dataset_stats: Any = None) -> tuple[Any, Any]:
    """π0.5's."""
    from lerobot.policies.pi05.processor_pi05 import make_pi05_pre_post_processors

    return make_pi05_pre_post_processors(config, dataset_stats=dataset_stats)  # type: ignore[no-any-return]


def hide_later_states() -> None:
    """Let the steps that read the state see the present one where a sample brings its consequence along.

    π0.5 writes the state into the prompt, and relative actions are taken from it: with the frame Δ later in the same
    tensor, the future would reach the policy. The steps are changed and not the list of them, since processors are
    also loaded from a base checkpoint, and leave with the exported policy.
    """
    for step in (Pi05PrepareStateTokenizerProcessorStep, RelativeActionsProcessorStep):
        if not hasattr(step.__call__, "sees_the_present"):
            step.__call__ = _with_present_state(step.__call__)


def _with_present_state(call: Step) -> Step:
    def __call__(self: Any, transition: Any) -> Any:  # noqa: N807
        observation = transition.get(TransitionKey.OBSERVATION) or {}
        states = observation.get(STATE)
        if states is None or states.dim() != 3:  # (B, frames, D)
            return call(self, transition)
        present = observation | {STATE: states[:, PRESENT]}
        result = dict(call(self, {**transition, TransitionKey.OBSERVATION: present}))
        result[TransitionKey.OBSERVATION] = result[TransitionKey.OBSERVATION] | {STATE: states}
        return result

    vars(__call__)["sees_the_present"] = True
    return __call__
