"""Many-headed self-attention with its output projection."""

from __future__ import annotations

from lucid.autograd import Tensor
from lucid.models.text.bert.config import BERTConfig
from lucid.nn.attention import attention
from lucid.nn.dropout import Dropout, check_probability
from lucid.nn.layernorm import LayerNorm
from lucid.nn.linear import Linear
from lucid.nn.module import Module


class BERTSelfAttention(Module):
    """A heads of attention over the same tokens, joined.

    Parameters
    ----------
    config : BERTConfig
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
        self, x: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the joined context (B, T, H) and weights (B, A, T, T)."""
        context, weights = attention(
            self._split(self.query(x)),
            self._split(self.key(x)),
            self._split(self.value(x)),
            mask,
            self.dropout if self.training else 0.0,
        )
        return context.transpose(0, 2, 1, 3).reshape(*x.shape), weights


class BERTSelfOutput(Module):
    """Project the joined heads, add the input, normalise.

    Parameters
    ----------
    config : BERTConfig
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
    """

    def __init__(self, config: BERTConfig) -> None:
        self.self = BERTSelfAttention(config)
        self.output = BERTSelfOutput(config)

    def forward(
        self, x: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the new states (B, T, H) and weights (B, A, T, T)."""
        context, weights = self.self(x, mask)
        return self.output(context, x), weights
