# Tangled from chapters/how-to-read.ipynb; edit that, not this file.
"""Parameters, modules and the layers of BERT."""

from __future__ import annotations

from lucid.nn import functional, init
from lucid.nn.dropout import Dropout
from lucid.nn.embedding import Embedding
from lucid.nn.layernorm import LayerNorm
from lucid.nn.linear import Linear
from lucid.nn.module import Module, ModuleList, Parameter

__all__ = [
    "Dropout",
    "Embedding",
    "LayerNorm",
    "Linear",
    "Module",
    "ModuleList",
    "Parameter",
    "functional",
    "init",
]
