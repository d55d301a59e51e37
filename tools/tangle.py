"""Write the package ``lucid`` from the tagged cells of the chapters.

A code cell with the tag ``tangle:lucid/nn/linear.py`` belongs to that module.
Chapters follow one another as in ``_toc.yml``, cells as in the chapter. The
module's first cell begins with its docstring. Imports are found, not written:
a name that the module uses but does not define comes from an import statement
of the same chapter, or from another module that this chapter tangles. A cell
``@continued class X:`` carries on the class ``X`` begun in an earlier one.

    python tools/tangle.py            write what has changed
    python tools/tangle.py --check    show what differs, and fail if it does
"""

import argparse
import ast
import builtins
import difflib
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from tools.cells import TangleError, read_cells  # noqa: E402

MARK = "# Tangled from "
DEFINITION = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
MAY_REPEAT = {"setter", "getter", "deleter", "overload", "register"}


def offers(cells):
    """Return what the cells of one chapter can be sent for: name: lines."""
    found = {}
    for cell in cells:
        if not cell.target.endswith("__init__.py"):
            for name, lines in cell.imports.items():
                found[name] = found.get(name, set()) | lines
    for cell in cells:
        module = cell.target.removesuffix(".py").removesuffix("/__init__")
        for name in cell.binds:
            line = f"from {module.replace('/', '.')} import {name}"
            others = {x for x in found.get(name, ()) if not x.startswith("from lucid")}
            found[name] = others | {line}
    return found


def find_imports(target, cells, chapters):
    """Return the import lines for what the module uses from elsewhere."""
    bound = set().union(*(cell.binds for cell in cells))
    found = {}
    for cell in cells:
        exports = set(cell.imports) if target.endswith("__init__.py") else set()
        for name in sorted((cell.uses | exports) - bound):
            lines = cell.imports.get(name) or chapters[cell.chapter].get(name)
            if not lines and name in {*dir(builtins), "__file__"}:
                continue
            if not lines:
                raise TangleError(
                    f"{cell}: {target} uses {name!r}, which no tangled cell defines"
                    " and no cell of this chapter imports"
                )
            found[name] = found.get(name, set()) | lines
            if len(found[name]) > 1 and re.search("from | as ", str(found[name])):
                ways = "; ".join(sorted(found[name]))
                raise TangleError(f"{cell}: {target}: which {name!r} is it? {ways}")
    return found


def statements(cell):
    """Yield the statements to tangle, each with its source.

    The source holds the comments above the statement, too (and those below
    the last). Left out are import statements, the module's docstring, and a
    first line that names the file to the reader, ``# lucid/nn/linear.py``.
    """
    lines = ["", *cell.source.split("\n")]  # so that numbers begin with 1
    if lines[1].startswith(f"# {cell.target}"):
        lines[1] = None
    kept = []
    for node in cell.tree.body:
        is_docstring = node is cell.tree.body[0] and ast.get_docstring(cell.tree)
        if is_docstring or isinstance(node, ast.Import | ast.ImportFrom):
            for index in range(node.lineno, node.end_lineno + 1):
                lines[index] = None
        else:
            kept.append(node)
    start = 0
    for node in kept:
        end = node.end_lineno + 1 if node is not kept[-1] else len(lines)
        yield node, "\n".join(x for x in lines[start:end] if x is not None)
        start = end


def decorators(node):
    """Return the last words of a definition's decorators."""
    found = getattr(node, "decorator_list", [])
    return {ast.unparse(d).split("(")[0].split(".")[-1] for d in found}


def definitions(node, prefix=""):
    """Yield what a statement defines once: ``Linear``, ``Linear.forward``."""
    if isinstance(node, DEFINITION) and not decorators(node) & MAY_REPEAT:
        if "continued" not in decorators(node):
            yield prefix + node.name
        if isinstance(node, ast.ClassDef) and not prefix:
            for inner in node.body:
                yield from definitions(inner, f"{node.name}.")


def merge(target, cells):
    """Return the source of the module's statements, each class in one piece."""
    parts, seen = {}, set()  # a class stands under its name
    for cell in cells:
        if cell is not cells[0] and ast.get_docstring(cell.tree):
            raise TangleError(f"{cell}: {target} has its docstring already")
        for node, text in statements(cell):
            for name in definitions(node):
                if name in seen:
                    raise TangleError(f"{cell}: {target} defines {name} twice")
                seen.add(name)
            key = node.name if isinstance(node, ast.ClassDef) else len(parts)
            if "continued" not in decorators(node):
                parts[key] = text
                continue
            if key not in parts:
                raise TangleError(f"{cell}: {target} has no class {key} to continue")
            above, *body = re.split(r"(?m)^class \w+:.*\n", text, maxsplit=1)
            if not body or len(node.decorator_list) > 1 or ast.get_docstring(node):
                raise TangleError(
                    f"{cell}: {key} has bases, decorators and docstring already;"
                    f" continue it with a plain `class {key}:`"
                )
            comments = re.findall(r"(?m)^#.*\n", above)
            parts[key] += "\n\n" + textwrap.indent("".join(comments), "    ") + body[0]
    return "\n".join(parts.values())


