"""What several test files share: the parity fixtures of ``tests/data`` and tiny models.

``tests/make_fixtures.py`` says what a fixture holds and how it was made.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import backends
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import lucid
import lucid.models.text.bert as bert

DATA = Path(__file__).parent / "data"
CASES = sorted(
    path.stem
    for path in DATA.glob("*.safetensors")
    if path.with_suffix(".json").exists()
)


# ---- the suite on another backend: see backends.py -------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--backend",
        choices=backends.CHOICES,
        default="numpy",
        help="where the tests of the package run",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "cuda: runs on a CUDA device")
    config.addinivalue_line(
        "markers", "numpy_only(why): has nothing to show on another backend"
    )
    backends.start(config)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    return True if backends.left_out(collection_path.name) else None


def pytest_report_header() -> str:
    chosen = backends.Chosen
    return f"backend: {chosen.name} {chosen.reason or ''}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    chosen = backends.Chosen
    for item in items:
        if chosen.name == "cupy":
            item.add_marker("cuda")
        if chosen.reason is not None:
            item.add_marker(pytest.mark.skip(reason=chosen.reason))
        only = item.get_closest_marker("numpy_only")
        if only and chosen.name.startswith("cupy"):
            item.add_marker(pytest.mark.skip(reason=only.args[0]))


@pytest.fixture(autouse=True)
def _the_backend() -> Iterator[None]:
    yield from backends.one_test()


@dataclass(frozen=True)
class Case:
    """One parity fixture, as NumPy arrays by name."""

    name: str
    config: dict
    weights: dict[str, np.ndarray]
    inputs: dict[str, np.ndarray]
    outputs: dict[str, np.ndarray]
    losses: dict[str, float]
    cotangents: dict[str, np.ndarray]
    gradients: dict[str, np.ndarray]

    @property
    def model_class(self) -> type:
        """lucid's class for the architecture that the config names."""
        (architecture,) = self.config["architectures"]
        return getattr(bert, architecture.replace("Bert", "BERT"))

    def model(self, dtype: type = np.float32) -> lucid.nn.Module:
        """A model with the fixture's weights, in eval mode."""
        model = self.model_class(bert.BERTConfig.from_dict(self.config))
        model.load_state_dict(self.weights)
        if dtype is not np.float32:
            model.to(dtype=dtype)
        return model.eval()

    def arguments(self, dtype: type = np.float32) -> dict[str, lucid.Tensor]:
        """The forward pass's arguments; ``inputs_embeds`` asks for a gradient.

        A mask has a row for each query: then the states of padding are
        computed, and equal transformers' too. See `padded`.
        """
        inputs = dict(self.inputs)
        mask = inputs.get("attention_mask")
        if mask is not None and mask.ndim == 2:
            rows = np.repeat(mask[:, None], mask.shape[1], axis=1)
            inputs["attention_mask"] = rows
        return {
            name: lucid.tensor(value)
            if value.dtype.kind != "f"
            else lucid.tensor(
                value, dtype=dtype, requires_grad=name == "inputs_embeds"
            )
            for name, value in inputs.items()
        }

    def padded(self) -> dict[str, lucid.Tensor]:
        """The arguments with the mask of padding, (B, T), as it was stored."""
        mask = lucid.tensor(self.inputs["attention_mask"])
        return {**self.arguments(), "attention_mask": mask}

    def loss(self, out: object) -> lucid.Tensor:
        """The scalar whose gradients the fixture holds."""
        if not self.cotangents:
            return out.loss
        return sum(
            (
                getattr(out, name)
                * lucid.tensor(value, dtype=getattr(out, name).dtype)
            ).sum()
            for name, value in self.cotangents.items()
        )

    def write_folder(self, folder: Path, **extra: np.ndarray) -> Path:
        """Write a Hugging Face folder with these weights (and `extra` ones)."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(self.config))
        save_file(
            {**self.weights, **extra},
            folder / "model.safetensors",
            metadata={"format": "pt"},
        )
        return folder


def read_case(name: str) -> Case:
    parts: dict[str, dict] = {
        part: {}
        for part in (
            "weight",
            "input",
            "output",
            "loss",
            "cotangent",
            "grad",
        )
    }
    for key, value in load_file(DATA / f"{name}.safetensors").items():
        part, _, rest = key.partition("/")
        parts[part][rest] = float(value) if part == "loss" else value
    config = json.loads((DATA / f"{name}.json").read_text())
    return Case(name, config, *parts.values())


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    """Every parity fixture in turn."""
    return read_case(request.param)


@pytest.fixture
def load_case() -> Callable[[str], Case]:
    """Read a parity fixture by its name."""
    return read_case


@pytest.fixture
def tiny() -> Callable[..., bert.BERTConfig]:
    """A tiny config without dropout, with any field changed by keyword."""

    def make(**changes: object) -> bert.BERTConfig:
        fields = dict(
            vocab_size=50,
            hidden_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=12,
            hidden_dropout=0.0,
            attention_dropout=0.0,
        )
        return bert.BERTConfig(**{**fields, **changes})

    return make


@pytest.fixture(autouse=True)
def fixed_seed() -> None:
    """Each test starts from the same random stream, in whatever order they run."""
    lucid.manual_seed(0)
