"""Find the import statements that a tangled module needs."""

import builtins
import re

from tools.cells import TangleError

BUILTINS = {*dir(builtins), "__file__"}


def offers(cells):
    """Return which names one chapter offers to its modules.

    A name maps to its import lines: one, or several if it is not clear which.
    What another module of the chapter defines is imported from there, though
    a cell may show the reader a shorter way, `from lucid.nn import Linear`.
    """
    imported, defined = {}, {}
    for cell in cells:
        module = cell.target.removesuffix(".py").removesuffix("/__init__")
        for name in cell.binds:
            line = f"from {module.replace('/', '.')} import {name}"
            defined.setdefault(name, set()).add(line)
        if not cell.target.endswith("__init__.py"):
            for name, lines in cell.imports.items():
                imported.setdefault(name, set()).update(lines)
    for name, homes in defined.items():
        packages = {
            line.partition(" import")[0] for line in imported.get(name, ())
        }
        for package in packages:
            if any(home.startswith(package) for home in homes):
                imported[name].discard(f"{package} import {name}")
        imported[name] = imported.get(name, set()) | homes
    return imported


def exports(cell):
    """Return the names that a cell of an ``__init__.py`` passes on."""
    if not cell.target.endswith("__init__.py"):
        return set()
    ours = re.compile(r"from (lucid|\.)")
    return {
        name
        for name, lines in cell.imports.items()
        if any(map(ours.match, lines))
    }


def find_imports(target, cells, offered):
    """Return the import lines for each name that the module lacks."""
    bound = set().union(*(cell.binds for cell in cells))
    found = {}
    for cell in cells:
        for name in sorted((cell.uses | exports(cell)) - bound):
            lines = cell.imports.get(name) or offered[cell.chapter].get(name)
            if not lines and name in BUILTINS:
                continue
            if not lines:
                raise TangleError(
                    cell,
                    f"{target} uses {name!r}, which no tangled cell of this"
                    " chapter defines and no cell of it imports",
                )
            found[name] = found.get(name, set()) | lines
            if len(found[name]) > 1 and not all(map(is_plain, found[name])):
                ways = "; ".join(sorted(found[name]))
                raise TangleError(
                    cell, f"{target}: which {name!r} is it? {ways}"
                )
    return found


def is_plain(line):
    """Tell ``import scipy.special``, of which several may bind ``scipy``."""
    return re.fullmatch(r"import [\w.]+", line)
