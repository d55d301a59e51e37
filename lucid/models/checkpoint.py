# Tangled from chapters/saving.ipynb; edit that, not this file.
"""Read and write the two files of a Hugging Face model folder."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

CONFIG_NAME = "config.json"
WEIGHTS_NAME = "model.safetensors"
Writer = Callable[[Path], Any]


def write_files(
    folder: str | os.PathLike[str], writers: Mapping[str, Writer]
) -> None:
    """Write files into a folder, all of them whole or none at all.

    Parameters
    ----------
    folder : path
        Created if need be.
    writers : mapping of str to callable
        By a file's name, what writes it: `as_text`, `as_json`,
        `as_weights`, or anything else that is called with a path.

    Raises
    ------
    OSError
        If a file cannot be written, as on a full disk; the message names
        it. Old files of these names are untouched then.

    Notes
    -----
    Built in :doc:`/chapters/saving`.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    mark = secrets.token_hex(8)
    drafts = {name: folder / f".{name}.{mark}.draft" for name in writers}
    try:
        for name, draft in drafts.items():
            draft.touch(exist_ok=False)
            mode = draft.stat().st_mode & 0o777  # that of any new file
            writers[name](draft)
            draft.chmod(mode)
        for name, draft in drafts.items():
            os.replace(draft, folder / name)
    except (OSError, SafetensorError) as error:
        kind = type(error) if isinstance(error, OSError) else OSError
        raise kind(
            f"folder: {folder / name} cannot be written ({error})"
        ) from error
    finally:
        for draft in drafts.values():
            draft.unlink(missing_ok=True)


def as_text(text: str) -> Writer:
    """Return what writes a text in UTF-8, for `write_files`.

    Notes
    -----
    Built in :doc:`/chapters/saving`.
    """
    return lambda path: path.write_text(text, encoding="utf-8")


def as_json(values: Mapping[str, Any]) -> Writer:
    """Return what writes a JSON object, for `write_files`.

    Notes
    -----
    Built in :doc:`/chapters/saving`.
    """
    return as_text(json.dumps(values, indent=2, sort_keys=True) + "\n")


def as_weights(weights: Mapping[str, np.ndarray]) -> Writer:
    """Return what writes a safetensors file, for `write_files`.

    Notes
    -----
    Built in :doc:`/chapters/saving`; the layout is equation (saving-bytes).
    """
    arrays = {k: np.ascontiguousarray(v) for k, v in weights.items()}
    return lambda path: save_file(arrays, path, metadata={"format": "pt"})


def _todays_name(name: str) -> str:
    for old, new in (("gamma", "weight"), ("beta", "bias")):
        if name.endswith(f"LayerNorm.{old}"):
            return name.removesuffix(old) + new
    return name


def _existing(folder: Path, name: str) -> Path:
    path = folder / name
    if path.exists():
        path.open("rb").close()  # says why, if it cannot be read
        return path
    if folder.is_dir():
        found = sorted(p.name for p in folder.iterdir())
        hint = f"the folder holds {', '.join(found) or 'nothing'}"
    elif folder.exists():
        hint = f"{folder.name} is a file, not a folder"
    else:
        hint = "there is no such folder"
    raise FileNotFoundError(f"folder: {path} is missing; {hint}")


def read_config(folder: Path) -> dict[str, Any]:
    """Read ``config.json``.

    Raises
    ------
    FileNotFoundError
        If the folder has no such file.
    OSError
        If the file cannot be read.
    ValueError
        If the file is not a JSON object.

    Notes
    -----
    Built in :doc:`/chapters/saving`.
    """
    return read_json(_existing(folder, CONFIG_NAME))


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If it holds something else.

    Notes
    -----
    Built in :doc:`/chapters/saving`.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: not valid JSON ({error})") from error
    if not isinstance(values, dict):
        raise ValueError(
            f"{path}: wanted a JSON object, got {type(values).__name__}"
        )
    return values


def read_weights(folder: Path) -> dict[str, np.ndarray]:
    """Read ``model.safetensors`` under today's names.

    Old checkpoints call the scale and shift of a LayerNorm ``gamma`` and
    ``beta``; exactly those two suffixes are renamed. The buffer
    ``position_ids`` that some versions saved is left out.

    Raises
    ------
    FileNotFoundError
        If the folder has no such file.
    OSError
        If the file cannot be read.
    ValueError
        If the file is damaged, holds a dtype that NumPy lacks, or has a
        parameter under its old and its new name.

    Notes
    -----
    Built in :doc:`/chapters/saving`, equations (saving-bytes) and
    (saving-size).
    """
    path = _existing(folder, WEIGHTS_NAME)
    try:
        weights = load_file(path)
    except (SafetensorError, ValueError) as error:
        raise ValueError(
            f"{path}: not a readable safetensors file ({error})"
        ) from error
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path}: holds a dtype that NumPy lacks ({error})"
        ) from error
    renamed: dict[str, np.ndarray] = {}
    for name, values in weights.items():
        if values.dtype.kind == "V":  # taught to NumPy by another package
            raise ValueError(
                f"{path}: holds a dtype that NumPy lacks ({values.dtype})"
            )
        new = _todays_name(name)
        if new in weights and new != name:
            raise ValueError(f"{path}: holds both {name} and {new}")
        if new.split(".")[-1] != "position_ids":
            renamed[new] = values
    return renamed
