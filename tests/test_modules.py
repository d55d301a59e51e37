"""Modules: what they own, how they load, move, copy and show themselves."""

import copy

import numpy as np
import pytest
from backends import share_memory

import lucid
from lucid import nn
from lucid.nn import functional as F
from lucid.nn import init
from lucid.nn.dropout import dropout_mask


class Block(nn.Module):
    """Two layers, a list, a number, and one parameter under two names."""

    def __init__(self):
        self.first = nn.Linear(3, 4)
        self.steps = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))
        self.scale = nn.Parameter(init.ones((4,)))
        self.again = self.scale
        self.dropout = nn.Dropout(0.5)
        self.plain = lucid.tensor([1.0])
        self.number = 7

    def forward(self, x):
        x = self.first(x) * self.scale
        for step in self.steps:
            x = self.dropout(step(x))
        return x


NAMES = [
    "first.weight",
    "first.bias",
    "steps.0.weight",
    "steps.0.bias",
    "steps.1.weight",
    "steps.1.bias",
    "scale",
]


def test_every_parameter_once_in_the_order_of_the_attributes():
    block = Block()
    assert [name for name, _ in block.named_parameters()] == NAMES
    assert len({id(p) for p in block.parameters()}) == len(NAMES)
    assert list(block.state_dict()) == NAMES


def test_module_list():
    steps = Block().steps
    assert len(steps) == 2 and steps[1] is list(steps)[1]
    assert steps[-1] is steps[1]


def test_a_module_without_forward_says_so():
    with pytest.raises(NotImplementedError, match="Module has no forward"):
        nn.Module()()


def test_modes_reach_every_part():
    block = Block()
    assert block.training and block.dropout.training
    assert block.eval() is block
    assert not any(m.training for m in block.modules())
    assert block.train() is block
    assert all(m.training for m in block.modules())


def test_repr_is_a_tree():
    text = repr(Block())
    assert text.splitlines()[0] == "Block("
    assert "  (first): Linear(3, 4, bias=True)" in text
    assert "    (1): Linear(4, 4, bias=True)" in text
    assert "  (dropout): Dropout(p=0.5)" in text
    assert repr(nn.LayerNorm(8)) == "LayerNorm(8, eps=1e-12)"
    assert repr(nn.Embedding(5, 2)) == "Embedding(5, 2)"


def test_state_dict_shares_memory_and_loads_into_another():
    lucid.manual_seed(1)
    source, target = Block(), Block()
    state = source.state_dict()
    assert share_memory(state["scale"], source.scale)
    assert target.load_state_dict(state) == ([], [])
    for name, parameter in target.named_parameters():
        np.testing.assert_array_equal(parameter.numpy(), state[name].numpy())
        assert not share_memory(parameter, state[name])


def test_loading_under_an_alias():
    state = {k: v.numpy() for k, v in Block().state_dict().items()}
    state["again"] = state.pop("scale") + 1
    block = Block()
    block.load_state_dict(state)
    assert block.again is block.scale
    assert block.scale.tolist() == [2.0] * 4
    with pytest.raises(ValueError, match="again.*scale.*differ"):
        block.load_state_dict({**state, "scale": state["again"] + 1})


BAD_STATES = {
    "missing": (lambda s: s.pop("first.bias"), r"missing \['first.bias'\]"),
    "unexpected": (
        lambda s: s.update({"last.bias": np.ones(1, np.float32)}),
        r"unexpected \['last.bias'\]",
    ),
    "shape": (
        lambda s: s.update({"scale": np.ones(5, np.float32)}),
        r"scale has shape \(5,\).*\(4,\)",
    ),
    "dtype": (
        lambda s: s.update({"scale": np.ones(4, np.int64)}),
        "scale is int64",
    ),
}


@pytest.mark.parametrize("fault", BAD_STATES)
def test_a_bad_state_changes_nothing(fault):
    spoil, message = BAD_STATES[fault]
    block = Block()
    before = {k: v.numpy().copy() for k, v in block.state_dict().items()}
    state = {k: v + 1 for k, v in before.items()}
    spoil(state)
    with pytest.raises(ValueError, match=message):
        block.load_state_dict(state)
    for name, parameter in block.named_parameters():
        np.testing.assert_array_equal(parameter.numpy(), before[name])


def test_a_read_only_parameter_is_noticed_before_the_first_write():
    block = Block()
    block.scale.data = np.broadcast_to(np.float32(1), 4)
    before = block.first.weight.numpy().copy()
    state = {k: v.numpy() + 1 for k, v in block.state_dict().items()}
    with pytest.raises(ValueError, match="scale.*read-only"):
        block.load_state_dict(state)
    np.testing.assert_array_equal(block.first.weight.numpy(), before)


