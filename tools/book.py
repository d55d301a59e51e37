"""What Lucid adds to Jupyter Book (a small Sphinx extension).

* Each tangled cell gets a label with its target file, linked to the source
  page of that module.
* ``{src}`lucid/nn/linear.py``` links a chapter to the source page.
* ``{lucid-api} lucid.nn`` documents a module, and each module of a package.
* In docstrings, ``equation (layernorm-grad)`` becomes a link to the numbered
  equation, and ``lucid.nn.Linear`` is found where it is defined.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxRole
from sphinx.util.nodes import nested_parse_with_titles

TANGLE_CLASS = "tag_tangle:"
LABEL = re.compile(r"\$\$\s*\(([a-z0-9-]+)\)")
NAMED = re.compile(r"(?<![\w`])\(([a-z][a-z0-9]*(?:-[a-z0-9]+)+)\)")


def equation_labels(srcdir: Path) -> set[str]:
    """The labels of all numbered equations in the chapters under `srcdir`."""
    labels: set[str] = set()
    for path in sorted(Path(srcdir, "chapters").glob("*")):
        if path.suffix == ".ipynb":
            cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
            texts = [
                "".join(c["source"])
                for c in cells
                if c["cell_type"] != "code"
            ]
        elif path.suffix == ".md":
            texts = [path.read_text(encoding="utf-8")]
        else:
            continue
        for text in texts:
            labels.update(LABEL.findall(text))
            labels.update(re.findall(r"^:label:\s*(\S+)", text, re.M))
    return labels


def module_page(file: str) -> str:
    """The document that shows the source of `file`, as viewcode names it."""
    return "_modules/" + file.removesuffix(".py")


class FileLabel(nodes.General, nodes.Element):
    """A source file's name, with a link to its page where there is one."""


def visit_label_html(self, node):
    uri = self.builder.get_relative_uri(
        self.builder.current_docname, module_page(node["file"])
    )
    kind = "lucid-file" if node["inline"] else "lucid-file lucid-tangle"
    tag = "span" if node["inline"] else "div"
    name = node["file"]
    if not name.endswith("__init__.py"):  # those define nothing: no page
        name = f'<a href="{uri}" title="the whole file">{name}</a>'
    self.body.append(f'<{tag} class="{kind}">{name}</{tag}>')
    raise nodes.SkipNode


def visit_label_text(self, node):
    self.visit_Text(nodes.Text(node["file"]))
    raise nodes.SkipNode


def visit_label_latex(self, node):
    self.body.append(r"\texttt{" + node["file"].replace("_", r"\_") + "}")
    raise nodes.SkipNode


def label_cells(app, doctree):
    """Put the file's name on top of each tangled cell."""
    for cell in list(doctree.findall(nodes.container)):
        for name in cell.get("classes", ()):
            if name.startswith(TANGLE_CLASS):
                file = name.removeprefix(TANGLE_CLASS)
                cell["classes"].append("lucid-tangled")
                cell.insert(0, FileLabel(file=file, inline=False))
                break


class SourceRole(SphinxRole):
    """``{src}`lucid/nn/linear.py```"""

    def run(self):
        return [FileLabel(file=self.text.strip(), inline=True)], []


class LucidApi(Directive):
    """Documents a module; of a package, also its modules (not its packages)."""

    required_arguments = 1

    def run(self):
        name = self.arguments[0]
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name and name.startswith(error.name):
                note = nodes.paragraph(
                    "", f"{name} has not been tangled yet."
                )
                return [note]
            raise
        modules = [name]
        for info in pkgutil.iter_modules(getattr(module, "__path__", [])):
            if not info.ispkg and not info.name.startswith("_"):
                modules.append(f"{name}.{info.name}")
        lines: list[str] = []
        for item in modules:
            if item != name:
                lines += [item, "-" * len(item), ""]
            lines += [f".. automodule:: {item}"]
            if len(modules) == 1 or item != name:
                lines += ["   :members:", "   :show-inheritance:"]
                lines += ["   :ignore-module-all:"]
            lines += [""]
        node = nodes.section()
        node.document = self.state.document
        nested_parse_with_titles(
            self.state, StringList(lines, source=name), node
        )
        return node.children


def link_equations(app, what, name, obj, options, lines):
    """`(label)` in a docstring becomes the number of that equation, linked."""
    known = app.env.lucid_equations

    def link(match):
        label = match[1]
        return f":eq:`{label}`" if label in known else match[0]

    for i, line in enumerate(lines):
        lines[i] = NAMED.sub(link, line)


def find_name(app, env, node, contnode):
    """Resolve `lucid.nn.Linear` to the module that defines it."""
    target = node.get("reftarget", "")
    if node.get("refdomain") != "py" or not target.startswith("lucid."):
        return None
    found = look_up(target)
    if found is None:
        return None
    domain = env.get_domain("py")
    for name in found:
        if name != target and name in domain.objects:
            entry = domain.objects[name]
            uri = app.builder.get_relative_uri(node["refdoc"], entry.docname)
            return nodes.reference(
                "",
                "",
                contnode,
                internal=True,
                refuri=f"{uri}#{entry.node_id}",
            )
    return contnode if node.get("reftype") in ("class", "data") else None


def look_up(target: str):
    """The full names under which the object `target` may be documented."""
    parts = target.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            obj = importlib.import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        try:
            owner = obj
            for part in parts[cut:]:
                owner, obj = obj, getattr(obj, part)
        except AttributeError:
            return None
        home = getattr(obj, "__module__", None)
        name = getattr(obj, "__qualname__", None)
        names = [f"{home}.{name}"] if home and name else []
        if isinstance(owner, type):
            names += [
                f"{c.__module__}.{c.__qualname__}.{parts[-1]}"
                for c in owner.__mro__
            ]
        return names
    return None


def setup(app):
    app.add_node(
        FileLabel,
        html=(visit_label_html, None),
        text=(visit_label_text, None),
        latex=(visit_label_latex, None),
    )
    app.add_role("src", SourceRole())
    app.add_directive("lucid-api", LucidApi)
    app.connect("doctree-read", label_cells)
    app.connect("autodoc-process-docstring", link_equations)
    app.connect("missing-reference", find_name)
    app.connect(
        "builder-inited",
        lambda app: setattr(
            app.env, "lucid_equations", equation_labels(app.srcdir)
        ),
    )
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
