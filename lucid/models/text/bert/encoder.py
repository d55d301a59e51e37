"""The encoder layer, and the stack of them."""

from __future__ import annotations

from lucid.autograd import Tensor
from lucid.models.text.bert.attention import BERTAttention
from lucid.models.text.bert.config import BERTConfig
from lucid.models.text.bert.feed_forward import BERTIntermediate, BERTOutput
from lucid.nn.module import Module, ModuleList


class BERTLayer(Module):
    """One encoder layer: attention, then the feed-forward block.

    Parameters
    ----------
    config : BERTConfig
    """

    def __init__(self, config: BERTConfig) -> None:
        self.attention = BERTAttention(config)
        self.intermediate = BERTIntermediate(config)
        self.output = BERTOutput(config)

    def forward(
        self, x: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the new states (B, T, H) and weights (B, A, T, T)."""
        x, weights = self.attention(x, mask)
        return self.output(self.intermediate(x), x), weights


class BERTEncoder(Module):
    """L encoder layers, one after the other.

    Parameters
    ----------
    config : BERTConfig
    """

    def __init__(self, config: BERTConfig) -> None:
        self.layer = ModuleList(
            BERTLayer(config) for _ in range(config.num_hidden_layers)
        )

    def forward(
        self, x: Tensor, mask: Tensor | None = None
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """Return all L + 1 states (B, T, H) and L weights (B, A, T, T)."""
        states, attentions = [x], []
        for layer in self.layer:
            x, weights = layer(x, mask)
            states.append(x)
            attentions.append(weights)
        return tuple(states), tuple(attentions)
