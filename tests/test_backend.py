"""The switch, the random streams, and rows run in blocks."""

import multiprocessing
import subprocess
import sys
import threading
import time
import types
import warnings

import numpy as np
import pytest
import threadpoolctl

import lucid
from lucid import backend
from lucid.backend import blocks, cores, switch


@pytest.fixture(autouse=True)
def _numpy_again():
    yield
    switch._load_cupy.cache_clear()
    lucid.set_backend("numpy")


def test_numpy_is_where_we_start():
    assert lucid.get_backend() == "numpy"
    assert backend.active_module() is np
    assert backend.array_module(np.ones(1)) is np
    assert backend.array_module(np.float32(1)) is np
    assert backend.array_module(np.ones(1).view(MyArray)) is np


class MyArray(np.ndarray):
    pass


def test_the_top_of_the_package_opens_its_layers():
    code = "import lucid; lucid.nn.Linear; lucid.nn.functional.gelu"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True)
    assert run.returncode == 0, run.stderr


def loaded_by(statement: str) -> set[str]:
    """What a statement imports beyond the standard library and NumPy."""
    code = (
        "import sys, numpy.random; before = set(sys.modules)\n"
        f"{statement}\n"
        "print(*(set(sys.modules) - before))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    return set(run.stdout.split())


@pytest.mark.parametrize(
    "statement, wanted, parts",
    [
        ("import lucid", {"threadpoolctl"}, {"backend", "nn"}),
        (
            "from lucid.models.text.bert import BERTModel",
            {"threadpoolctl", "safetensors"},
            {"backend", "nn", "models", "ops"},
        ),
    ],
)
def test_an_import_loads_nothing_that_is_not_used(statement, wanted, parts):
    """That is what makes it quick: a clock would blame the machine."""
    modules = loaded_by(statement)
    ours = {m.split(".")[1] for m in modules if m.startswith("lucid.")}
    assert ours == parts | {"autograd", "checks", "gradcheck"}
    others = {m.partition(".")[0] for m in modules} - {"lucid"}
    assert others - sys.stdlib_module_names == wanted
    assert not others & {"asyncio", "unittest", "multiprocessing", "email"}


def test_an_unknown_backend_is_named():
    with pytest.raises(ValueError, match="backend: 'torch'.*numpy, cupy"):
        lucid.set_backend("torch")
    assert lucid.get_backend() == "numpy"
    with (
        pytest.raises(ValueError, match="'torch'"),
        lucid.use_backend("torch"),
    ):
        pass


def test_the_environment_variable_decides_at_first_use():
    code = "import lucid; lucid.tensor(1.0)"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={"LUCID_BACKEND": "abacus"},
        capture_output=True,
        text=True,
    )
    assert run.returncode and "'abacus' is not one of" in run.stderr


def pretend_cupy(monkeypatch, **names):
    switch._load_cupy.cache_clear()
    module = types.ModuleType("cupy")
    vars(module).update(names)
    monkeypatch.setitem(sys.modules, "cupy", module)
    return module


def test_without_cupy_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(ImportError, match=r"not installed.*cuda12"):
        lucid.set_backend("cupy")
    assert lucid.get_backend() == "numpy"


def test_without_a_device_we_say_so(monkeypatch):
    pretend_cupy(monkeypatch, is_available=lambda: False)
    with pytest.raises(RuntimeError, match="no CUDA device"):
        lucid.set_backend("cupy")
    assert lucid.get_backend() == "numpy"


def test_without_nvrtc_the_extra_is_named(monkeypatch):
    def fail(n):
        raise OSError("libnvrtc.so not found")

    pretend_cupy(monkeypatch, is_available=lambda: True, arange=fail)
    with (
        pytest.raises(RuntimeError, match=r"\[ctk\]"),
        lucid.use_backend("cupy"),
    ):
        pass
    assert lucid.get_backend() == "numpy"


def test_use_backend_returns_to_the_one_before(monkeypatch):
    cupy = pretend_cupy(
        monkeypatch, is_available=lambda: True, arange=np.arange
    )
    with lucid.use_backend("cupy"):
        assert backend.active_module() is cupy
        with lucid.use_backend("numpy"):
            assert lucid.get_backend() == "numpy"
        assert lucid.get_backend() == "cupy"
    assert lucid.get_backend() == "numpy"
    with pytest.raises(KeyError), lucid.use_backend("cupy"):
        raise KeyError
    assert lucid.get_backend() == "numpy"


def test_a_block_that_uses_a_backend_leaves_other_threads_alone(monkeypatch):
    cupy = pretend_cupy(
        monkeypatch, is_available=lambda: True, arange=np.arange
    )
    seen = []
    with lucid.use_backend("cupy"):
        worker = threading.Thread(
            target=lambda: seen.append(lucid.get_backend())
        )
        worker.start()
        worker.join()
    assert seen == ["numpy"]
    with lucid.use_backend("numpy"):
        lucid.set_backend("cupy")  # for afterwards, and for other threads
        assert lucid.get_backend() == "numpy"
    assert backend.active_module() is cupy


