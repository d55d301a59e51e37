"""The shape of the chapters, and the links between the book and the package."""

from __future__ import annotations

import ast
import functools
import html
import importlib
import inspect
import json
import pkgutil
import re
import urllib.parse
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
HTML = ROOT / "_build" / "html"
# Chapters that teach no formula or tangle none are spared what makes no sense
# for them; see each test.
TALES = {"how-to-read", "bug-museum"}


def in_contents() -> list[str]:
    """The files that _toc.yml lists, in its order."""
    text = (ROOT / "_toc.yml").read_text("utf-8")
    return re.findall(r"^\s*-?\s*(?:root|file):\s*(\S+)", text, re.M)


CHAPTERS = [
    Path(name).stem
    for name in in_contents()
    if name.endswith(".ipynb") and (ROOT / name).exists()
]
TEACHING = [name for name in CHAPTERS if name not in TALES]
each_chapter = pytest.mark.parametrize("name", CHAPTERS)
each_teaching_chapter = pytest.mark.parametrize("name", TEACHING)


@functools.cache
def cells(name: str) -> list[dict]:
    path = ROOT / "chapters" / f"{name}.ipynb"
    found = json.loads(path.read_text("utf-8"))["cells"]
    for cell in found:
        cell["source"] = "".join(cell["source"])
        cell["tags"] = cell["metadata"].get("tags", [])
    return found


def code(name: str) -> list[dict]:
    return [cell for cell in cells(name) if cell["cell_type"] == "code"]


@functools.cache
def prose(name: str) -> str:
    texts = [
        c["source"] for c in cells(name) if c["cell_type"] == "markdown"
    ]
    return "\n\n".join(texts)


def tangled(name: str) -> dict[str, list[str]]:
    """The cells of a chapter that go into the package, by target file."""
    found: dict[str, list[str]] = {}
    for cell in code(name):
        for tag in cell["tags"]:
            if tag.startswith("tangle:"):
                file = tag.removeprefix("tangle:")
                found.setdefault(file, []).append(cell["source"])
    return found


LABEL = re.compile(r"\$\$\s*\(([a-z0-9-]+)\)|^:label:\s*([a-z0-9-]+)$", re.M)


def equations(name: str) -> list[str]:
    """The labels of a chapter's numbered equations (its exercises' are not)."""
    text = prose(name)
    maths = re.findall(r"^```\{math\}\n:label: ([a-z0-9-]+)", text, re.M)
    return re.findall(r"\$\$\s*\(([a-z0-9-]+)\)", text) + maths


def all_equations() -> set[str]:
    return {label for name in CHAPTERS for label in equations(name)}


# ---------------------------------------------------------------- the contents


def test_contents_and_folder_agree():
    listed = {name for name in in_contents() if name.endswith(".ipynb")}
    there = {f"chapters/{p.name}" for p in ROOT.glob("chapters/*.ipynb")}
    assert listed == there


def test_no_file_name_begins_with_a_digit():
    names = [p.name for p in ROOT.glob("chapters/*")]
    assert not [name for name in names if name[0].isdigit()]


# ---------------------------------------------------------- the stored notebook


@each_chapter
def test_every_code_cell_has_run(name):
    counts = [cell["execution_count"] for cell in code(name)]
    assert counts == list(range(1, len(counts) + 1))


@each_chapter
def test_no_cell_failed_or_complained(name):
    for cell in code(name):
        for output in cell["outputs"]:
            kind = output["output_type"]
            assert kind != "error", cell["source"]
            assert output.get("name") != "stderr", cell["source"]


@each_chapter
def test_code_fits_the_page(name):
    for cell in code(name):
        for line in cell["source"].splitlines():
            assert len(line) <= 77, f"{len(line)} characters: {line}"


@each_chapter
def test_outputs_say_nothing_of_this_machine(name):
    stored = json.dumps([cell["outputs"] for cell in code(name)])
    for trace in (
        r"/home/\w+",
        r"/Users/\w+",
        r"/tmp/\w+",
        r"/root/",
        r"0x[0-9a-f]{6}",
    ):
        assert not re.search(trace, stored), trace


@each_chapter
def test_only_figures_and_timings_are_spared_comparison(name):
    for cell in code(name):
        if "nbval-ignore-output" in cell["tags"]:
            source = cell["source"]
            assert re.search(
                r"\bshow\(|perf_counter|timeit|\btime\b", source
            ), source
        assert "nbval-skip" not in cell["tags"]
        assert "raises-exception" not in cell["tags"] or "Error" in str(
            cell["outputs"]
        )


