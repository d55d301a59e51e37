# Tangled from chapters/how-to-read.ipynb; edit that, not this file.
"""The operations of neural networks as functions."""

from __future__ import annotations

from lucid.nn.activations import gelu, gelu_tanh, relu
from lucid.nn.attention import attention
from lucid.nn.dropout import dropout
from lucid.nn.embedding import embedding
from lucid.nn.layernorm import layer_norm
from lucid.nn.linear import linear
from lucid.nn.losses import cross_entropy, mse_loss
from lucid.nn.softmax import log_softmax, softmax

__all__ = [
    "attention",
    "cross_entropy",
    "dropout",
    "embedding",
    "gelu",
    "gelu_tanh",
    "layer_norm",
    "linear",
    "log_softmax",
    "mse_loss",
    "relu",
    "softmax",
]
