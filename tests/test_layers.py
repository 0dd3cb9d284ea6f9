"""The rules of docs/design.md, checked on the source: layers, cycles, class names, typed models.

Imports inside functions count; those under TYPE_CHECKING do not. Where the source does not keep a rule yet,
the number of places is written down here and may only fall.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import heedful

SOURCE = Path(heedful.__file__).parent
LAYERS = [
    "core",
    "stats",
    "modalities",
    "io",
    "nn",
    "models",
    "engine",
    "explainers",
    "metrics",
    "features",
    "comparisons",
    "retraining",
    "audits",
    "heads",
    "trials",
    "reports",
    "checks",
    "server",
    "labs",
    "cli",
]
TOP = {"_version", "__main__", ""}  # above all layers; "" is heedful itself, which imports by name

# Escapes from the type checker. A change may make these numbers smaller, never larger.
TYPE_IGNORES = 42
CASTS = 6
MAX_LINES = 60  # of a function after its signature and docstring
MAX_PARAMETERS = 8  # of a function that is no command, no decorator and not in heedful.__all__


@cache
def modules() -> dict[str, Path]:
    """Dotted name below heedful -> file; a package has its own name."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(modules()[module].read_text(encoding="utf-8"))


def run_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Every node, without blocks for type checkers."""
    for child in ast.iter_child_nodes(node):
        test = getattr(child, "test", None)
        if isinstance(child, ast.If) and isinstance(test, ast.Name) and test.id == "TYPE_CHECKING":
            continue
        yield child
        yield from run_nodes(child)


def imported(node: ast.AST) -> Iterator[str]:
    """What one node imports from heedful: modules, below heedful."""
    if isinstance(node, ast.Import):
        yield from (alias.name[8:] for alias in node.names if alias.name.startswith("heedful."))
    elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "heedful":
        home = node.module[8:]
        for alias in node.names:
            full = f"{home}.{alias.name}" if home else alias.name
            yield full if full in modules() else home


@cache
def imports() -> dict[str, set[str]]:
    return {
        module: {name for node in run_nodes(tree(module)) for name in imported(node)} - {module}
        for module in modules()
    }


def layer(module: str) -> str:
    return module.split(".")[0]


def against_layers(graph: dict[str, set[str]]) -> list[str]:
    order = {name: place for place, name in enumerate(LAYERS)}
    return [
        f"{module} imports {name}"
        for module, names in graph.items()
        for name in names
        if layer(module) not in TOP and layer(name) not in TOP
        if order[layer(name)] > order[layer(module)]
    ]


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Strongly connected components of more than one module."""
    left = {module: set(names) & set(graph) for module, names in graph.items()}
    while leaves := [module for module, names in left.items() if not names]:  # peel what imports nothing
        for leaf in leaves:
            del left[leaf]
        left = {module: names - set(leaves) for module, names in left.items()}
    reach = {module: reachable(module, left) for module in left}
    found = {tuple(sorted(n for n in reach[m] if m in reach[n])) for m in left}
    return [list(each) for each in found if len(each) > 1]


def reachable(start: str, graph: dict[str, set[str]]) -> set[str]:
    seen, waiting = set[str](), [start]
    while waiting:
        new = graph[waiting.pop()] - seen
        seen |= new
        waiting += new
    return seen


def test_every_folder_is_a_layer() -> None:
    assert {layer(module) for module in modules()} - TOP == set(LAYERS)


def test_imports_follow_the_layers() -> None:
    assert against_layers(imports()) == []


def test_there_is_no_cycle() -> None:
    assert cycles(imports()) == []


def test_planted_imports_are_seen() -> None:
    assert against_layers({"stats.a": {"cli.b"}, "cli.b": set()}) == ["stats.a imports cli.b"]
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}
    assert cycles(graph) == [["b", "c"]]
    lazy = ast.parse("def f():\n    from heedful.cli import main\n")
    assert [name for node in run_nodes(lazy) for name in imported(node)] == ["cli.main"]
    typed = ast.parse("if TYPE_CHECKING:\n    from heedful.cli import main\n")
    assert [name for node in run_nodes(typed) for name in imported(node)] == []


def test_a_class_name_has_one_meaning() -> None:
    homes = defaultdict(list)
    for module in modules():
        for node in ast.walk(tree(module)):
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(module)
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}


def functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for module in modules():
        for node in ast.walk(tree(module)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield module, node


def test_models_are_typed() -> None:
    """`heedful.load` takes anything; everybody else takes a Model."""
    loose = []
    for module, node in functions():
        every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        for given in every:
            hint = given.annotation
            untyped = hint is None or (isinstance(hint, ast.Name) and hint.id in ("Any", "object"))
            if given.arg == "model" and untyped and module != "models.load":
                loose.append(f"{module}.{node.name}")
    for module in modules():
        for node in ast.walk(tree(module)):
            if isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Call):
                called, hint = ast.unparse(node.value.func), ast.unparse(node.annotation)
                if called in ("load", "heedful.load", "load_token_model") and hint in ("Any", "object"):
                    loose.append(f"{module}:{node.lineno}")
    assert loose == []


def test_nobody_reaches_inside_a_model() -> None:
    reached = []
    for module in modules():
        if layer(module) == "models":
            continue
        for node in ast.walk(tree(module)):
            if isinstance(node, ast.Attribute):
                owner = getattr(node.value, "id", getattr(node.value, "attr", ""))  # model._x, q.model._x
                private = owner == "model" and node.attr.startswith("_")
                if node.attr in ("backend", "tokenizer") or private:
                    reached.append(f"{module}:{node.lineno}")
    assert reached == []


def test_escapes_from_the_type_checker_do_not_grow() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in modules().values())
    assert len(re.findall("type: ignore", text)) <= TYPE_IGNORES
    assert len(re.findall(r"(?<![\w.])cast\(", text)) <= CASTS


def test_functions_are_short() -> None:
    def lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
        first = node.body[1] if ast.get_docstring(node) and len(node.body) > 1 else node.body[0]
        return (node.end_lineno or 0) - first.lineno + 1

    assert [f"{module}.{node.name}" for module, node in functions() if lines(node) > MAX_LINES] == []


def test_functions_take_few_parameters() -> None:
    """An explainer's keyword parameters are its command-line flags, as a command's are."""

    def free(module: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
        decorated = {
            getattr(each.func, "id", "") for each in node.decorator_list if isinstance(each, ast.Call)
        }
        decorator = ast.unparse(node.returns).startswith("Callable[[Callable") if node.returns else False
        return (
            node.name in heedful.__all__
            or module.startswith("cli.")
            or decorator
            or bool(decorated & {"explainer", "metric", "trial_test", "lab"})
        )

    def count(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
        return len([*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs])

    wide = [
        f"{module}.{node.name}"
        for module, node in functions()
        if count(node) > MAX_PARAMETERS and not free(module, node)
    ]
    assert wide == []


# --- units, not words ------------------------------------------------------------------------------

ANY_INPUT = {"core", "stats", "engine", "comparisons", "audits", "explainers", "metrics"}
PICTURE_WORDS = re.compile("image|pixel", re.IGNORECASE)


def for_pictures_alone(parsed: ast.Module) -> bool:
    """All that the module registers declares needs={"picture", ...}; a module that registers nothing has
    NEEDS = {"picture"}."""
    calls = [
        each
        for node in ast.walk(parsed)
        if isinstance(node, ast.FunctionDef)
        for each in node.decorator_list
        if isinstance(each, ast.Call) and getattr(each.func, "id", "") in ("explainer", "metric")
    ]
    needs = [next((k.value for k in call.keywords if k.arg == "needs"), None) for call in calls]
    needs = needs or [
        node.value
        for node in parsed.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets) == "NEEDS"
    ]
    return bool(needs) and all(
        isinstance(need, ast.Set) and "picture" in map(ast.literal_eval, need.elts) for need in needs
    )


def test_what_works_on_any_input_knows_no_picture() -> None:
    """Inputs, units and regions: no kind of input is named where every kind goes through."""
    knowing = [
        f"{module}:{number}"
        for module, path in modules().items()
        if layer(module) in ANY_INPUT and not for_pictures_alone(tree(module))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if PICTURE_WORDS.search(line)
    ]
    assert knowing == []


def test_a_method_for_pictures_says_so() -> None:
    plain = '@explainer("a", needs={"values"})\ndef a(q): ...\n'
    picture = '@explainer("b", needs={"picture", "values"})\ndef b(q): ...\n'
    assert for_pictures_alone(ast.parse(picture))
    assert not for_pictures_alone(ast.parse(plain))
    assert not for_pictures_alone(ast.parse(plain + picture))
    assert not for_pictures_alone(ast.parse("def helper(): ..."))
    assert for_pictures_alone(tree("explainers.gradcam"))
