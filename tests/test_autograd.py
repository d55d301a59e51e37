"""The tensor and its tape: what users see, and what must never happen."""

import copy
import gc
import sys
import threading
import weakref

import numpy as np
import pytest
from backends import share_memory

import lucid
from lucid import ops
from lucid.autograd import Tensor, record

# ---- making tensors -----------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (1, np.int64),
        (1.5, np.float32),
        ([[1, 2], [3, 4]], np.int64),
        ([1, 2.5], np.float32),
        ([True, False], np.bool_),
        (np.float64(1.5), np.float64),
        (np.zeros(2, np.float16), np.float16),
        (np.zeros(2, np.int32), np.int32),
        ([], np.float32),
    ],
)
def test_dtype_of_a_new_tensor(data, dtype):
    assert lucid.tensor(data).dtype == dtype


def test_a_new_tensor_is_a_copy():
    array = np.zeros(3)
    first = lucid.tensor(array)
    second = lucid.tensor(first)
    array[0] = first.data[1] = 1.0
    assert first.tolist() == [0.0, 1.0, 0.0]
    assert second.tolist() == [0.0, 0.0, 0.0]


def test_tensor_says_what_it_cannot_make():
    with pytest.raises(TypeError, match="data.*numbers"):
        lucid.tensor(["cat", "mat"])
    with pytest.raises((TypeError, ValueError)):
        lucid.tensor([[1, 2], [3]])
    with pytest.raises(TypeError, match="requires_grad.*int64"):
        lucid.tensor([1, 2], requires_grad=True)


def test_attributes_and_conversions():
    t = lucid.tensor([[1.0, 2.0, 3.0]])
    assert t.shape == (1, 3) and isinstance(t.shape, tuple)
    assert (t.ndim, t.size, len(t)) == (2, 3, 1)
    assert t.backend == lucid.get_backend()
    assert isinstance(t.numpy(), np.ndarray)
    assert t.tolist() == [[1.0, 2.0, 3.0]]
    assert [row.tolist() for row in t[0]] == [1.0, 2.0, 3.0]
    one = lucid.tensor([[2.0]])
    assert one.item() == 2.0 and float(one) == 2.0 and int(one) == 2
    assert isinstance(one.item(), float)
    assert bool(lucid.tensor(0)) is False
    with pytest.raises(ValueError, match=r"item.*\(1, 3\)"):
        t.item()
    with pytest.raises(TypeError, match="len"):
        len(lucid.tensor(1.0))


@pytest.mark.numpy_only("a tensor elsewhere says so in its repr")
def test_repr_shows_values_and_what_is_unusual():
    assert repr(lucid.tensor([1.0, 2.5])) == "tensor([1. , 2.5])"
    assert repr(lucid.tensor(3)) == "tensor(3)"
    assert "dtype=float64" in repr(lucid.tensor(np.zeros(2)))
    text = repr(lucid.tensor([1.0], requires_grad=True))
    assert text == "tensor([1.], requires_grad=True)"
    assert len(repr(lucid.tensor(np.zeros((500, 500))))) < 800


def test_comparisons_give_booleans_without_gradient():
    a = lucid.tensor([1.0, 2.0, 3.0], requires_grad=True)
    assert (a > 2).tolist() == [False, False, True]
    assert (a <= lucid.tensor([1.0, 1.0, 3.0])).tolist() == [
        True,
        False,
        True,
    ]
    assert (a == a).tolist() == [True, True, True]
    assert (a != 2).tolist() == [True, False, True]
    assert (a >= 2).dtype == np.bool_ and not (a < 2).requires_grad
    assert lucid.tensor([[1, 5], [7, 2]]).argmax(1).tolist() == [1, 0]
    assert len({a, a}) == 1


# ---- what does not mix ----------------------------------------------------------


