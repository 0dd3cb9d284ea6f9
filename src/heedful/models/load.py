"""`load`: anything a user may have, as a heedful model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heedful.core.errors import HeedfulError
from heedful.core.model import Loadable, Model

JOINT = "image+text"  # the modality of models that compare pictures with texts

if TYPE_CHECKING:
    from heedful.models.adapter import TokenModel


def load(
    source: Loadable,
    *,
    tokenizer: Any = None,
    embed: Any = None,
    forward: Any = None,
    labels: Sequence[str] | None = None,
    task: str | None = None,
    modality: str | None = None,
    processor: Any = None,
    allow_pickle: bool = False,
    trust_remote_code: bool = False,
    local_only: bool = False,
) -> Model:
    """Load a model so that every function of heedful can use it.

    heedful does not change your own objects: their weights, modes and hooks stay the same.

    Parameters
    ----------
    source
        A zoo name such as "zoo:sentiment", a local folder, a hub id, a pair `(transformers model,
        tokenizer)`, `(image classifier, image processor)` or `(dual encoder such as CLIP, processor)`, an
        `nn.Module` with `embed` and `forward` functions and a tokenizer, or a plain function from a list of
        texts to scores. For `modality="image+text"`: a pair of functions, pictures to vectors and texts to
        vectors.
    tokenizer
        The tokenizer of an `nn.Module`. You can also give a loaded model: then its tokenizer is used.
    embed
        For an `nn.Module`: a function from token ids to embeddings.
    forward
        For an `nn.Module`: a function from embeddings and mask to logits.
    labels
        Names of the outputs, if the source does not have them. For a dual encoder: captions. The model is
        then a classifier of pictures that chooses between them.
    task
        Kind of the model, such as "classifier" or "causal-lm", if it cannot be recognised.
    modality
        "image" for an `nn.Module` or a function that takes pictures. A function gets a list of arrays
        (H, W, 3) with 8-bit colours. "image+text" for a pair of functions.
    processor
        How pictures are read: an image processor of the transformers library, or
        `heedful.ImageReader(size, mean, std)`.
    allow_pickle
        Also read weights that are stored as pickle. Pickle files can run code, so use this option only for
        files you trust.
    trust_remote_code
        Run the Python code that comes with a model on the hub. Use this option only for authors you trust.
    local_only
        Do not contact the hub.

    Returns
    -------
    Model
        The model. `model.capabilities` lists what it can do.

    Examples
    --------
    >>> import heedful
    >>> heedful.load("zoo:sentiment")
    <heedful model zoo:sentiment: classifier>

    A plain function is a model, too:

    >>> def score(texts):
    ...     return [[text.count("good"), text.count("bad")] for text in texts]
    >>> model = heedful.load(score, labels=["good", "bad"])
    >>> comparison = heedful.explain(model, "a good day", methods=["occlusion"])
    >>> comparison["occlusion"].top(1)[0].text
    'good'
    """
    if isinstance(source, str | Path):
        options = {"task": task, "tokenizer": tokenizer, "allow_pickle": allow_pickle, "labels": labels}
        return _from_name(
            str(source), options | {"trust_remote_code": trust_remote_code, "local_only": local_only}
        )
    if (dual := _dual(source, processor, modality, labels)) is not None:
        return dual
    if isinstance(source, tuple) and len(source) == 2:
        if _reads_pictures(source[1]):
            source, processor = source
        else:
            source, tokenizer = source
    if not isinstance(source, Model) and _pictures(modality, processor):
        return _of_pictures(source, processor, labels)
    if isinstance(tokenizer, Model):
        from heedful.models.adapter import token_model

        tokenizer = token_model(tokenizer, "a tokenizer").tokenizer
    if _is_module(source):
        return _from_module(source, tokenizer, embed, forward, labels)
    if isinstance(source, Model):
        return source
    if callable(source):
        from heedful.models.function import FunctionModel

        return FunctionModel(source, labels)
    raise HeedfulError(
        f"cannot load a {type(source).__name__}",
        fix="Give a zoo name, a folder, a hub id, (model, tokenizer), an nn.Module, or a function of texts",
    )


def load_token_model(source: Loadable, task: str = "this", **options: Any) -> TokenModel:
    """`load` for work that needs tokens. A plain function of texts gives an error."""
    from heedful.models.adapter import token_model

    return token_model(load(source, **options), task)


def _from_name(source: str, options: dict[str, Any]) -> Model:
    if not source.strip():
        raise HeedfulError("no model was named", fix="Try zoo:sentiment, or: heedful zoo list")
    from heedful.models.hf_load import load_pretrained

    if not source.startswith("zoo:"):
        return load_pretrained(source, **options)
    from heedful.models.zoo import resolve

    folder = resolve.path(source.removeprefix("zoo:"))
    if source == "zoo:one-layer":
        return _one_layer(folder)
    return load_pretrained(folder, name=source, **options)


def _one_layer(folder: Path) -> Model:
    from heedful.models.adapter import TokenModel
    from heedful.models.hf_load import load_tokenizer, quiet
    from heedful.models.torch_module import TorchBackend
    from heedful.nn import OneLayerClassifier

    module = OneLayerClassifier.load(folder)
    with quiet():  # transformers warns of a model type that is not its own
        tokenizer = load_tokenizer(folder, {})
    backend = TorchBackend(
        module,
        tokenizer,
        forward=lambda embeds, mask: module.attend(inputs_embeds=embeds, attention_mask=mask),
        labels=("negative", "positive"),
        name="zoo:one-layer",
        window=module.config.context,
    )
    return TokenModel(backend, tokenizer)


def _dual(source: Any, processor: Any, modality: str | None, labels: Sequence[str] | None) -> Model | None:
    """A model that compares pictures with texts, or None. With captions as labels it is a classifier."""
    if isinstance(source, str | Path | Model):
        return None
    from heedful.models.dual_load import dual_encoder, of_functions, reads_both, zero_shot
    from heedful.models.vector_modules import is_dual_encoder

    if modality == JOINT:
        pair = source if isinstance(source, tuple) and len(source) == 2 else (None, None)
        if not is_dual_encoder(pair[0]):
            model = of_functions(pair[0], pair[1], processor)
            return model if labels is None else zero_shot(model, labels)
    if isinstance(source, tuple) and len(source) == 2 and reads_both(source[1]):
        source, processor = source
    if not is_dual_encoder(source):
        return None
    if not reads_both(processor):
        raise HeedfulError(
            f"{type(source).__name__} compares pictures with texts",
            "it needs a processor that reads both",
            "Pass (model, processor), such as CLIPProcessor(image_processor, tokenizer)",
        )
    model = dual_encoder(source, processor)
    return model if labels is None else zero_shot(model, labels)


def _pictures(modality: str | None, processor: Any) -> bool:
    if modality not in (None, "text", "image", JOINT):
        raise HeedfulError(f"unknown modality {modality!r}", fix=f"Use text, image or {JOINT}")
    return modality == "image" or processor is not None


def _reads_pictures(given: Any) -> bool:
    """An image processor of transformers, or a reader of ours; a tokenizer is neither."""
    from heedful.models.image_reader import ImageReader

    return isinstance(given, ImageReader) or (
        hasattr(given, "preprocess") and not hasattr(given, "vocab_size")
    )


def _of_pictures(source: Any, processor: Any, labels: Sequence[str] | None) -> Model:
    from heedful.models.image_reader import ImageReader, reader_of

    reader = processor if isinstance(processor, ImageReader) else None
    if reader is None:
        reader = ImageReader() if processor is None else reader_of(processor)
    if _is_module(source):
        from heedful.models.image_model import ImageModel

        return ImageModel(source, reader, labels)
    if callable(source):
        from heedful.models.image_function import ImageFunction

        return ImageFunction(source, reader, labels)
    raise HeedfulError(f"cannot load a {type(source).__name__} that reads pictures")


def _is_module(source: Any) -> bool:
    from torch import nn

    return isinstance(source, nn.Module)


def _from_module(
    module: Any, tokenizer: Any, embed: Any, forward: Any, labels: Sequence[str] | None
) -> Model:
    from heedful.modalities.encode import require_fast
    from heedful.models.adapter import TokenModel

    if tokenizer is None:
        raise HeedfulError(
            f"{type(module).__name__} came without a tokenizer",
            fix="Pass the pair (model, tokenizer), or tokenizer=... . If it reads pictures: "
            "heedful.load(module, processor=heedful.ImageReader((224, 224)))",
        )
    require_fast(tokenizer)
    if (
        hasattr(module, "config")
        and hasattr(module, "get_input_embeddings")
        and embed is None
        and forward is None
    ):
        from heedful.models.hf import HFBackend

        name = getattr(module.config, "_name_or_path", "") or type(module).__name__
        return TokenModel(HFBackend(module, tokenizer, name), tokenizer)
    from heedful.models.torch_module import TorchBackend

    return TokenModel(TorchBackend(module, tokenizer, embed=embed, forward=forward, labels=labels), tokenizer)
