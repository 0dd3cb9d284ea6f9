"""The options of the command line, each with its help; commands take them by these names."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

option, argument = typer.Option, typer.Argument

# shared
Model = Annotated[str, option("--model", "-m", metavar="MODEL", help="zoo:NAME, a folder or a hub id.")]
ModelName = Annotated[str, argument(metavar="MODEL", help="zoo:NAME, a folder or a hub id.")]
AsJson = Annotated[bool, option("--json", help="Print one JSON document and nothing else.")]
Seed = Annotated[int, option(help="Seed of everything that draws.")]
Pickle = Annotated[bool, option("--allow-pickle", help="Load pickle weights. They can run code: trust them.")]
Html = Annotated[Path | None, option(metavar="FILE", help="Write a self-contained HTML page.")]
SAVE = "Store the result as a run folder, which heedful report opens."
Save = Annotated[Path | None, option("--save", metavar="FOLDER", help=SAVE)]
RUN = "A run folder: of --save or --out of a command, or under --runs of heedful serve."
Folder = Annotated[Path, argument(metavar="RUN", help=RUN)]

# of many texts
Texts = Annotated[Path, argument(metavar="FILE", help="Texts: .csv, .tsv, .jsonl or .parquet.")]
TextColumn = Annotated[str, option(metavar="NAME", help="Column of the texts.")]
SkipOrCut = Annotated[
    Literal["error", "truncate"], option(help="A text too long: skip it and tell, or cut it.")
]
CONTEXT = "Tokens read at once. Default: 128, or the model's window if smaller."
Context = Annotated[int | None, option(min=1, metavar="N", help=CONTEXT)]
Engine = Annotated[Literal["local", "ray"], option(help="This process, or a Ray cluster.")]
ADDRESS = "Ray cluster address. Default: start one here."
Address = Annotated[str | None, option(metavar="HOST:PORT", help=ADDRESS)]
Workers = Annotated[int | None, option(min=1, metavar="N", help="ray: how many. Default: one per CPU.")]

# explain
Text = Annotated[str | None, argument(metavar="TEXT", help="The text; - or nothing reads standard input.")]
Pair = Annotated[str | None, option(metavar="TEXT", help="Second text, for models of text pairs.")]
Chat = Annotated[str | None, option(metavar="FILE", help="Chat messages (JSON) instead of a text.")]
METHODS = "Repeat it, or separate by commas; all: all except expensive methods. Default: one of each kind."
Methods = Annotated[list[str] | None, option("--method", metavar="METHOD", help=METHODS)]
TARGET = "A label, its index, or a token. Default: the prediction."
Target = Annotated[str | None, option(metavar="LABEL", help=TARGET)]
CONTRAST = "Explain the target (or the --sequence) rather than this one."
Contrast = Annotated[str | None, option(metavar="LABEL", help=CONTRAST)]
Position = Annotated[
    int | None, option(metavar="N", help="Language models: explain the token at this place.")
]
Sequence = Annotated[str | None, option(metavar="TEXT", help="Language models: explain this continuation.")]
GIVEN = "Language models: already written after the text, and read with it."
Given = Annotated[str | None, option(metavar="TEXT", help=GIVEN)]
Unit = Annotated[Literal["word", "token", "sentence"], option(help="What is removed as one piece.")]
Operator = Annotated[str | None, option(metavar="HOW", help="How: delete, mask, swap, unk, pad or mean.")]
PARAM = "A parameter of one method, e.g. lime.samples=64; repeatable. A wrong name lists those there are."
Params = Annotated[list[str] | None, option("--param", metavar="METHOD.NAME=VALUE", help=PARAM)]
BUDGET = "Most model inputs that all methods together may run."
Budget = Annotated[int | None, option(min=1, metavar="ROWS", help=BUDGET)]
EVIDENCE = "Weigh the methods on this text, beside random orders."
Evidence = Annotated[bool, option("--evidence/--no-evidence", help=EVIDENCE)]
DRAWS = "Random orders of the evidence. Default: enough for a test where that is cheap, else 20."
Draws = Annotated[int | None, option(min=19, metavar="N", help=DRAWS)]
SAE = "A dictionary of the model: which of its features fired. heedful features train; or zoo:lm."
Features = Annotated[str | None, option("--features", metavar="SAE", help=SAE)]
Long = Annotated[Literal["error", "truncate", "window"], option(help="A text longer than the model reads.")]
Full = Annotated[bool, option("--full", help="Show every word of a long text.")]
DryRun = Annotated[bool, option("--dry-run", help="Say what each method would cost; explain nothing.")]
Quiet = Annotated[bool, option("--quiet", "-q", help="Nothing on standard error but errors.")]
AsCsv = Annotated[bool, option("--csv", help="Print CSV: one line per method and word.")]

# generate
Prompt = Annotated[str | None, argument(metavar="PROMPT", help="How it begins; - or nothing reads stdin.")]
Strategies = Literal["greedy", "sample", "temperature", "top-k", "top-p", "beam"]
Strategy = Annotated[Strategies, option(help="How the next token is chosen.")]
Every = Annotated[bool, option("--all", help="Every strategy, side by side.")]
MaxNewTokens = Annotated[int, option(min=1, help="Tokens to write at most.")]
WARMTH = "Below 1 sharper, above 1 flatter. Default: 0.7; 1 for top-k and top-p."
Temperature = Annotated[float | None, option(metavar="T", help=WARMTH)]
TopK = Annotated[int, option(min=1, help="top-k: sample from the k likeliest tokens.")]
TopP = Annotated[float, option(min=0, max=1, help="top-p: from the likeliest that hold this much.")]
WHY = "Explain every token that is written, by this method; repeatable."
Why = Annotated[list[str] | None, option("--why", metavar="METHOD", help=WHY)]
WHY_BUDGET = "--why: most model inputs that all methods together may run, a token."
WhyBudget = Annotated[int | None, option("--budget", min=1, metavar="ROWS", help=WHY_BUDGET)]
Beams = Annotated[int, option(min=1, help="beam: continuations kept at every step.")]

# zoo
ZooName = Annotated[str, argument(metavar="NAME", help="A name of heedful zoo list, with or without zoo:.")]
ZooNames = Annotated[list[str] | None, argument(metavar="NAME...", help="Names of heedful zoo list.")]
ZooAll = Annotated[bool, option("--all", help="Every model of the zoo.")]
Force = Annotated[bool, option("--force", help="Again, even if it is already here.")]
