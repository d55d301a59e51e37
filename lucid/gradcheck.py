# Tangled from chapters/autodiff.ipynb; edit that, not this file.
"""Compare derived gradients with central differences."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lucid.autograd import Tensor, no_grad, tensor


def _numeric_gradient(
    function: Callable[..., Tensor],
    inputs: tuple[Tensor, ...],
    x: Tensor,
    weights: Tensor,
    step: float,
) -> np.ndarray:
    """Move each element of ``x`` up and down by ``step``."""

    def value() -> float:
        with no_grad():
            return (function(*inputs) * weights).sum().item()

    numeric = np.empty(x.shape)
    for index in np.ndindex(x.shape):
        kept = float(x.data[index])
        try:
            x.data[index] = kept + step
            up = value()
            x.data[index] = kept - step
            numeric[index] = (up - value()) / (2 * step)
        finally:
            x.data[index] = kept
    return numeric


def check_gradients(
    function: Callable[..., Tensor],
    *inputs: Tensor,
    step: float = 1e-6,
    tolerance: float = 1e-6,
) -> float:
    r"""Check every gradient of ``function`` against central differences.

    The output is weighted with fixed random numbers :math:`w` and summed to
    one number :math:`s`; then each element :math:`x` of each input that
    requires a gradient is moved up and down:
    :math:`\partial s/\partial x \approx (s(x+h)-s(x-h))/2h`.
    Afterwards the inputs hold the gradients of :math:`s`.

    Parameters
    ----------
    function : callable
        Takes the inputs and returns one tensor, of any shape. It must give
        the same output each time.
    *inputs : Tensor
        float64 where a gradient is required: in float32 the difference of
        two close numbers is noise. Choose values that are not zero: zeros
        hide wrong gradients.
    step : float
        The :math:`h` above.
    tolerance : float
        Largest error allowed, relative to the largest numeric gradient of
        that input (or to 1, if that is larger).

    Returns
    -------
    float
        The largest error met, relative as above.

    Raises
    ------
    TypeError
        If an input that requires a gradient is not float64.
    AssertionError
        If a gradient is wrong; the message names input, element and both
        values.

    Notes
    -----
    Derived in :doc:`/chapters/autodiff`, equations (autodiff-central) and
    (autodiff-step).

    Examples
    --------
    >>> x = tensor(np.array([0.5, 2.0]), requires_grad=True)
    >>> check_gradients(lambda x: x * x, x) < 1e-6
    True
    """
    for i, x in enumerate(inputs):
        if x.requires_grad and x.dtype != np.float64:
            raise TypeError(
                f"inputs[{i}]: a gradient check needs float64, got {x.dtype}"
            )
        x.grad = None
    output = function(*inputs)
    rng = np.random.default_rng(0)
    weights = tensor(np.asarray(rng.standard_normal(output.shape)))
    output.backward(weights)
    worst = 0.0
    for i, x in enumerate(inputs):
        if not x.requires_grad:
            continue
        if x.grad is None:
            raise AssertionError(f"inputs[{i}]: no gradient arrived")
        derived = x.grad.numpy()
        numeric = _numeric_gradient(function, inputs, x, weights, step)
        scale = max(1.0, float(np.abs(numeric).max(initial=0.0)))
        error = np.abs(derived - numeric) / scale
        error = np.where(np.isnan(error), np.inf, error)
        if error.max(initial=0.0) > tolerance:
            at = np.unravel_index(error.argmax(), error.shape)
            place = tuple(int(k) for k in at)
            raise AssertionError(
                f"inputs[{i}]{list(place)}: the derived gradient is "
                f"{derived[at]:.6g}, central differences give "
                f"{numeric[at]:.6g}"
            )
        worst = max(worst, float(error.max(initial=0.0)))
    return worst
