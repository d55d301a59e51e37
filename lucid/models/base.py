# Tangled from chapters/saving.ipynb; edit that, not this file.
"""A model with a configuration, that loads and saves as a folder."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from lucid.models.checkpoint import (
    CONFIG_NAME,
    WEIGHTS_NAME,
    as_json,
    as_weights,
    read_config,
    read_weights,
    write_files,
)
from lucid.nn.module import Module


class PretrainedConfig:
    """What a model is built from, to and from a ``config.json``.

    Attributes
    ----------
    tie_word_embeddings : bool
        Whether the decoder is the table of word embeddings.

    Notes
    -----
    Built in :doc:`/chapters/saving`.
    """

    tie_word_embeddings: bool = True

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], **overrides: Any) -> Self:
        """Build from the contents of a ``config.json``."""
        raise NotImplementedError(f"{cls.__name__} has no from_dict")

    def to_dict(self) -> dict[str, Any]:
        """Return the contents of a ``config.json``."""
        raise NotImplementedError(f"{type(self).__name__} has no to_dict")


class PretrainedModel(Module):
    """A module built from a configuration, stored as a folder.

    Parameters
    ----------
    config : config_class

    Attributes
    ----------
    config : config_class
        What the model was built from.
    config_class : type
        Class of the configuration; set by each family of models.
    base_model_prefix : str
        Attribute that holds the trunk in models with a head, such as
        ``"bert"``.

    Notes
    -----
    Built in :doc:`/chapters/saving`.
    """

    config_class: ClassVar[type[PretrainedConfig]]
    base_model_prefix: ClassVar[str] = ""

    config: Any

    def __init__(self, config: PretrainedConfig) -> None:
        if not isinstance(config, self.config_class):
            raise TypeError(
                f"config: wanted a {self.config_class.__name__}, got "
                f"{type(config).__name__}"
            )
        self.config = config

    def save_pretrained(self, folder: str | Path) -> None:
        """Write config.json and model.safetensors.

        The transformers library reads the folder, too.

        Parameters
        ----------
        folder : str or Path
            Created if need be. Files of these names are replaced, each in
            one step, when both have been written.

        Raises
        ------
        OSError
            If a file cannot be written; the message names it. The folder's
            own files are as they were then.
        """
        architecture = type(self).__name__.replace("BERT", "Bert")
        # an untied decoder's bias has two names, and a reader wants both
        tied = self.config.tie_word_embeddings
        named = self.named_parameters() if tied else self._paths()
        weights = {name: p.numpy() for name, p in named}
        config = {**self.config.to_dict(), "architectures": [architecture]}
        files = {WEIGHTS_NAME: as_weights(weights)}
        write_files(folder, {**files, CONFIG_NAME: as_json(config)})

    def _has_head(self) -> bool:
        return hasattr(self, self.base_model_prefix)

    def _is_head(self, name: str) -> bool:
        """Whether a parameter of this model lies outside its trunk."""
        prefix = f"{self.base_model_prefix}."
        return self._has_head() and not name.startswith(prefix)

    def _is_pooler(self, name: str) -> bool:
        prefix = f"{self.base_model_prefix}."
        return name.removeprefix(prefix).startswith("pooler.")

    def _fit(
        self, weights: Mapping[str, np.ndarray], ignore_mismatched: bool
    ) -> dict[str, np.ndarray]:
        """Choose and rename what this model takes from a checkpoint."""
        prefix = f"{self.base_model_prefix}."
        prefixed = any(name.startswith(prefix) for name in weights)
        shapes = {name: p.shape for name, p in self._paths()}
        has_pooler = any(self._is_pooler(name) for name in shapes)
        state = {}
        for name, values in weights.items():
            in_trunk = name.startswith(prefix) or not prefixed
            bare = name.removeprefix(prefix)
            if in_trunk:
                name = prefix + bare if self._has_head() else bare
            elsewhere = not in_trunk or (
                self._is_pooler(name) and not has_pooler
            )
            if name not in shapes and elsewhere:
                continue  # a head or a pooler that this model does without
            if ignore_mismatched and self._is_head(name):
                if shapes.get(name) != values.shape:
                    continue  # drawn anew, as the caller allows
            state[name] = values
        return state

    @classmethod
    def from_pretrained(
        cls,
        folder: str | Path,
        ignore_mismatched_sizes: bool = False,
        **overrides: Any,
    ) -> Self:
        """Load a Hugging Face folder: config.json and model.safetensors.

        The trunk's names may carry the prefix or not; old LayerNorm names,
        a stored ``position_ids`` and missing aliases are understood. Weights
        of any floating dtype become float32. A head that the checkpoint
        lacks keeps its random initial weights, with a warning that names it.

        Parameters
        ----------
        folder : str or Path
        ignore_mismatched_sizes : bool
            Whether a head of another size is left as initialised instead of
            being an error.
        **overrides
            Fields of the configuration to set differently.

        Returns
        -------
        The model, in evaluation mode.

        Raises
        ------
        FileNotFoundError
            If a file is missing.
        ValueError
            If a file is damaged, or the weights do not fit the
            configuration.
        """
        folder = Path(folder)
        config = cls.config_class.from_dict(read_config(folder), **overrides)
        model = cls(config)
        state = model._fit(read_weights(folder), ignore_mismatched_sizes)
        missing, unexpected = model.load_state_dict(state, strict=False)
        lost = [
            name
            for name in missing
            if not model._is_head(name) and not model._is_pooler(name)
        ]
        if lost or unexpected:
            raise ValueError(
                f"folder: the weights in {folder} do not fit its "
                f"configuration; missing {lost}, unexpected {unexpected}"
            )
        if missing:
            warnings.warn(
                f"not in {folder}, left as initialised: "
                f"{', '.join(missing)}",
                stacklevel=2,
            )
        return model.eval()