# ------------------------------------------------------------ the chapter's shape


@each_chapter
def test_one_title_at_the_top(name):
    first = cells(name)[0]
    assert first["cell_type"] == "markdown"
    assert first["source"].startswith("# ")
    plain = re.sub(
        r"^(`{3,}|~{3,}).*?^\1", "", prose(name), flags=re.M | re.S
    )
    assert len(re.findall(r"^# ", plain, re.M)) == 1


@each_chapter
def test_opening_box(name):
    top = "\n".join(cell["source"] for cell in cells(name)[:2])
    box = re.search(
        r"^:{3,}\{admonition\}.*?^:class: build\b(.*?)^:{3,}$",
        top,
        re.M | re.S,
    )
    assert box, "no admonition of class `build` in the first two cells"
    wanted = ["You build", "You need", "It runs", "It becomes"]
    if name in TALES:
        wanted = ["You need", "It runs"]
    assert [word for word in wanted if f"**{word}" not in box[1]] == []


@each_teaching_chapter
def test_shapes_table(name):
    head = r"^\|\s*symbol\s*\|\s*shape\s*\|\s*dtype\s*\|\s*meaning\s*\|"
    assert re.search(head, prose(name), re.M)


@each_teaching_chapter
def test_numbered_equations(name):
    if name == "real-checkpoint":
        pytest.skip("derives nothing new")
    labels = equations(name)
    assert len(labels) >= 2
    assert [
        label for label in labels if not label.startswith(name + "-")
    ] == []


def test_equation_labels_are_used_once():
    labels = [label for name in CHAPTERS for label in equations(name)]
    assert sorted(set(labels)) == sorted(labels)


@each_teaching_chapter
def test_ledger(name):
    assert re.search(r"^:class: ledger\b", prose(name), re.M)


@each_chapter
def test_figures_are_described(name):
    count = 0
    for cell in code(name):
        for node in ast.walk(ast.parse(cell["source"])):
            is_call = isinstance(node, ast.Call) and isinstance(
                node.func, ast.Name
            )
            if is_call and node.func.id == "show":
                count += 1
        for output in cell["outputs"]:
            text = "".join(output.get("data", {}).get("text/html", ""))
            for words in re.findall(r'<svg[^>]*aria-label="([^"]*)"', text):
                assert len(html.unescape(words).split()) >= 8, words
            assert text.count("<svg") == text.count('role="img"')
            assert not {"image/png", "image/svg+xml"} & set(
                output.get("data", {})
            )
    assert count >= 1 or name == "bug-museum"


@each_chapter
def test_exercises_have_folded_solutions(name):
    if name == "bug-museum":
        pytest.skip("its exhibits are the exercises")
    text = prose(name)
    start = r"^[:`]{3,}\{%s(?:-start)?\}"
    exercises = re.findall(
        start % "exercise" + r".*\n:label: (\S+)", text, re.M
    )
    solutions = re.findall(
        start % "solution" + r" (\S+)\n((?::\w+:.*\n)*)", text, re.M
    )
    least = 1 if name in TALES else 3
    assert len(exercises) >= least
    assert sorted(exercises) == sorted(label for label, _ in solutions)
    assert [
        label for label, options in solutions if "dropdown" not in options
    ] == []


@each_teaching_chapter
def test_a_solution_runs(name):
    inside = ran = False
    for cell in cells(name):
        if cell["cell_type"] == "markdown":
            for word in re.findall(
                r"\{solution-(start|end)\}", cell["source"]
            ):
                inside = word == "start"
        else:
            ran |= inside
    assert ran, "no solution holds a code cell"


@each_chapter
def test_summary_and_next_chapter(name):
    headings = re.findall(r"^## (.*)$", prose(name), re.M)
    assert headings[-1] == "Summary"
    end = prose(name).rsplit("## Summary", 1)[1]
    for file in tangled(name):
        assert f"{{src}}`{file}`" in end, f"the summary does not link {file}"
    order = [
        Path(file).stem for file in in_contents() if file.endswith(".ipynb")
    ]
    position = order.index(name)
    if position + 1 < len(order):
        assert re.search(
            r"\{doc\}`[^`]*\b" + order[position + 1] + r">?`", end
        )


@each_teaching_chapter
def test_sources_are_cited_and_terms_explained(name):
    assert re.search(r"\{cite(:\w+)?\}`", prose(name))
    assert "{term}`" in prose(name)


