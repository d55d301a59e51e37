# Tangled from chapters/encoder.ipynb; edit that, not this file.
"""The encoder layer, and the stack of them."""

from __future__ import annotations

from lucid.autograd import Tensor
from lucid.models.text.bert.attention import BERTAttention
from lucid.models.text.bert.config import BERTConfig
from lucid.models.text.bert.feed_forward import BERTIntermediate, BERTOutput
from lucid.nn.module import Module, ModuleList
from lucid.nn.packing import Packing


class BERTLayer(Module):
    """One encoder layer: attention, then the feed-forward block.

    Both blocks end in dropout, residual sum and LayerNorm, in this order.

    Parameters
    ----------
    config : BERTConfig

    Attributes
    ----------
    attention : BERTAttention
    intermediate : BERTIntermediate
    output : BERTOutput

    Notes
    -----
    Vaswani et al. (2017), section 3.1. Derived in
    :doc:`/chapters/encoder`, equations (encoder-forward) and
    (encoder-grad).
    """

    def __init__(self, config: BERTConfig) -> None:
        self.attention = BERTAttention(config)
        self.intermediate = BERTIntermediate(config)
        self.output = BERTOutput(config)

    def forward(
        self, x: Tensor, mask: Tensor | Packing | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Run the layer.

        Parameters
        ----------
        x : Tensor, shape (B, T, H), or packed, (N, H)
        mask : Tensor of bool or Packing, optional
            True where a key is visible; (B, 1, 1, T) or (B, 1, T, T).
            Or how ``x`` was packed.

        Returns
        -------
        y : Tensor, of the shape of ``x``
        weights : Tensor, shape (B, A, T, T), or None for packed rows
            The attention probabilities before dropout.
        """
        a, weights = self.attention(x, mask)
        return self.output(self.intermediate(a), a), weights


class BERTEncoder(Module):
    """L encoder layers, one after the other.

    Parameters
    ----------
    config : BERTConfig

    Attributes
    ----------
    layer : ModuleList of BERTLayer

    Notes
    -----
    Derived in :doc:`/chapters/encoder`, equation (encoder-stack-forward).
    Each layer ends in a LayerNorm; no other one follows the last layer.
    """

    def __init__(self, config: BERTConfig) -> None:
        self.layer = ModuleList(
            BERTLayer(config) for _ in range(config.num_hidden_layers)
        )

    def forward(
        self,
        x: Tensor,
        mask: Tensor | Packing | None = None,
        output_hidden_states: bool = True,
        output_attentions: bool = True,
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """Run all layers.

        Parameters
        ----------
        x : Tensor, shape (B, T, H), or packed, (N, H)
            The embeddings.
        mask : Tensor of bool or Packing, optional
            True where a key is visible; (B, 1, 1, T) or (B, 1, T, T).
            Or how ``x`` was packed: that yields no weights.
        output_hidden_states, output_attentions : bool
            Whether to keep the states below the last, and the weights.

        Returns
        -------
        states : tuple of L + 1 Tensors, or of the last; shape (B, T, H)
            The embeddings, then the output of every layer.
        attentions : tuple of L Tensors, or of none; shape (B, A, T, T)
        """
        states, attentions = [x], []
        for layer in self.layer:
            x, weights = layer(x, mask)
            if not output_hidden_states:
                states.clear()
            states.append(x)
            if output_attentions and weights is not None:
                attentions.append(weights)
        return tuple(states), tuple(attentions)
