"""Optimisers, their schedule and clipping, against torch's numbers and the rules.

The fixtures come from ``tests/make_optim_fixtures.py``. Rows are those of the
list of behaviours that ``test_behaviours.py`` tests.
"""

from __future__ import annotations

import copy
import json
import math
import sys

import numpy as np
import pytest
from conftest import DATA
from cupy_double import CUPY, TRANSFERS, DeviceArray
from safetensors.numpy import load_file, save_file

import lucid
from lucid.backend import switch, to_numpy
from lucid.models.text import bert
from lucid.nn import LayerNorm, Linear, Module, Parameter
from lucid.optim import (
    AdamW,
    AdamWeightDecay,
    LinearWarmup,
    Optimizer,
    clip_grad_norm,
    decay_groups,
)

NAMES = ("weight", "rare", "norm")
MAKERS = {
    "adamw": AdamW,
    "google": AdamWeightDecay,
    "recipe": AdamW,
}


def param(values: object) -> Parameter:
    """A parameter on the active backend, as all tests here want it."""
    return Parameter(lucid.tensor(values).data)


def stored_run(name: str, dtype: type = np.float32):
    """A fixture, its parameters and its optimiser with two groups."""
    stored = load_file(DATA / f"optim_{name}.safetensors")
    params = {n: param(stored[f"start/{n}"].astype(dtype)) for n in NAMES}
    optimizer = MAKERS[name](
        [
            {
                "params": [params["weight"], params["rare"]],
                "weight_decay": 0.1,
            },
            {"params": [params["norm"]], "weight_decay": 0.0, "lr": 0.003},
        ],
        lr=0.01,
    )
    return stored, params, optimizer


def give(stored: dict, params: dict, step: int) -> None:
    """Set the gradients of one step; all NaN stands for none."""
    for name, parameter in params.items():
        g = stored[f"grad/{name}"][step]
        missing = bool(np.isnan(g).all())
        parameter.grad = (
            None if missing else lucid.tensor(g, dtype=parameter.dtype)
        )


def step_all(params: dict, optimizer: Optimizer, g: float = 1.0) -> None:
    for parameter in params.values():
        parameter.grad = lucid.tensor(
            np.full(parameter.shape, g, parameter.dtype)
        )
    optimizer.step()


# ---- equal to torch -------------------------------------------------------------


@pytest.mark.parametrize("name", ["adamw", "google"])
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(np.float32, 1e-6), (np.float64, 1e-12)]
)
def test_twenty_steps_equal_torch(name, dtype, tolerance):
    stored, params, optimizer = stored_run(name, dtype)
    for step in range(20):
        give(stored, params, step)
        optimizer.step()
        for n, p in params.items():
            np.testing.assert_allclose(
                p.numpy(),
                stored[f"after/{n}"][step],
                rtol=tolerance,
                atol=tolerance,
                err_msg=f"{n} after step {step}",
            )
            assert p.dtype == dtype


def test_clipping_and_schedule_equal_torch_and_transformers():
    stored, params, optimizer = stored_run("recipe")
    schedule = LinearWarmup(optimizer, warmup_steps=5, total_steps=20)
    for step in range(20):
        give(stored, params, step)
        norm = clip_grad_norm(params.values(), 2.0)
        assert norm == pytest.approx(stored["norm"][step], rel=1e-6)
        rates = [group.lr for group in optimizer.groups]
        assert rates == pytest.approx(list(stored["lr"][step]), rel=1e-12)
        optimizer.step()
        schedule.step()
        for n, p in params.items():
            np.testing.assert_allclose(
                p.numpy(), stored[f"after/{n}"][step], atol=1e-6, err_msg=n
            )
    assert optimizer.lr == 0.0


