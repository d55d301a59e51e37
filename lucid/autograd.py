# Tangled from chapters/autodiff.ipynb; edit that, not this file.
"""Tensors that remember how they were made, and walk back to gradients."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from lucid.backend import (
    Array,
    array_module,
    asarray,
    scatter_add,
    to_numpy,
    use_backend,
)

Vjp = Callable[[Array], tuple["Array | None", ...]]
Axis = int | tuple[int, ...] | None


def unbroadcast(g: Array, shape: tuple[int, ...]) -> Array:
    """Sum ``g`` over the axes along which ``shape`` was broadcast.

    Parameters
    ----------
    g : array
        A gradient, of the shape of the result.
    shape : tuple of int
        The shape of the operand, which broadcasts to that of ``g``.

    Returns
    -------
    array of shape ``shape``

    Notes
    -----
    Derived in :doc:`/chapters/autodiff`, equation
    (autodiff-unbroadcast-grad).

    Examples
    --------
    >>> unbroadcast(np.ones((5, 3)), (3,))
    array([5., 5., 5.])
    """
    if g.shape == shape:
        return g
    extra = g.ndim - len(shape)
    axes = tuple(range(extra)) + tuple(
        i + extra for i, n in enumerate(shape) if n == 1
    )
    return g.sum(axes).reshape(shape)


_recording: ContextVar[bool] = ContextVar("recording", default=True)


@contextmanager
def no_grad() -> Iterator[None]:
    """Compute without recording, so that nothing is kept for a gradient.

    Notes
    -----
    Explained in :doc:`/chapters/autodiff`.
    """
    token = _recording.set(False)
    try:
        yield
    finally:
        _recording.reset(token)


class Tensor:
    """An array, and where asked for, the way back to what it came from.

    Parameters
    ----------
    data : array
        A NumPy or CuPy array; it is kept, not copied.
    requires_grad : bool
        Whether ``backward`` shall leave a gradient here. Only floating point
        tensors can have one.

    Attributes
    ----------
    data : array
        The values.
    grad : Tensor or None
        After ``backward``: the gradient, of the shape and dtype of ``data``.
        Gradients of several backward passes add up; set it to None to start
        anew.
    requires_grad : bool
        Whether a gradient flows to this tensor.

    Notes
    -----
    Built up in :doc:`/chapters/autodiff`.
    """

    __array_ufunc__ = None  # NumPy arrays leave mixed arithmetic to us

    def __init__(self, data: Array, requires_grad: bool = False) -> None:
        self.data = data if hasattr(data, "dtype") else np.asarray(data)
        if isinstance(self.data, np.generic):  # a NumPy sum gives a scalar
            self.data = np.asarray(self.data)
        if requires_grad and self.data.dtype.kind != "f":
            raise TypeError(
                f"requires_grad: only floating point tensors can have a "
                f"gradient, this one is {self.data.dtype}"
            )
        self.requires_grad = requires_grad
        self.grad: Tensor | None = None
        self._parents: tuple[Tensor, ...] = ()
        self._vjp: Vjp | None = None
        self._released = False
        self._sent: tuple[Array, np.ndarray] | None = None  # see `_note`

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis."""
        return self.data.shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self.data.ndim

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.data.size

    @property
    def dtype(self) -> np.dtype:
        """NumPy dtype of the elements."""
        return self.data.dtype

    @property
    def backend(self) -> str:
        """``"numpy"`` or ``"cupy"``: where the data lies."""
        return array_module(self.data).__name__

    @property
    def is_leaf(self) -> bool:
        """Whether this tensor was made directly, not by an operation."""
        return self._vjp is None and not self._released

    def backward(self, gradient: Tensor | None = None) -> None:
        """Send a gradient back to every leaf that this tensor came from.

        Each node adds up what arrives, as in equation (autodiff-chain), and
        is asked once. The graph is released on the way, with all that it
        kept in memory.

        Parameters
        ----------
        gradient : Tensor, optional
            What arrives from above, of the shape and dtype of this tensor.
            A tensor of one element needs none: it starts from 1.

        Raises
        ------
        RuntimeError
            If nothing was recorded, or an earlier ``backward`` has released
            the graph.
        ValueError
            If ``gradient`` is missing, of another shape or dtype, or lies
            on another backend.
        """
        if not self.requires_grad:
            raise RuntimeError(
                "backward: nothing was recorded for this tensor. Does an "
                "input have requires_grad=True, and were you outside "
                "no_grad()?"
            )
        gradients = {id(self): self._first_gradient(gradient)}
        if self.is_leaf:
            self._accumulate(gradients[id(self)].copy())
            return
        order = _from_first_to_last(self)
        while order:
            node = order.pop()
            g = gradients.pop(id(node), None)
            vjp, parents = node._vjp, node._parents
            node._vjp, node._parents, node._released = None, (), True
            if vjp is None or g is None:
                continue
            parts = vjp(g)
            for parent, part in zip(parents, parts, strict=True):
                if part is None or not parent.requires_grad:
                    continue
                if parent.is_leaf:
                    borrowed = _is_borrowed(part, g, parts)
                    parent._accumulate(part.copy() if borrowed else part)
                elif id(parent) in gradients:
                    gradients[id(parent)] = gradients[id(parent)] + part
                else:
                    gradients[id(parent)] = part

    def _first_gradient(self, gradient: Tensor | None) -> Array:
        if gradient is None:
            if self.size != 1:
                raise ValueError(
                    f"gradient: a tensor of shape {self.shape} needs one of "
                    f"the same shape; only a single number starts from 1"
                )
            return array_module(self.data).ones_like(self.data)
        if gradient.shape != self.shape or gradient.dtype != self.dtype:
            raise ValueError(
                f"gradient: expected shape {self.shape} and dtype "
                f"{self.dtype}, got {gradient.shape} and {gradient.dtype}"
            )
        check_same_backend(result=self, gradient=gradient)
        return gradient.data

    def _accumulate(self, part: Array) -> None:
        """Add ``part``, an array nobody else holds, to the gradient."""
        if self.grad is None:
            self.grad = Tensor(part)
        else:
            self.grad.data += part

    def _check_number(self) -> None:
        if self.dtype.kind == "b":
            raise TypeError(
                "arithmetic with a tensor of bool: convert it with "
                ".to(dtype='int64') or .to(dtype='float32') first"
            )

    def _operand(self, other: Any) -> Tensor:
        """Return the other side of an arithmetic operator."""
        self._check_number()
        return self._alike(other)

    def _alike(self, other: Any) -> Tensor:
        """Turn the other side of an operator into a tensor of this dtype."""
        if isinstance(other, Tensor):
            check_same_kind(self, other)
            return other
        if not isinstance(other, (numbers.Real, np.bool_)):
            raise TypeError(
                f"arithmetic with a {type(other).__name__}: wrap it with "
                f"lucid.tensor(...) first"
            )
        if self.dtype.kind != "f" and not isinstance(
            other, (int, np.integer, np.bool_)
        ):
            raise TypeError(
                f"arithmetic of a tensor of {self.dtype} with {other!r}: "
                f"convert it with .to(dtype='float32') first"
            )
        xp = array_module(self.data)
        return Tensor(xp.full((), other, dtype=self.dtype))

    def __add__(self, other: Any) -> Tensor:
        b = self._operand(other)
        return record(
            self.data + b.data,
            (self, b),
            lambda g: (unbroadcast(g, self.shape), unbroadcast(g, b.shape)),
        )

    __radd__ = __add__

    def __sub__(self, other: Any) -> Tensor:
        b = self._operand(other)
        return record(
            self.data - b.data,
            (self, b),
            lambda g: (unbroadcast(g, self.shape), unbroadcast(-g, b.shape)),
        )

    def __rsub__(self, other: Any) -> Tensor:
        return self._operand(other) - self

    def __neg__(self) -> Tensor:
        """Return the opposite; of unsigned integers there is none."""
        self._check_number()
        if self.dtype.kind == "u":
            raise TypeError(
                f"negation of a tensor of {self.dtype}, which has no "
                f"numbers below 0: convert it with .to(dtype='int64') first"
            )
        return record(-self.data, (self,), lambda g: (-g,))

    def __mul__(self, other: Any) -> Tensor:
        b = self._operand(other)
        return record(
            self.data * b.data,
            (self, b),
            lambda g: (
                unbroadcast(g * b.data, self.shape),
                unbroadcast(g * self.data, b.shape),
            ),
        )

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Tensor:
        b = self._operand(other)
        if self.dtype.kind != "f":
            raise TypeError(
                f"division of a tensor of {self.dtype}: convert it with "
                f".to(dtype='float32') first"
            )
        quotient = self.data / b.data
        return record(
            quotient,
            (self, b),
            lambda g: (
                unbroadcast(g / b.data, self.shape),
                unbroadcast(-g * quotient / b.data, b.shape),
            ),
        )

    def __rtruediv__(self, other: Any) -> Tensor:
        return self._operand(other) / self

    def __pow__(self, exponent: float) -> Tensor:
        self._check_number()
        if not isinstance(exponent, numbers.Real):
            raise TypeError(
                f"exponent: wanted a number, got {type(exponent).__name__}"
            )
        whole = isinstance(exponent, numbers.Integral)
        if self.dtype.kind != "f" and not whole:
            raise TypeError(
                f"exponent: {exponent} would make floats of {self.dtype}; "
                f"convert the tensor with .to(dtype='float32') first"
            )
        n = int(exponent) if whole else float(exponent)
        return record(
            self.data**n,
            (self,),
            lambda g: (g * (n * self.data ** (n - 1) if n else 0),),
        )

    def __matmul__(self, other: Tensor) -> Tensor:
        """Matrix product; the gradient: equation (autodiff-matmul-grad)."""
        b = self._operand(other)
        if self.ndim < 2 or b.ndim < 2:
            raise ValueError(
                f"matmul: both sides need two axes or more, got shapes "
                f"{self.shape} and {b.shape}"
            )
        return record(
            self.data @ b.data,
            (self, b),
            lambda g: (
                unbroadcast(g @ b.data.swapaxes(-1, -2), self.shape),
                unbroadcast(self.data.swapaxes(-1, -2) @ g, b.shape),
            ),
        )

    def __eq__(self, other: object) -> Tensor:  # type: ignore[override]
        return Tensor(self.data == self._alike(other).data)

    def __ne__(self, other: object) -> Tensor:  # type: ignore[override]
        return Tensor(self.data != self._alike(other).data)

    def __lt__(self, other: Any) -> Tensor:
        return Tensor(self.data < self._alike(other).data)

    def __le__(self, other: Any) -> Tensor:
        return Tensor(self.data <= self._alike(other).data)

    def __gt__(self, other: Any) -> Tensor:
        return Tensor(self.data > self._alike(other).data)

    def __ge__(self, other: Any) -> Tensor:
        return Tensor(self.data >= self._alike(other).data)

    __hash__ = object.__hash__

    def reshape(self, *shape: int) -> Tensor:
        """Return the same elements in another shape; one axis may be -1."""
        return record(
            self.data.reshape(*shape),
            (self,),
            lambda g: (g.reshape(self.shape),),
        )

    def transpose(self, *axes: int) -> Tensor:
        """Return the axes in another order; without arguments, reversed."""
        turned = self.data.transpose(*axes)  # refuses what is no order
        order = [a % self.ndim for a in axes] or range(self.ndim)[::-1]
        back = tuple(int(i) for i in np.argsort(order))
        return record(turned, (self,), lambda g: (g.transpose(back),))

    @property
    def mT(self) -> Tensor:  # noqa: N802
        """The last two axes exchanged."""
        return record(
            self.data.swapaxes(-1, -2),
            (self,),
            lambda g: (g.swapaxes(-1, -2),),
        )

    @property
    def T(self) -> Tensor:  # noqa: N802
        """All axes in reverse order."""
        return self.transpose()

    def __getitem__(self, index: Any) -> Tensor:
        with use_backend(self.backend):
            index = _plain_index(index)

        def vjp(g: Array) -> tuple[Array]:
            whole = array_module(g).zeros_like(self.data)
            if _may_repeat(index):
                scatter_add(whole, index, g)
            else:
                whole[index] = g
            return (whole,)

        return record(self.data[index], (self,), vjp)

    def sum(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """Sum over one axis, several, or all."""

        def vjp(g: Array) -> tuple[Array]:
            g = _restore_axes(g, self.shape, axis, keepdims)
            xp = array_module(g)
            return (xp.broadcast_to(g, self.shape),)

        return record(self.data.sum(axis, keepdims=keepdims), (self,), vjp)

    def mean(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """Mean over one axis, several, or all; of floating point only."""
        if self.dtype.kind != "f":
            raise TypeError(
                f"mean of a tensor of {self.dtype}: convert it with "
                f".to(dtype='float32') first"
            )
        total = self.sum(axis, keepdims)
        return total * (total.size / self.size if self.size else math.nan)

    def max(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """Largest element; equal largest elements share the gradient."""
        return self._extreme(self.data.max, axis, keepdims)

    def min(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """Smallest element; equal smallest elements share the gradient."""
        return self._extreme(self.data.min, axis, keepdims)

    def _extreme(
        self, pick: Callable[..., Array], axis: Axis, keepdims: bool
    ) -> Tensor:
        top = pick(axis, keepdims=True)

        def vjp(g: Array) -> tuple[Array]:
            g = _restore_axes(g, self.shape, axis, keepdims)
            ties = (self.data == top).astype(self.dtype)
            return (g * ties / ties.sum(axis, keepdims=True),)

        value = top if keepdims else pick(axis)
        return record(value, (self,), vjp)

    def argmax(self, axis: int | None = None) -> Tensor:
        """Index of the (first) largest element; no gradient passes."""
        return Tensor(self.data.argmax(axis))

    def to(self, backend: str | None = None, dtype: Any = None) -> Tensor:
        """Return the tensor on another backend or in another dtype.

        The gradient flows back in the old dtype, to the old backend.
        """
        data = self.data
        if backend is not None:
            with use_backend(backend):
                data = asarray(data)
        if dtype is not None:
            data = data.astype(dtype)

        def vjp(g: Array) -> tuple[Array]:
            with use_backend(self.backend):
                return (asarray(g.astype(self.dtype)),)

        if data.dtype.kind != "f":
            moved = Tensor(data)
            moved._note(self.data)
            return moved
        return record(data, (self,), vjp)

    def _note(self, source: Array) -> None:
        """Note the integers that the host has sent, if this left it."""
        left = isinstance(source, np.ndarray) and self.backend != "numpy"
        if left and self.dtype.kind in "iub":
            self._sent = self.data, np.array(source, dtype=self.dtype)

    def host_values(self) -> np.ndarray:
        """Return the values to look at, from the note where there is one.

        Integers that the host has sent to a device need not be fetched from
        there, so nothing waits. What was computed there is fetched.
        """
        if self._sent is not None and self._sent[0] is self.data:
            return self._sent[1]
        return to_numpy(self.data)

    def detach(self) -> Tensor:
        """Return the same values without the way back."""
        return Tensor(self.data)

    def numpy(self) -> np.ndarray:
        """Return the values as a NumPy array, on the CPU without a copy."""
        return to_numpy(self.data)

    def __array__(
        self, dtype: Any = None, copy: bool | None = None
    ) -> np.ndarray:
        """Serve ``np.asarray``, which must not cut a gradient off unseen."""
        if self.requires_grad:
            raise TypeError(
                "np.asarray: this tensor has a gradient, which would end "
                "here; take the values with .numpy()"
            )
        return np.array(self.data, dtype=dtype, copy=copy)

    def item(self) -> float | int | bool:
        """Return the one element as a Python number."""
        if self.size != 1:
            raise ValueError(
                f"item: needs a tensor of one element, this one has shape "
                f"{self.shape}"
            )
        return self.data.item()

    def tolist(self) -> Any:
        """Return the values as nested Python lists."""
        return self.data.tolist()

    def __repr__(self) -> str:
        text = np.array2string(
            self.numpy(),
            separator=", ",
            prefix="tensor(",
            precision=4,
            threshold=200,
            edgeitems=3,
        )
        notes = [text]
        if self.dtype not in (np.float32, np.int64, np.bool_):
            notes.append(f"dtype={self.dtype}")
        if self.backend != "numpy":
            notes.append(f"backend={self.backend}")
        if self.requires_grad:
            notes.append("requires_grad=True")
        return f"tensor({', '.join(notes)})"

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a tensor without axes")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        return (self[i] for i in range(len(self)))

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __bool__(self) -> bool:
        return bool(self.item())

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if not self.is_leaf:
            raise RuntimeError(
                "deepcopy: this tensor was computed by an operation; copy "
                "its values with detach() first"
            )
        copy = type(self)(self.data.copy(), self.requires_grad)
        memo[id(self)] = copy
        if self.grad is not None:
            copy.grad = Tensor(self.grad.data.copy())
        return copy


def record(data: Array, parents: tuple[Tensor, ...], vjp: Vjp) -> Tensor:
    """Wrap the result of an operation and write down the way back.

    Parameters
    ----------
    data : array
        What the operation computed.
    parents : tuple of Tensor
        What it computed it from.
    vjp : callable
        Takes the gradient of the loss with respect to ``data`` and returns
        one array (or None, for no gradient) per parent: the vector-Jacobian
        products of equation (autodiff-vjp). It must not write into the
        gradient it is given, which others may hold as well. What it returns
        is that gradient, a view, or made by this call: a leaf may keep it.

    Notes
    -----
    Explained in :doc:`/chapters/autodiff`.
    """
    result = Tensor(data)
    if _recording.get() and any(p.requires_grad for p in parents):
        result.requires_grad = True
        result._parents = parents
        result._vjp = vjp
    return result


def _from_first_to_last(last: Tensor) -> list[Tensor]:
    """Order the recorded nodes so that each comes after its parents."""
    order: list[Tensor] = []
    seen = {id(last)}
    stack = [(last, iter(last._parents))]
    while stack:
        node, parents = stack[-1]
        if node._released:
            raise RuntimeError(
                "backward: the graph of this tensor has been released by an "
                "earlier backward(); run the forward pass again"
            )
        for parent in parents:
            if parent.requires_grad and id(parent) not in seen:
                seen.add(id(parent))
                stack.append((parent, iter(parent._parents)))
                break
        else:
            stack.pop()
            if not node.is_leaf:
                order.append(node)
    return order


def _is_borrowed(part: Array, g: Array, parts: tuple[Any, ...]) -> bool:
    """Whether somebody else may hold the memory of ``part``, too."""
    holders = sum(
        other is part or (other is not None and other.base is part)
        for other in parts
    )
    return part is g or part.base is not None or holders > 1


def check_same_kind(a: Tensor, b: Tensor) -> None:
    """Raise unless two tensors share backend and dtype.

    Raises
    ------
    ValueError
        If they lie on different backends.
    TypeError
        If their dtypes differ: nothing is promoted silently.

    Notes
    -----
    Explained in :doc:`/chapters/autodiff`.
    """
    for x in (a, b):
        if not isinstance(x, Tensor):
            raise TypeError(
                f"wanted two tensors, one is a {type(x).__name__}; wrap it "
                f"with lucid.tensor(...)"
            )
    if a.backend != b.backend:
        raise ValueError(
            f"one tensor lies on {a.backend}, the other on {b.backend}; "
            f"move one of them with .to(backend)"
        )
    if a.dtype != b.dtype:
        raise TypeError(
            f"one tensor is {a.dtype}, the other {b.dtype}; convert one of "
            f"them with .to(dtype=...)"
        )


def check_same_backend(**tensors: Tensor | None) -> None:
    """Raise unless all tensors that are given lie where the first one does.

    Parameters
    ----------
    **tensors : Tensor or None
        By the name that an error message shall call them.

    Raises
    ------
    TypeError
        If one is no tensor.
    ValueError
        If one lies elsewhere; the message names it and both backends.

    Notes
    -----
    Explained in :doc:`/chapters/autodiff`.
    """
    given = [(name, t) for name, t in tensors.items() if t is not None]
    for name, t in given:
        if not isinstance(t, Tensor):
            raise TypeError(
                f"{name}: wanted a tensor, got {type(t).__name__}; wrap it "
                f"with lucid.tensor(...)"
            )
        first, there = given[0][0], given[0][1].backend
        if t.backend != there:
            raise ValueError(
                f"{name}: lies on {t.backend}, {first} on {there}; move one "
                f"of them with .to(backend)"
            )


def check_floats(**tensors: Tensor | None) -> None:
    """Raise unless all that are given are of one floating point dtype.

    Parameters
    ----------
    **tensors : Tensor or None
        By the name that an error message shall call them.

    Raises
    ------
    TypeError
        If one is no tensor, not floating point, or of another dtype than
        the first: nothing is promoted silently.
    ValueError
        If they do not all lie on one backend.

    Notes
    -----
    Explained in :doc:`/chapters/autodiff`.
    """
    check_same_backend(**tensors)
    given = [(name, t) for name, t in tensors.items() if t is not None]
    first, wanted = given[0][0], given[0][1].dtype
    for name, t in given:
        if t.dtype.kind != "f":
            raise TypeError(
                f"{name}: wanted floating point, got {t.dtype}; convert it "
                f"with .to(dtype='float32')"
            )
        if t.dtype != wanted:
            raise TypeError(
                f"{name}: {t.dtype} does not go with {first} of {wanted}; "
                f"convert one of them with .to(dtype=...)"
            )


def _plain_index(index: Any) -> Any:
    """Replace what can be an array inside an index by one, where data is."""
    if isinstance(index, tuple):
        return tuple(_plain_index(i) for i in index)
    if isinstance(index, np.ndarray) or (isinstance(index, list) and index):
        return asarray(index)
    return index.data if isinstance(index, Tensor) else index


def _may_repeat(index: Any) -> bool:
    """Whether an index may name the same element twice."""
    parts = index if isinstance(index, tuple) else (index,)
    return not all(
        part is None or part is Ellipsis or isinstance(part, (int, slice))
        for part in parts
    )


def _restore_axes(
    g: Array, shape: tuple[int, ...], axis: Axis, keepdims: bool
) -> Array:
    """Put the axes that a reduction removed back, with length 1."""
    if keepdims or not shape:
        return g
    axes = range(len(shape)) if axis is None else np.atleast_1d(axis)
    gone = {int(a) % len(shape) for a in axes}
    return g.reshape(
        tuple(1 if i in gone else n for i, n in enumerate(shape))
    )


def tensor(
    data: Any, dtype: Any = None, requires_grad: bool = False
) -> Tensor:
    """Make a tensor on the active backend, always by copying.

    Python floats become float32 and Python integers int64; NumPy and CuPy
    arrays keep their dtype.

    Parameters
    ----------
    data : number, nested list, array or Tensor
    dtype : NumPy dtype or its name, optional
    requires_grad : bool

    Returns
    -------
    Tensor

    Notes
    -----
    Explained in :doc:`/chapters/autodiff`.

    Examples
    --------
    >>> tensor([[1.0, 2.0]], requires_grad=True)
    tensor([[1., 2.]], requires_grad=True)
    """
    if isinstance(data, Tensor):
        data = data.data
    if not hasattr(data, "dtype"):
        data = np.asarray(data)
        if dtype is None:
            dtype = {"f": np.float32, "i": np.int64}.get(data.dtype.kind)
    if data.dtype.kind not in "fiub" and dtype is None:
        raise TypeError(
            f"data: wanted numbers in a regular shape, got {data.dtype}"
        )
    array = asarray(data)
    made = Tensor(
        array.astype(array.dtype if dtype is None else dtype), requires_grad
    )
    made._note(data)
    return made
