"""Load a transformers folder or hub id, safely: safetensors only, no remote code, errors before downloads.

`allow_pickle=True` and `trust_remote_code=True` exist for users who insist; both are off by default because
both run code from the model's author.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from torch import nn

from heedful.core.errors import HeedfulError, first_line
from heedful.core.model import Model
from heedful.io.files import read_regular
from heedful.modalities.image_files import pillow
from heedful.modalities.tokenizer_calls import panics_as_errors, tokenized
from heedful.models import tokenizer_steps
from heedful.models.adapter import TokenModel
from heedful.models.config_limits import SAVE_AGAIN, check_config, check_counts, check_size
from heedful.models.dual_load import dual_encoder, zero_shot
from heedful.models.folder_files import MAX_MODEL_TEXT, check_files
from heedful.models.hf import HFBackend
from heedful.models.image_model import ImageModel
from heedful.models.image_reader import reader_of
from heedful.models.vector_modules import is_dual_encoder

MAX_NAME = 4096  # characters: no path is longer
ANY_TEXT = "a text 𪚥"  # with a word that nobody knows
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
# suffix of config.architectures -> transformers' auto class: which head the weights were saved with
TASKS = {
    "ForSequenceClassification": "AutoModelForSequenceClassification",
    "ForCausalLM": "AutoModelForCausalLM",
    "LMHeadModel": "AutoModelForCausalLM",
    "ForConditionalGeneration": "AutoModelForSeq2SeqLM",
    "ForImageClassification": "AutoModelForImageClassification",
    "ForImageClassificationWithTeacher": "AutoModelForImageClassification",
}
TASK_NAMES = {
    "classification": "AutoModelForSequenceClassification",
    "causal-lm": "AutoModelForCausalLM",
    "encoder-decoder": "AutoModelForSeq2SeqLM",
    "encoder": "AutoModel",
    "image-classification": "AutoModelForImageClassification",
}


def load_pretrained(
    source: str | Path,
    *,
    name: str = "",
    tokenizer: Any = None,
    task: str | None = None,
    allow_pickle: bool = False,
    trust_remote_code: bool = False,
    local_only: bool = False,
    labels: Sequence[str] | None = None,
) -> Model:
    """A local folder, or a hub id when no such folder exists."""
    folder = Path(source)
    if len(str(source)) > MAX_NAME:
        raise HeedfulError(
            f"there is no model {str(source)[:60]!r}…", f"its name has over {MAX_NAME:,} characters"
        )
    if folder.is_dir():
        check_folder(folder, allow_pickle)
    elif folder.exists():
        raise HeedfulError(
            f"{source} is a file, not a model folder", fix="Give the folder that contains config.json"
        )
    elif not looks_like_hub_id(str(source)):
        raise HeedfulError(
            f"there is no model {str(source)!r}",
            "there is no such folder, and a hub id has the form owner/name",
            "Try google-bert/bert-base-uncased (from the hub) or zoo:sentiment (see: heedful zoo list)",
        )
    options = {"trust_remote_code": trust_remote_code, "local_files_only": local_only}
    with quiet(), explained(str(source)):
        import transformers

        from heedful.models import conse, mean_pool  # noqa: F401  register classes of the zoo

        facts, _ = transformers.PretrainedConfig.get_config_dict(source, **options)
        check_counts(source, facts, sorted(folder.glob("*.safetensors")))
        check_config(source, facts, options)
        config = transformers.AutoConfig.from_pretrained(source, **options)
        config.gradient_checkpointing = False  # saves memory in training, and turns gradients on here
        config._attn_implementation = None  # may name a program on the hub, which would be loaded and run
        auto = getattr(transformers, auto_class(config, task))
        check_size(source, auto, config, sorted(folder.glob("*.safetensors")), trust_remote_code)
        safe = None if allow_pickle else True
        model, report = auto.from_pretrained(
            source, config=config, use_safetensors=safe, output_loading_info=True, **options
        )
        if is_dual_encoder(model):
            return _dual(model.eval(), source, sorted(report["missing_keys"]), options, name, labels)
        refuse_missing(source, sorted(report["missing_keys"]), auto.__name__)
        if auto.__name__ == "AutoModelForImageClassification":
            reader = reader_of(load_image_processor(source, options))
            return ImageModel(model.eval(), reader, name=name or str(source))
        tokenizer = tokenizer or load_tokenizer(source, options)
    model.eval()
    return TokenModel(HFBackend(model, tokenizer, name or str(source)), tokenizer)


def _dual(
    module: nn.Module,
    source: str | Path,
    missing: list[str],
    options: dict[str, Any],
    name: str,
    labels: Sequence[str] | None,
) -> Model:
    """A model that compares pictures with texts; with captions as labels, a classifier of pictures."""
    refuse_missing(source, missing, "dual encoder")
    reads = SimpleNamespace(
        image_processor=load_image_processor(source, options), tokenizer=load_tokenizer(source, options)
    )
    made = dual_encoder(module, reads, name or str(source))
    return made if labels is None else zero_shot(made, labels)


def refuse_missing(source: str | Path, missing: list[str], auto: str) -> None:
    """transformers fills absent weights with random numbers; a headless encoder can do without its pooler."""
    if missing and auto != "AutoModel":
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise HeedfulError(
            f"the weights of {source} lack {missing[0]}{more}",
            "what is missing would be random, and so would its explanation",
            "Load a model that was trained for the task",
        )


def check_folder(folder: Path, allow_pickle: bool) -> None:
    """Say what is wrong with a folder before transformers tries to guess."""
    config = folder / "config.json"
    if not config.is_file():
        raise HeedfulError(
            f"{folder} is not a model folder",
            "it has no config.json",
            "Save the model there with model.save_pretrained(...)",
        )
    check_files(folder)
    try:
        facts = json.loads(read_regular(config, MAX_MODEL_TEXT))
    except (ValueError, RecursionError) as error:
        raise HeedfulError(f"{config} is not valid JSON", str(error)) from None
    if not isinstance(facts, dict):
        raise HeedfulError(f"{config} is not a model config", f"it contains a {type(facts).__name__}")
    if any(folder.glob("*.safetensors")):
        return
    pickles = sorted(path.name for path in folder.iterdir() if path.suffix in PICKLES)
    if not pickles:
        raise HeedfulError(
            f"{folder} contains no weights",
            "there is no .safetensors file in it",
            "Save them with model.save_pretrained(...)",
        )
    if not allow_pickle:
        raise HeedfulError(
            f"{folder} contains pickle weights ({pickles[0]})",
            "loading a pickle can run any code its author put in it",
            "Convert it to safetensors, or use allow_pickle=True (--allow-pickle) if you trust the author",
        )


def auto_class(config: Any, task: str | None) -> str:
    """The auto class for a task, or for the head the weights were saved with."""
    if task is not None:
        if task not in TASK_NAMES:
            raise HeedfulError(f"unknown task {task!r}", fix=f"Use one of: {', '.join(TASK_NAMES)}")
        return TASK_NAMES[task]
    for architecture in config.architectures or ():
        for suffix, auto in TASKS.items():
            if architecture.endswith(suffix):
                return auto
    from transformers import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING as registered

    if type(config) in registered and registered[type(config)].__name__ in (config.architectures or ()):
        return "AutoModelForSequenceClassification"  # a classifier registered under a name of its own
    return "AutoModel"


def load_image_processor(source: str | Path, options: dict[str, Any]) -> Any:
    import transformers

    pillow()  # before transformers says in its own words that it is missing

    try:
        return transformers.AutoImageProcessor.from_pretrained(source, **options)
    except (OSError, ValueError, KeyError, TypeError, ImportError) as error:
        raise HeedfulError(
            f"{source} has no image processor that loads",
            first_line(error),
            "Save one beside the model with processor.save_pretrained(...), or pass (model, processor)",
        ) from error


def load_tokenizer(source: str | Path, options: dict[str, Any]) -> Any:
    import transformers

    fix = "Save one beside the model with tokenizer.save_pretrained(...), or pass tokenizer=..."
    tokenizer_steps.check_files(source, options)
    try:
        with panics_as_errors(f"the tokenizer of {source} failed while it was built", fix):
            tokenizer = transformers.AutoTokenizer.from_pretrained(source, **options)
    except (OSError, ValueError, KeyError, TypeError, ImportError) as error:
        raise HeedfulError(f"{source} has no tokenizer that loads", first_line(error), fix) from error
    tokenizer_steps.check_built(source, tokenizer)
    try:
        tokenized(tokenizer, ANY_TEXT)
    except Exception as error:  # a window that is no number, no token for unknown words
        raise HeedfulError(f"the tokenizer of {source} does not work", first_line(error), fix) from error
    if len(tokenizer) <= len(set(tokenizer.all_special_ids)):  # made from the config alone
        raise HeedfulError(f"{source} has no tokenizer that loads", "there is no vocabulary", fix)
    return tokenizer


def looks_like_hub_id(source: str) -> bool:
    """owner/name, in the characters hubs allow; a path with dots or slashes at its ends is no id."""
    parts = source.split("/")
    allowed = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")
    return len(parts) == 2 and all(part and set(part) <= allowed and part[0] not in "-." for part in parts)


@contextmanager
def explained(source: str) -> Iterator[None]:
    """transformers' loading errors as one sentence."""
    try:
        yield
    except HeedfulError:
        raise
    except Exception as error:  # whatever a damaged or foreign folder made transformers raise
        text = str(error)
        if "trust_remote_code" in text:
            raise HeedfulError(
                f"{source} needs code of its own",
                "heedful runs no code from a model's author",
                "Read that code, then pass trust_remote_code=True if you trust it",
            ) from error
        if "ignore_mismatched_sizes" in text:
            why = "its weights have other sizes than its config says"
            raise HeedfulError(f"cannot load {source}", why, SAVE_AGAIN) from error
        if "safetensors" in text and "bin" in text:
            raise HeedfulError(
                f"{source} has no safetensors weights",
                first_line(error),
                "Say allow_pickle=True (--allow-pickle) if you trust the author",
            ) from error
        raise HeedfulError(
            f"cannot load {source}",
            first_line(error),
            "Check or save again the files in that folder"
            if Path(source).is_dir()
            else "Check the name and the connection, or give a local folder",
        ) from error


@contextmanager
def quiet() -> Iterator[None]:
    """No log lines and no progress bars of transformers on the way in; settings put back after."""
    import transformers
    from transformers.utils import logging as hf_logging

    level, bars = hf_logging.get_verbosity(), hf_logging.is_progress_bar_enabled()
    hub = logging.getLogger("huggingface_hub")
    hub_level = hub.level
    hf_logging.set_verbosity(logging.CRITICAL)  # errors are raised, too: to log them says them twice
    hf_logging.disable_progress_bar()
    hub.setLevel(logging.ERROR)
    parallel = os.environ.get("TOKENIZERS_PARALLELISM")
    try:
        yield
    finally:
        hf_logging.set_verbosity(level)
        hub.setLevel(hub_level)
        if bars:
            transformers.utils.logging.enable_progress_bar()
        if parallel is None:
            os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
