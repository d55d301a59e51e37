"""A stand-in for CuPy that enforces its rules on NumPy arrays; test-only.

``install()`` puts it where ``import cupy`` looks. Its names, their keyword
arguments and the loops of its ufuncs come from ``cupy_names.json``, which is
read off the real wheel (``make_cupy_names.py``). What is behind a name is
NumPy's function, over a ``DeviceArray`` that wraps a NumPy array and lets
nothing through that CuPy would refuse: no implicit conversion, no NumPy
operand, no ``where=``. Where CuPy is silently different, so is the double:
indices out of range wrap, equal indices are written in a random order, every
result is an array.

Whatever waits for a device, or copies to or from it, is written down in
``TRANSFERS``, and told to ``WATCH`` if there is one. Each name that would
launch a kernel is counted in ``KERNELS``; one call may launch several. With ``STRICT`` set, a
silent difference is an error at the place where it happens.

The rules were read from CuPy 14.2. They say nothing about speed, nor about
faults of CUDA itself.
"""

from __future__ import annotations

import inspect
import json
import sys
import time
import types
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

NAMES = json.loads(Path(__file__).with_name("cupy_names.json").read_text())
TRANSFERS: list[str] = []
KERNELS: Counter[str] = Counter()  # what would be launched, by name
WATCH: list[Callable[[str], None]] = []
STRICT = False  # or raise where CuPy would silently differ from NumPy
_SHUFFLE = np.random.default_rng(0)


def _signature(text: str) -> inspect.Signature:
    space: dict[str, Any] = {"numpy": np}
    exec(f"def function{text}: pass", space)
    return inspect.signature(space["function"])


def _conversion_error(*_, **__):
    raise TypeError(
        "Implicit conversion to a NumPy array is not allowed. Please use "
        "`.get()` to construct a NumPy array explicitly."
    )


def _wait(why: str) -> None:
    """Note that the host waits here, or that something is copied."""
    TRANSFERS.append(why)
    for watch in WATCH:
        watch(why)


def _wrap(value):
    """Return any result of NumPy as a DeviceArray; there are no scalars."""
    if isinstance(value, list):
        return [_wrap(part) for part in value]
    return DeviceArray(np.asarray(value))


def _operand(value):
    """Unwrap what CuPy accepts beside an array: arrays and numbers."""
    if isinstance(value, DeviceArray):
        return value._array
    if isinstance(value, (bool, int, float, np.generic)):
        return value
    raise TypeError(f"Unsupported type {type(value)}")


def _plain(value):
    """Unwrap an argument of a function; NumPy arrays are refused."""
    if isinstance(value, np.ndarray):
        raise TypeError(f"Unsupported type {type(value)}")
    if isinstance(value, (list, tuple)):
        return type(value)(_plain(part) for part in value)
    return value._array if isinstance(value, DeviceArray) else value


_NO_KERNEL = set(  # views, and memory as it is found
    "broadcast_to empty empty_like ravel reshape split squeeze swapaxes "
    "transpose".split()
)


def _call(name, text, function, args, kwargs):
    """Call NumPy's ``function`` if CuPy's signature allows the call."""
    if name not in _NO_KERNEL:
        KERNELS[name] += 1
    try:
        bound = _signature_of(text).bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{name}(): {error}") from None
    out = bound.arguments.get("out")
    if out is not None and not isinstance(out, DeviceArray):
        raise TypeError(f"{name}(): out must be an array of the device")
    plain = [_plain(a) for a in bound.args]
    result = function(
        *plain, **{k: _plain(v) for k, v in bound.kwargs.items()}
    )
    return _wrap(result) if out is None else out


_SIGNATURES: dict[str, inspect.Signature] = {}


def _signature_of(text):
    if text not in _SIGNATURES:
        _SIGNATURES[text] = _signature(text)
    return _SIGNATURES[text]


# ---- indices ------------------------------------------------------------------


