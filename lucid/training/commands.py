# Tangled from chapters/pretrain.ipynb; edit that, not this file.
"""What the command lines share: options, settings, errors in one line."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, field, fields
from pathlib import Path
from typing import Any, TypeVar

from lucid.models.checkpoint import as_text, write_files

SETTINGS_NAME = "run.json"
SettingsT = TypeVar("SettingsT")


def option(default: Any, text: str) -> Any:
    """Declare a field of a settings class that is also an option.

    Notes
    -----
    Built in :doc:`/chapters/pretrain`.
    """
    return field(default=default, metadata={"help": text})


def _parser(
    kind: Any, program: str, description: str
) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(program, description=description)
    parser.add_argument(
        "--out", required=True, metavar="FOLDER", help="what to write into"
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="take up the run in --out at its last checkpoint; everything "
        "else is as it was",
    )
    for entry in fields(kind):
        how: dict[str, Any] = {"action": "store_true"}
        if not isinstance(entry.default, bool):
            of = type(entry.default)
            how = {
                "type": of,
                "metavar": {str: "NAME", int: "N", float: "X"}[of],
            }
        default = "none" if entry.default in ("", False) else entry.default
        parser.add_argument(
            f"--{entry.name.replace('_', '-')}",
            default=argparse.SUPPRESS,
            help=f"{entry.metadata['help']} (default: {default})",
            **how,
        )
    return parser


def read_settings(
    kind: type[SettingsT],
    program: str,
    description: str,
    arguments: Sequence[str] | None = None,
) -> tuple[SettingsT, Path, bool]:
    """Read a command line whose options are the fields of ``kind``.

    Parameters
    ----------
    kind : dataclass
        Each field declared by `option`.
    program, description : str
        For ``--help``.
    arguments : sequence of str, optional
        By default those of the process.

    Returns
    -------
    settings : kind
        With ``--resume``, those that the run was begun with.
    folder : Path
        Where the run is kept.
    resume : bool

    Notes
    -----
    Built in :doc:`/chapters/pretrain`.
    """
    parser = _parser(kind, program, description)
    given = vars(parser.parse_args(arguments))
    folder, resume = Path(given.pop("out")), given.pop("resume")
    stored = folder / SETTINGS_NAME
    if resume and given:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        parser.error(f"--resume: leave out {names}; {stored} has it")
    if resume and not stored.is_file():
        parser.error(f"--resume: no run in {folder}, {stored} is missing")
    if stored.exists() and not resume:
        parser.error(f"--out: a run in {folder} already; add --resume?")
    if resume:
        given = json.loads(stored.read_text(encoding="utf-8"))
    return kind(**given), folder, resume


def write_settings(
    settings: Any, folder: Path, paths: Sequence[str]
) -> None:
    """Create the run's folder and write its settings into it.

    Parameters
    ----------
    settings : dataclass
    folder : Path
    paths : sequence of str
        Fields that are paths; where one is given it is written in full,
        so that the run can be taken up from anywhere.

    Raises
    ------
    OSError
        If the folder cannot be written to.

    Notes
    -----
    Built in :doc:`/chapters/pretrain`.
    """
    values = asdict(settings)
    for name in paths:
        if values[name]:
            values[name] = str(Path(values[name]).resolve())
    text = json.dumps(values, indent=2) + "\n"
    try:
        write_files(folder, {SETTINGS_NAME: as_text(text)})
    except OSError as error:
        raise OSError(f"--out: cannot write to {folder}: {error}") from error


def run_command(
    program: str,
    description: str,
    kind: type[SettingsT],
    command: Callable[[SettingsT, Path, bool], None],
    arguments: Sequence[str] | None = None,
) -> int:
    """Run ``command`` and return the exit status; errors take one line.

    Parameters
    ----------
    program : str
        The module that is run.
    description, kind, arguments
        As for `read_settings`.
    command : callable
        Called with what `read_settings` returns.

    Notes
    -----
    Built in :doc:`/chapters/pretrain`.
    """
    found = read_settings(
        kind, f"python -m {program}", description, arguments
    )
    expected = ArithmeticError, ImportError, OSError, TypeError, ValueError
    try:
        command(*found)
    except KeyboardInterrupt as stop:
        print(f"\n{program}: {stop or 'stopped'}", file=sys.stderr)
        return 130
    except expected as error:
        print(f"\n{program}: {error}", file=sys.stderr)
        return 1
    return 0
