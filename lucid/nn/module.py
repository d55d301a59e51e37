# Tangled from chapters/modules.ipynb; edit that, not this file.
"""Parameters, and modules that own them by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

import numpy as np

from lucid.autograd import Tensor
from lucid.backend import asarray, to_numpy, use_backend


class Parameter(Tensor):
    """A tensor that a module owns and training changes.

    Parameters
    ----------
    data : array
        The initial values; kept, not copied.
    requires_grad : bool

    Notes
    -----
    Explained in :doc:`/chapters/modules`.
    """

    def __init__(self, data: Any, requires_grad: bool = True) -> None:
        super().__init__(data, requires_grad)


class Module:
    """A part of a model: parameters, smaller modules, and ``forward``.

    Assigning a `Parameter` or a `Module` to an attribute is all it takes to
    own it. The names of parameters are the attribute paths, such as
    ``encoder.layer.0.output.dense.weight``. A parameter that several paths
    lead to is one parameter; its first path is its name, the others are
    aliases.

    Attributes
    ----------
    training : bool
        Whether dropout is at work. See `train` and `eval`.

    Notes
    -----
    Built in :doc:`/chapters/modules`.
    """

    training: bool = True

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the output; each module defines its own."""
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    def children(self) -> Iterator[tuple[str, Module]]:
        """Yield name and module of every direct part."""
        for name, value in vars(self).items():
            if isinstance(value, Module):
                yield name, value

    def modules(self) -> Iterator[Module]:
        """Yield this module and all inside it; a shared one twice."""
        yield self
        for _, child in self.children():
            yield from child.modules()

    def _paths(self, prefix: str = "") -> Iterator[tuple[str, Parameter]]:
        """Yield every path to a parameter, aliases included."""
        for name, value in vars(self).items():
            if isinstance(value, Parameter):
                yield prefix + name, value
            elif isinstance(value, Module):
                yield from value._paths(f"{prefix}{name}.")

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """Yield name and parameter, each parameter once."""
        seen: set[int] = set()
        for name, parameter in self._paths():
            if id(parameter) not in seen:
                seen.add(id(parameter))
                yield name, parameter

    def parameters(self) -> Iterator[Parameter]:
        """Yield each parameter once."""
        return (parameter for _, parameter in self.named_parameters())

    def zero_grad(self) -> None:
        """Forget the gradients of all parameters."""
        for parameter in self.parameters():
            parameter.grad = None

    def train(self, mode: bool = True) -> Self:
        """Switch dropout on (or, with ``mode=False``, off)."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        """Switch dropout off: the same input gives the same output."""
        return self.train(False)

    def to(self, backend: str | None = None, dtype: Any = None) -> Self:
        """Move every parameter to a backend, or convert it to a dtype.

        The `Parameter` objects stay the same, so ties hold. Gradients are
        forgotten.

        Raises
        ------
        TypeError
            If ``dtype`` is not floating point.
        """
        if dtype is not None and np.dtype(dtype).kind != "f":
            raise TypeError(
                f"dtype: wanted floating point, got {np.dtype(dtype)}"
            )
        for parameter in self.parameters():
            parameter.data = parameter.detach().to(backend, dtype).data
            parameter.grad = None
        return self

    def state_dict(self) -> dict[str, Tensor]:
        """Return each parameter's values by name, sharing memory."""
        return {name: p.detach() for name, p in self.named_parameters()}

    def load_state_dict(
        self, state: Mapping[str, Any], strict: bool = True
    ) -> tuple[list[str], list[str]]:
        """Copy values into the parameters, or change nothing at all.

        Parameters
        ----------
        state : mapping of str to Tensor or array
            A parameter may stand under its name or any alias.
        strict : bool
            Whether missing and unexpected names are errors.

        Returns
        -------
        missing, unexpected : lists of str

        Raises
        ------
        ValueError
            If a shape differs, two aliases disagree, a parameter is
            read-only, or (strict) names are missing or unexpected. Nothing
            has been copied then.
        """
        found = self._find(state)
        named = list(self.named_parameters())
        missing = [name for name, p in named if id(p) not in found]
        unexpected = sorted(set(state) - {name for name, _ in self._paths()})
        if strict and (missing or unexpected):
            raise ValueError(
                f"state: missing {missing}, unexpected {unexpected}; pass "
                f"strict=False to load what fits"
            )
        for _, parameter in named:
            if id(parameter) in found:
                with use_backend(parameter.backend):
                    parameter.data[...] = asarray(found[id(parameter)][1])
        return missing, unexpected

    def _find(
        self, state: Mapping[str, Any]
    ) -> dict[int, tuple[str, np.ndarray]]:
        """Return a name in ``state`` and its values, by parameter id."""
        found: dict[int, tuple[str, np.ndarray]] = {}
        for name, parameter in self._paths():
            if name not in state:
                continue
            values = _checked_values(name, state[name], parameter)
            if id(parameter) in found:
                other, others = found[id(parameter)]
                if not np.array_equal(values, others, equal_nan=True):
                    raise ValueError(
                        f"state: {name} and {other} are one parameter here, "
                        f"but their values differ"
                    )
            found[id(parameter)] = name, values
        return found

    def extra_repr(self) -> str:
        """Return what `repr` shows between the brackets of a leaf."""
        return ""

    def __repr__(self) -> str:
        lines = [
            f"  ({name}): " + repr(child).replace("\n", "\n  ")
            for name, child in self.children()
        ]
        name = type(self).__name__
        if not lines:
            return f"{name}({self.extra_repr()})"
        return "\n".join([f"{name}(", *lines, ")"])


def _checked_values(name: str, values: Any, parameter: Tensor) -> np.ndarray:
    """Return ``values`` as an array that fits ``parameter``, or raise."""
    array = to_numpy(values.data if isinstance(values, Tensor) else values)
    if array.shape != parameter.shape:
        raise ValueError(
            f"state: {name} has shape {array.shape}, the model wants "
            f"{parameter.shape}"
        )
    if array.dtype.kind != "f":
        raise ValueError(
            f"state: {name} is {array.dtype}, the model wants floating point"
        )
    target = parameter.data  # on CuPy no array is read-only
    if isinstance(target, np.ndarray) and not target.flags.writeable:
        raise ValueError(f"state: {name} is read-only in the model")
    return array.astype(parameter.dtype, copy=False)


class ModuleList(Module):
    """Modules in a row, named ``0``, ``1``, ``2`` …

    Parameters
    ----------
    modules : iterable of Module

    Notes
    -----
    Built in :doc:`/chapters/modules`.
    """

    def __init__(self, modules: Iterable[Module]) -> None:
        for i, module in enumerate(modules):
            setattr(self, str(i), module)

    def __len__(self) -> int:
        return sum(1 for _ in self.children())

    def __iter__(self) -> Iterator[Any]:
        return (module for _, module in self.children())

    def __getitem__(self, index: int) -> Any:
        return list(self)[index]
