# Tangled from chapters/arrays.ipynb; edit that, not this file.
"""The random streams: one on the host for weights, one on the device."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from lucid.checks import check_integer

_seed: int | None = None
_host: np.random.Generator = np.random.default_rng()
_device: dict[str, Any] = {}


def manual_seed(seed: int) -> None:
    """Start every random stream of the package anew from ``seed``.

    Initial weights are drawn on the host, so a seed gives the same model on
    both backends. Dropout is drawn where the data is.

    Raises
    ------
    ValueError
        If ``seed`` is no integer, or negative; no stream has changed then.

    Notes
    -----
    Explained in :doc:`/chapters/arrays`.
    """
    global _seed, _host
    _seed = check_integer("seed", seed)
    _host = np.random.default_rng(_seed)
    _device.clear()


def host_rng() -> np.random.Generator:
    """Return the host's generator, which draws initial weights.

    Notes
    -----
    Explained in :doc:`/chapters/arrays`.
    """
    return _host


def device_rng(xp: ModuleType) -> Any:
    """Return the generator of array module ``xp``, which draws dropout.

    Its stream is another than the host's, though one seed starts both.

    Notes
    -----
    Explained in :doc:`/chapters/arrays`.
    """
    if xp.__name__ not in _device:
        (child,) = np.random.SeedSequence(_seed).spawn(1)
        _device[xp.__name__] = xp.random.default_rng(child)
    return _device[xp.__name__]
