"""One look for every figure of the book, and figures that everybody can read.

``show(fig, alt="...")`` displays a matplotlib figure as SVG within HTML: the page
gives the ink its colour, so a figure reads on light and dark pages and in
Jupyter, and a screen reader hears the text of `alt`.
"""

from __future__ import annotations

import hashlib
import html
import io
import re

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402
from matplotlib.colors import LinearSegmentedColormap  # noqa: E402
from matplotlib.patches import FancyBboxPatch  # noqa: E402

# Line colours, told apart by the colour-blind, and at least three to one
# against white and against the dark page.
BLUE, ORANGE, GREEN = "#2f86c6", "#cf7320", "#1f9272"
PINK, PURPLE, OLIVE = "#cc6a9c", "#8a74c9", "#95841c"
RED = "#d4583f"
GREY = "#87898f"
PALETTE = (BLUE, ORANGE, GREEN, PINK, PURPLE, OLIVE)

# Text, axes and thin lines: drawn in these, shown in the page's own colour.
INK = "#010203"
FAINT = "#040506"

# Colours of matrices: from nothing to much, and from below to above zero.
SEQUENTIAL = LinearSegmentedColormap.from_list(
    "lucid", ["#e9f0f4", "#8fbdd3", "#3a84ab", "#174b6b", "#0b2536"]
)
DIVERGING = LinearSegmentedColormap.from_list(
    "lucid_diverging",
    ["#174b6b", "#5d9dbf", "#f1f1ee", "#dd9158", "#8f3f0c"],
)

STYLE = {
    "svg.fonttype": "path",
    "svg.hashsalt": "lucid",
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "axes.facecolor": "none",
    "legend.facecolor": "none",
    "legend.edgecolor": "none",
    "legend.framealpha": 0,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": matplotlib.cycler(color=PALETTE),
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.titlepad": 8,
    "axes.labelsize": 10,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.fontsize": 9,
    "font.size": 10,
    "font.family": ["DejaVu Sans"],
    "mathtext.fontset": "cm",
    "lines.linewidth": 2,
    "figure.constrained_layout.use": True,
    "figure.max_open_warning": 0,
}
plt.rcParams.update(STYLE)


def figure(nrows=1, ncols=1, width=6.6, height=3.0, **options):
    """``fig, axes = figure(...)``: `plt.subplots` in the book's style, inches.

    6.6 inches is the width of the text; narrower figures are centred.
    """
    return plt.subplots(nrows, ncols, figsize=(width, height), **options)


def show(fig, alt, caption=None):
    """Display `fig` with the description `alt` and perhaps a caption below."""
    from IPython.display import display

    page = to_html(fig, alt, caption)
    display({"text/html": page, "text/plain": f"Figure: {alt}"}, raw=True)


def to_html(fig, alt, caption=None):
    """The figure as a piece of HTML; closes `fig`. Same figure, same text."""
    if len(alt.split()) < 4:
        raise ValueError(
            f"alt: say what the figure shows, in words; got {alt!r}"
        )
    file = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    fig.savefig(file, format="svg", transparent=True, metadata=nothing)
    plt.close(fig)
    svg = file.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.S)
    svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.S)
    svg = svg.replace(INK, "currentColor")
    svg = re.sub(
        rf"stroke: {FAINT}", "stroke: currentColor; stroke-opacity: .22", svg
    )
    svg = re.sub(
        rf"fill: {FAINT}", "fill: currentColor; fill-opacity: .22", svg
    )
    # Figures share a page: their names must not.
    key = "f" + hashlib.sha1((svg + alt).encode()).hexdigest()[:7]
    used = set(re.findall(r'(?:href="#|url\(#)([\w.-]+)', svg))
    svg = re.sub(
        r' id="([\w.-]+)"',
        lambda m: f' id="{key}-{m[1]}"' if m[1] in used else "",
        svg,
    )
    svg = re.sub(r'(href="#|url\(#)', rf"\g<1>{key}-", svg)
    svg = re.sub(r"\n\s*", "\n", svg)
    width = float(re.search(r'width="([\d.]+)pt"', svg)[1]) * 4 / 3
    say = html.escape(alt, quote=True)
    svg = re.sub(
        r"<svg[^>]*?(viewBox=\"[^\"]*\")[^>]*>",
        rf'<svg xmlns="http://www.w3.org/2000/svg" '
        rf'xmlns:xlink="http://www.w3.org/1999/xlink" \1 role="img" '
        rf'aria-label="{say}" style="width: 100%; max-width: {width:.0f}px; '
        rf'height: auto"><title>{say}</title>',
        svg,
        count=1,
    )
    below = (
        f"<figcaption>{html.escape(caption)}</figcaption>" if caption else ""
    )
    style = "margin: 1em 0; text-align: center"
    return f'<figure class="lucid-figure" style="{style}">{svg.strip()}{below}</figure>'


