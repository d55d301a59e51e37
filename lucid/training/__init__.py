# Tangled from chapters/pretrain.ipynb; edit that, not this file.
"""Train a model: the loop, its checkpoints, and what it has learned."""

from __future__ import annotations

from lucid.training.checkpoint import (
    find_checkpoints,
    read_checkpoint,
    write_checkpoint,
)
from lucid.training.evaluation import (
    evaluate_pretraining,
    fill_mask,
    guessing,
)
from lucid.training.loop import Batches, ProgressBar, Training, step_seed

__all__ = [
    "Batches",
    "ProgressBar",
    "Training",
    "evaluate_pretraining",
    "fill_mask",
    "find_checkpoints",
    "guessing",
    "read_checkpoint",
    "step_seed",
    "write_checkpoint",
]