def _index(index, shape):
    """Unwrap an index; integer arrays out of range wrap, as on a GPU."""
    parts = index if isinstance(index, tuple) else (index,)
    used = sum(
        part.ndim
        if isinstance(part, DeviceArray) and part.dtype == bool
        else part is not None and part is not Ellipsis
        for part in parts
    )
    plain, axis = [], 0
    for part in parts:
        if part is Ellipsis:
            axis += len(shape) - used
        elif part is not None:
            if isinstance(part, (np.ndarray, list)):
                _wait("an index from the host")
                part = DeviceArray(np.asarray(part))
            if isinstance(part, DeviceArray):
                part = _index_array(part._array, shape[axis])
                axis += part.ndim - 1 if part.dtype == bool else 0
            axis += 1
        plain.append(part)
    return tuple(plain) if isinstance(index, tuple) else plain[0]


def _index_array(array, length):
    if array.dtype == bool:
        _wait("a boolean index")
        return array
    if array.dtype.kind not in "iu":
        raise IndexError("arrays used as indices must be of integer type")
    if STRICT and ((array < -length) | (array >= length)).any():
        raise AssertionError(f"an index out of range of {length}: {array}")
    return array % length if length else array


# ---- the array ----------------------------------------------------------------


class DeviceArray:
    """CuPy's ndarray, as far as lucid may use it."""

    __hash__ = None
    __array_ufunc__ = None
    __array__ = __contains__ = __index__ = _conversion_error

    def __init__(self, array):
        self._array = array

    # what can be asked without waiting
    shape = property(lambda self: self._array.shape)
    dtype = property(lambda self: self._array.dtype)
    ndim = property(lambda self: self._array.ndim)
    size = property(lambda self: self._array.size)
    nbytes = property(lambda self: self._array.nbytes)
    base = property(lambda self: self._array.base)  # only whether there is
    T = property(lambda self: _wrap(self._array.T))
    mT = property(lambda self: _wrap(self._array.mT))

    def __len__(self):
        return len(self._array)

    def __deepcopy__(self, memo):
        return self.copy()

    # what waits for the device
    def get(self, stream=None, order="C", out=None, blocking=True):
        _wait("get")
        return self._array.copy()

    def item(self):
        _wait("item")
        return self._array.item()

    def tolist(self):
        _wait("tolist")
        return self._array.tolist()

    def __bool__(self):
        _wait("bool")
        return bool(self._array)

    def __float__(self):
        _wait("float")
        return float(self._array)

    def __int__(self):
        _wait("int")
        return int(self._array)

    def __repr__(self):
        return f"DeviceArray({self._array!r})"

    # indexing
    def __getitem__(self, index):
        result = self._array[_index(index, self.shape)]
        if not np.may_share_memory(result, self._array):
            KERNELS["getitem"] += 1  # a copy, not a view
        if isinstance(result, np.generic):  # CuPy gives a view of 0 axes
            plain = index if isinstance(index, tuple) else (index,)
            if not any(isinstance(p, DeviceArray) for p in plain):
                return DeviceArray(self._array[(*plain, ...)])
        return _wrap(result)

    def __setitem__(self, index, value):
        KERNELS["setitem"] += 1
        index, value = _index(index, self.shape), _operand(value)
        parts = index if isinstance(index, tuple) else (index,)
        self._array[index] = value
        if not any(isinstance(p, np.ndarray) for p in parts):
            return
        # which of several equal indices wins is undefined: write again, in
        # a random order
        places = np.arange(self.size).reshape(self.shape)[index].ravel()
        if STRICT and len(np.unique(places)) < len(places):
            raise AssertionError("one element is written twice")
        values = np.broadcast_to(value, self._array[index].shape).ravel()
        order = _SHUFFLE.permutation(len(places))
        self._array.flat[places[order]] = values[order]

    def astype(self, dtype, order="K", casting=None, subok=None, copy=True):
        if casting is not None or subok is not None:
            raise TypeError("astype(): casting and subok are not supported")
        if not copy and self.dtype == dtype:
            return self
        KERNELS["astype"] += 1
        return _wrap(self._array.astype(dtype, order))


