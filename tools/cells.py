"""Read the chapters: their order, their code cells, and the names in those."""

import ast
import json
import re
import symtable
from dataclasses import dataclass, field
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]

ROOT = Path(__file__).resolve().parents[1]


class TangleError(Exception):
    """A fault in a cell, whose message names the chapter and the cell."""

    def __init__(self, cell, message):
        super().__init__(f"{cell}: {message}")


@dataclass
class Cell:
    """A code cell: where it stands, and what the tangler reads in it."""

    chapter: str  # chapters/layernorm.ipynb
    number: int  # 1 for the first code cell, as in Jupyter's [1]
    source: str
    target: str = ""  # lucid/nn/layernorm.py
    tree: ast.Module | None = None  # None: the cell is broken
    imports: dict[str, set[str]] = field(default_factory=dict)  # name: lines
    uses: set[str] = field(default_factory=set)
    binds: set[str] = field(default_factory=set)

    def __str__(self):
        return f"{self.chapter}, {describe(self.number, self.source)}"


def describe(number, source):
    """Name a code cell as all messages do: by its number and first line."""
    first = next(filter(str.strip, source.splitlines()), "").strip()
    return f"code cell [{number}] ({first})"


def chapter_paths(root):
    """List the notebooks that ``_toc.yml`` names, in its order."""

    def files(node):
        if isinstance(node, dict):
            yield from [node["file"]] if "file" in node else []
            node = node.values()
        for child in node:
            if isinstance(child, dict | list):
                yield from files(child)

    toc = yaml.safe_load((root / "_toc.yml").read_text("utf-8"))
    stems = [Path(file).name.removesuffix(".ipynb") for file in files(toc)]
    paths = [root / "chapters" / f"{stem}.ipynb" for stem in stems]
    return [path for path in dict.fromkeys(paths) if path.exists()]


def read_cells(root):
    """Read the code cells of all chapters. Return them, and the faults."""
    cells, faults = [], []
    listed = chapter_paths(root)
    for path in sorted({*(root / "chapters").glob("*.ipynb")} - {*listed}):
        faults.append(f"chapters/{path.name}: is not listed in _toc.yml")
    for path in listed:
        try:
            notebook = json.loads(path.read_text("utf-8"))
        except ValueError as error:
            faults.append(
                f"chapters/{path.name}: is not a notebook: {error}"
            )
            continue
        code = [
            raw for raw in notebook["cells"] if raw["cell_type"] == "code"
        ]
        for number, raw in enumerate(code, start=1):
            cell = Cell(
                f"chapters/{path.name}", number, "".join(raw["source"])
            )
            cells.append(cell)
            tags = raw["metadata"].get("tags", [])
            try:
                analyse(cell, tags)
            except SyntaxError as error:
                if cell.target or "raises-exception" not in tags:
                    faults.append(
                        f"{cell}: line {error.lineno}: {error.msg}"
                    )
            except TangleError as error:
                faults.append(str(error))
    return cells, faults


def analyse(cell, tags):
    """Fill in the cell's target, its tree, and the names in it."""
    targets = [
        t.removeprefix("tangle:") for t in tags if t.startswith("tangle:")
    ]
    for cell.target in targets:
        if targets[1:] or not re.fullmatch(r"lucid(/\w+)+\.py", cell.target):
            raise TangleError(
                cell, f"wants one tag tangle:lucid/*.py: {tags}"
            )
    source = cell.source
    label = re.match(r"# (lucid/\S+\.py)", source)
    if cell.target and label and label[1] != cell.target:
        raise TangleError(cell, f"the tag says {cell.target}")
    try:
        tree = ast.parse(source)
    except SyntaxError:
        if cell.target:
            raise
        tree = ast.parse(without_magic(source))
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            start = "import "
            if isinstance(node, ast.ImportFrom):
                start = f"from {'.' * node.level}{node.module or ''} import "
            for alias in node.names:
                name = (alias.asname or alias.name).split(".")[0]
                cell.imports.setdefault(name, set()).add(
                    start + ast.unparse(alias)
                )
    if cell.target:
        cell.uses, cell.binds = global_names(source, tree)
        cell.uses -= {"continued"}
        cell.binds -= set(cell.imports)
    cell.tree = tree


def without_magic(source):
    """Replace the lines for IPython, which are not Python."""
    if source.lstrip().startswith("%%"):
        return ""
    return re.sub(r"(?m)^(\s*)[%!].*", r"\1pass", source)


def statements(cell):
    """Yield the statements to tangle, each with its source.

    The source holds the comments above the statement, too (and those below
    the last). Left out are import statements, the module's docstring, and a
    first line that names the file to the reader, ``# lucid/nn/linear.py``.
    """
    lines = [
        "",
        *cell.source.rstrip().split("\n"),
    ]  # so that numbers begin with 1
    if lines[1].startswith(f"# {cell.target}"):
        lines[1] = None
    kept = []
    for node in cell.tree.body:
        is_docstring = node is cell.tree.body[0] and ast.get_docstring(
            cell.tree
        )
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


def global_names(source, tree):
    """Return the global names that the source uses, and those it binds.

    Python's own symbol table knows the scopes: arguments, comprehension
    variables, class attributes and ``except ... as`` names are not global.
    """
    uses, binds = set(), set()
    top = symtable.symtable(source, "cell", "exec")
    tables = [top]
    for table in tables:  # grows as we go: a scope may hold scopes
        tables.extend(table.get_children())
        for symbol in table.get_symbols():
            if symbol.is_global() and symbol.is_referenced():
                uses.add(symbol.get_name())
            if table is top or symbol.is_declared_global():
                if symbol.is_assigned() or symbol.is_imported():
                    binds.add(symbol.get_name())
    for node in ast.walk(tree):
        for part in ("annotation", "returns"):
            if annotation := getattr(node, part, None):
                uses |= quoted_names(annotation)
    return uses, binds


def quoted_names(annotation):
    """Return the names in the quoted parts of an annotation."""
    match annotation:
        case ast.Subscript() if ast.unparse(annotation.value).endswith(
            "Literal"
        ):
            return set()
        case ast.Constant(value=str(text)):
            nodes = ast.walk(ast.parse(text, mode="eval"))
            return {node.id for node in nodes if isinstance(node, ast.Name)}
    return set().union(*map(quoted_names, ast.iter_child_nodes(annotation)))
