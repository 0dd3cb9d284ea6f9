"""`heedful explain`: its options. Heavy imports wait until it runs."""

from __future__ import annotations

from typing import Any

from heedful.cli import options as o
from heedful.cli.console import (
    check_save,
    form,
    read_input,
)
from heedful.cli.typed_command import typed


def explain(
    text: o.Text = None,
    model: o.Model = "zoo:sentiment",
    pair: o.Pair = None,
    chat: o.Chat = None,
    caption: o.Caption = None,
    labels: o.Captions = None,
    method: o.Methods = None,
    target: o.Target = None,
    contrast: o.Contrast = None,
    position: o.Position = None,
    sequence: o.Sequence = None,
    given: o.Given = None,
    unit: o.Unit = "",
    region: o.OneRegion = None,
    regions: o.RegionsFile = None,
    operator: o.Operator = None,
    param: o.Params = None,
    seed: o.Seed = 0,
    budget: o.Budget = None,
    evidence: o.Evidence = True,
    draws: o.Draws = None,
    features: o.Features = None,
    audit: o.AuditRun = None,
    long: o.Long = "error",
    html: o.Html = None,
    save: o.Save = None,
    keep_picture: o.KeepPicture = "png",
    verbose: o.Verbose = False,
    as_json: o.AsJson = False,
    as_csv: o.AsCsv = False,
    dry_run: o.DryRun = False,
    quiet: o.Quiet = False,
    allow_pickle: o.Pickle = False,
) -> None:
    """Show which words or parts of a picture decided a prediction.

    \b
    heedful explain "The pasta was not great, but the staff were wonderful"
    heedful explain "not bad" --method occlusion,grad-l2 --operator delete
    heedful explain "not bad" --method all --dry-run
    heedful explain "not bad" --target negative --contrast positive --html a.html
    heedful explain "Once upon a" --model zoo:lm --target " time"
    heedful explain "Once upon a" -m zoo:lm --sequence " time" --contrast " hill"
    echo "the food was fine" | heedful explain --json
    heedful explain seven.png --model zoo:digits-vit --unit grid:7 --html a.html
    heedful explain seven.png -m zoo:digits-vit --region digit=4,4,24,24
    heedful explain scene.png --text "a red circle" --model zoo:tiny-clip

    The command compares each method with random orders of the words. It removes words, beginning with the
    words that the method scores highest. The output should then change more than with a random order. If a
    method is no better than `random`, do not trust the method. One text is not enough to rank methods: use
    the command audit for many texts. A model of pictures gets a file (PNG, JPEG, ...) instead of a text, and
    parts of the picture take the place of words.

    With a short sentence and a small model, the command takes a few seconds. A longer run prints its cost
    first. If you press Ctrl-C, the command shows (and saves) the finished methods.
    """
    from heedful.cli.regions import read_region_options
    from heedful.cli.run_explain import ExplainRequest, OutputChoice, command

    out = OutputChoice(form(as_json, as_csv), html, save, verbose, quiet, keep_picture)
    check_save(save, "explanation")
    result = read_input(text, pair, chat)
    wanted = {
        "label": target,
        "contrast": contrast,
        "position": position,
        "sequence": sequence,
        "given": given,
    }
    wish = ExplainRequest(
        model=model,
        text=result,
        methods=method or [],
        target=wanted,
        unit=unit,
        operator=operator,
        param=param or [],
        seed=seed,
        budget=budget,
        long=long,
        allow_pickle=allow_pickle,
        evidence=evidence,
        draws=draws,
        features=features,
        audit=audit,
        caption=caption,
        labels=labels,
        regions=read_region_options(regions, region or []),
        command=None if isinstance(result, bytes) else typed(**_spelled(result)),
    )
    command(wish, out, dry_run)


def _spelled(said: Any) -> dict[str, str]:
    """What was read, by the argument and the option that would give it; a chat is known by its file."""
    if isinstance(said, str):
        return {"text": said}
    return {"text": said[0], "pair": said[1]} if isinstance(said, tuple) else {}