def test_scatter_add_adds_repeated_rows_up():
    target = np.zeros((3, 2))
    backend.scatter_add(target, np.array([2, 0, 2]), np.ones((3, 2)))
    np.testing.assert_array_equal(target, [[1, 1], [0, 0], [2, 2]])


def test_to_numpy_and_asarray():
    class OnDevice:
        __module__ = "cupy"

        def get(self):
            return np.arange(3)

    assert backend.to_numpy(OnDevice()).tolist() == [0, 1, 2]
    assert backend.asarray(OnDevice()).tolist() == [0, 1, 2]
    assert backend.asarray([1, 2], np.float32).dtype == np.float32


@pytest.mark.parametrize(
    "thing", [{"a": 1}, None, "cat", object(), [None], lucid]
)
def test_what_is_no_array_is_named(thing):
    kind = type(thing).__name__
    with pytest.raises(TypeError, match=f"x: wanted .* {kind}"):
        backend.array_module(thing)
    with pytest.raises(TypeError, match=f"x: wanted .* {kind}"):
        backend.asarray(thing)


def test_a_tensor_is_no_array():
    for function in (backend.array_module, backend.asarray):
        with pytest.raises(TypeError, match="x: wanted .* Tensor"):
            function(lucid.tensor([1.0, 2.0]))


@pytest.mark.parametrize(
    ("dtype", "bound"), [(np.float32, 2e-7), (np.float64, 1e-15)]
)
def test_erf(dtype, bound):
    from scipy.special import erf

    z = np.linspace(-7, 7, 100_001).astype(dtype)
    got = backend.erf(z)
    assert got.dtype == dtype
    assert np.abs(got - erf(z.astype(np.float64))).max() < bound
    assert np.isnan(backend.erf(np.array([np.nan], dtype)))[0]
    ends = backend.erf(np.array([-np.inf, 0.0, np.inf], dtype))
    np.testing.assert_array_equal(ends, [-1, 0, 1])


def test_the_streams_are_of_numpy_and_begin_anew():
    lucid.manual_seed(11)
    host = backend.host_rng().random(3)
    device = backend.device_rng(np).random(3)
    lucid.manual_seed(11)
    np.testing.assert_array_equal(host, backend.host_rng().random(3))
    np.testing.assert_array_equal(device, backend.device_rng(np).random(3))
    start = backend.device_rng(np).bit_generator.seed_seq
    assert (start.entropy, start.spawn_key) == (11, (0,))  # all of its bits


@pytest.mark.parametrize("seed", [-1, 1.5, "1", None, True])
def test_a_seed_is_an_integer_from_0_on(seed):
    backend.manual_seed(3)
    backend.host_rng().random()
    device = backend.device_rng(np)
    with pytest.raises(ValueError, match=f"^seed: .*{seed!r}"):
        backend.manual_seed(seed)
    assert backend.device_rng(np) is device
    backend.manual_seed(np.int64(3))
    again = backend.host_rng().random()
    backend.manual_seed(3)
    assert backend.host_rng().random() == again


# ---- blocks -----------------------------------------------------------------------


def test_every_row_is_run_once_and_results_come_in_order():
    x = np.arange(5000.0)[:, None] * np.ones(400)
    out = np.zeros_like(x)

    def kernel(x, out):
        out += 2 * x
        return x[0, 0], len(x)

    parts = backend.run_rows(kernel, x, out)
    np.testing.assert_array_equal(out, 2 * x)
    assert len(parts) > 1
    assert [first for first, _ in parts] == sorted(f for f, _ in parts)
    assert sum(n for _, n in parts) == 5000


@pytest.fixture
def two_blas_threads():
    """Whatever the environment says: BLAS has two threads in this test."""
    cores._blas.cache_clear()  # another test may have loaded SciPy's since
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        yield


def blas_threads():
    return {
        pool["num_threads"]
        for pool in threadpoolctl.threadpool_info()
        if pool["user_api"] == "blas"
    }


def test_blocks_do_not_depend_on_the_number_of_cores(monkeypatch):
    x = np.ones((5000, 400))
    lengths = []
    for threads in (1, 2, 7):
        monkeypatch.setattr(blocks, "thread_count", lambda n=threads: n)
        lengths.append(backend.run_rows(len, x))
    assert lengths[0] == lengths[1] == lengths[2]


def test_two_threads_share_the_blocks(two_blas_threads):
    meet = threading.Barrier(2, timeout=20)

    def kernel(x):  # returns only if another block runs at the same time
        meet.wait()
        return threading.get_ident()

    assert len(set(backend.run_rows(kernel, np.ones((4, 2)), block=2))) == 2


