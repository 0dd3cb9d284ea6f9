"""What a client may send, and what it gets: every field has a limit, and anything else is refused."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

TEXT = 20_000  # characters
EDITS = 200


def _utf8(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("half of a surrogate pair is no character") from None
    if "\0" in text:
        raise ValueError("a NUL byte is no text")
    return text


Text = Annotated[str, Field(max_length=TEXT), AfterValidator(_utf8)]
Name = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_utf8)]
Label = Annotated[str, Field(max_length=200), AfterValidator(_utf8)]
Owner = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
Seed = Annotated[int, Field(ge=0, lt=2**31)]
Methods = Annotated[list[Name], Field(max_length=64)]
Unit = Literal["word", "token", "sentence"]
Long = Literal["error", "truncate", "window"]


class Ask(BaseModel):
    """Of any kind; fields that are not known are refused, so that a misspelt one is not lost silently."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Question(Ask):
    """What is explained."""

    model: Name
    text: Text
    target: Label | None = None  # None: the prediction
    contrast: Label | None = None
    unit: Unit = "word"
    seed: Seed = 0
    long: Long = "error"

    @property
    def spec(self) -> dict[str, Any] | None:
        """As `heedful.explain` takes it."""
        given = {"label": self.target, "contrast": self.contrast}
        return {name: value for name, value in given.items() if value} or None

    @property
    def key(self) -> tuple[Any, ...]:
        """What an explanation depends on, beside the method."""
        return self.model, self.text, self.target, self.contrast, self.unit, self.seed, self.long


class Look(Question):
    """Prediction, the methods that cost little, and what the others would cost."""

    methods: Methods | None = None  # None: one of each kind


class Explain(Look):
    """Methods run as a job, and weighed."""

    weigh: bool = True
    owner: Owner = "nobody"


class Edit(Ask):
    """One word taken out, or replaced."""

    word: Annotated[int, Field(ge=0, lt=TEXT)]
    by: Label | None = None  # None: taken out


class Try(Question):
    """The text with words changed: what methods claim, and what the model does."""

    edits: Annotated[list[Edit], Field(max_length=EDITS)]
    operator: Literal["delete", "mask", "unk", "pad", "mean"] = "delete"
    methods: Methods | None = None


class Attend(Ask):
    """Every head on one text."""

    model: Name
    text: Text
    owner: Owner = "nobody"


class Fire(Ask):
    """Which features fire on a text."""

    model: Name
    text: Text


class Feature(Ask):
    """All about one feature."""

    model: Name
    feature: Annotated[int, Field(ge=0, lt=10_000_000)]
    owner: Owner = "nobody"


class Steer(Ask):
    """The next token with a feature set to so many times its maximum."""

    model: Name
    text: Text
    feature: Annotated[int, Field(ge=0, lt=10_000_000)]
    strength: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]


class Write(Steer):
    """The same, writing on."""

    tokens: Annotated[int, Field(ge=1, le=200)] = 40
    owner: Owner = "nobody"


class Load(Ask):
    """A model that is not there yet."""

    model: Name


# --- answers ---------------------------------------------------------------------------------------


class Problem(BaseModel):
    """Why there is no answer, and what to do."""

    error: str


class Prediction(BaseModel):
    label: str
    shown: str  # 97.2 %, or a number
    share: float | None  # of a bar, 0 to 1


class Cost(BaseModel):
    """A method and what it costs here."""

    method: str
    state: Literal["live", "waits", "done", "refused"]
    rows: int  # at most
    least: int
    seconds: float
    why: str = ""  # it is refused
    summary: str = ""


class Piece(BaseModel):
    """A word of the text, or another unit; places count code points."""

    text: str
    start: int
    end: int


class Looked(BaseModel):
    prediction: list[Prediction]
    target: str
    explained: str
    words: list[Piece]
    methods: list[Cost]
    weighing: float  # seconds that weighing takes
    weighing_rows: int
    html: dict[str, str]  # parts of the report
    notes: list[str]
    operators: list[str]


class Claim(BaseModel):
    """What a method says of the words that were changed."""

    method: str
    signed: bool
    claimed: float | None
    stderr: float | None = None


class Tried(BaseModel):
    before: float  # the explained number
    after: float
    text: str
    prediction: list[Prediction]
    claims: list[Claim]
    target: str
    notes: list[str]


class Model(BaseModel):
    name: str
    kind: str
    labels: list[str]
    window: int | None
    operators: list[str]
    capabilities: list[str]
    features: int  # of its dictionary; 0: it has none
    refused: dict[str, str]  # method -> why it cannot explain this model
    facts: dict[str, str | int | float | bool]


class Method(BaseModel):
    name: str
    summary: str
    cite: str
    signed: bool


class Here(BaseModel):
    """What this server has."""

    version: str
    models: list[Model]
    offered: list[str]
    allow_load: bool
    methods: list[Method]
    few: list[str]
    limit: int
    runs: bool
    waiting: dict[str, int]  # by model, quick questions in the queue


class JobState(BaseModel):
    id: str
    kind: str
    state: Literal["waiting", "running", "done", "failed", "cancelled"]
    label: str
    done: int
    total: int
    seconds: float
    left: float | None
    error: str
    run: str | None
    ask: dict[str, Any]
    result: dict[str, Any] | None
    shown: int


class Fired(BaseModel):
    """A feature on the text."""

    feature: int
    most: float
    share: float | None  # of its greatest activation in training
    token: str
    at: int
    html: str


class Firing(BaseModel):
    features: list[Fired]
    site: str
    width: int
    active: float  # mean over tokens
    notes: list[str]


class Next(BaseModel):
    base: list[Prediction]
    steered: list[Prediction]
    greatest: float | None
    moved: float


class RunEntry(BaseModel):
    id: str
    name: str
    kind: str
    title: str
    when: float


class RunList(BaseModel):
    root: str
    runs: list[RunEntry]
    more: int  # folders that are not listed


class RunPage(BaseModel):
    id: str
    name: str
    kind: str
    html: str
    notes: list[str]
    ask: dict[str, Any] | None  # of an explanation: so that it can be opened in the page