def build_module(target, cells, chapters):
    """Return the module's text, which ruff has still to lay out."""
    if not ast.get_docstring(cells[0].tree):
        raise TangleError(f"{cells[0]}: {target} must begin with its docstring")
    body = merge(target, cells)
    names = list(dict.fromkeys(cell.chapter for cell in cells))
    which = "those" if len(names) > 1 else "that"
    header = f"{MARK}{', '.join(names)}; edit {which}, not this file."
    imports = find_imports(target, cells, chapters)
    text = [
        textwrap.fill(header, 77, subsequent_indent="# "),
        ast.get_source_segment(cells[0].source, cells[0].tree.body[0]),
        "from __future__ import annotations",
        *sorted(set().union(*imports.values())),
    ]
    if target.endswith("__init__.py"):
        bound = set(imports).union(*(cell.binds for cell in cells))
        public = sorted(name for name in bound if not name.startswith("_"))
        text.append(f"\n__all__ = {public}")
    return "\n".join([*text, "", body])


def lay_out(texts, root):
    """Return the texts as ruff sorts their imports and formats them."""
    with tempfile.TemporaryDirectory() as folder:
        for target, text in texts.items():
            Path(folder, target).parent.mkdir(parents=True, exist_ok=True)
            Path(folder, target).write_text(text, "utf-8")
        if (root / "pyproject.toml").exists():
            shutil.copy(root / "pyproject.toml", folder)
        ruff = [sys.executable, "-m", "ruff"]
        sort = ["check", "--select", "I,UP037", "--fix"]  # UP037: no quotes
        for command in (sort, ["format"]):
            subprocess.run(
                [*ruff, *command, "--quiet", "--no-cache", "."],
                cwd=folder,
                check=True,
            )
        return {t: Path(folder, t).read_text("utf-8") for t in texts}


def build_package(root):
    """Return the texts of all modules, the cells of each, and the faults."""
    cells, faults = read_cells(root)
    modules, chapters, texts = {}, {}, {}
    for cell in cells:
        chapters.setdefault(cell.chapter, []).append(cell)
        if cell.target:
            modules.setdefault(cell.target, []).append(cell)
    offered = {chapter: offers(members) for chapter, members in chapters.items()}
    for target, members in modules.items():
        if all(cell.tree for cell in members):  # else it is among the faults
            try:
                texts[target] = build_module(target, members, offered)
            except TangleError as error:
                faults.append(str(error))
    return lay_out(texts, root), modules, faults


def first_difference(old, new, cells):
    """Name the cell that holds the first line in which two texts differ."""
    changes = list(difflib.ndiff(old.splitlines(), new.splitlines()))
    for kind in "+ ", "- ", "  ":
        for line in (x[2:].strip() for x in changes if x.startswith(kind)):
            for cell in cells:
                if line and line in map(str.strip, cell.source.split("\n")):
                    return cell
    return cells[0]


def compare(root, texts, modules):
    """Return a message for each module in which lucid/ is out of date."""
    messages = {}
    for target, new in texts.items():
        cells = modules[target]
        if not (root / target).exists():
            messages[target] = f"{target}: is missing; {cells[0]} begins it"
        elif (old := (root / target).read_text("utf-8")) != new:
            sides = (old.splitlines(), new.splitlines())
            diff = difflib.unified_diff(*sides, target, "chapters", lineterm="")
            where = first_difference(old, new, cells)
            messages[target] = f"{target}: is stale; see {where}\n" + "\n".join(diff)
    for path in sorted((root / "lucid").rglob("*.py")):
        target = path.relative_to(root).as_posix()
        if target not in modules:
            first = path.read_text("utf-8").partition("\n")[0]
            messages[target] = f"{target}: is left over, no cell names it ({first})"
    return messages


def write(root, texts, stale, clean):
    """Bring lucid/ up to date. Remove what we wrote once and need no more."""
    for target in stale:
        path = root / target
        if target in texts:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(texts[target], "utf-8")
            print(f"wrote {target}")
        elif clean and path.read_text("utf-8").startswith(MARK):
            path.unlink()
            print(f"removed {target}")


def main(arguments=None):
    """Run the command line; return 1 if a fault or a difference remains."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("--root", type=Path, default=ROOT, help="the repository")
    options = parser.parse_args(arguments)
    texts, modules, faults = build_package(options.root)
    messages = compare(options.root, texts, modules)
    if not options.check:
        write(options.root, texts, messages, clean=not faults)
        messages = compare(options.root, texts, modules)
    for message in [*faults, *messages.values()]:
        print(message, file=sys.stderr)
    if not faults and not messages:
        print(f"lucid/ is what the chapters say ({len(texts)} modules)")
    return int(bool(faults or messages))


if __name__ == "__main__":
    sys.exit(main())
