"""A step of robosuite with the same numbers, to the last bit, for less: what is known already is not computed again.

A step has 25 substeps, and in each of them robosuite computes contacts, inertias and Jacobians of one and the same pose
three times: before its controller, in it, and in MuJoCo's own step. What depends on positions and velocities alone
cannot differ between the three, so it is computed once; forces and accelerations are computed as often as before, since
each solution is the solver's next starting point.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any


class Substeps:
    """Stands in for ``forward`` and ``step`` of a robosuite simulation while one of its steps is under way."""

    def __init__(self, simulation: Any) -> None:
        import mujoco

        self._mujoco = mujoco
        self._model, self._data = simulation.model._model, simulation.data._data
        self._whole_step = simulation.step
        self._is_active = False
        self._is_known = False  # positions and velocities have not changed since all that depends on them was computed
        # MuJoCo's step in two halves is another one for this integrator.
        self._has_halves = self._model.opt.integrator != mujoco.mjtIntegrator.mjINT_RK4
        simulation.forward, simulation.step = self._forward, self._step

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Within it nothing but ``step`` may move anything; outside everything is computed whenever it is asked for."""
        self._is_active, self._is_known = self._has_halves, False
        try:
            yield
        finally:
            self._is_active = False

    def _forward(self) -> None:
        if self._is_active and self._is_known:
            self._mujoco.mj_forwardSkip(self._model, self._data, self._mujoco.mjtStage.mjSTAGE_VEL, 0)
        else:
            self._mujoco.mj_forward(self._model, self._data)
            self._is_known = True

    def _step(self, *arguments: Any, **options: Any) -> None:
        if self._is_active and self._is_known:
            self._mujoco.mj_step2(self._model, self._data)
        else:
            self._whole_step(*arguments, **options)
        self._is_known = False
