# Tangled from chapters/optimisers.ipynb; edit that, not this file.
"""What all optimisers share: parameters by name, in groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from lucid.autograd import Tensor
from lucid.backend import Array, array_module, asarray, to_numpy, use_backend
from lucid.checks import check_integer, check_keys, check_number
from lucid.nn.module import Parameter


def by_name(parameters: Iterable[Any]) -> list[tuple[str, Parameter]]:
    """Pair each parameter with its name, or with its number.

    Parameters
    ----------
    parameters : iterable of Parameter or of (str, Parameter)
        As `Module.parameters` or `Module.named_parameters` gives them.

    Raises
    ------
    TypeError
        If something else is among them.
    ValueError
        If a parameter or a name comes twice.

    Notes
    -----
    Explained in :doc:`/chapters/optimisers`.
    """
    pairs: list[tuple[str, Parameter]] = []
    names: dict[int, str] = {}
    for i, entry in enumerate(parameters):
        pair = entry if isinstance(entry, tuple) else (str(i), entry)
        name, parameter = pair
        if not isinstance(parameter, Parameter):
            raise TypeError(
                f"parameters: wanted Parameters, or (name, Parameter), "
                f"got {type(parameter).__name__}"
            )
        if id(parameter) in names or name in names.values():
            raise ValueError(
                f"parameters: {name} comes twice (as "
                f"{names.get(id(parameter), name)} too)"
            )
        names[id(parameter)] = name
        pairs.append((name, parameter))
    return pairs


@dataclass
class Group:
    """Parameters that share a learning rate and a weight decay.

    Notes
    -----
    Explained in :doc:`/chapters/optimisers`.
    """

    params: dict[str, Parameter]
    lr: float
    weight_decay: float

    def __post_init__(self) -> None:
        self.lr = check_number("lr", self.lr)
        decay = check_number("weight_decay", self.weight_decay)
        self.weight_decay = decay


class Optimizer:
    """Parameters in groups, and what is remembered about each.

    Parameters
    ----------
    parameters : iterable
        Of parameters, of pairs of name and parameter, or of groups: dicts
        with the key ``params`` and, where the group differs, ``lr`` and
        ``weight_decay``.
    lr : float
        Learning rate of the groups that name none.
    weight_decay : float
        Weight decay of the groups that name none.

    Attributes
    ----------
    groups : list of Group
    state : dict
        By the name of a parameter: how many steps it has made, and the
        arrays that the optimiser keeps for it. A parameter that never had a
        gradient is not in it.

    Raises
    ------
    ValueError
        If there is no parameter, one comes twice, or a number is out of
        range.

    Notes
    -----
    Explained in :doc:`/chapters/optimisers`.
    """

    slots: tuple[str, ...] = ()  # names of the arrays kept for a parameter

    def __init__(
        self, parameters: Iterable[Any], lr: float, weight_decay: float
    ) -> None:
        given = list(parameters)
        if not (given and isinstance(given[0], Mapping)):
            given = [{"params": given}]
        for group in given:
            wrong = group.keys() - {"params", "lr", "weight_decay"}
            if wrong or "params" not in group:
                raise ValueError(
                    f"parameters: a group has params, and may have lr and "
                    f"weight_decay; this one has {', '.join(group)}"
                )
        members = [list(group["params"]) for group in given]
        named = iter(by_name(chain(*members)))
        if not any(members):
            raise ValueError("parameters: there are none")
        self.groups = [
            Group(
                params=dict(islice(named, len(params))),
                lr=group.get("lr", lr),
                weight_decay=group.get("weight_decay", weight_decay),
            )
            for group, params in zip(given, members, strict=True)
        ]
        self.state: dict[str, dict[str, Any]] = {}

    @property
    def lr(self) -> float:
        """Learning rate of the first group; setting it sets all groups."""
        return self.groups[0].lr

    @lr.setter
    def lr(self, value: float) -> None:
        lr = check_number("lr", value)
        for group in self.groups:
            group.lr = lr

    def parameters(self) -> dict[str, Parameter]:
        """Return all parameters by name."""
        return {
            name: parameter
            for group in self.groups
            for name, parameter in group.params.items()
        }

    def zero_grad(self) -> None:
        """Forget the gradients of all parameters."""
        for parameter in self.parameters().values():
            parameter.grad = None

    def step(self) -> None:
        """Move each parameter that has a gradient."""
        raise NotImplementedError(f"{type(self).__name__} has no step")

    def _kept(self, name: str, parameter: Parameter) -> dict[str, Any]:
        """Return what is kept for a parameter, zeros at first."""
        x = parameter.data
        if name not in self.state:
            xp = array_module(x)
            kept = {slot: xp.zeros(x.shape, x.dtype) for slot in self.slots}
            self.state[name] = {"steps": 0, **kept}
        kept = self.state[name]
        for slot in self.slots:
            y = kept[slot]
            if (type(y), y.dtype, y.shape) != (type(x), x.dtype, x.shape):
                raise ValueError(
                    f"step: parameter {name} is now {x.dtype} of shape "
                    f"{x.shape} on {parameter.backend}; its moments were "
                    f"made for {y.dtype} of shape {y.shape} on "
                    f"{array_module(y).__name__}. Make a new optimiser"
                )
        return kept

    def state_dict(self) -> dict[str, Any]:
        """Return what changes in training: NumPy arrays and numbers.

        The keys are ``group.0.lr`` and, by the name of each parameter,
        ``<name>.steps`` and one key for each array, such as ``<name>.m``.
        On the CPU the arrays share memory with the optimiser: write or copy
        them before the next step.
        """
        state: dict[str, Any] = {
            f"group.{i}.lr": group.lr for i, group in enumerate(self.groups)
        }
        for name, kept in self.state.items():
            for slot, value in kept.items():
                is_array = slot in self.slots
                state[f"{name}.{slot}"] = (
                    to_numpy(value) if is_array else value
                )
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Copy a state in, or change nothing at all.

        Raises
        ------
        ValueError
            If names are missing or unexpected, a shape differs, or a
            number is out of range.
        """
        parameters = self.parameters()
        rates = {f"group.{i}.lr" for i in range(len(self.groups))}
        new: dict[str, dict[str, Any]] = {}
        for key in state.keys() - rates:
            name = key.rpartition(".")[0]
            if name in parameters:
                for slot in ("steps", *self.slots):
                    new.setdefault(name, {})[slot] = f"{name}.{slot}"
        wanted = rates.union(*(kept.values() for kept in new.values()))
        check_keys(state, wanted)
        for name, kept in new.items():
            for slot, key in kept.items():
                kept[slot] = (
                    check_integer(key, state[key])
                    if slot == "steps"
                    else _checked_copy(key, state[key], parameters[name])
                )
        keys = [f"group.{i}.lr" for i in range(len(rates))]
        lrs = [check_number(key, state[key]) for key in keys]
        self.state = new
        for group, lr in zip(self.groups, lrs, strict=True):
            group.lr = lr


def _checked_copy(key: str, values: Any, parameter: Parameter) -> Array:
    """Return a copy of ``values`` that fits ``parameter``, or raise."""
    array = to_numpy(values.data if isinstance(values, Tensor) else values)
    if array.shape != parameter.shape or array.dtype.kind != "f":
        raise ValueError(
            f"state: {key} is {array.dtype} of shape {array.shape}, wanted "
            f"floating point of shape {parameter.shape}"
        )
    with use_backend(parameter.backend):
        return asarray(array.astype(parameter.dtype))
