# Tangled from chapters/how-to-read.ipynb; edit that, not this file.
"""Where arrays live: NumPy on the CPU or CuPy on a CUDA device."""

from __future__ import annotations

from lucid.backend.arrays import (
    Array,
    array_module,
    asarray,
    scatter_add,
    to_numpy,
)
from lucid.backend.blocks import matmul_rows, run_rows
from lucid.backend.random import device_rng, host_rng, manual_seed
from lucid.backend.special import erf
from lucid.backend.switch import (
    active_module,
    get_backend,
    set_backend,
    use_backend,
)

__all__ = [
    "Array",
    "active_module",
    "array_module",
    "asarray",
    "device_rng",
    "erf",
    "get_backend",
    "host_rng",
    "manual_seed",
    "matmul_rows",
    "run_rows",
    "scatter_add",
    "set_backend",
    "to_numpy",
    "use_backend",
]
