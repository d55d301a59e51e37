"""A stand-in for CuPy that enforces its rules on NumPy arrays; test-only.

``install(monkeypatch)`` puts it where ``import cupy`` looks. It has only the
names below, in CuPy's spelling, over a ``DeviceArray`` that wraps a NumPy
array and lets nothing through that CuPy would refuse: no implicit conversion,
no NumPy operand, no ``where=``, no index out of range with an error. Every
copy to the host and every wait for the device is counted in ``TRANSFERS``.

The rules were read from CuPy 14.2. They say nothing about speed, nor about
faults of CUDA itself.
"""

import operator
import sys
import types

import numpy as np

TRANSFERS: list[str] = []


def _conversion_error(*_, **__):
    raise TypeError(
        "Implicit conversion to a NumPy array is not allowed. Please use "
        "`.get()` to construct a NumPy array explicitly."
    )


def _wait(why):
    TRANSFERS.append(why)


def _wrap(value):
    """Return any result of NumPy as a DeviceArray; there are no scalars."""
    return DeviceArray(np.asarray(value))


def _operand(value):
    """Unwrap what CuPy accepts beside an array: arrays and numbers."""
    if isinstance(value, DeviceArray):
        return value._array
    if isinstance(value, (bool, int, float, np.generic)):
        return value
    raise TypeError(f"Unsupported type {type(value)}")


def _index(index, shape, axis=0):
    """Unwrap an index; integers out of range wrap around, as on a GPU."""
    if isinstance(index, tuple):
        parts, axis = [], 0
        for part in index:
            parts.append(_index(part, shape, axis))
            if part is Ellipsis:
                used = sum(p is not None for p in index)
                axis = len(shape) - used + 1 + axis
            elif part is not None:
                axis += 1
        return tuple(parts)
    if isinstance(index, DeviceArray):
        array = index._array
        if array.dtype == bool:
            _wait("boolean index")
            return array
        return array % shape[axis]
    if isinstance(index, np.ndarray):
        _wait("NumPy index array")
    return index


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
    base = property(
        lambda self: None if self._array.base is None else self._array.base
    )
    T = property(lambda self: _wrap(self._array.T))

    def __len__(self):
        return len(self._array)

    # what waits for the device
    def get(self):
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
        if isinstance(result, np.generic):  # CuPy gives a view of 0 axes
            plain = index if isinstance(index, tuple) else (index,)
            return DeviceArray(self._array[(*plain, ...)])
        return DeviceArray(result)

    def __setitem__(self, index, value):
        index = _index(index, self.shape)
        value = _operand(value)
        if isinstance(index, np.ndarray) and index.dtype != bool:
            # which of several equal indices wins is undefined: shuffle
            rows, each = np.unique(index.ravel(), return_counts=True)
            if (each > 1).any():
                raise AssertionError(
                    f"repeated indices written: {rows[each > 1]}"
                )
        self._array[index] = value

    # methods
    def get_method(name):  # noqa: N805
        def method(self, *args, **kwargs):
            if kwargs.keys() & {"where", "initial", "correction"}:
                raise TypeError(
                    f"{name}() got an unexpected keyword argument"
                )
            return _wrap(getattr(self._array, name)(*args, **kwargs))

        return method

    for _name in (
        "sum mean max min argmax reshape transpose swapaxes copy ravel all any"
    ).split():
        locals()[_name] = get_method(_name)
    del get_method, _name

    def astype(self, dtype, copy=True):
        return _wrap(self._array.astype(dtype, copy=copy))


def _binary(name, swapped=False):
    function = getattr(operator, name)

    def method(self, other):
        theirs = _operand(other)
        pair = (theirs, self._array) if swapped else (self._array, theirs)
        return _wrap(function(*pair))

    return method


for _name in "add sub mul truediv pow matmul and_ or_".split():
    _dunder = _name.rstrip("_")
    setattr(DeviceArray, f"__{_dunder}__", _binary(_name))
    setattr(DeviceArray, f"__r{_dunder}__", _binary(_name, swapped=True))
for _name in "eq ne lt le gt ge".split():
    setattr(DeviceArray, f"__{_name}__", _binary(_name))


def _in_place(name):
    function = getattr(operator, name)

    def method(self, other):
        self._array = function(self._array, _operand(other))
        return self

    return method


