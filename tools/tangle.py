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
import difflib
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tools.cells import ROOT, TangleError, decorators, read_cells, statements
from tools.imports import exports, find_imports, offers

MARK = "# Tangled from "
HEADER = re.compile(r"(?m)^class \w+: *(?:#.*)?\n")
DEFINITION = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
MAY_REPEAT = {"setter", "getter", "deleter", "overload", "register"}


def definitions(node, prefix=""):
    """Yield what a statement defines once: ``Linear``, ``Linear.forward``."""
    if isinstance(node, DEFINITION) and not decorators(node) & MAY_REPEAT:
        if "continued" not in decorators(node):
            yield prefix + node.name
        for inner in node.body if isinstance(node, ast.ClassDef) else []:
            yield from definitions(inner, f"{prefix}{node.name}.")


def merge(target, cells):
    """Return the source of the module's statements, each class in one piece."""
    parts, seen = {}, set()  # a class stands under its name
    for cell in cells:
        if cell is not cells[0] and ast.get_docstring(cell.tree):
            raise TangleError(cell, f"{target} has its docstring already")
        for node, text in statements(cell):
            for name in definitions(node):
                if name in seen:
                    raise TangleError(cell, f"{target} defines {name} twice")
                seen.add(name)
            key = node.name if isinstance(node, ast.ClassDef) else len(parts)
            if "continued" in decorators(node):
                if key not in parts:
                    raise TangleError(cell, f"{target}: no class {key} yet")
                parts[key] += "\n\n" + continuation(cell, node, text)
            else:
                parts[key] = text
    return "\n".join(parts.values())


def continuation(cell, node, text):
    """Return the body of a ``@continued`` class and the comments above it."""
    above, *body = re.split(HEADER, text, maxsplit=1)
    if not body or len(node.decorator_list) > 1 or ast.get_docstring(node):
        plain = f"continue it with a plain `class {node.name}:` and a block"
        raise TangleError(cell, f"{plain}, without docstring or bases")
    comments = "".join(re.findall(r"(?m)^#.*\n", above))
    return textwrap.indent(comments, "    ") + body[0]


def build_module(target, cells, offered):
    """Return the module's text, which ruff has still to lay out."""
    if not ast.get_docstring(cells[0].tree):
        raise TangleError(cells[0], f"{target} begins without a docstring")
    chapters = list(dict.fromkeys(cell.chapter for cell in cells))
    which = "those" if len(chapters) > 1 else "that"
    header = f"{MARK}{', '.join(chapters)}; edit {which}, not this file."
    imports = find_imports(target, cells, offered).values()
    parts = [
        textwrap.fill(header, 77, subsequent_indent="# "),
        ast.get_source_segment(cells[0].source, cells[0].tree.body[0]),
        "from __future__ import annotations",
        *sorted(set().union(*imports)),
    ]
    if target.endswith("__init__.py"):
        names = set().union(*(cell.binds | exports(cell) for cell in cells))
        parts += ["", f"__all__ = {sorted(n for n in names if n[0] != '_')}"]
    text = "\n".join([*parts, merge(target, cells)])
    try:
        compile(text, target, "exec")
    except SyntaxError as error:
        why = f"{target} does not compile: {error.msg}: {error.text}"
        raise TangleError(cells[0], why) from None
    return text


def lay_out(texts, root):
    """Return the texts as ruff sorts their imports and formats them."""
    with tempfile.TemporaryDirectory() as folder:
        for target, text in texts.items():
            Path(folder, target).parent.mkdir(parents=True, exist_ok=True)
            Path(folder, target).write_text(text, "utf-8")
        shutil.copy(root / "pyproject.toml", folder)  # how ruff is set up
        sort = ["check", "--select", "I,UP037", "--fix"]  # UP037: no quotes
        for command in (sort, ["format"]):
            ruff = [sys.executable, "-m", "ruff", *command, "-q", "-n", "."]
            subprocess.run(ruff, cwd=folder, check=True)
        return {t: Path(folder, t).read_text("utf-8") for t in texts}


def build_package(root):
    """Return the texts of all modules, the cells of each, and the faults."""
    cells, faults = read_cells(root)
    modules, chapters, texts = {}, {}, {}
    for cell in cells:
        chapters.setdefault(cell.chapter, []).append(cell)
        if cell.target:
            modules.setdefault(cell.target, []).append(cell)
    offered = {name: offers(members) for name, members in chapters.items()}
    for target, members in modules.items():
        if all(cell.tree for cell in members):  # else it is among the faults
            try:
                texts[target] = build_module(target, members, offered)
            except TangleError as error:
                faults.append(str(error))
    return lay_out(texts, root), modules, faults


def first_cell(diff, cells):
    """Name the cell that holds the first line in which a module differs."""
    lines = sorted(diff[3:], key=lambda line: "+- ".find(line[0]))
    for line in (line[1:].strip() for line in lines):
        for cell in cells:
            if line and line in map(str.strip, cell.source.split("\n")):
                return cell
    return cells[0]


def compare(root, texts, modules):
    """Say for each file of lucid/ what is out of date in it."""
    messages = {}
    for target, new in texts.items():
        path, cells = root / target, modules[target]
        old = path.read_text("utf-8") if path.exists() else ""
        sides = old.split("\n"), new.split("\n"), target, "chapters"
        diff = [*difflib.unified_diff(*sides, lineterm="")]
        if not path.exists():
            messages[target] = f"{target}: is missing; {cells[0]} begins it"
        elif diff:
            diff[0] = f"{target}: is stale; see {first_cell(diff, cells)}"
            messages[target] = "\n".join(diff)
    for path in sorted((root / "lucid").rglob("*.py")):
        target = path.relative_to(root).as_posix()
        if target not in modules:
            first = path.read_text("utf-8").partition("\n")[0]
            why = f"is left over, no cell is tagged for it ({first})"
            messages[target] = f"{target}: {why}"
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
    parser.add_argument("--root", type=Path, default=ROOT, help="repository")
    options = parser.parse_args(arguments)
    texts, modules, faults = build_package(options.root)
    messages = compare(options.root, texts, modules)
    if not options.check:
        write(options.root, texts, messages, clean=not faults)
        messages = compare(options.root, texts, modules)
    wrong = [*faults, *messages.values()]
    for message in wrong:
        print(message, file=sys.stderr)
    if not wrong:
        print(f"lucid/ is what the chapters say ({len(texts)} modules)")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