def test_many_blocks_give_what_one_gives():
    """A parameter of several blocks; every row gets the same gradients."""
    rng = np.random.default_rng(0)
    row, wide = rng.normal(size=(2, 1, 700)).astype(np.float32)
    small, large = param(row), param(np.repeat(row, 600, 0))
    optimizer = AdamW({"s": small, "l": large}.items(), lr=0.1)
    for factor in (1.0, -3.0, 0.5):
        small.grad = lucid.tensor(wide * np.float32(factor))
        large.grad = lucid.tensor(
            np.repeat(wide * np.float32(factor), 600, 0)
        )
        optimizer.step()
    np.testing.assert_array_equal(
        large.numpy(), np.repeat(small.numpy(), 600, 0)
    )


# ---- the rules ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "size"), [(AdamW, 1.00), (AdamWeightDecay, 3.16)]
)
def test_row_31_the_first_step_with_and_without_correction(make, size):
    """Row 31, google-research/bert #153: 1.00 and 3.16 times the rate."""
    p = param(np.zeros(3))
    optimizer = make([p], lr=1.0, eps=1e-12, weight_decay=0.0)
    p.grad = lucid.tensor(np.array([1e-3, -2.0, 700.0]))
    optimizer.step()
    np.testing.assert_allclose(
        p.numpy(), np.array([-size, size, -size]), atol=0.005
    )


def test_row_32_zero_gradient_leaves_biases_and_layer_norms(tiny):
    """Row 32, transformers #492 and #4360; all else shrinks by lr * decay."""
    model = bert.BERTForPreTraining(tiny())
    rng = np.random.default_rng(1)
    for p in model.parameters():
        p.data = param(rng.normal(size=p.shape).astype(np.float32)).data
        p.grad = lucid.tensor(np.zeros(p.shape, np.float32))
    before = {n: p.numpy().copy() for n, p in model.named_parameters()}
    AdamW(decay_groups(model, weight_decay=0.5), lr=0.1).step()
    for name, p in model.named_parameters():
        spared = "LayerNorm" in name or name.endswith("bias")
        want = before[name] * (1.0 if spared else 0.95)
        np.testing.assert_allclose(p.numpy(), want, rtol=1e-6, err_msg=name)
        assert not spared or np.array_equal(p.numpy(), before[name])


def test_row_17_a_tied_parameter_is_grouped_once(tiny):
    """Row 17, returnn #1319: neither in two groups nor twice in one."""
    model = bert.BERTForPreTraining(tiny())
    groups = decay_groups(model, 0.01)
    ids = [id(p) for group in groups for _, p in group["params"]]
    assert sorted(ids) == sorted(id(p) for p in model.parameters())
    table = model.bert.embeddings.word_embeddings.weight
    assert any(p is table for _, p in groups[0]["params"])


def test_decay_groups_knows_a_layer_norm_by_any_name():
    class Block(Module):
        def __init__(self):
            self.proj = Linear(4, 4)
            self.final = LayerNorm(4)
            self.bias_like = param(np.ones((2, 2)))

    decayed, kept = decay_groups(Block(), 0.01)
    assert [n for n, _ in decayed["params"]] == ["proj.weight", "bias_like"]
    assert [n for n, _ in kept["params"]] == [
        "proj.bias",
        "final.weight",
        "final.bias",
    ]


def test_a_parameter_without_gradient_is_left_alone():
    moved, still = param(np.ones(2)), param(np.ones(2))
    optimizer = AdamW([moved, still], lr=0.1, weight_decay=0.5)
    moved.grad = lucid.tensor(np.ones(2))
    optimizer.step()
    np.testing.assert_array_equal(still.numpy(), [1.0, 1.0])
    assert list(optimizer.state) == ["0"]
    optimizer.zero_grad()
    assert moved.grad is None


def test_a_parameter_of_no_axes_and_one_that_is_a_view():
    number = param(np.array(1.0))
    table = lucid.tensor(np.ones((3, 4)))
    view = Parameter(table.data.T)
    optimizer = AdamW([number, view], lr=0.1, weight_decay=0.0)
    number.grad, view.grad = (
        lucid.tensor(np.ones(p.shape)) for p in (number, view)
    )
    assert clip_grad_norm([number, view], math.inf) == pytest.approx(13**0.5)
    assert clip_grad_norm([number, view], 1.0) == pytest.approx(13**0.5)
    optimizer.step()
    np.testing.assert_allclose(number.numpy(), 0.9, atol=1e-6)
    np.testing.assert_allclose(table.numpy(), 0.9, atol=1e-6)


