# Tangled from chapters/pretrain.ipynb; edit that, not this file.
"""The training loop: draw, predict, send back, step; stop and resume."""

from __future__ import annotations

import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TextIO

import numpy as np

from lucid.backend import manual_seed
from lucid.models.base import PretrainedModel
from lucid.models.checkpoint import read_weights
from lucid.optim import clip_grad_norm
from lucid.training.checkpoint import (
    find_checkpoints,
    read_checkpoint,
    write_checkpoint,
)


class Batches(Protocol):
    """Batches without end, in an order that can be taken up again.

    Notes
    -----
    Used in :doc:`/chapters/pretrain`.
    """

    def __next__(self) -> Mapping[str, Any]:
        """Return the next batch: the model's keyword arguments."""

    def state_dict(self) -> dict[str, Any]:
        """Return the place: which batch comes next."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go to a place."""


def step_seed(seed: int, step: int) -> int:
    """Return the seed of a run's step number ``step``, counted from 0.

    Dropout draws from it, so that a step depends on the run's seed and on
    its own number, and not on what was drawn before.

    Notes
    -----
    Explained in :doc:`/chapters/pretrain`.

    Examples
    --------
    >>> step_seed(0, 1) == step_seed(0, 1) != step_seed(0, 2)
    True
    """
    words = np.random.SeedSequence([seed, step]).generate_state(2)
    return int(words[0]) << 32 | int(words[1])


def _count_tokens(batch: Mapping[str, Any]) -> int:
    """Return how many tokens of a batch are not padding."""
    mask = batch.get("attention_mask")
    ids = batch["input_ids"]
    return ids.size if mask is None else int(mask.sum().item())


class Training:
    """A run: a model, its data, its optimiser, and how far they have come.

    Parameters
    ----------
    model : PretrainedModel
        Called with a batch as keyword arguments; returns an output with a
        ``loss``.
    batches : Batches
    optimizer : AdamW or another of `lucid.optim`
    schedule : LinearWarmup
    max_norm : float
        Longer gradients are cut to this length.
    seed : int
        Decides dropout, by `step_seed`.
    folder : str or Path, optional
        Where checkpoints go; by default there are none.

    Attributes
    ----------
    done : int
        How many steps have been taken.
    history : list of dict
        Of each step its number, losses, gradient norm, rate, tokens and
        seconds.
    evaluations : list of dict
        What ``evaluate`` returned, with the step.

    Notes
    -----
    Built in :doc:`/chapters/pretrain`.
    """

    def __init__(
        self,
        model: PretrainedModel,
        batches: Batches,
        optimizer: Any,
        schedule: Any,
        *,
        max_norm: float = 1.0,
        seed: int = 0,
        folder: str | Path | None = None,
    ) -> None:
        self.model, self.batches = model, batches
        self.optimizer, self.schedule = optimizer, schedule
        self.max_norm, self.seed = max_norm, seed
        self.folder = None if folder is None else Path(folder)
        self.done = 0
        self.history: list[dict[str, float]] = []
        self.evaluations: list[dict[str, float]] = []

    def step(self) -> dict[str, float]:
        """Take one step and return its entry of ``history``.

        Raises
        ------
        FloatingPointError
            If the loss or a gradient is not finite. The message names the
            step and the batch; the weights are left as they were.
        """
        begun = time.perf_counter()
        place = self.batches.state_dict()
        batch = next(self.batches)
        manual_seed(step_seed(self.seed, self.done))
        self.optimizer.zero_grad()
        output = self.model(**batch)
        losses = {
            name: output[name].item()
            for name in output.keys()
            if name.endswith("loss")
        }
        try:
            if not math.isfinite(losses["loss"]):
                raise FloatingPointError(f"the loss is {losses['loss']}")
            output.loss.backward()
            norm = clip_grad_norm(
                self.model.named_parameters(), self.max_norm
            )
        except FloatingPointError as error:
            raise FloatingPointError(
                f"step {self.done + 1}, batch {place}: {error}"
            ) from error
        rate = self.optimizer.lr
        self.optimizer.step()
        self.schedule.step()
        self.done += 1
        entry = {"step": self.done, **losses, "norm": norm, "lr": rate}
        entry["tokens"] = _count_tokens(batch)
        entry["seconds"] = time.perf_counter() - begun
        self.history.append(entry)
        return entry

    def save(self) -> Path:
        """Write a checkpoint of everything the next step depends on."""
        if self.folder is None:
            raise ValueError("folder: this run was given none to save in")
        state = {
            "done": self.done,
            "seed": self.seed,
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "batches": self.batches.state_dict(),
            "history": self.history,
            "evaluations": self.evaluations,
        }
        return write_checkpoint(self.folder, self.done, self.model, state)

    def resume(self) -> int:
        """Go to the last checkpoint in the folder; return its step."""
        found = find_checkpoints(self.folder) if self.folder else []
        if not found:
            raise FileNotFoundError(
                f"folder: there is no checkpoint in {self.folder}"
            )
        state = read_checkpoint(found[-1])
        self.model.load_state_dict(read_weights(found[-1]))
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        self.batches.load_state_dict(state["batches"])
        self.done, self.seed = state["done"], state["seed"]
        self.history = state["history"]
        self.evaluations = state["evaluations"]
        return self.done

    def run(
        self,
        steps: int,
        *,
        evaluate: Callable[[], Mapping[str, float]] | None = None,
        evaluate_every: int = 100,
        save_every: int = 100,
        report: Callable[[Training], None] | None = None,
    ) -> None:
        """Train until ``steps`` steps have been taken in all.

        With a folder, a checkpoint is written every ``save_every`` steps,
        after the last step, and on Ctrl-C.

        Parameters
        ----------
        steps : int
            Those taken before a `resume` count.
        evaluate : callable, optional
            Called every ``evaluate_every`` steps and after the last.
        evaluate_every, save_every : int
        report : callable, optional
            Called with this object after each step; a `ProgressBar`.

        Raises
        ------
        FileExistsError
            If the folder holds checkpoints and this run has not resumed.
        ValueError
            If ``evaluate_every`` or ``save_every`` is less than 1.
        FloatingPointError
            See `step`.
        KeyboardInterrupt
            After Ctrl-C or SIGTERM, when the step is done and saved.
        """
        if min(evaluate_every, save_every) < 1:
            raise ValueError(
                f"evaluate_every, save_every: at least 1 is wanted, got "
                f"{evaluate_every} and {save_every}"
            )
        if self.folder and not self.done and find_checkpoints(self.folder):
            raise FileExistsError(
                f"folder: {self.folder} holds checkpoints already; resume "
                f"that run, or choose another folder"
            )
        with _stop_requests() as requests:
            while self.done < steps and not requests:
                self.model.train()
                self.step()
                ends = self.done == steps
                if evaluate and (ends or self.done % evaluate_every == 0):
                    found = {"step": self.done, **evaluate()}
                    self.evaluations.append(found)
                if report:
                    report(self)
                if self.folder:
                    if ends or requests or self.done % save_every == 0:
                        self.save()
        self.model.eval()
        if requests and self.done < steps:
            raise KeyboardInterrupt(f"stopped after step {self.done}")