def test_aliases_that_are_nan_in_the_same_places_agree():
    block = Block()
    state = {k: v.numpy() for k, v in block.state_dict().items()}
    spoilt = np.array([1, np.nan, 2, 3], np.float32)
    block.load_state_dict({**state, "scale": spoilt, "again": spoilt.copy()})
    np.testing.assert_array_equal(block.scale.numpy(), spoilt)


def test_loading_what_fits():
    block = Block()
    missing, unexpected = block.load_state_dict(
        {"scale": np.full(4, 3.0, np.float16), "extra": np.ones(1)},
        strict=False,
    )
    assert missing == NAMES[:-1] and unexpected == ["extra"]
    assert block.scale.tolist() == [3.0] * 4
    assert block.scale.dtype == np.float32


def test_deepcopy_is_independent_and_keeps_the_tie():
    block = Block()
    twin = copy.deepcopy(block)
    assert twin.again is twin.scale and twin.scale is not block.scale
    twin.scale.data[:] = 5.0
    assert block.scale.tolist() == [1.0] * 4


def test_to_keeps_the_parameter_objects():
    block = Block()
    before = list(map(id, block.parameters()))
    block.scale.grad = lucid.tensor([1.0] * 4)
    assert block.to(dtype="float64") is block
    assert list(map(id, block.parameters())) == before
    assert block.again is block.scale and block.scale.grad is None
    assert all(p.dtype == np.float64 for p in block.parameters())


@pytest.mark.parametrize("dtype", ["int32", bool])
def test_parameters_stay_floating_point(dtype):
    block = Block()
    with pytest.raises(TypeError, match="dtype: wanted floating point, got"):
        block.to(dtype=dtype)
    assert all(p.dtype == np.float32 for p in block.parameters())


def test_zero_grad():
    block = Block().eval()
    block(lucid.tensor(np.ones((2, 3), np.float32))).sum().backward()
    assert all(p.grad is not None for p in block.parameters())
    block.zero_grad()
    assert all(p.grad is None for p in block.parameters())


# ---- layers ---------------------------------------------------------------------


def test_linear_without_bias():
    layer = nn.Linear(3, 2, bias=False)
    assert [n for n, _ in layer.named_parameters()] == ["weight"]
    assert layer(lucid.tensor(np.ones((5, 4, 3), np.float32))).shape == (
        5,
        4,
        2,
    )
    with pytest.raises(ValueError, match="x: the last axis is 4.*3"):
        layer(lucid.tensor(np.ones((1, 4), np.float32)))


def test_linear_names_what_does_not_go_with_the_weight():
    """A bias of float64 passed once, and its gradient came back float32."""
    x, b = np.ones((5, 3), np.float32), np.ones(2, np.float32)
    weight = lucid.tensor(np.ones((2, 3), np.float32))
    for name, arrays in (
        ("x", (x.astype("f8"), b)),
        ("bias", (x, b.astype("f8"))),
    ):
        x_, bias = map(lucid.tensor, arrays)
        with pytest.raises(
            TypeError, match=f"^{name}: float64 .* weight of float32"
        ):
            F.linear(x_, weight, bias)
    with pytest.raises(ValueError, match=r"^weight: .*\(3,\)"):
        F.linear(lucid.tensor(x), lucid.tensor(x[0]))


def test_initial_values():
    lucid.manual_seed(0)
    weight = nn.Linear(400, 500).weight.numpy()
    # a normal of 0.02 cut at two standard deviations spreads 0.8796 * 0.02
    assert abs(weight.std() / 0.02 - 0.8796) < 0.005
    assert abs(weight).max() <= 0.04 and abs(weight.mean()) < 2e-4
    assert (
        abs(nn.Linear(400, 500, init_std=0.1).weight.numpy().std() - 0.088)
        < 1e-3
    )
    assert not nn.Linear(3, 4).bias.numpy().any()
    norm = nn.LayerNorm(4)
    assert norm.weight.tolist() == [1.0] * 4 and not norm.bias.numpy().any()
    table = nn.Embedding(5, 3, padding_idx=2).weight.numpy()
    assert not table[2].any() and table[[0, 1, 3, 4]].all()
    assert init.truncated_normal((2, 3), 1.0).dtype == np.float32


