# Tangled from chapters/optimisers.ipynb; edit that, not this file.
"""Which parameters weight decay applies to."""

from __future__ import annotations

from typing import Any

from lucid.nn.layernorm import LayerNorm
from lucid.nn.module import Module, Parameter


def decay_groups(model: Module, weight_decay: float) -> list[dict[str, Any]]:
    """Sort a model's parameters into those that decay and those that do not.

    Biases, and all that belongs to a `LayerNorm`, do not. A parameter that
    several names lead to comes once, under its first name.

    Parameters
    ----------
    model : Module
    weight_decay : float
        For the first group; the second has 0.

    Returns
    -------
    list of two dicts
        Groups for an optimiser, the parameters with their names.

    Notes
    -----
    As ``exclude_from_weight_decay`` in google-research/bert. Explained in
    :doc:`/chapters/optimisers`.

    Examples
    --------
    >>> linear = lucid.nn.Linear(3, 2)
    >>> decayed, kept = decay_groups(linear, 0.01)
    >>> [name for name, _ in decayed["params"]]
    ['weight']
    """
    spared = {
        id(parameter)
        for module in model.modules()
        if isinstance(module, LayerNorm)
        for parameter in module.parameters()
    }
    decayed: list[tuple[str, Parameter]] = []
    kept: list[tuple[str, Parameter]] = []
    for name, parameter in model.named_parameters():
        is_bias = name.rpartition(".")[2] == "bias"
        group = kept if is_bias or id(parameter) in spared else decayed
        group.append((name, parameter))
    return [
        {"params": decayed, "weight_decay": weight_decay},
        {"params": kept, "weight_decay": 0.0},
    ]
