# Tangled from chapters/pretrain.ipynb, chapters/finetune.ipynb; edit those,
# not this file.
"""Train a model: the loop, its checkpoints, and what it has learned."""

from __future__ import annotations

from lucid.training.answers import Classes, Scale, evaluate_examples
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
from lucid.training.examples import Example, ExampleBatches, read_examples
from lucid.training.loop import Batches, ProgressBar, Training, step_seed

__all__ = [
    "Batches",
    "Classes",
    "Example",
    "ExampleBatches",
    "ProgressBar",
    "Scale",
    "Training",
    "evaluate_examples",
    "evaluate_pretraining",
    "fill_mask",
    "find_checkpoints",
    "guessing",
    "read_checkpoint",
    "read_examples",
    "step_seed",
    "write_checkpoint",
]
