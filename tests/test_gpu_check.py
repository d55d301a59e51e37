"""tools/gpu_check.py goes all its ways here, on the stand-in for CuPy."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from cupy_double import CUPY, install

import lucid
from lucid.backend import switch
from tools import gpu_check

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def _on_the_double(monkeypatch):
    install(monkeypatch.setitem)
    switch._load_cupy.cache_clear()
    yield
    switch._load_cupy.cache_clear()
    lucid.set_backend("numpy")


def test_it_compares_and_times_and_writes(
    _on_the_double, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(gpu_check, "TOKENS", 16)
    monkeypatch.setattr(
        gpu_check.importlib.util, "find_spec", lambda name: None
    )
    monkeypatch.setattr(gpu_check, "find_lucid", lambda: lucid)
    file = tmp_path / "out.json"
    options = ["--json", str(file), "--size", "tiny", "--repeats", "2"]
    assert gpu_check.main(options) == 0
    result = json.loads(file.read_text())
    assert result["machine"]["device"] == "a stand-in"
    assert len(result["parity"]) > 30
    for row in result["parity"]:
        assert row["passed"], row
    assert set(result["times"]["lucid"]) == {"forward", "training step"}
    assert result["tests"]["outcome"] == "pytest is not installed"
    printed = capsys.readouterr().out
    assert "BERT-tiny" in printed and "FAILED" not in printed


def test_it_says_what_differs(_on_the_double):
    """A product that is a little wrong on one backend fails its row."""
    right = gpu_check.run_both_ways

    def wrong(lucid, operation, dtype):
        found = right(lucid, operation, dtype)
        if lucid.get_backend() == "cupy":
            found[-1] += 1e-3 * abs(found[-1]).max()
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpu_check, "run_both_ways", wrong)
        rows = gpu_check.compare(lucid)
    assert not any(row["passed"] for row in rows)


def test_a_slow_device_is_timed_less_often(monkeypatch):
    monkeypatch.setattr(gpu_check, "TIMING_SECONDS", 0.0)
    found = gpu_check.timed(
        CUPY.cuda.Event, CUPY.cuda.get_elapsed_time, lambda: None, 5
    )
    assert found["repeats"] == 1
    monkeypatch.setattr(gpu_check, "TIMING_SECONDS", 60.0)
    found = gpu_check.timed(
        CUPY.cuda.Event, CUPY.cuda.get_elapsed_time, lambda: None, 5
    )
    assert found["repeats"] == 5


def test_without_a_device_it_measures_nothing():
    if not switch_fails():
        pytest.skip("there is a device here")
    run = subprocess.run(
        [sys.executable, "tools/gpu_check.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 2
    assert run.stdout.startswith("Nothing was measured: backend 'cupy': ")


def switch_fails() -> bool:
    try:
        lucid.set_backend("cupy")
    except (ImportError, RuntimeError):
        return True
    lucid.set_backend("numpy")
    return False


def test_a_missing_threadpoolctl_is_no_trouble(tmp_path):
    """The bare machine has none: the stand-in says that there is no BLAS."""
    code = (
        "import importlib.util as u, sys; find = u.find_spec\n"
        "u.find_spec = lambda n: None if n == 'threadpoolctl' else find(n)\n"
        "sys.path.insert(0, 'tools'); import gpu_check\n"
        "lucid = gpu_check.find_lucid(); import threadpoolctl, numpy\n"
        "assert threadpoolctl.ThreadpoolController.lib_controllers == ()\n"
        "x = lucid.tensor(numpy.ones((2000, 400), 'float32'))\n"
        "print(round(lucid.nn.functional.softmax(x).sum().item()))\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert run.stdout.startswith("2000"), run.stderr
