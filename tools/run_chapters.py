"""Run chapters and store them so that a diff shows only what was edited.

    python tools/run_chapters.py                      run and store them all
    python tools/run_chapters.py layernorm losses     only these
    python tools/run_chapters.py --check              are they stored so?
    python tools/run_chapters.py --to-md layernorm    print as MyST markdown
    python tools/run_chapters.py --from-md layernorm.md   take in, run, store

Stored notebooks have cell ids made from their text, execution counts 1, 2, 3
and no metadata but the tags. ``--no-run`` takes a text in without running it:
for a chapter that imports what has first to be tangled from it.
"""

import argparse
import hashlib
import os
import re
import sys
import tempfile
import time
from pathlib import Path

import nbformat

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tools.cells import ROOT, chapter_paths, describe

METADATA = {
    "kernelspec": {
        "display_name": "Python 3",
        "language": "python",
        "name": "python3",
    },
    "language_info": {"name": "python"},
}
TEMPORARY = tempfile.gettempdir() + os.sep
CHANGING = (TEMPORARY, " at 0x", "<dc:date>")  # an address, an SVG's date
TRACEBACK_LINES = 12


class ChapterError(Exception):
    """A chapter does not run. The message names the chapter and the cell."""


def code_cells(notebook):
    """Pair each code cell with its number, 1 for the first."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return list(enumerate(code, start=1))


def normalise(notebook):
    """Remove, in place, what differs between two runs of the same text."""
    notebook.metadata = nbformat.from_dict(METADATA)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    seen = {}
    for cell in notebook.cells:
        digest = hashlib.sha1(cell.source.encode()).hexdigest()[:8]
        seen[digest] = seen.get(digest, 0) + 1
        cell.id = digest if seen[digest] == 1 else f"{digest}-{seen[digest]}"
        tags = cell.metadata.get("tags")
        cell.metadata = nbformat.from_dict({"tags": tags} if tags else {})
    for number, cell in code_cells(notebook):
        if cell.execution_count is not None:
            cell.execution_count = number
        cell.outputs = list(
            map(normalise_output, join_streams(cell.outputs))
        )
        for output in cell.outputs:
            if output.output_type == "execute_result":
                output.execution_count = cell.execution_count
    return notebook


def join_streams(outputs):
    """Join neighbouring pieces of a stream, which the kernel cuts by chance."""
    joined = []
    for output in outputs:
        last = joined[-1] if joined else {}
        if output.output_type == "stream" and output.name == last.get(
            "name"
        ):
            last.text += output.text
        else:
            joined.append(output)
    return joined


def normalise_output(output):
    """Drop an output's metadata and the paths in its traceback."""
    if "metadata" in output:
        output.metadata = nbformat.from_dict({})
    if output.output_type == "error":
        output.traceback = [f"{output.ename}: {output.evalue}"]
    return output


def faults(notebook, root):
    """Say what keeps a notebook from being stored: cells and why."""
    found = []
    for number, cell in code_cells(notebook):
        where = describe(number, cell.source)
        if cell.execution_count is None:
            found.append(f"{where}: has not run")
        failed = any(o.output_type == "error" for o in cell.outputs)
        expected = "raises-exception" in cell.metadata.get("tags", [])
        if failed != expected:
            found.append(
                f"{where}: {'raised' if failed else 'did not raise'} an error"
            )
        for text in output_texts(cell):
            for local in (str(root), sys.prefix, *CHANGING):
                if local in text:
                    found.append(
                        f"{where}: its output shows {local!r}: {text[:200]}"
                    )
    return found


def output_texts(cell):
    """Return what a cell has printed or shown as text."""
    texts = []
    for output in cell.outputs:
        texts += [output.get("text", ""), output.get("evalue", "")]
        data = output.get("data", {})
        texts += [
            str(v)
            for k, v in data.items()
            if k.startswith("text/") or "svg" in k
        ]
    return texts


