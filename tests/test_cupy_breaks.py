"""For each rule of CuPy, the package is broken once on purpose, and noticed.

A break is one line of one function, written as somebody might well write it
who thinks of NumPy alone. It changes the function's code wherever the
function is used. Then the tests of ``test_cupy_contract`` run until one
fails; none failing would mean that the double is blind to that rule.
"""

from __future__ import annotations

import importlib
import inspect
import textwrap
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
import test_cupy_contract as contract
from conftest import read_case
from cupy_double import TRANSFERS

import lucid
from lucid.models.text import bert

_on_the_double = contract._on_the_double


class Break(NamedTuple):
    """Where, what stands there, what somebody might write."""

    function: str
    right: str
    wrong: str


BREAKS = {
    "NumPy is named, not asked for": Break(
        "nn.softmax.softmax",
        "xp = array_module(x.data)",
        "import numpy as xp",
    ),
    "an operand of NumPy": Break(
        "nn.losses.cross_entropy",
        "importance = counts.astype(np.promote_types(z.dtype, np.float32))",
        "import numpy; importance = numpy.ones(len(y), z.dtype)",
    ),
    "a scalar of NumPy promotes": Break(
        "nn.softmax.log_softmax",
        "x.data - x.data.max(axis, keepdims=True)",
        "x.data - x.data.max(axis, keepdims=True) "
        "- __import__('numpy').float64(0)",
    ),
    "where= of a ufunc": Break(
        "nn.layernorm._normalise_rows",
        "xp.multiply(normal, weight, out=y)",
        "xp.multiply(normal, weight, out=y, where=normal == normal)",
    ),
    "initial= of a reduction": Break(
        "nn.losses._row_costs", "z.max(-1)", "z.max(-1, initial=-1e30)"
    ),
    "out= of einsum": Break(
        "nn.layernorm._normalise_rows",
        'squares = xp.einsum("ij,ij->i", normal, normal)[:, None]',
        "squares = xp.empty_like(inverse); "
        'xp.einsum("ij,ij->i", normal, normal, out=squares[:, 0])',
    ),
    "equal indices, written": Break(
        "backend.arrays.scatter_add",
        "array_module(target).add.at(target, index, values)",
        "target[index] += values",
    ),
    "indices out of range, not checked": Break(
        "nn.embedding.check_ids", "values = ids.host_values()", "return"
    ),
    "labels out of range, not checked": Break(
        "nn.losses._check_labels", "values = labels.host_values()", "return"
    ),
    "checked by what lies on the device": Break(
        "nn.embedding.check_ids", "ids.host_values()", "ids.numpy()"
    ),
    "float() in the hot path": Break(
        "nn.softmax.softmax",
        "x.data.max(axis, keepdims=True)",
        "float(x.data.max())",
    ),
    "if of an array": Break(
        "nn.losses.cross_entropy",
        "if weight is not None:",
        "if counts.any() and weight is not None:",
    ),
    "a boolean mask as index": Break(
        "nn.losses.cross_entropy",
        "xp.where(counts, costs, 0)",
        "xp.where(counts, costs, 0); losses[~counts] = 0",
    ),
    "where with one argument": Break(
        "nn.losses.cross_entropy",
        "losses = importance",
        "xp.where(counts); losses = importance",
    ),
    "np.asarray of an array of the device": Break(
        "backend.arrays.to_numpy",
        "x.get() if _is_cupy(x) else np.asarray(x)",
        "np.asarray(x)",
    ),
    "an array of the device as a Python index": Break(
        "nn.softmax.softmax",
        "p = xp.exp",
        "[0, 1][x.data.argmax()]; p = xp.exp",
    ),
    "a keyword that only NumPy has": Break(
        "nn.losses._row_costs",
        "z[xp.arange(len(z)), y]",
        "xp.take(z, y + xp.arange(len(z)) * z.shape[1], mode='raise')",
    ),
    "a name that only NumPy has": Break(
        "nn.softmax.softmax",
        "p = xp.exp",
        "xp.errstate(over='ignore'); p = xp.exp",
    ),
    "a method that CuPy's generator lacks": Break(
        "nn.dropout.dropout_mask",
        "drawn = device_rng(xp).random(like.shape, dtype=np.float32)",
        "drawn = device_rng(xp).permutation(like.size).reshape(like.shape)",
    ),
    "weights drawn on the device": Break(
        "nn.init.truncated_normal",
        "values *= std",
        "from lucid.backend import device_rng, to_numpy; "
        "values = to_numpy(device_rng(active_module()).standard_normal(shape)"
        ").astype('f') * std",
    ),
    "a constant made on the host": Break(
        "nn.losses.cross_entropy",
        "y = xp.where(counts, y, 0)",
        "y = xp.where(counts, y, xp.asarray(0))",
    ),
    "a picked element is a view": Break(
        "nn.losses.cross_entropy",
        "total = importance.sum()",
        "total = importance[0]\n"
        "        for one in importance[1:]: total += one",
    ),
    "reduce of a ufunc": Break(
        "nn.softmax.softmax",
        "x.data.max(axis, keepdims=True)",
        "xp.maximum.reduce(x.data, axis, keepdims=True)",
    ),
    "at of another ufunc": Break(
        "backend.arrays.scatter_add",
        "add.at(target, index, values)",
        "subtract.at(target, index, -values)",
    ),
    "an index from the host": Break(
        "nn.losses._row_costs",
        "z[xp.arange(len(z)), y]",
        "z[__import__('numpy').arange(len(z)), y]",
    ),
    "an array of NumPy, assigned": Break(
        "nn.losses.cross_entropy",
        "y = xp.where(counts, y, 0)",
        "y = xp.where(counts, y, 0); y[:] = labels.host_values().clip(0)"
        ".reshape(-1)",
    ),
    "the optimiser asks for a number": Break(
        "optim.adamw._update",
        "xp.sqrt(v, out=t)",
        "xp.sqrt(v, out=t); float(t.max())",
    ),
    "moved silently": Break(
        "nn.embedding.embedding",
        'check_same_backend(**{"weight": weight, name: ids})',
        "ids = ids.to(weight.backend)",
    ),
}


