"""The published files: the wheel works from an empty directory with what it declares and nothing else.

The fresh environment downloads nothing. It gets the wheel itself, and links to those packages of this
environment that the wheel's own metadata asks for, directly or through others: what heedful forgets to
declare is not there.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from importlib import metadata, util
from pathlib import Path

import pytest
import yaml
from filelock import FileLock
from packaging.requirements import Requirement

import heedful

ROOT = Path(__file__).parents[1]
IMPORTED_AS = {"pillow": "PIL", "scikit-image": "skimage"}  # the others are imported by their own names
EXTRAS = {
    "images": ("PIL", "skimage"),  # extra -> what it lets you import
    "frames": ("pandas",),
    "plots": ("matplotlib",),
    "ray": ("ray", "ray.data"),
    "serve": ("fastapi", "uvicorn"),
    "zoo": ("gguf", "onnx"),
}
TEXT = "the service is not bad"


def run(*command: object, cwd: Path, fresh: bool = True) -> subprocess.CompletedProcess[str]:
    """Without this checkout on the path, unless it is what builds the wheel."""
    own = {key: value for key, value in os.environ.items() if not (fresh and key == "PYTHONPATH")}
    quiet = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "NO_COLOR": "1", "COLUMNS": "300"}
    return subprocess.run(
        [str(part) for part in command], cwd=cwd, env=own | quiet, capture_output=True, text=True, timeout=300
    )


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """dist/, built once however many processes test. `python -m build` builds the wheel from the sdist."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "dist"
    with FileLock(f"{folder}.lock"):
        if not folder.is_dir():
            done = run(
                sys.executable,
                *("-m", "build", "--no-isolation", "--outdir", f"{folder}.new", ROOT),
                cwd=ROOT,
                fresh=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr
            Path(f"{folder}.new").rename(folder)
    return folder


def needed(requirement: str, extra: str, seen: dict[str, metadata.Distribution]) -> None:
    """The installed distributions that a requirement asks for, and those they ask for."""
    wanted = Requirement(requirement)
    if wanted.marker and not wanted.marker.evaluate({"extra": extra}):
        return
    for own in wanted.extras or {""}:
        key = f"{wanted.name.lower()}[{own}]"
        if key not in seen:
            seen[key] = metadata.distribution(wanted.name)
            for each in seen[key].requires or ():
                needed(each, own, seen)


def link(extras: tuple[str, ...], wheel: Path, site: Path) -> None:
    """Packages of this environment into a fresh one: what the wheel requires with these extras."""
    with zipfile.ZipFile(wheel) as inside:
        name = next(n for n in inside.namelist() if n.endswith(".dist-info/METADATA"))
        lines = inside.read(name).decode().split("\n\n", 1)[0].splitlines()
    seen: dict[str, metadata.Distribution] = {}
    for line in lines:
        if line.startswith("Requires-Dist: "):
            for extra in extras or ("",):
                needed(line.removeprefix("Requires-Dist: "), extra, seen)
    for distribution in seen.values():
        tops = {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}
        for top in tops:
            source = Path(str(distribution.locate_file(top)))
            if source.exists() and not (site / top).exists():
                (site / top).symlink_to(source)


def environment(folder: Path, built: Path, *extras: str) -> Path:
    """bin/ of a fresh environment with the wheel installed by pip."""
    venv.create(folder, with_pip=False, symlinks=True)
    wheel = next(built.glob("*.whl"))
    python = folder / "bin" / "python"
    pip = ("-m", "pip", "--python", python, "--disable-pip-version-check", "install", "--no-index")
    done = run(sys.executable, *pip, "--no-deps", wheel, cwd=folder)
    assert done.returncode == 0, done.stderr
    link(extras, wheel, next(folder.glob("lib/python*/site-packages")))
    return folder / "bin"


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory, built: Path) -> Path:
    """heedful without any extra."""
    return environment(tmp_path_factory.mktemp("plain") / "env", built)