def test_a_seed_fixes_weights_and_dropout():
    x = lucid.tensor(np.ones((4, 3), np.float32))
    results = []
    for _ in range(2):
        lucid.manual_seed(3)
        results.append(Block()(x).numpy())
    np.testing.assert_array_equal(*results)
    lucid.manual_seed(4)
    assert (Block()(x).numpy() != results[0]).any()


@pytest.mark.parametrize("p", [-0.1, 1.0, 2.0, float("nan")])
def test_dropout_probability(p):
    with pytest.raises(ValueError, match=r"p: .*\[0, 1\)"):
        nn.Dropout(p)
    with pytest.raises(ValueError, match=r"p: .*\[0, 1\)"):
        F.dropout(lucid.tensor([1.0]), p)


def test_a_numpy_probability_does_not_change_the_dtype():
    """np.float64 is a float, and would promote a float32 array."""
    p = np.float64(0.1)
    x = lucid.tensor(np.ones((2, 3), np.float32))
    assert F.dropout(x, p).dtype == nn.Dropout(p)(x).dtype == np.float32
    assert dropout_mask(x.data, p).dtype == np.float32
    q = lucid.tensor(np.ones((1, 1, 2, 3), np.float32))
    assert F.attention(q, q, q, dropout=p)[0].dtype == np.float32


def test_dropout_rests_outside_training():
    x = lucid.tensor([1.0, 2.0])
    assert F.dropout(x, 0.5, training=False) is x
    assert nn.Dropout(0.5).eval()(x) is x
    assert nn.Dropout(0.0)(x) is x


BAD_CALLS = {
    "ids too large": (
        lambda: F.embedding(
            lucid.tensor([0, 5]), lucid.tensor(np.ones((5, 2)))
        ),
        ValueError,
        r"ids: 5 .*\(0\.\.4\)",
    ),
    "ids negative": (
        lambda: F.embedding(
            lucid.tensor([0, -1]), lucid.tensor(np.ones((5, 2)))
        ),
        ValueError,
        r"ids: -1 ",
    ),
    "ids of float": (
        lambda: F.embedding(
            lucid.tensor([0.0]), lucid.tensor(np.ones((5, 2)))
        ),
        TypeError,
        "ids: .*float32",
    ),
    "label too large": (
        lambda: F.cross_entropy(
            lucid.tensor(np.ones((1, 3))), lucid.tensor([3])
        ),
        ValueError,
        r"labels: 3 .*3 classes.*\(0\.\.2\)",
    ),
    "label negative": (
        lambda: F.cross_entropy(
            lucid.tensor(np.ones((1, 3))), lucid.tensor([-1])
        ),
        ValueError,
        "labels: -1 ",
    ),
    "labels of another shape": (
        lambda: F.cross_entropy(
            lucid.tensor(np.ones((2, 3))), lucid.tensor([[1, 1]])
        ),
        ValueError,
        r"labels: .*\(2,\).*\(1, 2\)",
    ),
    "labels of float": (
        lambda: F.cross_entropy(
            lucid.tensor(np.ones((1, 3))), lucid.tensor([1.0])
        ),
        TypeError,
        "labels: .*float32",
    ),
    "class weights of another length": (
        lambda: F.cross_entropy(
            lucid.tensor(np.ones((1, 3))),
            lucid.tensor([1]),
            lucid.tensor(np.ones(2)),
        ),
        ValueError,
        r"weight: .*\(3,\).*\(2,\)",
    ),
    "an unknown reduction": (
        lambda: F.mse_loss(
            lucid.tensor([1.0]), lucid.tensor([1.0]), "average"
        ),
        ValueError,
        "reduction: 'average'.*mean, sum, none",
    ),
    "targets of another shape": (
        lambda: F.mse_loss(lucid.tensor([[1.0]]), lucid.tensor([1.0])),
        ValueError,
        r"targets: .*\(1, 1\).*\(1,\)",
    ),
}


@pytest.mark.parametrize("what", BAD_CALLS)
def test_bad_calls_name_argument_value_and_limit(what):
    call, error, message = BAD_CALLS[what]
    with pytest.raises(error, match=message):
        call()


def test_class_weights_as_in_the_field():
    """The weighted mean divides by the weights of the labels met."""
    logits = lucid.tensor(np.log([[0.5, 0.5], [0.25, 0.75]]))
    loss = F.cross_entropy(
        logits, lucid.tensor([0, 1]), lucid.tensor(np.array([3.0, 1.0]))
    )
    expected = (3 * np.log(2) + np.log(4 / 3)) / 4
    assert loss.item() == pytest.approx(expected, rel=1e-14)
