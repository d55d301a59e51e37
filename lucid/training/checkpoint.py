# Tangled from chapters/pretrain.ipynb; edit that, not this file.
"""Checkpoints of a run: each is a folder, whole or not there at all."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from lucid.autograd import Tensor
from lucid.backend import to_numpy
from lucid.models.base import PretrainedModel
from lucid.models.checkpoint import as_text, as_weights, write_files

STATE_NAME = "training.json"
ARRAYS_NAME = "training.safetensors"


def _split(state: Any, arrays: dict[str, np.ndarray], path: str) -> Any:
    """Return ``state`` for JSON, with ``{"array": path}`` for each array."""
    if isinstance(state, Mapping):
        return {
            str(key): _split(value, arrays, f"{path}/{key}")
            for key, value in state.items()
        }
    if isinstance(state, (list, tuple)):
        return [
            _split(value, arrays, f"{path}/{i}")
            for i, value in enumerate(state)
        ]
    if isinstance(state, Tensor):
        state = state.data
    if not hasattr(state, "dtype"):
        return state
    if np.ndim(state) == 0:
        return state.item()
    arrays[path] = np.ascontiguousarray(to_numpy(state))
    return {"array": path}


def _join(state: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """Undo `_split`."""
    if isinstance(state, list):
        return [_join(value, arrays) for value in state]
    if not isinstance(state, dict):
        return state
    if set(state) == {"array"}:
        return arrays[state["array"]]
    return {key: _join(value, arrays) for key, value in state.items()}


def find_checkpoints(folder: str | Path) -> list[Path]:
    """Return the whole checkpoints in ``folder``, the oldest first.

    Notes
    -----
    Built in :doc:`/chapters/pretrain`.
    """
    found = Path(folder).glob("step-*")
    return sorted(p for p in found if re.fullmatch(r"step-\d{8}", p.name))


def _settle(path: Path) -> None:
    """Wait until a file, or what a folder lists, is on the disk."""
    if os.name == "nt" and path.is_dir():
        return  # Windows opens no folders
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_parts(
    draft: Path, model: PretrainedModel, state: Mapping[str, Any]
) -> None:
    arrays: dict[str, np.ndarray] = {}
    plain = _split(state, arrays, "")
    model.save_pretrained(draft)
    files = {ARRAYS_NAME: as_weights(arrays)}
    write_files(draft, {**files, STATE_NAME: as_text(json.dumps(plain))})
    for path in [*draft.iterdir(), draft]:
        _settle(path)


def write_checkpoint(
    folder: str | Path,
    step: int,
    model: PretrainedModel,
    state: Mapping[str, Any],
    keep: int = 2,
) -> Path:
    """Write the checkpoint ``folder/step-00000120``, in one step.

    It is a model folder, which ``from_pretrained`` and transformers read,
    with two files more: ``training.json`` and ``training.safetensors``.

    Parameters
    ----------
    folder : str or Path
        The run's folder, created if need be.
    step : int
        How many steps the model has taken; gives the name.
    model : PretrainedModel
    state : mapping
        Anything made of dicts, lists, arrays, numbers and strings.
    keep : int
        How many checkpoints to leave; older ones are deleted, afterwards.

    Returns
    -------
    Path
        Of the checkpoint. If this step has been saved already, nothing is
        written.

    Raises
    ------
    OSError
        If it cannot be written, as on a full disk. Earlier checkpoints are
        untouched then, and the message names the last.

    Notes
    -----
    Built in :doc:`/chapters/pretrain`.
    """
    folder = Path(folder)
    final = folder / f"step-{step:08d}"
    if final.exists():
        return final
    draft = folder / f".{final.name}.draft"
    try:
        shutil.rmtree(draft, ignore_errors=True)  # of a run that was killed
        draft.mkdir(parents=True)
        _write_parts(draft, model, state)
        os.replace(draft, final)
        _settle(folder)
    except OSError as error:
        whole = find_checkpoints(folder)
        raise OSError(
            f"folder: the checkpoint of step {step} cannot be written to "
            f"{folder} ({error}); the last whole one is "
            f"{whole[-1].name if whole else 'none'}"
        ) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    for old in find_checkpoints(folder)[:-keep]:
        shutil.rmtree(old)
    return final


def read_checkpoint(path: str | Path) -> dict[str, Any]:
    """Return the state that `write_checkpoint` was given.

    Raises
    ------
    ValueError
        If ``path`` is no checkpoint of a run.

    Notes
    -----
    Built in :doc:`/chapters/pretrain`.
    """
    path = Path(path)
    try:
        plain = json.loads((path / STATE_NAME).read_text(encoding="utf-8"))
        return _join(plain, load_file(path / ARRAYS_NAME))
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise ValueError(
            f"path: {path} is not a checkpoint of a run ({error})"
        ) from error