def files(folder: str) -> Iterator[str]:
    for path in sorted((ROOT / folder).rglob("*")):
        if path.is_file() and not {"__pycache__", "rivals.tmp"} & set(path.parts):
            yield path.relative_to(ROOT).as_posix()


def test_the_wheel_holds_the_package_with_its_data(built: Path) -> None:
    names = set(zipfile.ZipFile(next(built.glob("*.whl"))).namelist())
    ours = {name.removeprefix("src/") for name in files("src")}
    assert ours - names == set()
    assert {name for name in names - ours if ".dist-info/" not in name} == set()
    for name in (
        "heedful/py.typed",
        "heedful/zoo/sentiment/model.safetensors",
        "heedful/zoo/lm/features/sae.safetensors",
        "heedful/reports/components/report.css",
        "heedful/reports/components/reading.js",
        "heedful/server/static/index.html",
    ):
        assert name in names


def test_the_sdist_builds_the_wheel_and_holds_the_tests(built: Path) -> None:
    """The wheel was built from it; tests read docs, examples and the Makefile too."""
    with tarfile.open(next(built.glob("*.tar.gz"))) as inside:
        names = {name.split("/", 1)[1] for name in inside.getnames() if "/" in name}
    for folder in ("src", "tests", "docs", "bench", "zoo"):
        assert set(files(folder)) - names == set()
    about = {"pyproject.toml", "README.md", "LICENSE", "CITATION.cff", "CHANGELOG.md", "Makefile"}
    assert about | {"constraints.txt", "mkdocs.yml", "security.toml"} <= names
    strange = {name.split("/")[0] for name in names} & {".venv", ".git", "out", "site", "dist"}
    assert strange == set()