def test_denormal_moments_are_flushed():
    """A row that no batch asks for: its mean of gradients stays normal."""
    p = param(np.zeros((2, 2), np.float32))
    optimizer = AdamW([p], lr=0.1)
    step_all({"": p}, optimizer, 1e-3)
    tiny = np.finfo(np.float32).tiny
    for _ in range(900):
        step_all({"": p}, optimizer, 0.0)
        m = np.abs(to_numpy(optimizer.state["0"]["m"]))
        assert ((m == 0) | (m >= tiny)).all()
    assert (m < 1e-36).all()


def test_weights_of_zero_stay_zero_without_a_gradient():
    """As the padding row must, whatever the kernel does to tiny numbers."""
    p = param(np.zeros((2, 2), np.float32))
    optimizer = AdamW([p], lr=0.1)
    for _ in range(3):
        step_all({"": p}, optimizer, 0.0)
    assert not p.numpy().any()


def test_training_learns(tiny):
    model = bert.BERTForSequenceClassification(tiny(num_labels=2))
    ids = lucid.tensor([[2, 7, 8, 3], [2, 9, 4, 3], [2, 5, 5, 3]])
    labels = lucid.tensor([0, 1, 0])
    optimizer = AdamW(decay_groups(model, 0.01), lr=1e-2)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = model(ids, labels=labels).loss
        loss.backward()
        clip_grad_norm(model.named_parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.05 < losses[0]


# ---- the schedule ---------------------------------------------------------------


def test_schedule_rises_and_falls_and_stays_at_zero():
    p = param(np.ones(1))
    optimizer = AdamW([{"params": [p], "lr": 2.0}])
    schedule = LinearWarmup(optimizer, warmup_steps=2, total_steps=6)
    rates = []
    for _ in range(9):
        rates.append(optimizer.lr)
        schedule.step()
    assert rates == [0.0, 1.0, 2.0, 1.5, 1.0, 0.5, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("warmup, total", [(0, 4), (4, 4), (0, 1)])
def test_schedule_at_its_edges(warmup, total):
    optimizer = AdamW([param(np.ones(1))], lr=1.0)
    schedule = LinearWarmup(optimizer, warmup, total)
    assert optimizer.lr == (0.0 if warmup else 1.0)
    for _ in range(total):
        schedule.step()
    assert optimizer.lr == 0.0


@pytest.mark.parametrize(
    "warmup, total", [(5, 4), (-1, 4), (0, 0), (0.5, 4), (1, 4.0)]
)
def test_schedule_refuses(warmup, total):
    optimizer = AdamW([param(np.ones(1))])
    with pytest.raises(ValueError, match="^(warmup|total)_steps: wanted"):
        LinearWarmup(optimizer, warmup, total)


# ---- clipping -------------------------------------------------------------------


def test_clipping_below_the_bound_changes_no_bit():
    p = param(np.zeros(3, np.float32))
    p.grad = lucid.tensor([0.1, -0.3, 0.2])
    before = p.grad.numpy().copy()
    assert clip_grad_norm([p], 1.0) == pytest.approx(14**0.5 / 10)
    np.testing.assert_array_equal(p.grad.numpy(), before)
    p.grad = None
    assert clip_grad_norm([p], 1.0) == 0.0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_clipping_names_the_first_broken_parameter(tiny, bad):
    model = bert.BERTModel(tiny())
    for p in model.parameters():
        p.grad = lucid.tensor(np.ones(p.shape, np.float32))
    for name in ("pooler.dense.weight", "encoder.layer.1.output.dense.bias"):
        parameter = dict(model.named_parameters())[name]
        g = np.ones(parameter.shape, np.float32)
        g.reshape(-1)[-1] = bad
        parameter.grad = lucid.tensor(g)
    with pytest.raises(
        FloatingPointError, match=r"encoder\.layer\.1\.output\.dense\.bias"
    ):
        clip_grad_norm(model.named_parameters(), 1.0)
    first = next(iter(model.parameters()))
    assert (first.grad.numpy() == 1).all()  # nothing was scaled
    with pytest.raises(FloatingPointError, match=r"parameter \d+ "):
        clip_grad_norm(model.parameters(), 1.0)


def test_clipping_a_parameter_of_many_blocks():
    rng = np.random.default_rng(0)
    g = rng.normal(size=(900, 400)).astype(np.float32)
    p = param(np.zeros_like(g))
    p.grad = lucid.tensor(g)
    want = float(np.linalg.norm(g.astype(np.float64)))
    assert clip_grad_norm([p], 1.0) == pytest.approx(want, rel=1e-6)
    np.testing.assert_allclose(p.grad.numpy(), g / want, rtol=1e-5)


@pytest.mark.parametrize("bound", [0.0, -1.0, math.nan])
def test_clipping_refuses_a_bound(bound):
    with pytest.raises(ValueError, match="max_norm"):
        clip_grad_norm([param(np.ones(1))], bound)


# ---- stop and go on -------------------------------------------------------------


@pytest.mark.parametrize("make", [AdamW, AdamWeightDecay])
def test_a_stored_state_continues_bit_for_bit(make, tmp_path):
    """Through safetensors and JSON, into new objects, in either order."""

    def prepare():
        params = {
            "a": param(np.linspace(-1.0, 1.0, 6, dtype=np.float32)),
            "late": param(np.ones((2, 3), np.float32)),
            "never": param(np.ones(2, np.float32)),
        }
        optimizer = make(
            [
                {"params": list(params.items())[:1], "lr": 0.5},
                {"params": list(params.items())[1:]},
            ],
            lr=0.1,
        )
        return params, optimizer, LinearWarmup(optimizer, 3, 12)

    def train(params, optimizer, schedule, steps):
        for step in steps:
            rng = np.random.default_rng(step)
            for name, p in params.items():
                draw = rng.normal(size=p.shape).astype(np.float32)
                absent = name == "never" or (name == "late" and step < 2)
                p.grad = None if absent else lucid.tensor(draw)
            optimizer.step()
            schedule.step()

    whole = prepare()
    train(*whole, range(10))
    first = prepare()
    train(*first, range(5))
    state = first[1].state_dict()
    arrays = {k: v for k, v in state.items() if isinstance(v, np.ndarray)}
    numbers = {k: v for k, v in state.items() if k not in arrays}
    save_file(arrays, tmp_path / "optimizer.safetensors")
    text = json.dumps([numbers, first[2].state_dict()])
    params, optimizer, schedule = prepare()
    for name, p in params.items():
        p.data = first[0][name].data.copy()
    numbers, steps = json.loads(text)
    schedule.load_state_dict(steps)
    optimizer.load_state_dict(
        {**numbers, **load_file(tmp_path / "optimizer.safetensors")}
    )
    assert schedule.steps == 5
    train(params, optimizer, schedule, range(5, 10))
    for name, p in params.items():
        np.testing.assert_array_equal(p.numpy(), whole[0][name].numpy())


def test_loading_copies():
    p, q = param(np.ones(2)), param(np.ones(2))
    old, new = AdamW([p]), AdamW([q])
    step_all({"": p}, old)
    new.load_state_dict(old.state_dict())
    kept = to_numpy(old.state["0"]["m"]).copy()
    step_all({"": q}, new)
    np.testing.assert_array_equal(to_numpy(old.state["0"]["m"]), kept)


@pytest.mark.parametrize(
    "change, word",
    [
        ({"0.m": None}, r"missing \['0\.m'\]"),
        ({"0.steps": None}, r"missing \['0\.steps'\]"),
        ({"group.0.lr": None}, r"missing \['group\.0\.lr'\]"),
        ({"7.m": np.ones(2)}, r"unexpected \['7\.m'\]"),
        ({"0.x": np.ones(2)}, r"unexpected \['0\.x'\]"),
        ({"0.m": np.ones(3)}, r"0\.m is float64 of shape \(3,\)"),
        ({"0.v": np.ones(2, int)}, r"0\.v is int64"),
        ({"0.steps": -1}, r"0\.steps: .*-1"),
        ({"0.steps": 1.5}, r"0\.steps: .*1\.5"),
        ({"group.0.lr": math.nan}, r"lr: .*nan"),
    ],
)
def test_a_state_that_does_not_fit_changes_nothing(change, word):
    p = param(np.ones(2))
    optimizer = AdamW([p], lr=0.1)
    step_all({"": p}, optimizer)
    state = {**optimizer.state_dict(), "group.0.lr": 0.7, **change}
    state = {k: v for k, v in state.items() if v is not None}
    kept = copy.deepcopy(optimizer.state_dict())
    with pytest.raises(ValueError, match=word):
        optimizer.load_state_dict(state)
    np.testing.assert_equal(optimizer.state_dict(), kept)


def test_a_schedule_state_that_does_not_fit():
    optimizer = AdamW([param(np.ones(1))])
    schedule = LinearWarmup(optimizer, 1, 2)
    with pytest.raises(ValueError, match=r"missing \['peak\.0'\]"):
        schedule.load_state_dict({"steps": 3})
    before = schedule.state_dict(), optimizer.lr
    for wrong in (
        {"steps": 1, "peak.0": "x"},
        {"steps": 1, "peak.0": -1.0},
        {"steps": -1, "peak.0": 1.0},
        {"steps": 0.5, "peak.0": 1.0},
    ):
        with pytest.raises(ValueError):
            schedule.load_state_dict(wrong)
        assert (schedule.state_dict(), optimizer.lr) == before
    schedule.load_state_dict({"steps": 1, "peak.0": 0.5})
    assert (schedule.steps, schedule.peaks, optimizer.lr) == (1, [0.5], 0.5)


# ---- bad input ------------------------------------------------------------------

BAD = {
    "none": (lambda p: AdamW([]), ValueError, "there are none"),
    "a tensor": (
        lambda p: AdamW([lucid.tensor([1.0])]),
        TypeError,
        "Tensor",
    ),
    "a module": (lambda p: AdamW([Linear(1, 1)]), TypeError, "Linear"),
    "twice": (lambda p: AdamW([p, p]), ValueError, "1 comes twice"),
    "in two groups": (
        lambda p: AdamW([{"params": [p]}, {"params": [p]}]),
        ValueError,
        "comes twice",
    ),
    "a name twice": (
        lambda p: AdamW([("a", p), ("a", param(np.ones(1)))]),
        ValueError,
        "a comes twice",
    ),
    "a misspelt key": (
        lambda p: AdamW([{"params": [p], "weigth_decay": 0.1}]),
        ValueError,
        "weigth_decay",
    ),
    "no params": (lambda p: AdamW([{"lr": 0.1}]), ValueError, "params"),
    "lr": (lambda p: AdamW([p], lr=-1.0), ValueError, "lr.*-1"),
    "lr NaN": (lambda p: AdamW([p], lr=math.nan), ValueError, "lr.*nan"),
    "decay": (
        lambda p: AdamW([p], weight_decay=-0.1),
        ValueError,
        "weight_decay.*-0.1",
    ),
    "a group's lr": (
        lambda p: AdamW([{"params": [p], "lr": math.inf}]),
        ValueError,
        "lr.*inf",
    ),
    "lr as text": (lambda p: AdamW([p], lr="1"), ValueError, "lr.*'1'"),
    "lr True": (lambda p: AdamW([p], lr=True), ValueError, "lr.*True"),
    "betas": (lambda p: AdamW([p], betas=(0.9, 1.0)), ValueError, "betas"),
    "a beta NaN": (
        lambda p: AdamW([p], betas=(math.nan, 0.9)),
        ValueError,
        "betas.*nan",
    ),
    "one beta": (lambda p: AdamW([p], betas=0.9), ValueError, "betas.*0.9"),
    "a single beta": (
        lambda p: AdamW([p], betas=(0.9,)),
        ValueError,
        "betas.*0.9",
    ),
    "eps NaN": (lambda p: AdamW([p], eps=math.nan), ValueError, "eps.*nan"),
    "eps": (lambda p: AdamW([p], eps=-1e-8), ValueError, "eps"),
    "set lr": (lambda p: setattr(AdamW([p]), "lr", -2.0), ValueError, "lr"),
}


@pytest.mark.parametrize("what", BAD)
def test_refused(what):
    function, error, word = BAD[what]
    with pytest.raises(error, match=word):
        function(param(np.ones(2)))


def test_a_refused_rate_is_not_kept():
    optimizer = AdamW([param(np.ones(2))], lr=0.25)
    with pytest.raises(ValueError, match="lr"):
        optimizer.lr = math.nan
    assert optimizer.lr == 0.25


def test_a_parameter_that_changed_under_the_optimiser():
    """A resized table or a moved model: refused before anything moves."""
    first, table = param(np.ones(2)), param(np.ones((3, 2)))
    optimizer = AdamW([("first", first), ("table", table)])
    step_all({"f": first, "t": table}, optimizer)
    before = first.numpy().copy()
    table.data = param(np.ones((4, 2))).data
    with pytest.raises(ValueError, match=r"table is now .*\(4, 2\)"):
        step_all({"f": first, "t": table}, optimizer)
    np.testing.assert_array_equal(first.numpy(), before)
    table.data = param(np.ones((3, 2), np.float32)).data
    with pytest.raises(ValueError, match="float32"):
        step_all({"f": first, "t": table}, optimizer)


# ---- CuPy -----------------------------------------------------------------------


@pytest.fixture
def device(monkeypatch):
    """Run on the strict stand-in for CuPy."""
    monkeypatch.setitem(sys.modules, "cupy", CUPY)
    switch._load_cupy.cache_clear()
    lucid.set_backend("cupy")
    TRANSFERS.clear()
    yield
    switch._load_cupy.cache_clear()
    lucid.set_backend("numpy")


@pytest.mark.parametrize("name", MAKERS)
def test_on_the_device_equal_to_torch(device, name):
    stored, params, optimizer = stored_run(name)
    schedule = LinearWarmup(optimizer, 5, 20) if name == "recipe" else None
    for step in range(20):
        give(stored, params, step)
        if schedule:
            clip_grad_norm(params.values(), 2.0)
        TRANSFERS.clear()
        optimizer.step()
        assert TRANSFERS == []
        if schedule:
            schedule.step()
        for n, p in params.items():
            assert isinstance(p.data, DeviceArray)
            np.testing.assert_allclose(
                p.numpy(), stored[f"after/{n}"][step], atol=1e-6
            )


def test_clipping_waits_once(device):
    params = [param(np.ones(n)) for n in (3, 4, 5)]
    for p in params:
        p.grad = lucid.tensor(np.ones(p.shape))
    TRANSFERS.clear()
    assert clip_grad_norm(params, 1.0) == pytest.approx(12**0.5)
    assert TRANSFERS == ["get"]
    assert params[0].grad.numpy() == pytest.approx(12**-0.5)


def test_a_state_moves_between_backends(device):
    there = param(np.ones(3, np.float32))
    optimizer = AdamW([there])
    step_all({"": there}, optimizer)
    state = optimizer.state_dict()
    assert isinstance(state["0.m"], np.ndarray)
    with lucid.use_backend("numpy"):
        here = param(np.ones(3, np.float32))
    other = AdamW([here])
    other.load_state_dict(state)
    assert isinstance(other.state["0"]["m"], np.ndarray)
    optimizer.load_state_dict(other.state_dict())
    assert isinstance(optimizer.state["0"]["m"], DeviceArray)
    with pytest.raises(ValueError, match="on numpy.*on cupy"):
        there.data = here.data
        step_all({"": there}, optimizer)