@contextmanager
def _stop_requests() -> Iterator[list[int]]:
    """Collect Ctrl-C and SIGTERM in a list; a second one interrupts."""
    requests: list[int] = []

    def note(number: int, frame: Any) -> None:
        if requests:
            raise KeyboardInterrupt
        requests.append(number)

    if threading.current_thread() is not threading.main_thread():
        yield requests  # signals reach the main thread alone
        return
    numbers = signal.SIGINT, signal.SIGTERM
    before = [signal.signal(number, note) for number in numbers]
    try:
        yield requests
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


class ProgressBar:
    """A line that says how far a run is, for ``report`` of a `Training`.

    Parameters
    ----------
    steps : int
        Of the whole run.
    stream : text file, optional
        Standard error by default. A terminal sees one line that changes;
        a file gets a new line every ten seconds.

    Notes
    -----
    Built in :doc:`/chapters/pretrain`.
    """

    def __init__(self, steps: int, stream: TextIO | None = None) -> None:
        self.steps, self.stream = steps, stream or sys.stderr
        self.shown = -math.inf

    def __call__(self, training: Training) -> None:
        """Show how far ``training`` is, unless that was shown just now."""
        now, ends = time.perf_counter(), training.done == self.steps
        live = self.stream.isatty()
        if now - self.shown < (0.1 if live else 10.0) and not ends:
            return
        self.shown = now
        before = "\r\x1b[K" if live else ""  # back, and wipe the line
        after = "\n" if ends or not live else ""
        self.stream.write(before + self.line(training) + after)
        self.stream.flush()

    def line(self, training: Training) -> str:
        """Return the line: averages over the last 20 steps."""
        recent = training.history[-20:]
        total = {
            name: sum(entry[name] for entry in recent)
            for name in ("loss", "tokens", "seconds")
        }
        pace = total["seconds"] / len(recent)
        left = round(pace * (self.steps - training.done))
        full = 20 * training.done // self.steps
        parts = [
            f"{training.done:6d}/{self.steps}",
            "#" * full + "." * (20 - full),
            f"loss {total['loss'] / len(recent):.3f}",
            f"{total['tokens'] / total['seconds']:,.0f} tokens/s",
            f"{left // 60}:{left % 60:02d} left",
        ]
        for name, value in (training.evaluations or [{}])[-1].items():
            if name != "step":
                parts.append(f"{name} {value:.3f}")
        return "  ".join(parts)