def test_blas_has_one_thread_meanwhile_and_its_own_afterwards(
    two_blas_threads,
):
    x = np.ones((5000, 400))
    assert set(backend.run_rows(lambda x: max(blas_threads()), x)) == {1}
    assert blas_threads() == {2}
    with pytest.raises(ZeroDivisionError):
        backend.run_rows(lambda x: 1 // 0, x)
    assert blas_threads() == {2}


def test_calls_that_overlap_give_blas_its_threads_back(two_blas_threads):
    with cores.pool_of_threads():
        with cores.pool_of_threads():
            assert blas_threads() == {1}
        assert blas_threads() == {1}
        assert cores.thread_count() == 2
    assert blas_threads() == {2}


def test_nobody_writes_any_more_when_an_error_arrives(two_blas_threads):
    x = np.zeros((64, 1))

    def kernel(x):
        if threading.current_thread() is threading.main_thread():
            raise ZeroDivisionError("in the caller's block")
        time.sleep(0.01)
        x += 1

    with pytest.raises(ZeroDivisionError):
        backend.run_rows(kernel, x, block=8)
    then = x.copy()
    time.sleep(0.1)
    np.testing.assert_array_equal(x, then)


def test_every_thread_works_under_the_callers_errstate(two_blas_threads):
    meet = threading.Barrier(2, timeout=20)

    def kernel(x):
        meet.wait()
        if threading.current_thread() is not threading.main_thread():
            np.divide(1.0, x)

    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        backend.run_rows(kernel, np.zeros((4, 1)), block=2)
    with np.errstate(divide="ignore"), warnings.catch_warnings():
        warnings.simplefilter("error")
        backend.run_rows(kernel, np.zeros((4, 1)), block=2)


ENDING = """
import atexit, threading, time
import numpy as np, threadpoolctl
from lucid import backend

def count(when):
    print(when, sum(backend.run_rows(len, np.ones((5000, 400)))))

def later():
    main.join()
    time.sleep(0.2)
    count("a thread that outlives the main one:")

main = threading.main_thread()
threadpoolctl.threadpool_limits(2)
count("main:")
atexit.register(count, "at exit:")
threading.Thread(target=later).start()
"""


def test_rows_are_run_when_python_ends():
    done = subprocess.run(
        [sys.executable, "-c", ENDING], capture_output=True, text=True
    )
    assert done.stderr == ""
    assert [line.rsplit(" ")[-1] for line in done.stdout.splitlines()] == [
        "5000"
    ] * 3


def test_no_thread_to_be_had(two_blas_threads, monkeypatch):
    """Every share is run once, also one that was queued in vain."""

    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(cores, "_pool", None)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    x = np.zeros((64, 1))
    backend.run_rows(lambda x: np.add(x, 1, out=x), x, block=8)
    assert (x == 1).all()


def test_arrays_with_different_first_axes():
    with pytest.raises(ValueError, match=r"\[3, 2\]"):
        backend.run_rows(len, np.ones((3, 1)), np.ones((2, 1)))


@pytest.mark.parametrize("rows", [1, 63, 65, 200, 1001])
def test_a_shared_product_is_the_product(two_blas_threads, rows):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((rows, 30)), rng.standard_normal((30, 7))
    np.testing.assert_allclose(backend.matmul_rows(a, b), a @ b, 0, 1e-12)
    np.testing.assert_allclose(backend.matmul_rows(b.T, a.T), (a @ b).T)
    bias = rng.standard_normal(7)
    with_bias = backend.matmul_rows(a, b, bias)
    np.testing.assert_allclose(with_bias, a @ b + bias, 0, 1e-12)


def test_an_error_in_a_block_is_raised():
    def kernel(x):
        raise ZeroDivisionError("in a block")

    with pytest.raises(ZeroDivisionError, match="in a block"):
        backend.run_rows(kernel, np.ones((5000, 400)))
    rows = np.arange(5000)[:, None] * np.ones(400)
    with pytest.raises(ZeroDivisionError):
        backend.run_rows(lambda x: 1 // int(4999 - x[-1, 0]), rows)


def test_no_rows_at_all():
    assert backend.run_rows(len, np.ones((0, 4))) == [0]


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_can_run_rows():
    x = np.ones((5000, 400))
    backend.run_rows(len, x)
    child = multiprocessing.get_context("fork").Process(
        target=backend.run_rows, args=(len, x)
    )
    child.start()
    child.join(30)
    assert child.exitcode == 0


def _share_and_ask():
    backend.run_rows(len, np.ones((5000, 400)))
    assert blas_threads() == {2}


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_forked_in_the_middle_has_blas_threads(two_blas_threads):
    with cores.pool_of_threads():
        child = multiprocessing.get_context("fork").Process(
            target=_share_and_ask
        )
        child.start()
        child.join(30)
    assert child.exitcode == 0


def test_the_switch_is_one_module():
    assert switch.set_backend is lucid.set_backend
