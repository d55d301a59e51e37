# Tangled from chapters/optimisers.ipynb; edit that, not this file.
"""Optimisers, the learning rate in time, and clipping."""

from __future__ import annotations

from lucid.optim.adamw import AdamW, AdamWeightDecay
from lucid.optim.clipping import clip_grad_norm
from lucid.optim.decay import decay_groups
from lucid.optim.optimizer import Optimizer
from lucid.optim.schedule import LinearWarmup

__all__ = [
    "AdamW",
    "AdamWeightDecay",
    "LinearWarmup",
    "Optimizer",
    "clip_grad_norm",
    "decay_groups",
]
