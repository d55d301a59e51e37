"""Lucid beside transformers on PyTorch and beside ONNX Runtime.

    make bench     or     python -m benchmarks [LINE ...] [--json FILE]
    python -m benchmarks --book      all that the chapter "speed" shows

Each peer has a process of its own; they load the same weights, take turns,
and use the same number of threads. A figure is the median over the rounds of
the ratio within a round: above 1, lucid is ahead. Lines that are named are
measured alone, and replace those of their name in the file.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from benchmarks import RESULTS, sizes
from benchmarks.lines import LINES
from benchmarks.measure import (
    is_installed,
    measure,
    measure_import,
    measure_waterfall,
)

PEERS = ("lucid", "torch", "onnx")
NAMES = [*(line.name for line in LINES), "import"]
FIGURES = {
    "torch": "times PyTorch's speed",
    "onnx": "times ONNX Runtime's speed",
    "sgemm": "of the rate of sgemm",
    "memory": "torch's peak memory by lucid's",
    "limit": "of 0.25 s by what it takes",
}


def verdicts(line: dict[str, Any]) -> list[tuple[str, float, str, str]]:
    """Return what was measured beside what was wanted."""
    rows = []
    for name, figure in line["figures"].items():
        target = line["targets"].get(name)
        wanted = "" if target is None else f"{target:.2f}"
        verdict = ""
        if target is not None:
            verdict = "met" if figure >= target else "missed"
        rows.append((FIGURES[name], figure, wanted, verdict))
    return rows


def report(result: dict[str, Any]) -> str:
    """Return the table."""
    machine = result["machine"]
    head = (
        f"{machine['processor']}, {machine['cores']} cores, "
        f"{machine['threads']} threads, float32"
    )
    rows = [head]
    for line in result["lines"]:
        times = ", ".join(
            f"{peer} {1000 * seconds:.1f} ms"
            for peer, seconds in line["median"].items()
        )
        rows += ["", f"{line['what']}: {times}"]
        if line["peak_mib"]:
            peaks = line["peak_mib"].items()
            each = ", ".join(f"{peer} {mib:.0f} MiB" for peer, mib in peaks)
            rows.append(f"    peak: {each}")
        for what, figure, wanted, verdict in verdicts(line):
            row = f"    {figure:6.2f} {what:32}"
            rows.append(
                f"{row}wanted {wanted}  {verdict}" if wanted else row
            )
    return "\n".join(rows)


def pools(result: dict[str, Any]) -> str:
    """Return the thread pools and versions of the last line that has them."""
    abouts = [line["about"] for line in result["lines"] if "about" in line]
    rows = []
    for peer, about in (abouts[0] if abouts else {}).items():
        versions = ", ".join(
            f"{k} {v}" for k, v in about["versions"].items()
        )
        rows.append(f"{peer}: {versions}")
        rows += [
            f"    {p['internal_api']} {p['version']}, {p['architecture']}, "
            f"{p['num_threads']} threads"
            for p in about["threadpools"]
        ]
    return "\n".join(rows)


def rounded(value: Any) -> Any:
    """Return the same with four digits for each number."""
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    if isinstance(value, list):
        return [rounded(v) for v in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def keep(path: Path, result: dict[str, Any]) -> None:
    """Write the result; lines of other names from this machine stay."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = {line["name"] for line in result["lines"]}
    if path.exists():
        before = json.loads(path.read_text("utf-8"))
        if before["machine"] == result["machine"]:
            result["lines"] += [
                line for line in before["lines"] if line["name"] not in new
            ]
    result["lines"].sort(key=lambda line: NAMES.index(line["name"]))
    path.write_text(json.dumps(result, indent=1) + "\n", "utf-8")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "lines", nargs="*", metavar="LINE", help=", ".join(NAMES)
    )
    parser.add_argument("--json", type=Path, help="keep the figures here")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=PEERS)
    parser.add_argument(
        "--threads", type=int, default=len(os.sched_getaffinity(0))
    )
    parser.add_argument(
        "--sizes",
        action="store_true",
        help="instead, cost against batch, tokens and layers",
    )
    parser.add_argument(
        "--book",
        action="store_true",
        help=f"lines, sizes and steps, kept in {RESULTS.name}",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a tiny model and few words: only whether it works",
    )
    options = parser.parse_args()
    wanted = options.lines or NAMES
    if unknown := set(wanted) - set(NAMES):
        parser.error(f"no such line: {', '.join(sorted(unknown))}")
    who = {peer for peer in options.peers if is_installed(peer)}
    for peer in set(options.peers) - who:
        print(f"{peer} is not installed and left out; see `make bench`")
    if options.sizes:
        result = sizes.measure(options.rounds, options.threads, who)
        print(sizes.report(result))
    else:
        result = measure(
            [line for line in LINES if line.name in wanted],
            options.rounds,
            options.threads,
            options.quick,
            who,
        )
        if "import" in wanted:
            imported = measure_import(options.rounds, options.quick)
            result["lines"].append(imported)
        print(report(result))
        print("\n" + pools(result))
        if options.quick:
            print(
                "\nIt works. Of a model this small the times mean nothing."
            )
    if options.book:
        result["sizes"] = sizes.measure(options.rounds, options.threads, who)
        print("\n" + sizes.report(result["sizes"]))
        print("  the steps of a layer ...", file=sys.stderr, flush=True)
        result["waterfall"] = measure_waterfall(
            options.rounds, options.threads
        )
        text = json.dumps(rounded(result), indent=1) + "\n"
        RESULTS.write_text(text, "utf-8")
    elif options.json and options.sizes:
        text = json.dumps(result, indent=1) + "\n"
        options.json.write_text(text, "utf-8")
    elif options.json:
        keep(options.json, result)


if __name__ == "__main__":
    main()
