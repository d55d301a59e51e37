"""The random streams: one on the host for weights, one on the device."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

_seed: int | None = None
_host: np.random.Generator = np.random.default_rng()
_device: dict[str, Any] = {}


def manual_seed(seed: int) -> None:
    """Start every random stream of the package anew from ``seed``.

    Initial weights are drawn on the host, so a seed gives the same model on
    both backends. Dropout is drawn where the data is.
    """
    global _seed, _host
    _seed = seed
    _host = np.random.default_rng(seed)
    _device.clear()


def host_rng() -> np.random.Generator:
    """Return the host's generator, which draws initial weights."""
    return _host


def device_rng(xp: ModuleType) -> Any:
    """Return the generator of array module ``xp``, which draws dropout."""
    if xp.__name__ not in _device:
        _device[xp.__name__] = xp.random.default_rng(_seed)
    return _device[xp.__name__]
