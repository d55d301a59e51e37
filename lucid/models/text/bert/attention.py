# Tangled from chapters/multi-head.ipynb; edit that, not this file.
"""Many-headed self-attention with its output projection."""

from __future__ import annotations

from lucid.autograd import Tensor
from lucid.models.text.bert.config import BERTConfig
from lucid.nn.attention import attention
from lucid.nn.dropout import Dropout, check_probability
from lucid.nn.layernorm import LayerNorm
from lucid.nn.linear import Linear
from lucid.nn.module import Module
from lucid.nn.packing import Packing, packed_attention


class BERTSelfAttention(Module):
    """Self-attention with A heads, joined.

    Parameters
    ----------
    config : BERTConfig
        Gives ``hidden_size`` H, ``num_attention_heads`` A,
        ``attention_dropout`` and ``initializer_range``.

    Attributes
    ----------
    query, key, value : Linear, from H to H features
        Rows ``a * D`` to ``(a + 1) * D - 1`` of their weights are head a's.

    Notes
    -----
    Derived in :doc:`/chapters/multi-head`, equation (multi-head-forward).
    """

    def __init__(self, config: BERTConfig) -> None:
        size, std = config.hidden_size, config.initializer_range
        self.heads = config.num_attention_heads
        self.dropout = check_probability(config.attention_dropout)
        self.query = Linear(size, size, init_std=std)
        self.key = Linear(size, size, init_std=std)
        self.value = Linear(size, size, init_std=std)

    def _split(self, x: Tensor) -> Tensor:
        """Turn (B, T, H) into (B, A, T, D)."""
        batch, tokens, size = x.shape
        parts = x.reshape(batch, tokens, self.heads, size // self.heads)
        return parts.transpose(0, 2, 1, 3)

    def forward(
        self, x: Tensor, mask: Tensor | Packing | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Return the joined context (B, T, H) and weights (B, A, T, T).

        Parameters
        ----------
        x : Tensor, shape (B, T, H), or packed, (N, H)
        mask : Tensor of bool or Packing, optional
            True where a key is visible; shape (B, 1, 1, T) or (B, 1, T, T).
            Or how ``x`` was packed; then the weights are None.
        """
        dropout = self.dropout if self.training else 0.0
        query, key, value = self.query(x), self.key(x), self.value(x)
        if isinstance(mask, Packing):
            context = packed_attention(
                query, key, value, mask, self.heads, dropout
            )
            return context, None
        context, weights = attention(
            self._split(query),
            self._split(key),
            self._split(value),
            mask,
            dropout,
        )
        return context.transpose(0, 2, 1, 3).reshape(*x.shape), weights


class BERTSelfOutput(Module):
    """Project the joined heads, add the input, normalise.

    Parameters
    ----------
    config : BERTConfig
        Gives ``hidden_size`` H, ``hidden_dropout``, ``layer_norm_eps`` and
        ``initializer_range``.

    Attributes
    ----------
    dense : Linear, from H to H features
    LayerNorm : LayerNorm, over H features
    dropout : Dropout
        Thins the projection out, before the input is added.

    Notes
    -----
    Derived in :doc:`/chapters/multi-head`, equations (multi-head-sum) and
    (multi-head-block-forward).
    """

    def __init__(self, config: BERTConfig) -> None:
        size = config.hidden_size
        self.dense = Linear(size, size, init_std=config.initializer_range)
        self.LayerNorm = LayerNorm(size, config.layer_norm_eps)
        self.dropout = Dropout(config.hidden_dropout)

    def forward(self, context: Tensor, residual: Tensor) -> Tensor:
        """Return a tensor of the common shape (B, T, H)."""
        return self.LayerNorm(self.dropout(self.dense(context)) + residual)


class BERTAttention(Module):
    """Self-attention with residual connection and LayerNorm.

    Parameters
    ----------
    config : BERTConfig

    Attributes
    ----------
    self : BERTSelfAttention
        Named as in Hugging Face's checkpoints.
    output : BERTSelfOutput

    Notes
    -----
    Derived in :doc:`/chapters/multi-head`, equations (multi-head-forward)
    and (multi-head-block-forward); the gradient is (multi-head-grad).
    """

    def __init__(self, config: BERTConfig) -> None:
        self.self = BERTSelfAttention(config)
        self.output = BERTSelfOutput(config)

    def forward(
        self, x: Tensor, mask: Tensor | Packing | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Return the new states (B, T, H) and weights (B, A, T, T).

        Parameters
        ----------
        x : Tensor, shape (B, T, H), or packed, (N, H)
        mask : Tensor of bool or Packing, optional
            True where a key is visible; shape (B, 1, 1, T) or (B, 1, T, T).
            Or how ``x`` was packed; then the weights are None.
        """
        context, weights = self.self(x, mask)
        return self.output(context, x), weights