def test_the_installed_command_works_in_an_empty_directory(plain: Path, tmp_path: Path) -> None:
    version = run(plain / "heedful", "--version", cwd=tmp_path)
    assert version.stdout.split() == ["heedful", heedful.__version__], version.stderr
    doctor = run(plain / "heedful", "doctor", "zoo:sentiment", cwd=tmp_path)
    assert doctor.returncode == 0, doctor.stderr
    assert "occlusion" in doctor.stdout
    options = ("--model", "zoo:sentiment", "--method", "occlusion,grad-l2", "--html", "page.html")
    explain = run(plain / "heedful", "explain", TEXT, *options, cwd=tmp_path)
    assert explain.returncode == 0, explain.stderr
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "occlusion" in page
    assert "<style>" in page
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.slow
def test_the_install_line_of_the_readme_works(tmp_path: Path) -> None:
    """`pip install .` in a copy of the source, then the command in an empty directory.

    Options keep pip from the network: it builds with this environment's hatchling, and the packages that
    heedful needs are this environment's, at the end of the path. heedful itself comes from the install.
    """
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    line = next(line for line in lines if line.startswith("pip install "))
    assert line == "pip install ."
    copy = tmp_path / "clone"
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    venv.create(tmp_path / "env", with_pip=False, symlinks=True)
    binaries = tmp_path / "env" / "bin"
    site = next(tmp_path.glob("env/lib/python*/site-packages"))
    (site / "others.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    pip = (sys.executable, "-m", "pip", "--python", binaries / "python", "--disable-pip-version-check")
    done = run(*pip, *line.split()[1:], "--no-build-isolation", "--no-deps", "--no-compile", cwd=copy)
    assert done.returncode == 0, done.stdout + done.stderr
    shutil.rmtree(copy)
    empty = tmp_path / "empty"
    empty.mkdir()
    where = run(binaries / "python", "-c", "import heedful; print(heedful.__file__)", cwd=empty)
    assert Path(where.stdout.strip()) == site / "heedful" / "__init__.py", where.stderr
    version = run(binaries / "heedful", "--version", cwd=empty)
    assert version.stdout.split() == ["heedful", heedful.__version__], version.stderr
    explain = run(binaries / "heedful", "explain", TEXT, "--method", "occlusion", cwd=empty)
    assert explain.returncode == 0, explain.stderr
    assert re.match(r"(positive|negative) \d", explain.stdout), explain.stdout
    assert [*empty.iterdir()] == []


@pytest.mark.parametrize(
    ("extra", "command"),
    [
        ("serve", ("serve",)),
        ("serve", ("lab", "study", "choose-the-classifier", "--database", "answers.sqlite")),
        ("zoo", ("zoo", "pull", "smollm2")),
        pytest.param(
            "plots",
            ("attention", TEXT, "--model", "zoo:sentiment", "--figure", "a.png"),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "ray",
            ("audit", "t.csv", "--model", "zoo:one-layer", "--method", "grad-l2", "--engine", "ray"),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["serve", "study", "zoo", "plots", "ray"],
)
def test_a_missing_extra_is_one_clear_line(
    extra: str, command: tuple[str, ...], plain: Path, tmp_path: Path
) -> None:
    (tmp_path / "t.csv").write_text("text\ngood food\nbad service\n")
    done = run(plain / "heedful", *command, cwd=tmp_path)
    assert done.returncode == 2, done.stdout + done.stderr
    *_, last = done.stderr.strip().splitlines()
    assert re.search(rf"pip install ['\"]heedful\[{extra}\]", last), last
    assert "Traceback" not in done.stderr


def test_extras_are_those_described_here() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(declared) - {"dev", "bench", "docs"} == set(EXTRAS)
    together = next(each for each in declared["dev"] if each.startswith("heedful["))
    assert set(re.findall(r"\w+", together.split("[")[1])) == set(EXTRAS)
    for extra, modules in EXTRAS.items():
        names = {Requirement(each).name for each in declared[extra]}
        assert {IMPORTED_AS.get(name, name) for name in names} == {m.split(".")[0] for m in modules}
        for module in modules:
            assert util.find_spec(module) is not None


@pytest.mark.slow
@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_brings_what_it_promises(extra: str, built: Path, tmp_path: Path) -> None:
    """In an environment that has the declared packages of this one extra."""
    binaries = environment(tmp_path / "env", built, "", extra)
    code = "import heedful; " + "; ".join(f"import {module}" for module in EXTRAS[extra])
    done = run(binaries / "python", "-c", code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_tests_of_the_sdist_run_on_the_wheel(built: Path, tmp_path: Path) -> None:
    """Quick ones, from the unpacked sdist, on the package inside it."""
    with tarfile.open(next(built.glob("*.tar.gz"))) as inside:
        inside.extractall(tmp_path, filter="data")
    (source,) = (path for path in tmp_path.iterdir() if path.is_dir())
    code = f"import sys; sys.path.insert(0, {str(source / 'src')!r}); import pytest; "
    code += "sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', 'tests/core', 'tests/test_layers.py']))"
    done = run(sys.executable, "-c", code, cwd=source)
    assert done.returncode == 0, done.stdout[-2000:]


# --- what the files say of themselves ------------------------------------------------------------------


def test_the_citation_names_this_version() -> None:
    about = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert about["version"] == heedful.__version__
    assert about["license"] == project["license"]
    assert about["authors"] == [{"name": "The heedful developers"}]
    assert {"cff-version", "message", "title", "date-released"} <= set(about)
    assert not {"url", "doi", "repository-code"} & set(about)  # there is none


def test_the_sdist_lists_every_file_beside_its_folders() -> None:
    """What the Makefile reads must be in it."""
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"][
        "sdist"
    ]
    files = {f"/{path.name}" for path in ROOT.iterdir() if path.is_file() and not path.name.startswith(".")}
    assert files - {"/pyproject.toml", "/PKG-INFO"} <= set(listed["include"])


def test_the_changelog_begins_with_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\S+)", text, re.MULTILINE)[0] == heedful.__version__
