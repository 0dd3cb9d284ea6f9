"""The options of the command line, each with its help; commands take them by these names."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from heedful.cli.checked_options import file_place, folder_place

option, argument = typer.Option, typer.Argument


def written_folder(*names: str, help: str) -> Any:
    """The option for a folder that the command writes to: checked before any work."""
    return option(*names, metavar="FOLDER", help=help, callback=folder_place)


def written_file(*names: str, help: str) -> Any:
    """The option for a file that the command writes: checked before any work."""
    return option(*names, metavar="FILE", help=help, callback=file_place)


# shared
MODEL = "zoo:NAME (see heedful zoo list), a model folder, or a Hugging Face id."
PICKLE = "Load pickle weights. Pickle files can run code. Use this option only for files you trust."
Model = Annotated[str, option("--model", "-m", metavar="MODEL", help=MODEL)]
ModelName = Annotated[str, argument(metavar="MODEL", help=MODEL)]
AsJson = Annotated[bool, option("--json", help="Print the result as one JSON document.")]
Seed = Annotated[int, option(help="Random seed.")]
Pickle = Annotated[bool, option("--allow-pickle", help=PICKLE)]
Html = Annotated[Path | None, written_file(help="Write the report as one HTML file.")]
RUN = "A folder that --out wrote, or a folder inside the --runs folder of heedful serve."
Folder = Annotated[Path, argument(metavar="RUN", help=RUN)]

# of many texts
Texts = Annotated[Path, argument(metavar="FILE", help="File with the texts: .csv, .tsv, .jsonl or .parquet.")]
INPUTS = "File with texts or with paths of pictures: .csv, .tsv, .jsonl or .parquet. Or a folder of pictures."
Inputs = Annotated[Path, argument(metavar="FILE", help=INPUTS)]
PATHS = "Column with the paths of pictures. Default: path, picture, file, filename or image."
PathColumn = Annotated[str | None, option(metavar="NAME", help=PATHS)]
MASKS = "Column with the paths of masks: pictures that are white where the thing is that must be found."
MaskColumn = Annotated[str | None, option(metavar="NAME", help=MASKS)]
BOXES = "Column with boxes around the thing that must be found: left top right bottom."
BoxesColumn = Annotated[str | None, option(metavar="NAME", help=BOXES)]
TEXTS = "Column with the texts."
TextColumn = Annotated[str, option(metavar="NAME", help=TEXTS)]
LABELS = "Column with the true labels."
LabelColumn = Annotated[str | None, option(metavar="NAME", help=LABELS)]
RATIONALES = (
    "Column with the words that people marked as the reason. Each cell contains JSON: a list with 0 or 1 for "
    "each word, or a list of [start, end] spans."
)
RationaleColumn = Annotated[str | None, option(metavar="NAME", help=RATIONALES)]
LONG_OF_MANY = "What to do if a text is longer than the model can read: skip and report it, or cut it."
SkipOrCut = Annotated[Literal["skip", "truncate"], option(help=LONG_OF_MANY)]
FirstTexts = Annotated[int | None, option(min=1, metavar="N", help="Use the first N texts only.")]
CONTEXT = "Number of tokens per model input. Default: 128, or the model's limit if the limit is smaller."
Context = Annotated[int | None, option(min=1, metavar="N", help=CONTEXT)]
ENGINE = "Run in this process (local), or on a Ray cluster (ray)."
Engine = Annotated[Literal["local", "ray"], option(help=ENGINE)]
ADDRESS = "Address of the Ray cluster. Default: heedful starts a cluster here."
Address = Annotated[str | None, option(metavar="HOST:PORT", help=ADDRESS)]
Workers = Annotated[
    int | None, option(min=1, metavar="N", help="Number of Ray workers. Default: one per CPU.")
]

# explain
TEXT = (
    "The text, or the file of a picture if the model reads pictures. If it is missing or -, heedful reads "
    "standard input: a text, the name of a file, or the picture itself."
)
Text = Annotated[str | None, argument(metavar="TEXT", help=TEXT)]
Pair = Annotated[str | None, option(metavar="TEXT", help="Second text, for models that read two texts.")]
CAPTION = "The text that a picture is compared with, for models such as CLIP."
Caption = Annotated[str | None, option("--text", metavar="TEXT", help=CAPTION)]
CAPTIONS = (
    "Captions to choose from, separated by commas: a model such as CLIP is then a classifier. Put a caption "
    "that contains a comma in quotes: 'a ring,\"a red, big seven\"'."
)
Captions = Annotated[str | None, option("--labels", metavar="A,B,...", help=CAPTIONS)]
Chat = Annotated[str | None, option(metavar="FILE", help="JSON file with chat messages, instead of TEXT.")]
METHODS = (
    "Method to run (see heedful methods). To run several, repeat the option or separate names by commas. "
    "--method all runs all methods except expensive ones. Default: some methods of different kinds."
)
Methods = Annotated[list[str] | None, option("--method", metavar="METHOD", help=METHODS)]
TARGET = "What to explain: a label, its index, or a token. Default: the prediction."
Target = Annotated[str | None, option(metavar="LABEL", help=TARGET)]
CONTRAST = "Explain why the model prefers the target (or the text of --sequence) to this label or text."
Contrast = Annotated[str | None, option(metavar="LABEL", help=CONTRAST)]
Position = Annotated[
    int | None, option(metavar="N", help="For language models: explain the token at this position.")
]
SEQUENCE = "For language models: explain this continuation."
Sequence = Annotated[str | None, option(metavar="TEXT", help=SEQUENCE)]
GIVEN = "For language models: the text that the model has already generated after TEXT."
Given = Annotated[str | None, option(metavar="TEXT", help=GIVEN)]
UNIT = (
    "The kind of unit. Each unit is removed as a whole and gets one score. Texts: word, token or sentence. "
    "Pictures: patch, grid:N (N × N cells), superpixel, region or pixel. Default: word; for pictures, about "
    "8 × 8 cells."
)
Unit = Annotated[str, option(metavar="UNIT", help=UNIT, show_default=False)]
TEXT_UNIT = "The kind of unit that gets one score."
TextUnit = Annotated[Literal["word", "token", "sentence"], option(help=TEXT_UNIT)]
REGION = (
    "A part of the picture to score as one piece: a box in pixels of the file, such as dog=10,20,110,90. "
    "Repeatable. What lies in no region is one more piece, called rest."
)
OneRegion = Annotated[list[str] | None, option("--region", metavar="NAME=LEFT,TOP,RIGHT,BOTTOM", help=REGION)]
REGIONS = (
    "JSON file with the parts of the picture to score: boxes or masks by name, such as "
    '{"dog": [10, 20, 110, 90], "cat": "cat-mask.png"}. A mask is a picture of the same size, white inside.'
)
RegionsFile = Annotated[Path | None, option("--regions", metavar="FILE", help=REGIONS)]
OPERATOR = (
    "How words are removed: delete, mask, swap, unk, pad or mean. Default: mask if the model has a mask "
    "token, otherwise delete. For parts of a picture: mean (default), blur, noise, inpaint, or pad "
    "(hidden from attention; for patches of vision transformers)."
)
Operator = Annotated[str | None, option(metavar="HOW", help=OPERATOR)]
PARAM = "A parameter of a method, for example lime.samples=64. Repeatable. See heedful methods NAME."
Params = Annotated[list[str] | None, option("--param", metavar="METHOD.NAME=VALUE", help=PARAM)]
BUDGET = "Maximum number of model inputs for all methods together."
Budget = Annotated[int | None, option(min=1, metavar="N", help=BUDGET)]
EVIDENCE = "Compare each method with random orders of the words (or parts of the picture)."
Evidence = Annotated[bool, option("--evidence/--no-evidence", help=EVIDENCE)]
DRAWS = "Number of random orders. Default: as many as a test needs, or 20 if the test is expensive."
Draws = Annotated[int | None, option(min=19, metavar="N", help=DRAWS)]
SAE = "Also show the active features of this SAE: a folder that heedful features train wrote, or zoo:lm."
Features = Annotated[str | None, option("--features", metavar="SAE", help=SAE)]
LONG = "What to do if the text is longer than the model can read: stop, cut it, or read it in windows."
Long = Annotated[Literal["error", "truncate", "window"], option(help=LONG)]
KEEP = "What --out saves of a picture: a small copy (png), or only its path and checksum (path)."
KeepPicture = Annotated[Literal["png", "path"], option("--keep-picture", help=KEEP)]
SAVE = "Save the result in this folder. heedful report opens the folder."
Save = Annotated[Path | None, written_folder("--out", help=SAVE)]
MORE = "More with -v; all of it in a report with --html FILE."
Verbose = Annotated[bool, option("--verbose", "-v", help="Print everything: all tables, cost and notes.")]
ADVICE = "Run folder of an audit of this model. The method that this audit recommends is shown first."
AuditRun = Annotated[Path | None, option("--audit", metavar="RUN", help=ADVICE)]
DRY = "Do not run the methods. Print only what each method would cost."
DryRun = Annotated[bool, option("--dry-run", help=DRY)]
Quiet = Annotated[bool, option("--quiet", "-q", help="Print no progress and no notes.")]
AsCsv = Annotated[bool, option("--csv", help="Print CSV: one line per method and unit.")]

# generate
PROMPT = "The text to continue. If it is missing or -, heedful reads standard input."
Prompt = Annotated[str | None, argument(metavar="PROMPT", help=PROMPT)]
Strategies = Literal["greedy", "sample", "temperature", "top-k", "top-p", "beam"]
Strategy = Annotated[Strategies, option(help="How the next token is chosen.")]
Every = Annotated[bool, option("--all", help="Show one result for each strategy.")]
MaxNewTokens = Annotated[int, option(min=1, help="Maximum number of tokens to generate.")]
WARMTH = (
    "With a value below 1, likely tokens are chosen more often. With a value above 1, the choice is more "
    "random. Default: 0.7. For top-k and top-p, the default is 1."
)
Temperature = Annotated[float | None, option(metavar="T", help=WARMTH)]
TopK = Annotated[int, option(min=1, help="With --strategy top-k: sample from the k most likely tokens.")]
TOP_P = (
    "With --strategy top-p: sample from the smallest set of most likely tokens whose probabilities sum to at "
    "least this value."
)
TopP = Annotated[float, option(min=0, max=1, help=TOP_P)]
WHY = "Explain every generated token with this method. Repeatable."
Why = Annotated[list[str] | None, option("--why", metavar="METHOD", help=WHY)]
WHY_BUDGET = "With --why: maximum number of model inputs per token, for all methods together."
WhyBudget = Annotated[int | None, option("--budget", min=1, metavar="N", help=WHY_BUDGET)]
Beams = Annotated[
    int, option(min=1, help="With --strategy beam: number of continuations that are kept at each step.")
]

# zoo
ZOO_NAME = "A name that the command heedful zoo list prints."
ZooName = Annotated[str, argument(metavar="NAME", help=ZOO_NAME)]
ZOO_NAMES = "Names that the command heedful zoo list prints."
ZooNames = Annotated[list[str] | None, argument(metavar="NAME...", help=ZOO_NAMES)]
ZooAll = Annotated[bool, option("--all", help="Download all models of the zoo.")]
Force = Annotated[bool, option("--force", help="Download again, even if the model is already here.")]
