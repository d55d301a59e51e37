# Tangled from chapters/optimisers.ipynb; edit that, not this file.
"""AdamW, and the optimiser that trained Google's BERT."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from typing import Any

from lucid.backend import Array, array_module, run_rows
from lucid.checks import check_number
from lucid.optim.optimizer import Optimizer

_FLUSH = 1e-30  # see `_update`


def _update(
    rate: float,
    eps: float,
    betas: tuple[float, float],
    shrink: float,
    parameter: Array,
    g: Array,
    m: Array,
    v: Array,
) -> None:
    """Move a block: equations (optimisers-moments-forward) and after.

    Adding a tiny number and taking it away again keeps `m` from becoming
    denormal, equation (optimisers-flush).
    """
    xp = array_module(parameter)
    t = xp.multiply(g, 1.0 - betas[0])
    m *= betas[0]
    m += t
    m += _FLUSH
    m -= _FLUSH
    xp.multiply(g, g, out=t)
    t *= 1.0 - betas[1]
    v *= betas[1]
    v += t
    xp.sqrt(v, out=t)
    t += eps
    xp.divide(m, t, out=t)
    t *= rate
    if shrink != 1.0:
        parameter *= shrink
    parameter -= t


class AdamW(Optimizer):
    r"""Adam with decoupled weight decay.

    .. math:: \theta \leftarrow (1-\eta\lambda)\,\theta
        - \eta\,\frac{m/c_1}{\sqrt{v/c_2}+\epsilon}

    Parameters
    ----------
    parameters : iterable
        Of parameters, of pairs of name and parameter, or of groups: see
        :class:`lucid.optim.optimizer.Optimizer`.
    lr : float
        Learning rate, :math:`\eta`: about how far an element moves a step.
    betas : pair of float
        How much of the past the two running means keep.
    eps : float
        Added to the root. A gradient below this size counts as noise.
    weight_decay : float
        :math:`\lambda`. See :func:`lucid.optim.decay.decay_groups` for what
        is better not decayed.

    Raises
    ------
    ValueError
        If there is no parameter, one comes twice, or a number is out of
        range.

    Notes
    -----
    Kingma and Ba (2015), algorithm 1; Loshchilov and Hutter (2019),
    algorithm 2. Derived in :doc:`/chapters/optimisers`, equations
    (optimisers-moments-forward), (optimisers-correction-forward),
    (optimisers-adamw-forward) and (optimisers-collapsed-forward).

    Examples
    --------
    >>> from lucid.nn import Parameter
    >>> parameter = Parameter(np.array([1.0, 1.0], np.float32))
    >>> optimizer = AdamW([parameter], lr=0.1, weight_decay=0.0)
    >>> parameter.grad = lucid.tensor([300.0, -0.02])
    >>> optimizer.step()
    >>> parameter.detach()
    tensor([0.9, 1.1])
    """

    slots = ("m", "v")

    def __init__(
        self,
        parameters: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:
        super().__init__(parameters, lr, weight_decay)
        pair = isinstance(betas, (tuple, list)) and len(betas) == 2
        if not pair or not all(0.0 <= beta < 1.0 for beta in betas):
            raise ValueError(
                f"betas: wanted two numbers in [0, 1), got {betas!r}"
            )
        self.betas = betas
        self.eps = check_number("eps", eps)

    def step(self) -> None:
        """Move each parameter that has a gradient."""
        work = [
            (group, p.data, p.grad.data, self._kept(name, p))
            for group in self.groups
            for name, p in group.params.items()
            if p.grad is not None
        ]
        for group, parameter, g, kept in work:
            kept["steps"] += 1
            rate, eps = self._corrected(group.lr, kept["steps"])
            shrink = 1.0 - group.lr * group.weight_decay
            kernel = partial(_update, rate, eps, self.betas, shrink)
            arrays = parameter, g, kept["m"], kept["v"]
            run_rows(kernel, *(x if x.ndim else x[None] for x in arrays))

    def _corrected(self, lr: float, steps: int) -> tuple[float, float]:
        """Return the numbers of equation (optimisers-collapsed-forward)."""
        c1 = 1.0 - self.betas[0] ** steps
        c2 = 1.0 - self.betas[1] ** steps
        return lr * math.sqrt(c2) / c1, self.eps * math.sqrt(c2)


class AdamWeightDecay(AdamW):
    r"""Adam as in Google's BERT release: no bias correction.

    .. math:: \theta \leftarrow \theta
        - \eta\,\Big(\frac{m}{\sqrt{v}+\epsilon} + \lambda\theta\Big)

    The first steps are longer than those of `AdamW`, 3.16 times at step 1,
    unless the gradients are as small as ``eps``. It was made to be used with
    a warm-up: see :class:`lucid.optim.schedule.LinearWarmup`.

    Parameters
    ----------
    parameters, lr, betas, eps, weight_decay
        As for `AdamW`; the default of ``eps`` is Google's.

    Notes
    -----
    ``AdamWeightDecayOptimizer`` in google-research/bert. Derived in
    :doc:`/chapters/optimisers`, equations (optimisers-moments-forward) and
    (optimisers-google-forward).
    """

    def __init__(
        self,
        parameters: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.01,
    ) -> None:
        super().__init__(parameters, lr, betas, eps, weight_decay)

    def _corrected(self, lr: float, steps: int) -> tuple[float, float]:
        """Return rate and epsilon as they are."""
        return lr, self.eps
