"""Write the docs pages that come from the code: methods, metrics, the tests of the trial, the API.

`make docs` runs it; a test checks that the pages are current.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import heedful
from heedful.core import registry
from heedful.core.defaults import CONTROL, DEFAULT_METHODS, FULL_METRICS, QUICK_METRICS
from heedful.labs import labs
from heedful.trials.registry import trial_tests

HERE = Path(__file__).parent
NOT_PARTS = ("heedful.labs", "heedful.core")
PARTS = """## Parts

These are the functions and classes that the labs use, with their modules. Their docstrings contain more
details.

| module | name | does |
|---|---|---|
"""
HEAD = """# Methods

This page is generated from the code. `heedful methods` prints the same list. A *signed* score says whether
a word, or a part of a picture, pushes the output towards (+) or away from (−) the target. An unsigned score
only says how important it is. The column *needs* lists what the model must support; `heedful doctor MODEL`
shows what your model supports. *Expensive* methods need one pass of the model per token, or many more passes.
They run only if you name them. Click a method for its formula, cost, limitations and citation. For a short
guide, see [Which method should I use?](faq.md#which-method-should-i-use)

| method | what it computes | signed | needs |
|---|---|---|---|
"""

UNITS = """
## Units of the scores

Most scores and standard errors have the unit of the output. If you multiply the output by a constant,
the scores are multiplied by the same constant. If you add a constant to the output, the scores do not change.
These methods are exceptions:

- `anchors`, `attention-…`, `random`, `search` and `value-zeroing` give ranks, rules or shares, which have no
  unit.
- `chefer` and `chefer-lrp` multiply gradients through the layers. If the model has two or more layers and you
  multiply the output, there is no simple rule for the new scores. Even the order of the words may change.
"""

METRICS = """# Metrics

This page is generated from the code. `heedful metrics` prints the same list. Every value is compared
with a *control* (the same metric on random scores) and with the *best*:

> skill = (value − control) / (best − control)

So a skill of 0 is as good as random scores on average, and a skill of 1 is the best value. For some metrics
that remove words, *best* is "the best order found": heedful tries many orders of the words, and takes the
best value. Metrics that remove words are measured with several removal operators. Expensive metrics need new
explanations: of other texts, of other models, or with other seeds. Each new explanation has a cost, so these
metrics run only if you name them. The column *verdict* names the group of metrics (the family) through which
a metric counts in the verdict of an audit. Metrics without a family are shown, but the verdict does not use
them. Some metrics have no value in some cases: `plausibility` needs rationales, `pointing` needs masks,
and `completeness` needs a method with a baseline.

| metric | what it measures | good values | best | verdict |
|---|---|---|---|---|
"""

INVARIANCE = """
## The unit of the output

The verdict does not depend on the unit of the output. If you multiply the output by a positive constant,
the metrics that the verdict uses are multiplied by the same constant, for methods and for random orders. All
other metrics keep their values. If you add a constant to the output, no metric changes.
`tests/test_unit_of_output.py` checks these rules for every metric. By definition, there are four exceptions:

- The control of `completeness`: random scores have size 1, whatever the unit of the output.
- The warning that there is little to explain: its limit is 0.01 for a logit. For any other output, the
  limit is a thousandth of the output.
- `anchors` of a multi-label model: a label is predicted if its logit is above 0.
- Every number, if the target is a probability: a probability lies between 0 and 1.

## Metrics that train models

`gold_recall`, `roar`, `randomisation_curve` and `label_randomisation` (in `heedful.metrics`) need a
data set, or train models. They are functions, not metrics of one text: see [Retraining](roar.md).
"""

TESTS = re.compile(r"(<!-- tests: generated -->\n).*?(<!-- end of tests -->)", re.DOTALL)
TESTED = """
| test | what is done | control | cost per text | cite |
|---|---|---|---|---|
"""

API = """# API reference

This page is generated from the docstrings of all public names of `heedful`. Tests run the examples. Names are
imported when they are first used, so `import heedful` does not need torch.

"""


SIGNED = "a word or a part of a picture pushes the output towards (+) or away from (−) the target"
UNSIGNED = "none; a score only says how important a word or a part of a picture is"
PICTURE = "heedful explain docs/examples/pictures/01.png --model zoo:digits-vit"
EXPLAINED = {  # the first model that supports a method -> the example of its page
    "zoo:sentiment": 'heedful explain "the service is not bad"',
    "zoo:digits-vit": PICTURE,
    "zoo:one-layer": 'heedful explain "the service is not bad" --model zoo:one-layer',
}
PULLED = "heedful explain photo.png --model zoo:mobilenet"  # of a method that no embedded model supports
PROPERTIES = {
    "complete": "the scores sum to f(input) − f(baseline)",
    "gradient-l1": "a score is the L1 norm of the gradient",
    "gradient-l2": "a score is the L2 norm of the gradient",
    "gradient-mean": "a score is the mean of the gradient",
    "gradient-x-input": "a score is the gradient times the embedding",
    "linear": "on a linear model, the score of a word is its weight",
    "symmetric": "equal words that the model cannot tell apart have equal scores",
    "unused": "words that the model does not use score zero",
}


def methods() -> str:
    rows = []
    for entry in registry.explainers().values():
        needs = ", ".join(sorted(entry.needs)) or "nothing"
        summary = entry.summary + (" *Expensive.*" if entry.expensive else "")
        link = f"[`{entry.name}`](methods/{entry.name}.md)"
        rows.append(f"| {link} | {summary} | {'yes' if entry.signed else 'no'} | {needs} |")
    return HEAD + "\n".join(rows) + "\n" + UNITS


def method(entry: registry.Explainer) -> str:
    """One page."""
    needs = ", ".join(f"`{need}`" for need in sorted(entry.needs)) or "nothing"
    params = "".join(f"| `{p.name}` | `{p.default!r}` |\n" for p in entry.params.values())
    table = f"\n## Parameters\n\n| name | default |\n|---|---|\n{params}" if params else ""
    known = [PROPERTIES.get(each, each) for each in sorted(entry.properties)]
    checked = "; ".join(known) or "only the properties that all methods must have"
    facts = [
        f"- **Sign of a score:** {SIGNED if entry.signed else UNSIGNED}",
        f"- **The model must support:** {needs}",
        f"- **When it runs:** {_explains(entry)}",
        f"- **Properties that `heedful.checks.check_explainer` checks:** {checked}",
        f"- **Cite:** {entry.cite}",
    ]
    use = f"`{example(entry)} --method {entry.name}`"
    return (
        f"# {entry.name}\n\n{entry.summary}\n\n" + "\n".join(facts) + f"\n\nOn the command line: {use}.\n"
        f"\n## Limitations\n\n{entry.limitations}\n{table}\n## Formula and cost\n\n{_file(entry.run)}"
    )


def example(entry: registry.Explainer) -> str:
    """A command that can run this method, without `--method`."""
    models = {name: line for name, line in EXPLAINED.items() if not _loaded(name).lacks(entry.needs)}
    return next(iter(models.values()), PULLED)


@cache
def _loaded(name: str) -> Any:
    return heedful.load(name)


def audit_example(entry: registry.Metric) -> str:
    """The same for a metric."""
    if entry.masks or "picture" in entry.needs:
        return "heedful audit docs/examples/pictures.csv --model zoo:digits-vit"
    if entry.rationales:
        return "heedful audit reviews.jsonl --rationale-column rationale"
    return "heedful audit docs/examples/reviews.csv"


def _explains(entry: registry.Explainer) -> str:
    """When `heedful explain` runs a method."""
    if entry.name == CONTROL:
        return "always, as the control"
    if entry.name in DEFAULT_METHODS:
        return "by default, and with --method all"
    return "only if you name it, because it is expensive" if entry.expensive else "with --method all"


def metrics() -> str:
    rows = []
    for entry in registry.metrics().values():
        bound = "the best order found" if entry.best is None else f"{entry.best:g}"
        link = f"[`{entry.name}`](metrics/{entry.name}.md)"
        family = entry.family.replace("-", " the ")
        rows.append(f"| {link} | {entry.summary} | {entry.better} | {bound} | {family} |")
    return METRICS + "\n".join(rows) + "\n" + INVARIANCE


def metric(entry: registry.Metric) -> str:
    """One page."""
    bound = "the value of the best order found on the text" if entry.best is None else f"{entry.best:g}"
    again = "the method explains again, for other texts, other models or other seeds"
    plain = again if entry.expensive else "by the formula below"
    how = "words or parts of a picture are removed" if entry.kind == "removal" else plain
    control = "the method's own scores, shuffled" if entry.shuffled else "random scores"
    family = entry.family.replace("-", " the ")
    part = f"yes, in the family *{family}*" if family else "no, it is only shown"
    facts = [
        f"- **Good values:** {entry.better}; best value: {bound}",
        f"- **How it is measured:** {how}",
        f"- **Control:** {control}",
        f"- **Used in the verdict:** {part}",
        f"- **When it runs:** {_runs(entry)}",
        f"- **Cite:** {entry.cite}",
    ]
    use = f"`{audit_example(entry)} --metric {entry.name}`"
    return (
        f"# {entry.name}\n\n{entry.summary}\n\n" + "\n".join(facts) + f"\n\nOn the command line: {use}.\n"
        f"\n## Limitations\n\n{entry.limitations}\n\n## Formula and cost\n\n{_file(entry.run)}"
    )


def _runs(entry: registry.Metric) -> str:
    """When an audit computes a metric."""
    if entry.name in QUICK_METRICS:
        return "by default"
    if entry.name in FULL_METRICS:
        return "with --full, or if you name it"
    return "only if you name it, because it is expensive" if entry.expensive else "only if you name it"


def trial() -> str:
    """The page of the trial, its table of tests written anew."""
    lines = []
    for name, test in trial_tests().items():
        cells = [
            test.paragraph("").rstrip("."),
            test.paragraph("Control:"),
            test.paragraph("Cost:"),
            test.facts.cite,
        ]
        lines.append(f"| `{name}` | {' | '.join(cells)} |\n")
    table = TESTED + "".join(lines) + "\n"
    page = (HERE / "trial.md").read_text(encoding="utf-8")
    return TESTS.sub(lambda match: match[1] + table + match[2], page)


def _file(function: Callable[..., Any]) -> str:
    """A file opens with formula, cost, needs and citation; methods of one family share it."""
    return f"```text\n{inspect.getdoc(sys.modules[function.__module__])}\n```\n"


# --- the API -----------------------------------------------------------------------------------------


def api() -> str:
    names = [name for name in heedful.__all__ if not name.startswith("__")]
    functions = sorted(name for name in names if inspect.isroutine(getattr(heedful, name)))
    classes = sorted(name for name in names if inspect.isclass(getattr(heedful, name)))
    parts = ["## Functions\n", *map(_function, functions), "## Classes\n", *map(_class, classes)]
    return API + "\n".join(parts) + "\n" + PARTS + "\n".join(_parts()) + "\n"


def _parts() -> list[str]:
    """Functions and classes below `heedful` that the labs are written with, as the labs import them."""
    used: dict[tuple[str, str], Any] = {}
    for module in {lab.module for lab in labs().values()}:
        for node in ast.parse(inspect.getsource(importlib.import_module(module))).body:
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("heedful."):
                found = importlib.import_module(str(node.module))
                used |= {(found.__name__, alias.name): vars(found).get(alias.name) for alias in node.names}
    return [
        f"| `{module}` | `{name}` | {_cell(_first(value))} |"
        for (module, name), value in sorted(used.items())
        if (inspect.isfunction(value) or inspect.isclass(value))
        and value.__module__.startswith("heedful.")
        and not module.startswith(NOT_PARTS)
    ]


def _function(name: str) -> str:
    """Signature, what it does, its parameters, what it returns, an example."""
    value = getattr(heedful, name)
    doc = _sections(_said(value))
    lines = [f"### heedful.{name}\n", doc[""].strip(), f"\n```text\n{name}{_signature(value)}\n```\n"]
    lines += [f"- `{parameter}`: {meaning}" for parameter, meaning in _described(doc["Parameters"])]
    for section in ("Returns", "Yields"):
        lines += [f"\n{section} **{kind}**. {meaning}" for kind, meaning in _described(doc.get(section, ""))]
    return "\n".join([*lines, _example(doc)])


def _class(name: str) -> str:
    """What it is, its fields, its methods, an example."""
    value = getattr(heedful, name)
    doc = _sections(_said(value))
    lines = [f"### heedful.{name}\n", _code_blocks(doc[""].strip()), ""]
    meanings = dict(_described(doc.get("Parameters", "")))
    if dataclasses.is_dataclass(value):
        lines += ["| field | type | meaning |", "|---|---|---|"]
        types = {field.name: _cell(_type(field.type)) for field in dataclasses.fields(value)}
        lines += [f"| `{each}` | `{types[each]}` | {_cell(said)} |" for each, said in meanings.items()]
    else:
        lines += [f"- `{each}`: {said}" for each, said in meanings.items()]
    lines += [""] * bool(meanings)
    own = {n: m for n, m in vars(value).items() if not n.startswith("_")}
    for called, member in sorted(own.items()):
        member = getattr(member, "__func__", member)
        if isinstance(member, property) and member.fget is not None:
            lines.append(f"- `.{called}`: {_first(member.fget)}")
        elif inspect.isfunction(member):
            lines.append(f"- `.{called}{_signature(member, method=True)}`: {_first(member)}")
    return "\n".join([*lines, _example(doc)])


SECTION = re.compile(r"^(\w+)\n-{3,}\n", re.MULTILINE)


def _sections(doc: str) -> dict[str, str]:
    """A numpydoc docstring by section; "" is what stands before the first."""
    head, *rest = SECTION.split(doc)
    return {"": head, **dict(zip(rest[::2], rest[1::2], strict=True))}


def _described(section: str) -> list[tuple[str, str]]:
    """(name, description in one line) of a section such as Parameters."""
    entries: list[tuple[str, list[str]]] = []
    for line in section.strip().splitlines():
        if line.startswith(" ") and entries:
            entries[-1][1].append(line.strip())
        elif line:
            entries.append((line, []))
    return [(name, " ".join(words)) for name, words in entries]


def _example(doc: dict[str, str]) -> str:
    """Tests run the docstring itself, so the block is not run again as a block of the docs."""
    return f"\n```pycon\n{doc['Examples'].strip()}\n```\n"


def _code_blocks(text: str) -> str:
    """Indented tables of a docstring, as blocks."""
    return "\n\n".join(
        f"```text\n{inspect.cleandoc(part)}\n```" if part.startswith("    ") else part
        for part in text.split("\n\n")
    )


def _signature(function: Any, method: bool = False) -> str:
    """Long ones a parameter a line."""
    found = inspect.signature(function)
    held = [p for p in found.parameters.values() if not (method and p.name in ("self", "cls"))]
    plain = [_parameter(p) for p in held if p.kind is not p.KEYWORD_ONLY]
    named = [_parameter(p) for p in held if p.kind is p.KEYWORD_ONLY]
    given = found.return_annotation
    back = "" if given is inspect.Signature.empty else f" -> {_type(given)}"
    lines = [*plain, *(["*", *named] if named else [])]
    short = f"({', '.join(lines)}){back}"
    return short if method or len(short) < 90 else "(\n" + "".join(f"    {p},\n" for p in lines) + f"){back}"


def _parameter(p: inspect.Parameter) -> str:
    """A default that prints its address is left out."""
    star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
    kind = "" if p.annotation is p.empty else f": {_type(p.annotation)}"
    if p.default is p.empty:
        return f"{star}{p.name}{kind}"
    return f"{p.name}{kind} = {re.sub(r'<.* at 0x.*>', '...', repr(p.default))}"


def _type(kind: Any) -> str:
    return kind if isinstance(kind, str) else getattr(kind, "__name__", str(kind))


def _cell(text: str) -> str:
    """A bar would end the cell of a table."""
    return text.replace(" | ", " or ")


def _said(value: Any) -> str:
    return inspect.getdoc(value) or ""


def _first(function: Any) -> str:
    told = (inspect.getdoc(function) or "").split("\n\n")[0].replace("\n", " ")
    return told or "See the source."


PAGES: dict[str, Callable[[], str]] = {
    "methods.md": methods,
    "metrics.md": metrics,
    "trial.md": trial,
    "api.md": api,
}
PAGES |= {f"methods/{name}.md": lambda e=e: method(e) for name, e in registry.explainers().items()}
PAGES |= {f"metrics/{name}.md": lambda e=e: metric(e) for name, e in registry.metrics().items()}


def main() -> None:
    for name, make in PAGES.items():
        path = HERE / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(make(), encoding="utf-8")


if __name__ == "__main__":
    main()
