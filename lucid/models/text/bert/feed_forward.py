# Tangled from chapters/feed-forward.ipynb; edit that, not this file.
"""The feed-forward block: widen, bend, narrow, add, normalise."""

from __future__ import annotations

from lucid.autograd import Tensor
from lucid.models.text.bert.config import BERTConfig
from lucid.nn.activations import ACTIVATIONS
from lucid.nn.dropout import Dropout
from lucid.nn.layernorm import LayerNorm
from lucid.nn.linear import Linear
from lucid.nn.module import Module


class BERTIntermediate(Module):
    """Widen from H to I features and apply the activation.

    Parameters
    ----------
    config : BERTConfig
        Gives ``hidden_size`` H, ``intermediate_size`` I, ``hidden_act`` and
        ``initializer_range``.

    Attributes
    ----------
    dense : Linear, from H to I features

    Notes
    -----
    Derived in :doc:`/chapters/feed-forward`, the first half of equation
    (feed-forward-block-forward).
    """

    def __init__(self, config: BERTConfig) -> None:
        self.dense = Linear(
            config.hidden_size,
            config.intermediate_size,
            init_std=config.initializer_range,
        )
        self.activation = ACTIVATIONS[config.hidden_act]

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, T, H) to (B, T, I)."""
        return self.activation(self.dense(x))


class BERTOutput(Module):
    """Narrow from I to H features, add the block's input, normalise.

    Parameters
    ----------
    config : BERTConfig
        Gives ``hidden_size`` H, ``intermediate_size`` I, ``hidden_dropout``,
        ``layer_norm_eps`` and ``initializer_range``.

    Attributes
    ----------
    dense : Linear, from I to H features
    LayerNorm : LayerNorm, over H features
    dropout : Dropout
        Thins the narrow result out, before the input is added.

    Notes
    -----
    Derived in :doc:`/chapters/feed-forward`, the second half of equation
    (feed-forward-block-forward); the gradient is (feed-forward-block-grad).
    """

    def __init__(self, config: BERTConfig) -> None:
        self.dense = Linear(
            config.intermediate_size,
            config.hidden_size,
            init_std=config.initializer_range,
        )
        self.LayerNorm = LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.dropout = Dropout(config.hidden_dropout)

    def forward(self, wide: Tensor, residual: Tensor) -> Tensor:
        """Map (B, T, I) and (B, T, H) to (B, T, H)."""
        return self.LayerNorm(self.dropout(self.dense(wide)) + residual)