def run(notebook, name, root):
    """Run a chapter's cells, in place, in a fresh kernel of this Python."""
    from nbclient import NotebookClient
    from nbclient.exceptions import (
        CellExecutionError,
        CellTimeoutError,
        DeadKernelError,
    )

    numbers = {id(cell): number for number, cell in code_cells(notebook)}
    # The chapter imports the package of this checkout, whatever is installed.
    search = [str(root), str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(search)}
    client = NotebookClient(
        notebook,
        timeout=900,
        kernel_name="python3",
        extra_arguments=["--Application.log_level=40"],
        resources={"metadata": {"path": str(root / "chapters")}},
    )
    for _, cell in code_cells(notebook):
        cell.outputs, cell.execution_count = [], None
    with client.setup_kernel(env=environment):
        for index, cell in enumerate(notebook.cells):
            try:
                client.execute_cell(cell, index)
            except (
                CellExecutionError,
                CellTimeoutError,
                DeadKernelError,
            ) as error:
                raised = [
                    o for o in cell.outputs if o.output_type == "error"
                ]
                trace = (
                    "\n".join(raised[0].traceback) if raised else str(error)
                )
                plain = (
                    re.sub(r"\x1b\[[0-9;]*m", "", trace)
                    .rstrip()
                    .splitlines()
                )
                where = describe(numbers[id(cell)], cell.source)
                raise ChapterError(
                    "\n    ".join(
                        [
                            f"chapters/{name}.ipynb, {where}:",
                            *plain[-TRACEBACK_LINES:],
                        ]
                    )
                ) from None


def text_of(notebook):
    """Return the file's text for a notebook."""
    return nbformat.writes(notebook) + "\n"


def read(path):
    return nbformat.read(path, as_version=4)


def store(notebook, path):
    path.parent.mkdir(exist_ok=True)
    path.write_text(text_of(normalise(notebook)), "utf-8")


def from_markdown(path):
    """Return the notebook that a MyST text describes."""
    import jupytext

    notebook = jupytext.reads(path.read_text("utf-8"), fmt="md:myst")
    return normalise(notebook)


def to_markdown(notebook):
    """Return the MyST text of a chapter, without its outputs."""
    import jupytext

    return jupytext.writes(normalise(notebook), fmt="md:myst")


def run_and_store(notebook, path, root):
    """Run one chapter and store it, if nothing is wrong with it."""
    start = time.perf_counter()
    run(notebook, path.stem, root)
    normalise(notebook)
    if found := faults(notebook, root):
        raise ChapterError(
            "\n".join(f"chapters/{path.name}, {f}" for f in found)
        )
    store(notebook, path)
    seconds = time.perf_counter() - start
    print(
        f"chapters/{path.name}: {len(code_cells(notebook))} code cells, {seconds:.0f} s"
    )


def check(path, root):
    """Raise unless the file is stored as `store` does it, with all cells run."""
    notebook = read(path)
    found = faults(notebook, root)
    if path.read_text("utf-8") != text_of(normalise(notebook)):
        found.append(
            "is not stored as tools/run_chapters.py stores it; run it"
        )
    if found:
        raise ChapterError(
            "\n".join(f"chapters/{path.name}, {f}" for f in found)
        )


def main(arguments=None):
    """Run the command line; return 1 if a chapter fails."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "names", nargs="*", help="chapters; default: all in _toc.yml"
    )
    parser.add_argument("--check", action="store_true", help="run nothing")
    parser.add_argument("--to-md", action="store_true", help="print as text")
    parser.add_argument(
        "--from-md", action="store_true", help="names are .md files"
    )
    parser.add_argument(
        "--no-run", action="store_true", help="with --from-md"
    )
    parser.add_argument(
        "--root", type=Path, default=ROOT, help="the repository"
    )
    options = parser.parse_args(arguments)
    root = options.root.resolve()
    stems = [Path(name).stem for name in options.names]
    paths = [root / "chapters" / f"{stem}.ipynb" for stem in stems]
    failed = 0
    for index, path in enumerate(paths or chapter_paths(root)):
        try:
            if not (options.from_md or path.exists()):
                raise ChapterError(
                    f"chapters/{path.name}: there is no such chapter"
                )
            if options.check:
                check(path, root)
            elif options.to_md:
                print(to_markdown(read(path)), end="")
            elif options.from_md:
                notebook = from_markdown(Path(options.names[index]))
                if options.no_run:
                    store(notebook, path)
                else:
                    run_and_store(notebook, path, root)
            else:
                run_and_store(read(path), path, root)
        except ChapterError as error:
            print(error, file=sys.stderr)
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
