# Tangled from chapters/bert-model.ipynb; edit that, not this file.
"""One vector for the whole sequence, from its first token."""

from __future__ import annotations

from lucid.autograd import Tensor
from lucid.models.text.bert.config import BERTConfig
from lucid.nn.linear import Linear
from lucid.nn.module import Module
from lucid.ops import tanh


class BERTPooler(Module):
    """Map the state of [CLS] through a dense layer and a tanh.

    Parameters
    ----------
    config : BERTConfig

    Attributes
    ----------
    dense : Linear
        From H features to H features.

    Notes
    -----
    Derived in :doc:`/chapters/bert-model`, equations
    (bert-model-pool-forward) and (bert-model-pool-grad).
    """

    def __init__(self, config: BERTConfig) -> None:
        self.dense = Linear(
            config.hidden_size,
            config.hidden_size,
            init_std=config.initializer_range,
        )

    def forward(self, states: Tensor) -> Tensor:
        """Map (B, T, H) to (B, H), by equation (bert-model-pool-forward)."""
        return tanh(self.dense(states[:, 0]))