@each_chapter
def test_the_map_names_every_chapter_and_its_files(name):
    if name == "how-to-read":
        pytest.skip("it is the map")
    row = re.search(
        rf"^\| \{{doc\}}`{name}` \|(.*)$", prose("how-to-read"), re.M
    )
    assert row, "the table of how-to-read has no row for it"
    for file in tangled(name):
        stem = Path(file).stem
        assert stem == "__init__" or re.search(
            rf"[/`]{stem}(\.py)?`", row[1]
        ), f"the table of how-to-read does not list {file}"
    figures = json.dumps([c["outputs"] for c in code("how-to-read")])
    assert re.search(rf"(?<![\w-]){name}(?![\w-])", figures), (
        "the map of how-to-read, or its alt text, does not show it"
    )


def test_citations_exist():
    keys = set(
        re.findall(
            r"^@\w+\{([^,\s]+),", (ROOT / "references.bib").read_text(), re.M
        )
    )
    for name in CHAPTERS:
        for group in re.findall(r"\{cite(?::\w+)?\}`([^`]*)`", prose(name)):
            for key in group.split(","):
                assert key.strip() in keys, f"{name} cites {key}"


# ----------------------------------------------------- the package and the book


def modules():
    """All modules of the package, imported."""
    import lucid

    yield lucid
    for info in pkgutil.walk_packages(lucid.__path__, "lucid."):
        yield importlib.import_module(info.name)


def public_objects():
    """(full name, object) of each public function and class, where it is defined."""
    for module in modules():
        for name, thing in vars(module).items():
            is_ours = getattr(thing, "__module__", None) == module.__name__
            if name.startswith("_") or not is_ours:
                continue
            if inspect.isclass(thing) or inspect.isfunction(thing):
                yield f"{module.__name__}.{name}", thing


def chapter_of(full: str) -> str | None:
    """The chapter in whose tangled cells the object is begun."""
    module, _, name = full.rpartition(".")
    file = module.replace(".", "/")
    for chapter in CHAPTERS:
        for target, sources in tangled(chapter).items():
            if target not in (f"{file}.py", f"{file}/__init__.py"):
                continue
            for source in sources:
                for node in ast.parse(source).body:
                    if getattr(node, "name", None) != name:
                        continue
                    marks = [
                        getattr(d, "id", "") for d in node.decorator_list
                    ]
                    if "continued" not in marks:
                        return chapter
    return None


OBJECTS = dict(public_objects())
each_object = pytest.mark.parametrize("full", OBJECTS)


@each_object
def test_docstring_links_to_its_chapter(full):
    text = inspect.getdoc(OBJECTS[full])
    assert text, "no docstring"
    chapter = chapter_of(full)
    assert chapter is not None, "no chapter tangles it"
    assert f":doc:`/chapters/{chapter}`" in text


@each_object
def test_chapter_links_to_the_object(full):
    chapter = chapter_of(full)
    assert chapter is not None, "no chapter tangles it"
    linked = re.findall(
        r"\{py:(?:func|class|obj|exc)\}`([^`]*)`", prose(chapter)
    )
    targets = {
        re.sub(r".*<(.*)>$", r"\1", text).lstrip("~") for text in linked
    }
    known = set()
    for target in targets:
        known |= {target, defined_name(target)}
    assert full in known, (
        f"link it in chapters/{chapter}.ipynb by {{py:func}} or {{py:class}}"
    )


def defined_name(target: str) -> str | None:
    """`lucid.nn.Linear` is `lucid.nn.linear.Linear`."""
    parts = target.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        try:
            thing = importlib.import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        for part in parts[cut:]:
            thing = getattr(thing, part, None)
        home = getattr(thing, "__module__", "")
        return f"{home}.{getattr(thing, '__qualname__', '')}"
    return None


@each_chapter
def test_chapter_links_to_its_source_files(name):
    for file in tangled(name):
        assert f"{{src}}`{file}`" in prose(name)


def docstrings():
    """(full name, docstring) of modules, public objects and their methods."""
    for module in modules():
        yield module.__name__, module.__doc__ or ""
    for full, thing in OBJECTS.items():
        yield full, thing.__doc__ or ""
        if inspect.isclass(thing):
            for name, member in vars(thing).items():
                text = getattr(member, "__doc__", None)
                is_code = inspect.isfunction(member) or isinstance(
                    member, (property, classmethod, staticmethod)
                )
                if is_code and text:
                    yield f"{full}.{name}", text


NAMED = re.compile(r"(?<!\w)\(([a-z][a-z0-9]*(?:-[a-z0-9]+)+)\)")


