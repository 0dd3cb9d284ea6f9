"""`heedful methods`: what is registered, with what each method needs and costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from heedful.cli import options as o
from heedful.cli.console import put_json, silence_libraries
from heedful.cli.registry_table import NamedEntry, print_entries, print_facts

if TYPE_CHECKING:
    from heedful.core.registry import Explainer, Param

NAME = "Show the description, the parameters and the limitations of this method."
Name = Annotated[str | None, o.argument(metavar="NAME", help=NAME)]
WORDS = 20  # of the text that costs are given for
NOTES = (
    f"Cost: model inputs for a text of {WORDS} words. expensive: runs only when you name it.",
    "Needs: what the model must offer; heedful doctor MODEL shows what yours offers.",
    "Signed: scores say for (+) or against (−) the target. Sampled: depends on --seed.",
    "Methods that need a picture: cost for a picture of 8 × 8 cells.",
    "Which of them to use on your model: heedful audit.",
)


def methods(name: Name = None, as_json: o.AsJson = False) -> None:
    """List the explanation methods, with their needs and costs.

    \b
    heedful methods
    heedful methods lime
    heedful methods --json
    """
    silence_libraries()
    from heedful.core import registry

    if name is not None:
        entry = registry.get(name)
        return put_json(_document(entry)) if as_json else _show(entry)
    entries = registry.explainers().values()
    if as_json:
        return put_json([_document(entry) for entry in entries])
    listed = (NamedEntry(entry.name, entry.summary, _facts(entry)) for entry in entries)
    return print_entries(listed, NOTES)


def _facts(entry: Explainer) -> tuple[str, ...]:
    signed = "signed" if entry.signed else "unsigned"
    return (_cost(entry), _needs(entry), signed, "sampled" if _sampled(entry) else "", entry.cite)


def _needs(entry: Explainer) -> str:
    return f"needs {', '.join(sorted(entry.needs))}" if entry.needs else "needs nothing"


def _sampled(entry: Explainer) -> bool:
    return "seed" in entry.params


def _cost(entry: Explainer) -> str:
    least, most = _inputs(entry)
    inputs = f"{least:,} to {most:,} inputs" if least < most else f"{most:,} input{'s' * (most != 1)}"
    return f"expensive ({inputs})" if entry.expensive else inputs


def _inputs(entry: Explainer) -> tuple[int, int]:
    """Fewest and most model inputs for a text of WORDS words, or for a picture of 8 x 8 cells."""
    from heedful.core.target import Target
    from heedful.modalities.text import TextInput

    if _of_pictures(entry):
        import numpy as np

        from heedful.modalities.image import ImageInput

        return entry.rows(ImageInput(np.zeros((64, 64, 3), np.uint8), (8, 8)), Target("class"), {})

    spans = tuple((2 * word, 2 * word + 1) for word in range(WORDS))
    numbers = tuple(range(WORDS))
    x = TextInput(
        text=" ".join("a" * WORDS),
        ids=numbers,
        tokens=("a",) * WORDS,
        offsets=spans,
        special=(False,) * WORDS,
        words=numbers,
        word_spans=spans,
        segments=(0,) * WORDS,
    )
    return entry.rows(x, Target("class"), {})


def _of_pictures(entry: Explainer) -> bool:
    return "picture" in entry.needs


def _document(entry: Explainer) -> dict[str, Any]:
    return {
        "name": entry.name,
        "summary": entry.summary,
        "needs": sorted(entry.needs),
        "expensive": entry.expensive,
        "model_inputs": {
            **({} if _of_pictures(entry) else {"words": WORDS}),
            "least": _inputs(entry)[0],
            "most": _inputs(entry)[1],
        },
        "signed": entry.signed,
        "sampled": _sampled(entry),
        "cite": entry.cite,
        "params": {param.name: param.default for param in entry.params.values()},
        "limitations": entry.limitations,
    }


def _show(entry: Explainer) -> None:
    from heedful.core.model import CAPABILITIES

    needs = "; ".join(CAPABILITIES.get(need, need) for need in sorted(entry.needs))
    signed = "yes: for (+) or against (−) the target" if entry.signed else "no: only how much a unit matters"
    facts = [
        ("what it does", entry.summary),
        ("needs", needs or "nothing"),
        (
            "cost",
            f"{_cost(entry)} for {'a picture of 8 × 8 cells' if _of_pictures(entry) else f'{WORDS} words'}",
        ),
        ("signed", signed),
        ("sampled", "yes: results depend on --seed" if _sampled(entry) else "no"),
        ("limitations", entry.limitations),
        ("reference", entry.cite),
        ("parameters", "\n".join(_param(param) for param in entry.params.values()) or "none"),
    ]
    print_facts(entry.name, facts)
    if entry.params:
        first = next(iter(entry.params))
        given = "PICTURE" if _of_pictures(entry) else "TEXT"
        print(f"\nSet a parameter with: heedful explain {given} --param {entry.name}.{first}=VALUE")


def _param(param: Param) -> str:
    default = "chosen by the method or model" if param.default is None else repr(param.default)
    return f"{param.name}: default {default}"