def _method(name, text):
    def method(self, *args, **kwargs):
        function = getattr(np.ndarray, name)
        return _call(name, text, function, (self, *args), kwargs)

    return method


for _name, _text in NAMES["methods"].items():
    if _name not in vars(DeviceArray):
        setattr(DeviceArray, _name, _method(_name, _text))


# ---- ufuncs -------------------------------------------------------------------

_KINDS = {bool: 0, int: 1, float: 2, "b": 0, "i": 1, "u": 1, "f": 2, "c": 3}


def _fits(value, char):
    """Whether a loop of dtype ``char`` takes the value: NEP 50."""
    if isinstance(value, (np.ndarray, np.generic)):
        return np.can_cast(value.dtype, char)
    return _KINDS[type(value)] <= _KINDS[np.dtype(char).kind]


def _loop(loops, operands):
    """The first loop that takes all operands, such as ``ff->f``."""
    for loop in loops:
        takes = loop.partition("->")[0]
        if all(map(_fits, operands, takes)):
            return np.dtype(loop[-1])
    raise TypeError(
        f"no loop for {[getattr(x, 'dtype', x) for x in operands]}"
    )


def _ufunc(name, function, text, loops):
    count = loops[0].index("-")

    def call(*args, **kwargs):
        operands = [_operand(a) for a in args[:count]]
        result = _call(name, text, function, args, kwargs)
        if kwargs.get("out") is None and len(args) == count:
            if not kwargs.get("dtype"):
                return result.astype(_loop(loops, operands), copy=False)
        return result

    call.__name__ = name
    return call


def _add_at(target, index, values):
    if target.dtype not in ("f2", "f4", "f8", "i4", "i8", "u4", "u8"):
        raise TypeError(f"add.at: {target.dtype} is not supported")
    KERNELS["add.at"] += 1
    index = _index(index, target.shape)
    np.add.at(target._array, index, _operand(values))


def _erf(x):
    from scipy.special import erf

    KERNELS["erf"] += 1
    dtype = _loop(NAMES["erf"], [_operand(x)])
    return _wrap(erf(x._array.astype(dtype)))


def _make_ufuncs():
    return {
        name: _ufunc(name, getattr(np, name), text, loops)
        for name, (text, loops) in NAMES["ufuncs"].items()
    }


# ---- other functions ------------------------------------------------------------


def _asarray(x, dtype=None, order=None, *, copy=None, blocking=False):
    if isinstance(x, DeviceArray):
        same = dtype is None or x.dtype == dtype
        return x if same and not copy else x.astype(dtype or x.dtype)
    _wait("an array from the host")
    return DeviceArray(np.array(x, dtype=dtype))


def _array(obj, dtype=None, copy=True, **kwargs):
    return _asarray(obj, dtype, copy=copy)


def _einsum(*operands, **kwargs):
    if kwargs.keys() - {"dtype", "optimize"}:
        raise TypeError(f"einsum(): unexpected keywords {list(kwargs)}")
    KERNELS["einsum"] += 1
    subscripts, *arrays = operands
    return _wrap(np.einsum(subscripts, *map(_operand, arrays), **kwargs))


def _where(condition, x=None, y=None):
    if x is None or y is None:
        _wait("where with one argument")
        return tuple(map(_wrap, np.where(_operand(condition))))
    KERNELS["where"] += 1
    operands = [_operand(condition), _operand(x), _operand(y)]
    return _wrap(np.where(*operands))


def _functions():
    given = {
        "array": _array,
        "asarray": _asarray,
        "einsum": _einsum,
        "is_available": lambda: True,
        "shares_memory": lambda a, b: np.shares_memory(a._array, b._array),
        "where": _where,
    }

    def plain(name, text):
        function = getattr(np, name)
        return lambda *a, **k: _call(name, text, function, a, k)

    return {
        name: given.get(name) or plain(name, text)
        for name, text in NAMES["functions"].items()
    }


