"""`heedful steer`: set features while a language model writes. Heavy imports wait until it runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from heedful.cli import options as o
from heedful.cli.console import (
    check_save,
    print_stderr,
    progress_bar,
    put_result,
    read_text,
    reproduce,
    say_written,
    silence_libraries,
)
from heedful.cli.typed_command import typed
from heedful.core.errors import HeedfulError
from heedful.core.whole_numbers import whole_number

if TYPE_CHECKING:
    from heedful.models.adapter import TokenModel

option = o.option
OWN = "zoo:lm"  # the model that brings a dictionary
SAE = "Folder of a trained SAE, or zoo:lm. For the model zoo:lm, the default is its own SAE."
SaeFolder = Annotated[Path | None, option("--sae", metavar="FOLDER", help=SAE)]
FEATURE = (
    "Feature and new value. Examples: 268=5x (5 times the maximum of feature 268), 268=3, 268=+2 (add 2), "
    "268=0, '268=2x own' (twice its value at each token). Repeatable."
)
Features = Annotated[list[str] | None, option("--feature", "-f", metavar="N=VALUE", help=FEATURE)]
POSITIONS = "Tokens to steer: all, last, or positions separated by commas."
Positions = Annotated[str, option(metavar="WHERE", help=POSITIONS)]
TEXTS = (
    "File with texts, one per line. On these texts, heedful measures the maxima of features (for values such "
    "as 5x) and the difference of means."
)
Texts = Annotated[Path | None, option("--texts", metavar="FILE", help=TEXTS)]
SWEEP = "Try several values, separated by commas (0,1x,2x,5x), and print a table."
Sweep = Annotated[str | None, option("--sweep", metavar="VALUES", help=SWEEP)]
PROMPTS = "With --sweep: file with more prompts, one per line. Intervals are computed over prompts."
Prompts = Annotated[Path | None, option("--prompts", metavar="FILE", help=PROMPTS)]
TOWARDS = (
    "File with texts, one per line. heedful steers from the mean of --away to the mean of these texts. With "
    "--feature, this steering is only the baseline for comparison."
)
Towards = Annotated[Path | None, option("--towards", metavar="FILE", help=TOWARDS)]
Away = Annotated[
    Path | None, option("--away", metavar="FILE", help="File with texts to steer away from, one per line.")
]
STRENGTH = "Multiply the difference of means by this factor."
Strength = Annotated[float, option(help=STRENGTH)]
Site = Annotated[
    str | None,
    option(metavar="SITE", help="Place in the model to steer. Default: the site of the SAE."),
]
THRESHOLD = "With --sweep: a feature counts as active above this value."
Threshold = Annotated[float, option(min=0.0, help=THRESHOLD)]


def steer(
    prompt: o.Prompt = None,
    model: o.Model = "zoo:lm",
    sae: SaeFolder = None,
    feature: Features = None,
    positions: Positions = "all",
    texts: Texts = None,
    sweep: Sweep = None,
    prompts: Prompts = None,
    towards: Towards = None,
    away: Away = None,
    strength: Strength = 1.0,
    site: Site = None,
    threshold: Threshold = 0.0,
    max_new_tokens: o.MaxNewTokens = 40,
    strategy: o.Strategy = "greedy",
    seed: o.Seed = 0,
    html: o.Html = None,
    save: o.Save = None,
    as_json: o.AsJson = False,
    verbose: o.Verbose = False,
    quiet: o.Quiet = False,
    allow_pickle: o.Pickle = False,
) -> None:
    """Change SAE features during generation, and compare the texts.

    \b
    heedful steer "The basic things expected by" --sae zoo:lm --feature 268=1x
    heedful steer "The union is" --sae sae/ -f 268=5x --texts speeches.txt
    heedful steer "The union is" --sae sae/ -f 268=30 -f 3=0 --positions last
    heedful steer "We must" --sae sae/ -f 268=0 --sweep 1x,5x --texts speeches.txt
    heedful steer "We" --towards war.txt --away peace.txt --site blocks.1.resid

    The command shows the generated text without steering and with steering. For comparison, it also steers
    with a difference of means of the same length. This vector goes from the mean of --away to the mean of
    --towards. Without these files, heedful uses the tokens of --texts (zoo:lm has its own texts). Then the
    vector goes from the mean of the tokens where the feature is not active to the mean of the tokens where it
    is active.

    --sweep sets the first --feature to each value. It also steers with a random direction, for comparison.
    Then the model without steering measures the perplexity of all generated texts.
    """
    text = read_text(prompt, "prompt")
    if sae is None and feature and model == OWN:
        sae = Path(OWN)
        if not quiet:
            print_stderr(f"no --sae: using the SAE that comes with {OWN}")
    wish: dict[str, Any] = {
        "model": model,
        "sae": sae,
        "features": _features(feature),
        "positions": _positions(positions),
        "texts": texts,
        "sweep": sweep,
        "more": prompts,
        "prompts": [text, *_lines(prompts)],
        "towards": towards,
        "away": away,
        "strength": strength,
        "site": site,
        "threshold": threshold,
        "max_new_tokens": max_new_tokens,
        "strategy": strategy,
        "seed": seed,
        "command": typed(prompt=text),
    }
    _check(wish)
    check_save(save, "sweep" if sweep else "steer")
    silence_libraries()

    with progress_bar(f"loading {model}", quiet) as say:
        loaded = _loaded(model, allow_pickle)
        result = _swept(loaded, wish, say) if sweep else _written(loaded, wish)
        result = _told(loaded, wish, result)
    put_result(result, "json" if as_json else "text", html, verbose)
    if save:
        result.save(save)
    say_written(save, html, quiet=quiet)
    reproduce(wish["command"], quiet)


# --- what was asked for ------------------------------------------------------------------------------


def _features(given: list[str] | None) -> dict[int, str]:
    texts: dict[int, str] = {}
    for one in given or []:
        name, equals, value = one.partition("=")
        number = whole_number(name)
        if not equals or number is None or not value.strip():
            raise HeedfulError(f"--feature {one} is not understood", fix="Write --feature 268=5x")
        texts[number] = value.strip()
    return texts


def _positions(given: str) -> Any:
    if given in ("all", "last"):
        return given
    numbers = [whole_number(part) for part in given.split(",")]
    if None in numbers:
        raise HeedfulError(f"--positions {given} is not understood", fix="Write all, last, or 0,3,7")
    return numbers


def _lines(path: Path | None) -> list[str]:
    """Texts of a file, one per line; empty lines are left out."""
    if path is None:
        return []
    from heedful.io.files import read_text as read_file

    lines = read_file(path).splitlines()
    results = [line.strip() for line in lines if line.strip()]
    if not results:
        raise HeedfulError(f"{path} contains no text")
    return results


def _loaded(model: str, allow_pickle: bool) -> TokenModel:
    """A model that writes text, or an error."""
    import heedful
    from heedful.models.adapter import token_model

    loaded = heedful.load(model, allow_pickle=allow_pickle)
    if "generate" not in loaded.capabilities:
        raise HeedfulError(f"{model} cannot write text", f"it is a {loaded.kind}", "Try --model zoo:lm")
    return token_model(loaded, "steering")


def _check(wish: dict[str, Any]) -> None:
    """Mistakes that can be told before the model is loaded."""
    if (wish["towards"] is None) != (wish["away"] is None):
        raise HeedfulError("--towards and --away go together", fix="Give a file of texts to each")
    if wish["sae"] is None and wish["towards"] is None:
        fix = f"Give --sae {OWN} --feature 268=1x, or the folder of your own SAE"
        raise HeedfulError("there is nothing to steer by", fix=fix)
    if wish["sae"] is not None and not wish["features"]:
        raise HeedfulError("which feature shall be set?", fix="Give --feature 268=5x")
    if wish["sae"] is None and wish["features"]:
        raise HeedfulError("--feature needs an SAE", fix=f"Give --sae sae/, or --model {OWN}")
    if wish["sae"] is None and wish["site"] is None:
        raise HeedfulError("it is not known where to steer", fix="Give --site blocks.2.resid")
    if wish["sae"] is None and wish["sweep"]:
        raise HeedfulError(
            "--sweep needs --sae", "it counts the tokens where a feature is active", "Give --sae sae/"
        )
    if len(wish["prompts"]) > 1 and not wish["sweep"]:
        raise HeedfulError("--prompts is for --sweep", fix="Give one prompt")


def _parts(model: TokenModel, wish: dict[str, Any]) -> tuple[Any, Any, Any]:
    """(the autoencoder, the difference of means, maxima), each None where not asked for."""
    import heedful
    from heedful.features.steering.directions import difference, site_of

    sae = None if wish["sae"] is None else heedful.SAE.load(wish["sae"])
    vector = None
    if wish["towards"] is not None:
        place = wish["site"] if sae is None else site_of(sae, wish["site"])
        vector = difference(model, place, _lines(wish["towards"]), _lines(wish["away"]), seed=wish["seed"])
    return sae, vector, _lines(wish["texts"]) or None


def _held_out(sae: Path) -> Path | None:
    """Texts that come with a dictionary of the zoo."""
    from heedful.models.zoo import resolve

    return resolve.held_out(str(sae)) if str(sae).startswith("zoo:") else None


def _written(model: TokenModel, wish: dict[str, Any]) -> Any:
    from dataclasses import replace

    from heedful.features.steering.compare import before_after

    sae, vector, maxima = _parts(model, wish)
    steering = {"positions": wish["positions"], "site": wish["site"], "maxima": maxima}
    writing = {name: wish[name] for name in ("max_new_tokens", "strategy", "seed")}
    if sae is not None:
        return before_after(
            model,
            sae,
            wish["features"],
            wish["prompts"][0],
            steering=steering,
            baseline=vector,
            texts=maxima or _held_out(wish["sae"]),
            **writing,
        )
    sides = before_after(model, vector, wish["strength"], wish["prompts"][0], steering=steering, **writing)
    lines = (
        f"The difference of means has length {vector.length:.3g}; {vector.chance:.3g} with shuffled labels.",
        *vector.notes,
    )
    return replace(sides, notes=lines)


def _told(model: TokenModel, wish: dict[str, Any], found: Any) -> Any:
    """The result with the dictionary, what its features fire on, and the command that makes it again."""
    from dataclasses import replace

    import heedful
    from heedful.features.reading import captions

    mark = model.facts().get("fingerprint")
    facts, settings, notes = {**found.model, "fingerprint": mark}, dict(found.settings), found.notes
    if wish["sae"] is not None:
        sae, texts = heedful.SAE.load(wish["sae"]), _lines(wish["texts"]) or _held_out(wish["sae"])
        settings.setdefault("site", wish["site"] or sae.config.source.get("site"))
        settings["dictionary"] = captions.facts_of(sae, str(wish["sae"]))
        chosen = list(wish["features"])[: 1 if wish["sweep"] else None]
        if texts is not None:
            fires = captions.fires_on(model, sae, chosen, texts, site=wish["site"])
            settings["fires on"] = {
                str(feature): captions.quoted(tokens) for feature, tokens in fires.items()
            }
            notes = (*(captions.sentence(*one) for one in fires.items()), *notes)
    settings["command"] = wish["command"]
    return replace(found, model=facts, settings=settings, notes=notes)


def _swept(model: TokenModel, wish: dict[str, Any], say: Any) -> Any:
    from heedful.features.steering.sweep import Baselines, Intervention, Presence, Writing, sweep

    sae, vector, maxima = _parts(model, wish)
    strengths = [part.strip() for part in wish["sweep"].split(",") if part.strip()]
    made = Writing(wish["max_new_tokens"], wish["strategy"], (wish["seed"],), wish["positions"])
    intervention = Intervention(
        by=sae,
        feature=next(iter(wish["features"])),
        strengths=strengths,
        site=wish["site"],
        maxima=maxima,
    )
    return sweep(
        model,
        intervention,
        wish["prompts"],
        presence=Presence(threshold=wish["threshold"]),
        baselines=Baselines(difference=vector, texts=maxima or _held_out(wish["sae"]), seed=wish["seed"]),
        writing=made,
        progress=say,
    )
