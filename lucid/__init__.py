# Tangled from chapters/how-to-read.ipynb; edit that, not this file.
"""BERT in plain NumPy or CuPy, forward and backward.

The package is tangled from a book, which begins with
:doc:`/chapters/how-to-read`.
"""

from __future__ import annotations

from lucid import nn
from lucid.autograd import Tensor, no_grad, tensor
from lucid.backend import get_backend, manual_seed, set_backend, use_backend
from lucid.gradcheck import check_gradients

__all__ = [
    "Tensor",
    "check_gradients",
    "get_backend",
    "manual_seed",
    "nn",
    "no_grad",
    "set_backend",
    "tensor",
    "use_backend",
]


__version__ = "0.1.0"
