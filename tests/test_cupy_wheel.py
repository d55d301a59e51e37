"""What is said of CuPy here, against the wheel: it imports without a driver.

No kernel of CUDA is written in this package, only calls of CuPy's functions;
so there is no CUDA source to compile here. CuPy compiles its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import backends
import make_cupy_names
import pytest

import lucid

PACKAGE = Path(lucid.__file__).parent


@pytest.fixture
def cupy():
    """The real one. The double, should it be installed, is not of interest."""
    module = pytest.importorskip("cupy", reason="CuPy is not installed here")
    if not hasattr(module, "RawKernel"):
        pytest.skip("CuPy is not installed here")
    return module


def test_the_names_of_the_double_are_those_of_the_wheel(cupy):
    names = make_cupy_names.read_wheel()
    stored = json.loads(make_cupy_names.FILE.read_text("utf-8"))
    was = stored["version"]
    if cupy.__version__.split(".")[:2] != was.split(".")[:2]:
        pytest.skip(f"CuPy {cupy.__version__}; the names are those of {was}")
    assert stored == names, "run: python tests/make_cupy_names.py"


def test_every_attribute_of_the_double_is_in_the_wheel(cupy):
    from cupy_double import CUPY, DeviceArray

    def public(thing):
        return {name for name in vars(thing) if not name.startswith("_")}

    assert public(CUPY) - set(dir(cupy)) == set()
    assert public(CUPY.cuda) - set(dir(cupy.cuda)) == set()
    assert public(CUPY.cuda.Event) - set(dir(cupy.cuda.Event)) == set()
    runtime, pool = cupy.cuda.runtime, cupy.cuda.MemoryPool
    assert public(CUPY.cuda.runtime) - set(dir(runtime)) == set()
    assert public(CUPY.get_default_memory_pool) - set(dir(pool)) == set()
    assert public(DeviceArray) - set(dir(cupy.ndarray)) == set()


def test_the_audit_notices_what_cupy_lacks(cupy):
    """A keyword too many, a name too many, an argument too many."""
    wrong = {
        ("take", 2, ("mode",)),
        ("sum", 1, ("where",)),
        ("maximum.reduce", 1, ()),
        ("random.Generator.permutation", 1, ()),
        ("broadcast_to", 3, ()),
    }
    backends.CALLS.update(wrong)
    backends.CALLS.add(("sum", 1, ("axis", "keepdims")))
    found = backends.misfits()
    backends.CALLS.clear()
    assert len(found) == len(wrong)
    assert any(line.startswith("sum: ") for line in found)


def test_the_package_writes_no_cuda_source():
    text = "".join(p.read_text("utf-8") for p in PACKAGE.rglob("*.py"))
    for name in ("RawKernel", "RawModule", "ElementwiseKernel", "jit."):
        assert name not in text


def test_what_the_wheel_says_without_a_device(cupy):
    """The real import, the real question, and our sentence; in a new Python."""
    if cupy.is_available():
        pytest.skip("there is a device here")
    code = "import lucid; lucid.set_backend('cupy')"
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=PACKAGE.parent,
        capture_output=True,
        text=True,
    )
    assert run.returncode
    assert run.stderr.splitlines()[-1] == (
        "RuntimeError: backend 'cupy': no CUDA device was found. Check "
        "`nvidia-smi`, or stay on the CPU with lucid.set_backend('numpy')."
    )
