"""Write the fixtures ``tests/data/optim_*.safetensors`` from torch.

    python tests/make_optim_fixtures.py

The tests need no torch: they read what this script wrote. It was last run
with the versions that ``tests/data/VERSIONS.json`` names.

Each fixture is one run of 20 steps on three parameters, ``weight`` (5, 4),
``norm`` (4,) and ``rare`` (3, 4). It holds

``start/<name>``
    the parameter before the first step
``grad/<name>``
    its gradients, (20, ...); a step whose gradients are all NaN had none
``after/<name>``
    the parameter after each step, (20, ...)
``norm``
    in ``recipe`` alone: the global norm of the gradients before clipping
``lr``
    in ``recipe`` alone: the learning rate of each step

**Precision.** Starts and gradients are float32 numbers; torch computes with
them in float64, so that its rounding is not charged to lucid.

**Gradients** span eight orders of magnitude within a parameter, some are
zero, and ``rare`` has none in steps 1, 2, 3 and 9, as a row of a table that
no batch asked for: its count of steps is then another than that of the rest.

``google`` is the optimiser of Google's BERT release, which torch lacks.
torch's AdamW becomes it when each step is given another learning rate,
epsilon and decay, which undo the bias correction:

    lr' = lr c1 / sqrt(c2)   eps' = eps / sqrt(c2)   decay' = decay lr / lr'

where ``c1 = 1 - beta1 ** n`` and ``c2 = 1 - beta2 ** n``. For that to be one
number a step, each parameter has an optimiser of its own.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import save_file
from transformers import get_linear_schedule_with_warmup

DATA = Path(__file__).parent / "data"
STEPS = 20
SHAPES = {"weight": (5, 4), "norm": (4,), "rare": (3, 4)}
ABSENT = {"rare": [1, 2, 3, 9]}
DECAYED = ("weight", "rare")
BETAS = (0.9, 0.999)


def draw(seed: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Draw where the parameters start, and their gradients."""
    rng = np.random.default_rng(seed)
    start, grads = {}, {}
    for name, shape in SHAPES.items():
        start[name] = rng.normal(size=shape).astype(np.float32)
        size = 10.0 ** rng.uniform(-7, 1, shape)
        grad = size * rng.normal(0.3, 1.0, (STEPS, *shape))
        grad[rng.random(grad.shape) < 0.1] = 0.0
        grads[name] = grad.astype(np.float32)
        grads[name][ABSENT.get(name, [])] = np.nan
    return start, grads


def parameters(
    start: dict[str, np.ndarray],
) -> dict[str, torch.nn.Parameter]:
    return {
        name: torch.nn.Parameter(torch.from_numpy(value).double())
        for name, value in start.items()
    }


def give(params: dict, grads: dict[str, np.ndarray], step: int) -> None:
    for name, parameter in params.items():
        grad = torch.from_numpy(grads[name][step]).double()
        parameter.grad = None if grad.isnan().all() else grad


def groups(params: dict) -> list[dict]:
    return [
        {"params": [params[name] for name in DECAYED], "weight_decay": 0.1},
        {"params": [params["norm"]], "weight_decay": 0.0, "lr": 0.003},
    ]


def adamw(start: dict, grads: dict) -> dict[str, list]:
    params = parameters(start)
    optimizer = torch.optim.AdamW(
        groups(params), lr=0.01, betas=BETAS, eps=1e-8
    )
    after: dict[str, list] = {name: [] for name in params}
    for step in range(STEPS):
        give(params, grads, step)
        optimizer.step()
        for name, parameter in params.items():
            after[name].append(parameter.detach().numpy().copy())
    return {f"after/{name}": values for name, values in after.items()}


def google(start: dict, grads: dict) -> dict[str, list]:
    eps = 1e-6
    params = parameters(start)
    after: dict[str, list] = {}
    for name, parameter in params.items():
        lr, decay = (0.01, 0.1) if name in DECAYED else (0.003, 0.0)
        optimizer = torch.optim.AdamW([parameter], betas=BETAS)
        (group,) = optimizer.param_groups
        steps, after[name] = 0, []
        for step in range(STEPS):
            give({name: parameter}, grads, step)
            if parameter.grad is not None:
                steps += 1
                c1, c2 = (1 - beta**steps for beta in BETAS)
                group["lr"] = lr * c1 / c2**0.5
                group["eps"] = eps / c2**0.5
                group["weight_decay"] = decay * lr / group["lr"]
                optimizer.step()
            after[name].append(parameter.detach().numpy().copy())
    return {f"after/{name}": values for name, values in after.items()}


def recipe(start: dict, grads: dict) -> dict[str, list]:
    """Clip to a norm of 2, AdamW, warm up for 5 steps and decay to 0."""
    params = parameters(start)
    optimizer = torch.optim.AdamW(groups(params), lr=0.01)
    schedule = get_linear_schedule_with_warmup(optimizer, 5, STEPS)
    found: dict[str, list] = {f"after/{name}": [] for name in params}
    found |= {"norm": [], "lr": []}
    for step in range(STEPS):
        give(params, grads, step)
        norm = torch.nn.utils.clip_grad_norm_(params.values(), 2.0)
        found["norm"].append(norm.item())
        found["lr"].append([g["lr"] for g in optimizer.param_groups])
        optimizer.step()
        schedule.step()
        for name, parameter in params.items():
            found[f"after/{name}"].append(parameter.detach().numpy().copy())
    return found


def main() -> None:
    for seed, run in enumerate((adamw, google, recipe)):
        start, grads = draw(seed)
        arrays = {f"start/{name}": value for name, value in start.items()}
        arrays |= {f"grad/{name}": value for name, value in grads.items()}
        found = run(start, grads)
        arrays |= {name: np.array(value) for name, value in found.items()}
        save_file(arrays, DATA / f"optim_{run.__name__}.safetensors")
        print(run.__name__, {n: list(a.shape) for n, a in arrays.items()})


if __name__ == "__main__":
    main()
