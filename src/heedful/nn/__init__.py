"""The reference transformer: readable in one sitting; tests hold it equal to the production one.

Read in this order: attention, embeddings, blocks, gpt2, transformer, mixing, one_layer, train, bpe, decode.
"""

from heedful.nn.attention import (
    AttentionResult,
    MultiHeadAttention,
    additive_mask,
    additive_scores,
    attention,
    causal,
    causal_mask,
    dot_scores,
    single_query,
    visible,
)
from heedful.nn.blocks import MLP, Block, SoLU, gelu, gelu_tanh, layer_norm, solu, solu_layer_norm
from heedful.nn.bpe import BPE, train_bpe
from heedful.nn.decode import STRATEGIES, Beam, beam_search, generate
from heedful.nn.embeddings import Embeddings, sinusoids
from heedful.nn.gpt2 import GPT2, GPT2Config
from heedful.nn.mixing import Mixes, Mixing, OneLayerOutput
from heedful.nn.one_layer import OneLayerClassifier, OneLayerConfig
from heedful.nn.train import TrainConfig, decay_groups, fit, learning_rate, train, windows
from heedful.nn.transformer import AttentionMaps, Transformer, TransformerConfig

__all__ = [
    "BPE",
    "GPT2",
    "MLP",
    "STRATEGIES",
    "AttentionMaps",
    "AttentionResult",
    "Beam",
    "Block",
    "Embeddings",
    "GPT2Config",
    "Mixes",
    "Mixing",
    "MultiHeadAttention",
    "OneLayerClassifier",
    "OneLayerConfig",
    "OneLayerOutput",
    "SoLU",
    "TrainConfig",
    "Transformer",
    "TransformerConfig",
    "additive_mask",
    "additive_scores",
    "attention",
    "beam_search",
    "causal",
    "causal_mask",
    "decay_groups",
    "dot_scores",
    "fit",
    "gelu",
    "gelu_tanh",
    "generate",
    "layer_norm",
    "learning_rate",
    "single_query",
    "sinusoids",
    "solu",
    "solu_layer_norm",
    "train",
    "train_bpe",
    "visible",
    "windows",
]