def test_no_silent_promotion():
    half, single, double = (
        lucid.tensor(np.ones(2, d))
        for d in ("float16", "float32", "float64")
    )
    for a, b in (
        (single, double),
        (half, single),
        (single, lucid.tensor([1, 2])),
    ):
        with pytest.raises(TypeError, match=f"{a.dtype}.*{b.dtype}"):
            a + b
        with pytest.raises(TypeError, match=f"{b.dtype}.*{a.dtype}"):
            b * a
    with pytest.raises(TypeError, match="int64.*0.5"):
        lucid.tensor([1, 2]) * 0.5
    assert (single * np.float64(2)).dtype == np.float32
    assert (lucid.tensor([1, 2]) * 2).dtype == np.int64


@pytest.mark.parametrize(
    "exponent", [2, 2.0, np.float64(2), np.float32(2), np.int64(2)]
)
def test_a_power_keeps_the_dtype(exponent):
    x = lucid.tensor([3.0], requires_grad=True)
    y = x**exponent
    y.backward()
    assert y.dtype == x.grad.dtype == np.float32
    assert (y.tolist(), x.grad.tolist()) == ([9.0], [6.0])


def test_what_would_make_floats_of_integers():
    whole = lucid.tensor([1, 2])
    for operation in (
        lambda: whole / whole,
        lambda: whole / 2,
        lambda: 1 / whole,
        lambda: whole**0.5,
    ):
        with pytest.raises(TypeError, match=r"int64.*to\(dtype"):
            operation()
    assert (whole**2).tolist() == [1, 4]


@pytest.mark.parametrize(
    "other", [np.ones(2), [1.0, 2.0], "1", None, 1j, np.complex64(1)]
)
def test_only_tensors_and_numbers_mix(other):
    t = lucid.tensor([1.0, 2.0])
    for operation in (
        lambda: t + other,
        lambda: other + t,
        lambda: t @ other,
        lambda: t == other,
        lambda: other * t,
    ):
        with pytest.raises(TypeError, match=r"lucid\.tensor|unsupported"):
            operation()


def test_truth_values_are_compared_but_not_counted_with():
    truth = lucid.tensor([True, False])
    for operation in (
        lambda: truth + truth,
        lambda: 1 - truth,
        lambda: truth * 3,
        lambda: -truth,
        lambda: truth**2,
        lambda: truth.reshape(1, 2) @ truth.reshape(2, 1),
    ):
        with pytest.raises(TypeError, match=r"bool.*to\(dtype"):
            operation()
    assert (truth == True).tolist() == [True, False]  # noqa: E712
    assert (truth < lucid.tensor([True, True])).tolist() == [False, True]
    assert truth.sum().item() == 1


@pytest.mark.parametrize("dtype", ["uint8", "uint64", "int8", "bool"])
def test_the_smallest_of_numbers_that_have_no_negative(dtype):
    values = np.array([1, 0, 1], dtype)
    if dtype == "int8":
        values[1] = -128
    least = lucid.tensor(values).min()
    assert (least.dtype, least.item()) == (np.dtype(dtype), values.min())


@pytest.mark.parametrize("dtype", ["uint8", "uint64"])
def test_numbers_that_have_no_negative_are_not_turned_round(dtype):
    """NumPy makes 253 of 3."""
    with pytest.raises(TypeError, match=rf"negation.*{dtype}.*to\(dtype"):
        -lucid.tensor([3], dtype=dtype)
    assert (-lucid.tensor([3], dtype="int8")).tolist() == [-3]


@pytest.mark.parametrize("dtype", ["int64", "uint8", "bool"])
def test_a_mean_of_integers_would_not_be_one(dtype):
    with pytest.raises(TypeError, match=rf"^mean of .*{dtype}.*to\(dtype"):
        lucid.tensor([1, 0], dtype=dtype).mean()
    assert lucid.tensor([1, 0]).to(dtype="float32").mean().item() == 0.5


@pytest.mark.numpy_only("of what is on a device, CuPy refuses a copy")
def test_numpy_takes_the_values_of_a_tensor():
    t = lucid.tensor([[1.0, 2.0]])
    for taken in (np.asarray(t), np.array(t)):
        assert (taken.dtype, taken.tolist()) == (np.float32, [[1.0, 2.0]])
    assert np.shares_memory(np.asarray(t), t.data)
    assert not np.shares_memory(np.array(t), t.data)
    assert np.asarray(t, dtype=np.float64).dtype == np.float64


