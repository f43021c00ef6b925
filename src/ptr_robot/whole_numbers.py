"""Whole numbers in flags and files of settings: the largest that each can mean."""

from __future__ import annotations

from ptr_robot.errors import ConfigError

_LARGEST = 10**9
_LARGEST_SEED = 2**63 - 1
# Far above what anybody has used, far below what no machine has the processes or the memory for.
_LARGEST_OF = {
    "num_workers": 1024,
    "num_folds": 1000,
    "num_seeds": 1000,
    "n_episodes": 10**6,
    "hidden_dim": 2**16,
    "queue_size": 2**20,
    "seed": _LARGEST_SEED,
    "seeds": _LARGEST_SEED,
    "sampling_seed": _LARGEST_SEED,
}


def refuse_absurd_numbers(name: str, value: object) -> None:
    """Raise if a setting, or one inside it, is a number that nothing could be done with; names are dotted.

    The number itself is not shown: Python does not spell one of thousands of digits.
    """
    if isinstance(value, dict):
        for key, inner in value.items():
            refuse_absurd_numbers(f"{name}.{key}" if name else str(key), inner)
    elif isinstance(value, list):
        for inner in value:
            refuse_absurd_numbers(name, inner)
    elif isinstance(value, int):
        largest = _LARGEST_OF.get(name.rpartition(".")[2].removeprefix("--"), _LARGEST)
        if abs(value) > largest:
            raise ConfigError(f"{name} is a number beyond {largest}, the largest that it can be; give a smaller one")