class _Generator:
    """CuPy's Generator: few methods, and a stream of its own."""

    def __init__(self, seed=None):
        self._rng = np.random.Generator(np.random.MT19937(seed))


def _draw(name, text):
    def method(self, *args, **kwargs):
        bound = _signature_of(text).bind(self, *args, **kwargs)
        dtype = bound.arguments.pop("dtype", None)
        KERNELS[f"random.{name}"] += 1
        drawn = getattr(self._rng, name)(*bound.args[1:], **bound.kwargs)
        return _wrap(drawn if dtype is None else np.asarray(drawn, dtype))

    return method


for _name, _text in NAMES["generator"].items():
    setattr(_Generator, _name, _draw(_name, _text))


class _Pool:
    """A memory pool that keeps nothing."""

    def used_bytes(self):
        return 0

    total_bytes = free_all_blocks = used_bytes


_RUNTIME = types.SimpleNamespace(
    getDeviceProperties=lambda device: {
        "name": b"a stand-in",
        "major": 0,
        "minor": 0,
        "totalGlobalMem": 0,
    },
    driverGetVersion=lambda: 0,
    runtimeGetVersion=lambda: 0,
)


class _Event:
    """A mark in the stream of work; here, a moment on the host's clock."""

    def record(self):
        self.time = time.perf_counter()

    def synchronize(self):
        _wait("an event")


def _missing(name):
    raise AttributeError(
        f"the double of CuPy has no {name!r}: if the real CuPy has it, add it "
        f"to tests/make_cupy_names.py and run that"
    )


def _make():
    cupy = types.ModuleType("cupy")
    names = vars(cupy)
    names.update(_functions(), **_make_ufuncs())
    names.update(
        {n: getattr(np, n) for n in ("finfo", "float32", "float64")}
    )
    names.update(ndarray=DeviceArray, newaxis=None, __getattr__=_missing)
    names["__version__"] = NAMES["version"]
    cupy.add.at = _add_at
    cupy.random = types.SimpleNamespace(default_rng=_Generator)
    cupy.get_default_memory_pool = _Pool
    cupy.cuda = types.SimpleNamespace(
        Event=_Event,
        runtime=_RUNTIME,
        get_elapsed_time=lambda a, b: 1000 * (b.time - a.time),
    )
    return cupy


CUPY = _make()
DeviceArray.__module__ = "cupy"


# ---- operators are ufuncs ---------------------------------------------------------

_OPERATORS = {
    "sub": "subtract", "mul": "multiply", "truediv": "divide",
    "pow": "power", "and": "bitwise_and", "or": "bitwise_or",
    "neg": "negative", "eq": "equal", "ne": "not_equal", "lt": "less",
    "le": "less_equal", "gt": "greater", "ge": "greater_equal",
}  # fmt: skip


def _operator(name):
    """The method behind an operator; ``r`` swaps, ``i`` writes in place."""
    known = {*_OPERATORS, "add", "matmul", "invert"}
    bare = name if name in known else name[1:]
    function = getattr(CUPY, _OPERATORS.get(bare, bare))
    if bare in ("neg", "invert"):
        return lambda self: function(self)
    if name == bare:
        return lambda self, other: function(self, _beside(other))
    if name[0] == "r":
        return lambda self, other: function(_beside(other), self)
    return lambda self, other: function(self, _beside(other), out=self)


def _beside(other):
    _operand(other)
    return other


for _name in NAMES["operators"]:
    if f"__{_name}__" not in vars(DeviceArray) or _name in ("eq", "ne"):
        setattr(DeviceArray, f"__{_name}__", _operator(_name))
DeviceArray.__hash__ = None

SPECIAL = types.ModuleType("cupyx.scipy.special")
SPECIAL.erf = _erf


def install(setitem=dict.__setitem__):
    """Put the double where ``import cupy`` looks.

    For one test: ``install(monkeypatch.setitem)``.
    """
    setitem(sys.modules, "cupy", CUPY)
    setitem(sys.modules, "cupyx.scipy.special", SPECIAL)
