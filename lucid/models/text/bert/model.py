# Tangled from chapters/bert-model.ipynb; edit that, not this file.
"""The trunk: embeddings, encoder and pooler."""

from __future__ import annotations

from lucid.autograd import Tensor, check_same_backend
from lucid.models.base import PretrainedModel
from lucid.models.outputs import BERTModelOutput
from lucid.models.text.bert.config import BERTConfig
from lucid.models.text.bert.embeddings import BERTEmbeddings
from lucid.models.text.bert.encoder import BERTEncoder
from lucid.models.text.bert.pooler import BERTPooler
from lucid.nn.packing import Packing


class BERTPretrainedModel(PretrainedModel):
    """What all BERT models share: their configuration and their prefix.

    Notes
    -----
    Built in :doc:`/chapters/bert-model`; what it inherits, in
    :doc:`/chapters/saving`.
    """

    config_class = BERTConfig
    base_model_prefix = "bert"
    config: BERTConfig


def visible_keys(
    attention_mask: Tensor | None, batch: int, tokens: int
) -> Tensor | None:
    """Turn a mask of 0 and 1 into booleans that fit the attention scores.

    Parameters
    ----------
    attention_mask : Tensor of integers or bool, optional
        1 where a token may be looked at. Shape (B, T) hides padding from
        every query; shape (B, T, T) says for each query (second axis) which
        keys (third axis) it may look at.
    batch, tokens : int
        B and T.

    Returns
    -------
    Tensor of bool, shape (B, 1, 1, T) or (B, 1, T, T), or None
        None where everything is visible.

    Raises
    ------
    TypeError
        If the mask is of a floating point dtype.
    ValueError
        If its shape is another one, or it holds anything but 0 and 1.

    Notes
    -----
    Derived in :doc:`/chapters/bert-model`, equation
    (bert-model-mask-forward).
    """
    if attention_mask is None:
        return None
    if attention_mask.dtype.kind not in "iub":
        raise TypeError(
            f"attention_mask: wanted integers or bool, got "
            f"{attention_mask.dtype}"
        )
    shapes = {
        (batch, tokens): (batch, 1, 1, tokens),
        (batch, tokens, tokens): (batch, 1, tokens, tokens),
    }
    if attention_mask.shape not in shapes:
        wanted = " or ".join(str(shape) for shape in shapes)
        raise ValueError(
            f"attention_mask: expected shape {wanted}, got "
            f"{attention_mask.shape}"
        )
    values = attention_mask.host_values()
    wrong = values[(values != 0) & (values != 1)]
    if wrong.size:
        raise ValueError(
            f"attention_mask: wanted 0 and 1 only, got {wrong[0]}"
        )
    if values.all():
        return None
    visible = attention_mask.data == 1
    return Tensor(visible.reshape(shapes[attention_mask.shape]))


class BERTModel(BERTPretrainedModel):
    """The bidirectional encoder, with the pooled [CLS] on top.

    Parameters
    ----------
    config : BERTConfig
    add_pooling_layer : bool
        Whether there is a pooler; a masked-LM model has no use for one.

    Attributes
    ----------
    embeddings : BERTEmbeddings
    encoder : BERTEncoder
    pooler : BERTPooler or None

    Notes
    -----
    Put together in :doc:`/chapters/bert-model`, where equation
    (bert-model-count) counts its parameters and (bert-model-padding) shows
    that padding leaves the other tokens alone.

    Examples
    --------
    >>> from lucid.models.text.bert import BERTConfig, BERTModel
    >>> model = BERTModel(BERTConfig(vocab_size=8, hidden_size=4,
    ...     num_hidden_layers=1, num_attention_heads=2)).eval()
    >>> model(lucid.tensor([[1, 3, 2]])).pooler_output.shape
    (1, 4)
    """

    def __init__(
        self, config: BERTConfig, add_pooling_layer: bool = True
    ) -> None:
        super().__init__(config)
        self.embeddings = BERTEmbeddings(config)
        self.encoder = BERTEncoder(config)
        self.pooler = BERTPooler(config) if add_pooling_layer else None

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        output_hidden_states: bool = False,
        output_attentions: bool = False,
    ) -> BERTModelOutput:
        """Encode a batch.

        Parameters
        ----------
        input_ids : Tensor of integers, shape (B, T)
            Exactly one of this and ``inputs_embeds`` is required.
        attention_mask : Tensor of integers or bool, optional
            1 where a token may be looked at, 0 where it is padding; shape
            (B, T), or (B, T, T) with a row for each query. A query that may
            look at nothing gathers zeros. With (B, T), the states of padding
            are 0; on the CPU they are not even computed.
        token_type_ids : Tensor of integers, shape (B, T), optional
            Segment of each token; all 0 by default.
        position_ids : Tensor of integers, shape (B, T) or (1, T), optional
            By default 0 .. T - 1.
        inputs_embeds : Tensor, shape (B, T, H), optional
            Instead of looking words up.
        output_hidden_states, output_attentions : bool
            Whether to return the state before and after every layer, and
            the attention weights of every layer.

        Returns
        -------
        BERTModelOutput

        Raises
        ------
        TypeError, ValueError
            If an argument has a wrong dtype, shape or value; the message
            names it.
        """
        x = self.embeddings(
            input_ids, token_type_ids, position_ids, inputs_embeds
        )
        check_same_backend(embeddings=x, attention_mask=attention_mask)
        mask = visible_keys(attention_mask, *x.shape[:2])
        packing = None
        if attention_mask is not None and mask is not None:
            if attention_mask.ndim == 2:
                packing = Packing(attention_mask)
        restore = None if packing is None else packing.clear
        keys: Tensor | Packing | None = mask
        if packing is not None and packing.pays and not output_attentions:
            x, keys, restore = packing.pack(x), packing, packing.unpack
        states, attentions = self.encoder(
            x, keys, output_hidden_states, output_attentions
        )
        if restore is not None:
            states = tuple(restore(state) for state in states)
        return BERTModelOutput(
            last_hidden_state=states[-1],
            pooler_output=self.pooler(states[-1]) if self.pooler else None,
            hidden_states=states if output_hidden_states else None,
            attentions=attentions if output_attentions else None,
        )
