"""The options of the command line, each with its help; commands take them by these names."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

option, argument = typer.Option, typer.Argument

# shared
MODEL = "zoo:NAME (see heedful zoo list), a model folder, or a Hugging Face id."
PICKLE = "Load pickle weights. Pickle files can run code. Use only for files you trust."
Model = Annotated[str, option("--model", "-m", metavar="MODEL", help=MODEL)]
ModelName = Annotated[str, argument(metavar="MODEL", help=MODEL)]
AsJson = Annotated[bool, option("--json", help="Print the result as one JSON document.")]
Seed = Annotated[int, option(help="Random seed.")]
Pickle = Annotated[bool, option("--allow-pickle", help=PICKLE)]
Html = Annotated[Path | None, option(metavar="FILE", help="Write the report as one HTML file.")]
RUN = "A folder written by --out, or inside the --runs folder of heedful serve."
Folder = Annotated[Path, argument(metavar="RUN", help=RUN)]

# of many texts
Texts = Annotated[Path, argument(metavar="FILE", help="File with the texts: .csv, .tsv, .jsonl or .parquet.")]
TextColumn = Annotated[str, option(metavar="NAME", help="Column with the texts.")]
LABELS = "Column with the true labels."
LabelColumn = Annotated[str | None, option(metavar="NAME", help=LABELS)]
RATIONALES = (
    "Column with the words that people marked as the reason. The column contains JSON: 0 or 1 per word, or "
    "[start, end] spans."
)
RationaleColumn = Annotated[str | None, option(metavar="NAME", help=RATIONALES)]
LONG_OF_MANY = "If a text is longer than the model can read: skip and report it, or cut it."
SkipOrCut = Annotated[Literal["skip", "truncate"], option(help=LONG_OF_MANY)]
FirstTexts = Annotated[int | None, option(min=1, metavar="N", help="Use the first N texts only.")]
CONTEXT = "Tokens per model input. Default: 128, or the model's limit if that is smaller."
Context = Annotated[int | None, option(min=1, metavar="N", help=CONTEXT)]
Engine = Annotated[Literal["local", "ray"], option(help="Run in this process, or on a Ray cluster.")]
ADDRESS = "Address of the Ray cluster. Default: start one on this machine."
Address = Annotated[str | None, option(metavar="HOST:PORT", help=ADDRESS)]
Workers = Annotated[
    int | None, option(min=1, metavar="N", help="Number of Ray workers. Default: one per CPU.")
]

# explain
Text = Annotated[
    str | None, argument(metavar="TEXT", help="The text. Without it, or with -, standard input is read.")
]
Pair = Annotated[str | None, option(metavar="TEXT", help="Second text, for models that read two texts.")]
Chat = Annotated[str | None, option(metavar="FILE", help="JSON file with chat messages, instead of TEXT.")]
METHODS = (
    "Method to run (see heedful methods). Repeat the option, or separate names by commas. all: all methods "
    "except expensive ones. Default: seven methods of different kinds."
)
Methods = Annotated[list[str] | None, option("--method", metavar="METHOD", help=METHODS)]
TARGET = "What to explain: a label, its index, or a token. Default: the prediction."
Target = Annotated[str | None, option(metavar="LABEL", help=TARGET)]
CONTRAST = "Explain why the model prefers the target (or --sequence) to this label or text."
Contrast = Annotated[str | None, option(metavar="LABEL", help=CONTRAST)]
Position = Annotated[
    int | None, option(metavar="N", help="Language models: explain the token at this position.")
]
Sequence = Annotated[str | None, option(metavar="TEXT", help="Language models: explain this continuation.")]
GIVEN = "Language models: text that the model has already generated after TEXT."
Given = Annotated[str | None, option(metavar="TEXT", help=GIVEN)]
UNIT = "The piece of text that is removed and scored as a whole."
Unit = Annotated[Literal["word", "token", "sentence"], option(help=UNIT)]
OPERATOR = (
    "How words are removed: delete, mask, swap, unk, pad or mean. Default: mask if the model has a mask "
    "token, else delete."
)
Operator = Annotated[str | None, option(metavar="HOW", help=OPERATOR)]
PARAM = "A parameter of a method, for example lime.samples=64. Repeatable. See heedful methods NAME."
Params = Annotated[list[str] | None, option("--param", metavar="METHOD.NAME=VALUE", help=PARAM)]
BUDGET = "Limit on the number of model inputs, for all methods together."
Budget = Annotated[int | None, option(min=1, metavar="N", help=BUDGET)]
EVIDENCE = "Compare each method with random orders of the words on this text."
Evidence = Annotated[bool, option("--evidence/--no-evidence", help=EVIDENCE)]
DRAWS = "Number of random orders. Default: as many as a statistical test needs, or 20 if that is expensive."
Draws = Annotated[int | None, option(min=19, metavar="N", help=DRAWS)]
SAE = "Also show which features of an SAE are active. SAE: a folder of heedful features train, or zoo:lm."
Features = Annotated[str | None, option("--features", metavar="SAE", help=SAE)]
LONG = "If the text is longer than the model can read: stop, cut it, or read it in windows."
Long = Annotated[Literal["error", "truncate", "window"], option(help=LONG)]
SAVE = "Save the result in this folder. heedful report opens the folder."
Save = Annotated[Path | None, option("--out", metavar="FOLDER", help=SAVE)]
MORE = "More with -v; all of it in a report with --html FILE."
Verbose = Annotated[bool, option("--verbose", "-v", help="Print everything: all tables, cost and notes.")]
ADVICE = "Use the method that an audit of this model recommends. RUN: the run folder of the audit."
AuditRun = Annotated[Path | None, option("--audit", metavar="RUN", help=ADVICE)]
DryRun = Annotated[bool, option("--dry-run", help="Only print what each method would cost.")]
Quiet = Annotated[bool, option("--quiet", "-q", help="Print no progress and no notes.")]
AsCsv = Annotated[bool, option("--csv", help="Print CSV: one line per method and word.")]

# generate
Prompt = Annotated[
    str | None,
    argument(metavar="PROMPT", help="The text to continue. Without it, or with -, standard input is read."),
]
Strategies = Literal["greedy", "sample", "temperature", "top-k", "top-p", "beam"]
Strategy = Annotated[Strategies, option(help="How the next token is chosen.")]
Every = Annotated[bool, option("--all", help="Show the result of every strategy.")]
MaxNewTokens = Annotated[int, option(min=1, help="Maximum number of tokens to generate.")]
WARMTH = (
    "Below 1, likely tokens are chosen more often. Above 1, the choice is more random. Default: 0.7, or 1 "
    "for top-k and top-p."
)
Temperature = Annotated[float | None, option(metavar="T", help=WARMTH)]
TopK = Annotated[int, option(min=1, help="With top-k: sample from the k most likely tokens.")]
TopP = Annotated[
    float,
    option(min=0, max=1, help="With top-p: sample from the most likely tokens with this total probability."),
]
WHY = "Explain every generated token with this method. Repeatable."
Why = Annotated[list[str] | None, option("--why", metavar="METHOD", help=WHY)]
WHY_BUDGET = "With --why: limit on the number of model inputs per token, for all methods together."
WhyBudget = Annotated[int | None, option("--budget", min=1, metavar="N", help=WHY_BUDGET)]
Beams = Annotated[int, option(min=1, help="With beam: number of continuations that are kept at each step.")]

# zoo
ZooName = Annotated[str, argument(metavar="NAME", help="A name from heedful zoo list.")]
ZooNames = Annotated[list[str] | None, argument(metavar="NAME...", help="Names from heedful zoo list.")]
ZooAll = Annotated[bool, option("--all", help="Download all models of the zoo.")]
Force = Annotated[bool, option("--force", help="Download again, even if the model is already here.")]
