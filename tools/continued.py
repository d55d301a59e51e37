"""Carry a class on in a later cell of a chapter.

::

    @continued
    class Tensor:
        def backward(self): ...

adds the body to the ``Tensor`` that exists, in place.  In the package the
tangler has merged the bodies into one class, and nothing of this is left.
"""

import sys
from types import CellType


class _Empty:
    pass


def continued(addition: type) -> type:
    """Move what `addition` defines into the class of the same name.

    The class is looked up among the globals of the cell. Its instances,
    old and new, gain the methods; bare ``super()`` works in them.
    """
    name = addition.__name__
    existing = sys._getframe(1).f_globals.get(name)
    if not isinstance(existing, type):
        raise NameError(f"continued: there is no class {name} to carry on")
    if addition.__bases__ != (object,) or addition.__doc__ is not None:
        raise TypeError(
            f"continued: class {name} has its bases and its docstring "
            f"already; carry it on with a plain `class {name}:`"
        )
    for key, value in vars(addition).items():
        if key == "__annotations__":
            existing.__annotations__ = {
                **vars(existing).get(key, {}),
                **value,
            }
        elif key not in vars(_Empty):  # what every class has of its own
            setattr(existing, key, value)
            _point_super_at(existing, addition, value)
    return existing


def _point_super_at(existing: type, addition: type, value: object) -> None:
    """Make bare ``super()`` in the method `value` start from `existing`.

    It starts from the class in the hidden variable ``__class__``, a
    closure cell that all methods of one class body share. A decorator may
    have wrapped the method, so we look inside what it wraps, too.
    """
    for attribute in ("fget", "fset", "fdel", "__func__", "func"):
        if hasattr(value, attribute):
            _point_super_at(existing, addition, getattr(value, attribute))
    for cell in getattr(value, "__closure__", None) or ():
        if _contents(cell) is addition:
            cell.cell_contents = existing
        elif hasattr(_contents(cell), "__closure__"):
            _point_super_at(existing, addition, _contents(cell))


def _contents(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # the variable is not bound yet
        return None