def tiny(**changes: object) -> bert.BERTConfig:
    return bert.BERTConfig(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=12,
        **changes,
    )


def the_contract() -> list[Callable[[], object]]:
    """Tests that between them meet every rule."""

    def a_model() -> object:
        return contract.test_every_fixture_forward_and_backward(
            read_case("pretraining_tied_gelu")
        )

    return [
        lambda: contract.test_no_transfer_inside_forward_or_backward(
            read_case, None
        ),
        lambda: contract.test_a_step_of_training_waits_only_to_show_its_loss(
            read_case
        ),
        lambda: contract.test_every_operation(None),
        a_model,
        lambda: contract.test_bad_ids_and_labels_are_refused(tiny),
        lambda: contract.test_a_seed_gives_the_same_model_on_both_backends(
            tiny
        ),
        lambda: contract.test_two_backends_are_named("embedding"),
        one_dtype,
    ]


def one_dtype() -> None:
    x = lucid.tensor(np.ones((2, 3), np.float32))
    for function in (
        lucid.nn.functional.softmax,
        lucid.nn.functional.log_softmax,
        lucid.nn.functional.gelu,
    ):
        assert function(x).dtype == np.float32


def break_it(patch: pytest.MonkeyPatch, what: Break) -> None:
    """Change the code of a function, for everyone who has imported it."""
    path, name = what.function.rsplit(".", 1)
    module = importlib.import_module(f"lucid.{path}")
    function = getattr(module, name)
    source = textwrap.dedent(inspect.getsource(function))
    assert what.right in source, "the code has changed: change the break"
    names = dict(vars(module))
    exec(source.replace(what.right, what.wrong, 1), names)
    patch.setattr(function, "__code__", names[name].__code__)


def test_unbroken_it_passes():
    for check in the_contract():
        TRANSFERS.clear()
        check()


@pytest.mark.parametrize("rule", BREAKS)
def test_a_break_is_noticed(rule, monkeypatch):
    break_it(monkeypatch, BREAKS[rule])
    for check in the_contract():
        TRANSFERS.clear()
        try:
            check()
        except (
            AssertionError,
            AttributeError,
            TypeError,
            ValueError,
            pytest.fail.Exception,
        ):
            return
    raise AssertionError(f"nobody noticed: {rule}")