def test_equations_named_in_docstrings_exist():
    prefixes = tuple(f"{name}-" for name in CHAPTERS)
    known = all_equations()
    wrong = [
        f"{full}: ({label})"
        for full, text in docstrings()
        for label in NAMED.findall(text)
        if label.startswith(prefixes) and label not in known
    ]
    assert wrong == []


@each_teaching_chapter
def test_equations_that_code_computes_are_named_by_it(name):
    if not tangled(name):
        pytest.skip("tangles nothing")
    named = {
        label for _, text in docstrings() for label in NAMED.findall(text)
    }
    meant = [x for x in equations(name) if x.endswith(("-forward", "-grad"))]
    assert [label for label in meant if label not in named] == []


def test_every_module_is_in_the_api_reference():
    pages = "".join(p.read_text("utf-8") for p in ROOT.glob("api/*.md"))
    roots = re.findall(r"lucid-api:: (\S+)", pages)
    packages = [m.__name__ for m in modules() if hasattr(m, "__path__")]
    bare = {"lucid.models.text"}
    assert [
        name for name in packages if name not in roots and name not in bare
    ] == []


# --------------------------------------------------------------- the built pages


class Links(HTMLParser):
    """What a page loads, where it leads, and the anchors it has."""

    def __init__(self):
        super().__init__()
        self.loads, self.leads, self.anchors = [], [], set()

    def handle_starttag(self, tag, attributes):
        got = dict(attributes)
        if got.get("id"):
            self.anchors.add(got["id"])
        if tag == "a" and got.get("href"):
            self.leads.append(got["href"])
        if tag == "link" and got.get("rel") not in ("canonical", "author"):
            self.loads.append(got.get("href") or "")
        if tag in (
            "script",
            "img",
            "iframe",
            "source",
            "video",
            "audio",
            "object",
        ):
            self.loads.append(got.get("src") or got.get("data") or "")


@functools.cache
def page(path: Path) -> Links:
    links = Links()
    links.feed(path.read_text("utf-8"))
    return links


def pages() -> list[Path]:
    if not (HTML / "index.html").exists():
        pytest.skip("the book has not been built; run `make book`")
    return [p for p in HTML.rglob("*.html") if "_static" not in p.parts]


def test_pages_load_nothing_from_the_network():
    loaded = [
        f"{path.relative_to(HTML)}: {address}"
        for path in pages()
        for address in page(path).loads
        if re.match(r"(https?:)?//", address)
    ]
    assert loaded == []


def test_style_sheets_load_nothing_from_the_network():
    pages()
    for path in HTML.rglob("*.css"):
        text = path.read_text("utf-8")
        far = re.findall(
            r"url\(\s*[\"']?(?:https?:)?//[^)]*\)|@import\s[^;]*//[^;]*",
            text,
        )
        assert far == [], path.name


def test_what_pages_load_is_there():
    gone = []
    for path in pages():
        for address in page(path).loads:
            address = urllib.parse.unquote(
                address.split("?")[0].split("#")[0]
            )
            if address and not re.match(r"(data|https?):", address):
                if not (path.parent / address).exists():
                    gone.append(f"{path.relative_to(HTML)}: {address}")
    assert gone == []


def test_links_between_pages_lead_somewhere():
    """Docstrings to chapters, chapters to entries and source files: all of them."""
    broken = []
    for path in pages():
        for address in page(path).leads:
            if (
                re.match(r"(https?|mailto|javascript|data):", address)
                or address == "#"
            ):
                continue
            file, _, anchor = urllib.parse.unquote(address).partition("#")
            target = (
                (path.parent / file.split("?")[0]).resolve()
                if file
                else path
            )
            if not target.exists():
                broken.append(f"{path.relative_to(HTML)}: {address}")
            elif anchor and target.suffix == ".html":
                if anchor not in page(target).anchors:
                    broken.append(f"{path.relative_to(HTML)}: {address}")
    assert broken == []


def test_tangled_cells_show_their_file():
    pages()
    for name in CHAPTERS:
        text = (HTML / "chapters" / f"{name}.html").read_text("utf-8")
        shown = re.findall(
            r'lucid-tangle">(?:<a href="[^"]*"[^>]*>)?([^<]*)<', text
        )
        wanted = [
            t[7:]
            for c in code(name)
            for t in c["tags"]
            if t.startswith("tangle:")
        ]
        assert shown == wanted, name


def test_search_index_knows_the_chapters():
    pages()
    index = (HTML / "searchindex.js").read_text("utf-8")
    assert index.startswith("Search.setIndex(")
    for name in CHAPTERS:
        assert f'"chapters/{name}"' in index