def heatmap(
    ax,
    matrix,
    rows=None,
    cols=None,
    *,
    numbers=None,
    diverging=None,
    vmin=None,
    vmax=None,
    title=None,
):
    """Draw `matrix` as coloured squares with named rows and columns.

    `numbers` is a format such as ``".2f"`` that writes each value in its square.
    Colours run from zero, or both ways from zero where there are negative values.
    """
    matrix = np.asarray(matrix, dtype=float)
    low, high = np.nanmin(matrix), np.nanmax(matrix)
    diverging = low < 0 if diverging is None else diverging
    if diverging:
        reach = max(abs(low), abs(high)) or 1.0
        vmin, vmax = (
            -reach if vmin is None else vmin,
            reach if vmax is None else vmax,
        )
    else:
        vmin, vmax = (
            0.0 if vmin is None else vmin,
            high if vmax is None else vmax,
        )
    cmap = DIVERGING if diverging else SEQUENTIAL
    norm = matplotlib.colors.Normalize(
        vmin, vmax if vmax > vmin else vmin + 1
    )
    n, m = matrix.shape
    edges = np.arange(m + 1) - 0.5, np.arange(n + 1) - 0.5
    mesh = ax.pcolormesh(*edges, matrix, cmap=cmap, norm=norm, linewidth=0)
    ax.set(xlim=(-0.5, m - 0.5), ylim=(n - 0.5, -0.5), aspect="equal")
    ax.set_xticks(range(m) if cols is not None else [], cols)
    ax.set_yticks(range(n) if rows is not None else [], rows)
    ax.tick_params(length=0)
    for spine in ax.spines.values():
        spine.set_visible(False)
    if title:
        ax.set_title(title)
    if numbers is not None:
        for i, j in np.ndindex(n, m):
            red, green, blue, _ = cmap(norm(matrix[i, j]))
            dark = 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.5
            ax.text(
                j,
                i,
                format(matrix[i, j], numbers),
                ha="center",
                va="center",
                fontsize=8,
                color="#ffffff" if dark else "#11181f",
            )
    return mesh


def canvas(width=6.6, height=2.4):
    """``fig, ax = canvas()``: an empty drawing, one unit to the inch."""
    fig, ax = figure(width=width, height=height)
    ax.set(xlim=(0, width), ylim=(0, height), aspect="equal")
    ax.axis("off")
    return fig, ax


def box(ax, x, y, text, *, width=1.1, height=0.42, colour=BLUE):
    """A rounded box with `text`, its centre at (x, y)."""
    low = (x - width / 2, y - height / 2)
    shape = "round,pad=0,rounding_size=0.08"
    ax.add_patch(
        FancyBboxPatch(
            low,
            width,
            height,
            boxstyle=shape,
            linewidth=1.4,
            facecolor=colour + "30",
            edgecolor=colour,
        )
    )
    ax.text(x, y, text, ha="center", va="center", fontsize=9, color=INK)


def arrow(ax, start, end, text=None, *, colour=INK, bend=0.0):
    """An arrow from `start` to `end`, with `text` beside its middle."""
    look = {
        "arrowstyle": "-|>",
        "color": colour,
        "linewidth": 1.1,
        "shrinkA": 0,
        "shrinkB": 0,
        "connectionstyle": f"arc3,rad={bend}",
    }
    ax.annotate("", xy=end, xytext=start, arrowprops=look)
    if text:
        middle = (
            (start[0] + end[0]) / 2 + 0.06,
            (start[1] + end[1]) / 2 + 0.06,
        )
        ax.text(*middle, text, fontsize=8, color=colour)