for _name in "iadd isub imul itruediv".split():
    setattr(DeviceArray, f"__{_name}__", _in_place(_name))
DeviceArray.__neg__ = lambda self: _wrap(-self._array)
DeviceArray.__invert__ = lambda self: _wrap(~self._array)


def _function(name, function):
    def wrapped(*args, out=None, **kwargs):
        if kwargs:
            raise TypeError(
                f"{name}() got unexpected keywords {list(kwargs)}"
            )
        plain = [_operand(a) for a in args]
        if out is None:
            return _wrap(function(*plain))
        if not isinstance(out, DeviceArray):
            raise TypeError(f"{name}: out= must be an array of the device")
        function(*plain, out=out._array)
        return out

    return wrapped


def _add_at(target, index, values):
    if target.dtype not in ("f2", "f4", "f8", "i4", "i8", "u4", "u8"):
        raise TypeError(f"add.at: {target.dtype} is not supported")
    index = _index(index, target.shape)
    np.add.at(target._array, index, _operand(values))


def _asarray(x, dtype=None):
    if isinstance(x, DeviceArray):
        if dtype is None or x.dtype == dtype:
            return x
        return x.astype(dtype)
    return DeviceArray(np.array(x, dtype=dtype))


def _like(function):
    return lambda x, dtype=None: _wrap(function(x._array, dtype=dtype))


def _several(function):
    def wrapped(arrays, axis=0):
        return _wrap(function([_operand(a) for a in arrays], axis))

    return wrapped


def _where(condition, a, b):  # the one-argument form would wait
    return _wrap(np.where(_operand(condition), _operand(a), _operand(b)))


class _Generator:
    """CuPy's Generator: four methods, and a stream of its own."""

    def __init__(self, seed):
        self._rng = np.random.Generator(np.random.MT19937(seed))

    def random(self, size=None, dtype=np.float64):
        return _wrap(self._rng.random(size).astype(dtype))

    def standard_normal(self, size=None, dtype=np.float64):
        return _wrap(self._rng.standard_normal(size).astype(dtype))

    def uniform(self, low=0.0, high=1.0, size=None):
        return _wrap(self._rng.uniform(low, high, size))

    def integers(self, low, high=None, size=None):
        return _wrap(self._rng.integers(low, high, size))


def _erf(x):
    from scipy.special import erf

    result = erf(x._array)
    return _wrap(result.astype(np.float64) if x.dtype == "f2" else result)


def _make():
    cupy = types.ModuleType("cupy")
    names = vars(cupy)
    names.update(ndarray=DeviceArray, is_available=lambda: True)
    names.update(
        {n: getattr(np, n) for n in ("finfo", "float32", "float64")}
    )
    for name in (
        "exp log sqrt tanh maximum minimum add subtract multiply divide "
        "matmul logical_not"
    ).split():
        names[name] = _function(name, getattr(np, name))
    cupy.add.at = _add_at
    cupy.asarray = cupy.array = _asarray
    for name in ("empty", "zeros", "ones"):
        make = getattr(np, name)
        names[name] = lambda shape, dtype=float, make=make: _wrap(
            make(shape, dtype)
        )
        names[f"{name}_like"] = _like(getattr(np, f"{name}_like"))
    cupy.arange = lambda *a, dtype=None: _wrap(np.arange(*a, dtype=dtype))
    cupy.broadcast_to = lambda x, shape: _wrap(
        np.broadcast_to(x._array, shape)
    )
    cupy.concatenate = _several(np.concatenate)
    cupy.stack = _several(np.stack)
    cupy.split = lambda x, ends, axis=0: [
        _wrap(part) for part in np.split(x._array, ends, axis)
    ]
    cupy.where = _where
    cupy.einsum = lambda subscripts, *operands: _wrap(  # it has no out=
        np.einsum(subscripts, *(x._array for x in operands))
    )
    cupy.random = types.SimpleNamespace(default_rng=_Generator)
    return cupy


CUPY = _make()
DeviceArray.__module__ = "cupy"
SPECIAL = types.ModuleType("cupyx.scipy.special")
SPECIAL.erf = _erf


def install(monkeypatch):
    """Put the double where ``import cupy`` looks, for one test."""
    monkeypatch.setitem(sys.modules, "cupy", CUPY)
    monkeypatch.setitem(sys.modules, "cupyx.scipy.special", SPECIAL)
