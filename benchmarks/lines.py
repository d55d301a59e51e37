"""What is measured, and what is asked of it."""

from __future__ import annotations

from dataclasses import dataclass, field

# Both are set on some machines for safety; then another kernel is timed.
FORCED = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")


@dataclass(frozen=True)
class Line:
    """One line of the table.

    Attributes
    ----------
    name : str
    what : str
        In words.
    model : str
        The checkpoint: see `benchmarks.checkpoints`.
    kind : str
        ``forward``, ``padded`` or ``step``.
    batch, tokens : int
        B and T.
    targets : dict
        By peer, how many times as fast as the peer lucid has to be. The
        peer ``sgemm`` is the product's rate, ``memory`` torch's peak.
    environment : dict
        Variables set for lucid alone.
    """

    name: str
    what: str
    model: str
    kind: str = "forward"
    batch: int = 8
    tokens: int = 128
    targets: dict[str, float] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def training(self) -> bool:
        """Whether the model needs its heads."""
        return self.kind == "step"

    @property
    def peers(self) -> tuple[str, ...]:
        """Who takes part; ONNX Runtime does not train."""
        alone = self.training or self.environment
        return ("lucid", "torch") if alone else ("lucid", "torch", "onnx")


LINES = (
    Line(
        "base",
        "BERT-base forward, B=8, T=128",
        "base",
        targets={"torch": 2.0, "onnx": 1.0, "sgemm": 0.85},
    ),
    Line(
        "latency-16",
        "BERT-base forward, B=1, T=16",
        "base",
        batch=1,
        tokens=16,
        targets={"torch": 1.0},
    ),
    Line(
        "latency-128",
        "BERT-base forward, B=1, T=128",
        "base",
        batch=1,
        targets={"torch": 1.0},
    ),
    Line(
        "long",
        "BERT-base forward, B=1, T=512",
        "base",
        batch=1,
        tokens=512,
        targets={"torch": 1.0},
    ),
    Line(
        "avx2",
        "the same as the first, OpenBLAS on AVX2",
        "base",
        targets={"torch": 1.1},
        environment={"OPENBLAS_CORETYPE": "Haswell"},
    ),
    Line(
        "step",
        "BERT-base pre-training step, B=8, T=128",
        "base",
        kind="step",
        targets={"torch": 2.2, "memory": 1.0},
    ),
    Line(
        "tiny",
        "bert-tiny forward, B=8, T=128",
        "tiny",
        targets={"torch": 1.0},
    ),
    Line(
        "tiny-16",
        "bert-tiny forward, B=1, T=16",
        "tiny",
        batch=1,
        tokens=16,
        targets={"torch": 1.0},
    ),
    Line(
        "padded",
        "MiniLM, 512 sentences, batches of 32",
        "minilm",
        kind="padded",
        batch=32,
        targets={"torch": 3.0},
    ),
)
IMPORT_SECONDS = 0.25  # the most that `import lucid` may take


def product_flops(
    batch: int, tokens: int, layers: int, hidden: int, wide: int
) -> int:
    """Return the floating point operations of a forward's matrix products.

    Four maps from H to H, one up and one down between H and I for every
    token; scores and mixing for every pair of tokens.
    """
    rows = batch * tokens
    maps = 2 * rows * (4 * hidden * hidden + 2 * hidden * wide)
    return layers * (maps + 4 * rows * tokens * hidden)
