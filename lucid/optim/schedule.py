# Tangled from chapters/optimisers.ipynb; edit that, not this file.
"""The learning rate in the course of training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lucid.checks import check_integer, check_keys, check_number
from lucid.optim.optimizer import Optimizer


class LinearWarmup:
    """Raise the learning rate linearly from 0, then lower it to 0.

    Each group's learning rate at the time of construction is its peak. The
    first step of the optimiser has rate 0. Call `step` after each step of
    the optimiser.

    Parameters
    ----------
    optimizer : Optimizer
    warmup_steps : int
        Steps until the peak.
    total_steps : int
        Steps until the rate is 0 again, the warm-up included.

    Attributes
    ----------
    steps : int
        How often `step` was called.

    Raises
    ------
    ValueError
        If the warm-up is longer than the whole, or a number is no integer
        or negative.

    Notes
    -----
    Derived in :doc:`/chapters/optimisers`, equation
    (optimisers-warmup-forward).
    """

    def __init__(
        self, optimizer: Optimizer, warmup_steps: int, total_steps: int
    ) -> None:
        self.optimizer = optimizer
        self.total_steps = check_integer("total_steps", total_steps, least=1)
        self.warmup_steps = check_integer(
            "warmup_steps", warmup_steps, most=self.total_steps
        )
        self.peaks = [group.lr for group in optimizer.groups]
        self.steps = 0
        self._apply()

    def factor(self) -> float:
        """Return the part of the peak to use now."""
        if self.steps < self.warmup_steps:
            return self.steps / self.warmup_steps
        left = max(self.total_steps - self.steps, 0)
        return left / max(self.total_steps - self.warmup_steps, 1)

    def step(self) -> None:
        """Set the learning rates for the next step of the optimiser."""
        self.steps += 1
        self._apply()

    def _apply(self) -> None:
        groups = self.optimizer.groups
        for group, peak in zip(groups, self.peaks, strict=True):
            group.lr = peak * self.factor()

    def state_dict(self) -> dict[str, Any]:
        """Return the steps made and the peak of each group."""
        peaks = {f"peak.{i}": peak for i, peak in enumerate(self.peaks)}
        return {"steps": self.steps, **peaks}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state, setting the learning rates, or change nothing.

        Raises
        ------
        ValueError
            If names are missing or unexpected, or a number is out of range.
        """
        check_keys(state, self.state_dict())
        steps = check_integer("steps", state["steps"])
        keys = [f"peak.{i}" for i in range(len(self.peaks))]
        peaks = [check_number(key, state[key]) for key in keys]
        self.steps, self.peaks = steps, peaks
        self._apply()
