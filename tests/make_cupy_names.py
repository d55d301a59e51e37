"""Write ``tests/cupy_names.json``: what the real CuPy calls things.

    python tests/make_cupy_names.py

reads the installed wheel (any ``cupy-cuda*``; it imports without a driver)
and stores, for each name that the package may use, its signature, and for
each ufunc its loops, such as ``ee->e``. ``cupy_double`` is built from that
file, so it runs where no wheel is to be had; ``test_cupy_wheel`` compares
the file with the wheel wherever there is one.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
from pathlib import Path

FILE = Path(__file__).with_name("cupy_names.json")

# The allow-list. A name that lucid comes to need is added here.
FUNCTIONS = (
    "all any arange argmax argsort array asarray broadcast_to concatenate "
    "einsum empty empty_like full full_like is_available matmul max min mean "
    "ones ones_like shares_memory split stack sum take where zeros zeros_like"
).split()
UFUNCS = (
    "absolute add bitwise_and bitwise_or divide equal exp greater "
    "greater_equal invert isfinite isnan less less_equal log logical_and "
    "logical_not logical_or maximum minimum multiply negative not_equal "
    "power sqrt square subtract tanh"
).split()
METHODS = (
    "all any argmax argmin astype copy fill get item max mean min ravel "
    "reshape squeeze sum swapaxes take tolist transpose var"
).split()
OPERATORS = (
    "add radd iadd sub rsub isub mul rmul imul truediv rtruediv itruediv "
    "pow matmul and or neg invert eq ne lt le gt ge bool float int len "
    "getitem setitem"
).split()


def _default(value: object) -> str:
    if isinstance(value, type):
        home = value.__module__
        name = value.__name__
        return name if home == "builtins" else f"{home}.{name}"
    return repr(value)


def _without_types(signature: inspect.Signature) -> str:
    """Spell a signature without its annotations."""
    parts, star = [], False
    for p in signature.parameters.values():
        if p.kind is p.VAR_POSITIONAL:
            star = True
        if p.kind is p.KEYWORD_ONLY and not star:
            parts.append("*")
            star = True
        sign = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        end = "" if p.default is p.empty else f"={_default(p.default)}"
        parts.append(f"{sign}{p.name}{end}")
    return f"({', '.join(parts)})"


def signature_text(thing: object) -> str:
    """The signature of a function, a ufunc or a compiled method, as text.

    Ufuncs and methods are compiled, so ``inspect`` cannot see into them; CuPy
    writes their signatures in the first line of the docstring.
    """
    try:
        return _without_types(inspect.signature(thing))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        line = (thing.__doc__ or "").splitlines()[0].replace("\\", "")
    inside = line[line.index("(") : line.rindex(")") + 1]
    return re.sub(r"\b(Py_ssize_t|bint|int) (?=\w)", "", inside)


def _loops(ufunc: object) -> list[str]:
    """Its loops, without bfloat16's: those need ml_dtypes beside CuPy."""
    return [loop for loop in ufunc.types if "E" not in loop]  # type: ignore[attr-defined]


def read_wheel() -> dict:
    """What ``cupy_names.json`` shall hold, from the installed CuPy."""
    cupy = importlib.import_module("cupy")
    special = importlib.import_module("cupyx.scipy.special")
    generator = cupy.random.Generator
    return {
        "version": cupy.__version__,
        "functions": {
            n: signature_text(getattr(cupy, n)) for n in FUNCTIONS
        },
        "ufuncs": {
            n: [signature_text(getattr(cupy, n)), _loops(getattr(cupy, n))]
            for n in UFUNCS
        },
        "erf": _loops(special.erf),
        "methods": {
            n: signature_text(getattr(cupy.ndarray, n)) for n in METHODS
        },
        "operators": [
            n for n in OPERATORS if hasattr(cupy.ndarray, f"__{n}__")
        ],
        "generator": {
            n: signature_text(getattr(generator, n))
            for n in ("integers", "random", "standard_normal", "uniform")
        },
        "generator_lacks": [
            n
            for n in ("normal", "permutation", "shuffle", "choice")
            if not hasattr(generator, n)
        ],
    }


def write(names: dict) -> str:
    return json.dumps(names, indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    FILE.write_text(write(read_wheel()))
    print(f"wrote {FILE.name}")