def test_numpy_does_not_cut_a_gradient_off_unseen():
    t = lucid.tensor([1.0, 2.0], requires_grad=True)
    for cut in (np.asarray, lambda t: lucid.tensor([t, t])):
        with pytest.raises(TypeError, match=r"\.numpy\(\)"):
            cut(t)


def test_shapes_that_do_not_fit():
    with pytest.raises(ValueError):
        lucid.tensor([1.0, 2.0]) + lucid.tensor([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match=r"matmul.*\(2,\)"):
        lucid.tensor([1.0, 2.0]) @ lucid.tensor([[1.0], [2.0]])
    with pytest.raises(TypeError, match="exponent"):
        lucid.tensor([1.0]) ** lucid.tensor([2.0])


# ---- backward ---------------------------------------------------------------------


def test_a_value_used_twice_adds_its_gradients():
    x = lucid.tensor([3.0], requires_grad=True)
    y = x * x + x
    y.backward()
    assert x.grad.tolist() == [7.0]
    assert isinstance(x.grad, Tensor) and not x.grad.requires_grad


def test_gradients_of_several_passes_add_up():
    x = lucid.tensor([3.0], requires_grad=True)
    (x * 2).backward()
    (x * 5).backward()
    assert x.grad.tolist() == [7.0]


def test_no_two_gradients_share_memory():
    a = lucid.tensor([1.0, 2.0], requires_grad=True)
    b = lucid.tensor([3.0, 4.0], requires_grad=True)
    gradient = lucid.tensor([1.0, 1.0])
    (a + b.reshape(2)).backward(gradient)
    assert not share_memory(a.grad, b.grad)
    for leaf in (a, b):
        assert not share_memory(leaf.grad, gradient)
        leaf.grad.data += 1  # a gradient can be written
    x = lucid.tensor([1.0, 2.0], requires_grad=True)
    x.sum().backward()
    x.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    leaf = lucid.tensor(1.0, requires_grad=True)
    leaf.backward()
    assert leaf.grad.item() == 1.0


def test_a_way_back_may_return_one_array_for_two_parents():
    def twice(a, b):
        def vjp(g):
            h = g * 2
            return h, h

        return record(2 * (a.data + b.data), (a, b), vjp)

    a = lucid.tensor([1.0, 2.0], requires_grad=True)
    b = lucid.tensor([3.0, 4.0], requires_grad=True)
    twice(a, b).sum().backward()
    assert not share_memory(a.grad, b.grad)
    (a * 10).sum().backward()
    assert b.grad.tolist() == [2.0, 2.0]
    a.grad = b.grad = None
    twice(a, (a + b) * 3).sum().backward()  # a leaf and an inner node
    assert (a.grad.tolist(), b.grad.tolist()) == ([8.0] * 2, [6.0] * 2)


def test_a_way_back_may_return_an_array_and_a_view_of_it():
    def vjp(g):
        h = g * 2
        return h, h[:1]

    a = lucid.tensor([1.0, 2.0], requires_grad=True)
    b = lucid.tensor([3.0], requires_grad=True)
    record(2 * (a.data + b.data[0]), (a, b), vjp).sum().backward()
    assert not share_memory(a.grad, b.grad)


def test_backward_from_many_numbers_needs_a_gradient():
    x = lucid.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(ValueError, match=r"gradient.*\(2,\)"):
        (x * 2).backward()
    with pytest.raises(ValueError, match=r"gradient.*\(2,\).*\(3,\)"):
        (x * 2).backward(lucid.tensor([1.0, 1.0, 1.0]))
    with pytest.raises(ValueError, match="gradient.*float32.*float64"):
        (x * 2).backward(lucid.tensor(np.ones(2)))
    (x * 2).backward(lucid.tensor([1.0, 10.0]))
    assert x.grad.tolist() == [2.0, 20.0]


def test_nothing_recorded_is_an_error_that_says_so():
    with pytest.raises(RuntimeError, match="nothing was recorded"):
        (lucid.tensor(1.0) * 2).backward()
    x = lucid.tensor(1.0, requires_grad=True)
    with lucid.no_grad():
        y = x * 2
    assert not y.requires_grad
    with pytest.raises(RuntimeError, match="no_grad"):
        y.backward()
    assert (x * 2).requires_grad


def test_no_grad_ends_with_its_block_even_after_an_error():
    x = lucid.tensor(1.0, requires_grad=True)
    with pytest.raises(ZeroDivisionError), lucid.no_grad():
        with lucid.no_grad():
            pass
        assert not (x * 2).requires_grad
        raise ZeroDivisionError
    assert (x * 2).requires_grad


def test_no_grad_is_of_one_thread():
    x = lucid.tensor(1.0, requires_grad=True)
    seen = []
    with lucid.no_grad():
        worker = threading.Thread(
            target=lambda: seen.append((x * 2).requires_grad)
        )
        worker.start()
        worker.join()
    assert seen == [True]


def test_a_second_backward_says_that_the_graph_is_gone():
    x = lucid.tensor(2.0, requires_grad=True)
    y = x * x
    z = y * 3
    z.backward()
    for gone in (z, y):
        with pytest.raises(RuntimeError, match="released by an earlier"):
            gone.backward()
    with pytest.raises(RuntimeError, match="released by an earlier"):
        (y + 1).backward()
    assert x.grad.item() == 12.0


def test_backward_releases_what_the_graph_kept():
    x = lucid.tensor(np.ones(10), requires_grad=True)
    inner = ops.exp(x)
    kept = weakref.ref(inner)
    y = (inner * inner).sum()
    del inner
    assert kept() is not None
    y.backward()
    assert kept() is None


def test_a_graph_without_cycles_needs_no_collector():
    gc.collect()
    gc.disable()
    try:
        x = lucid.tensor(np.ones(10), requires_grad=True)
        y = ops.tanh(x) / (x * x)
        kept = weakref.ref(y)
        del y
        assert kept() is None
    finally:
        gc.enable()


def test_any_depth():
    deep = 100_000 if lucid.get_backend() == "numpy" else 5_000  # it is slow
    assert sys.getrecursionlimit() < deep
    x = y = lucid.tensor(1.0, requires_grad=True)
    for _ in range(deep):
        y = y + 1.0
    y.backward()
    assert x.grad.item() == 1.0
    for _ in range(deep):
        y = y * 1.0 + x
    del y  # a long graph may also go without backward


def test_constants_get_no_gradient():
    x = lucid.tensor(2.0, requires_grad=True)
    c = lucid.tensor(3.0)
    (x * c).backward()
    assert c.grad is None and x.grad.item() == 3.0


def test_a_leaf_that_is_reached_by_none_keeps_none():
    x = lucid.tensor(2.0, requires_grad=True)

    def refuse(g):
        return (None,)

    record(x.data * 2, (x,), refuse).backward()
    assert x.grad is None


def test_detach_cuts_the_way_back():
    x = lucid.tensor(2.0, requires_grad=True)
    (x * (x * x).detach()).backward()
    assert x.grad.item() == 4.0


def test_to_carries_the_gradient_back_in_the_old_dtype():
    x = lucid.tensor([1.0, 2.0], requires_grad=True)
    (x.to(dtype="float64") ** 2).sum().backward()
    assert x.grad.dtype == np.float32 and x.grad.tolist() == [2.0, 4.0]
    assert x.to(dtype="int64").dtype == np.int64


def test_deepcopy_of_a_leaf_and_of_a_result():
    x = lucid.tensor([1.0], requires_grad=True)
    (x * 2).backward()
    y = copy.deepcopy(x)
    assert y.requires_grad and y.grad.tolist() == [2.0]
    y.data[0] = y.grad.data[0] = 9.0
    assert x.tolist() == [1.0] and x.grad.tolist() == [2.0]
    with pytest.raises(RuntimeError, match="deepcopy.*detach"):
        copy.deepcopy(x * 2)


@pytest.mark.parametrize("axes", [(0, -1, 1), (-1, 0, -2), (-2, -1, -3), ()])
def test_transpose_counts_axes_from_the_end(axes):
    x = np.random.default_rng(0).uniform(0.5, 2, (3, 3, 3))
    x = lucid.tensor(x, requires_grad=True)
    turned = x.transpose(*axes)
    np.testing.assert_array_equal(turned.numpy(), x.numpy().transpose(*axes))
    lucid.check_gradients(lambda x: x.transpose(*axes), x)


@pytest.mark.parametrize("axes", [(0, 1), (0, 1, 3), (0, 1, 1), (0, 1, -2)])
def test_transpose_refuses_what_is_no_order_of_the_axes(axes):
    with pytest.raises(ValueError):
        lucid.tensor(np.ones((3, 3, 3))).transpose(*axes)


def test_a_power_of_zero_is_flat_everywhere():
    x = lucid.tensor([0.0, 2.0], requires_grad=True)
    (x**0).sum().backward()
    assert x.grad.tolist() == [0.0, 0.0]


def test_the_mean_of_nothing_is_not_a_number():
    assert np.isnan(lucid.tensor(np.zeros((2, 0))).mean(1).numpy()).all()
    assert lucid.tensor(np.zeros((0, 2))).mean(1).shape == (0,)


def test_where_wants_a_tensor_as_condition():
    x = lucid.tensor([1.0, 2.0])
    with pytest.raises(TypeError, match="condition.*ndarray"):
        ops.where(np.array([True, False]), x, x)


def test_what_cannot_be_joined():
    with pytest.raises(ValueError, match="tensors"):
        ops.concatenate([])
    with pytest.raises(TypeError, match="ndarray"):
        ops.concatenate([np.ones(1, np.float32), lucid.tensor([1.0])])


# ---- the checker checks ---------------------------------------------------------


def wrong_square(x):
    return record(x.data**2, (x,), lambda g: (g * x.data,))


def test_check_gradients_finds_a_wrong_gradient():
    x = lucid.tensor(np.array([1.0, 2.0]), requires_grad=True)
    with pytest.raises(
        AssertionError, match=r"inputs\[0\]\[\d\].*differences"
    ):
        lucid.check_gradients(wrong_square, x)
    assert x.tolist() == [1.0, 2.0]


def test_check_gradients_finds_nan_and_absence():
    x = lucid.tensor(np.array([1.0, 2.0]), requires_grad=True)
    with pytest.raises(AssertionError):
        lucid.check_gradients(
            lambda x: record(x.data * 2, (x,), lambda g: (g * np.nan,)), x
        )
    y = lucid.tensor(np.array([1.0, 2.0]), requires_grad=True)
    with pytest.raises(AssertionError, match=r"inputs\[1\].*no gradient"):
        lucid.check_gradients(lambda x, y: x * 2, x, y)


def test_check_gradients_wants_float64():
    x = lucid.tensor([1.0], requires_grad=True)
    with pytest.raises(TypeError, match=r"inputs\[0\].*float64.*float32"):
        lucid.check_gradients(lambda x: x * 2, x)
    error = lucid.check_gradients(
        lambda x: x**3, lucid.tensor(np.array([2.0]), requires_grad=True)
    )
    assert 0 <= error < 1e-6


def test_check_gradients_leaves_the_input_as_it_was():
    x = lucid.tensor(np.array([1.0, 2.0]), requires_grad=True)
    calls = []

    def fails_on_the_second_call(x):
        calls.append(x)
        if len(calls) == 2:
            raise ZeroDivisionError
        return x * 2

    with pytest.raises(ZeroDivisionError):
        lucid.check_gradients(fails_on_the_second_call, x)
    assert x.tolist() == [1.0, 2.0]
