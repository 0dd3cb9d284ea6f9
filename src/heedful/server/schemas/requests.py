"""What a client may send: every field has a limit, and anything else is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

MAX_TEXT_CHARACTERS = 20_000  # characters
MAX_EDITS = 200
MAX_TURNS = 64
MAX_WRITTEN = 64  # tokens that are written and explained
MAX_NAMED_FEATURES = 64
MAX_CELLS = 4096  # of a picture, that are brushed over


def _utf8(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("half of a surrogate pair is no character") from None
    if "\0" in text:
        raise ValueError("a NUL byte is no text")
    return text


Text = Annotated[str, Field(max_length=MAX_TEXT_CHARACTERS), AfterValidator(_utf8)]
Name = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_utf8)]
Label = Annotated[str, Field(max_length=200), AfterValidator(_utf8)]
Owner = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
Seed = Annotated[int, Field(ge=0, lt=2**31)]
FeatureNumber = Annotated[int, Field(ge=0, lt=10_000_000)]
TokenId = Annotated[int, Field(ge=0, lt=2**31)]
Methods = Annotated[list[Name], Field(max_length=64)]
# "": the usual one of the model
Unit = Annotated[str, Field(pattern=r"^(word|token|sentence|patch|superpixel|grid:[1-9][0-9]?)?$")]
Operator = Literal["delete", "mask", "swap", "unk", "pad", "mean"]
PictureOperator = Literal["mean", "blur", "noise", "inpaint", "pad"]
PictureNumber = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$", description="as the server gave it")]
Long = Literal["error", "truncate", "window"]


class BaseRequest(BaseModel):
    """Of any kind; fields that are not known are refused, so that a misspelt one is not lost silently."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Turn(BaseRequest):
    """One message of a chat."""

    role: Literal["system", "user", "assistant"]
    content: Text


class InputRequest(BaseRequest):
    """What a model is given: a text, two texts, the turns of a chat, or a picture that was sent before."""

    model: Name
    picture: PictureNumber | None = None  # with a text, where a model reads both
    text: Text = ""
    pair: Text | None = None  # the second text
    turns: Annotated[list[Turn], Field(min_length=1, max_length=MAX_TURNS)] | None = None

    @model_validator(mode="after")
    def _one_of_them(self) -> InputRequest:
        if self.turns is not None and (self.text or self.pair is not None):
            raise ValueError("give a text or the turns of a chat, not both")
        if self.picture is not None and (self.turns is not None or self.pair is not None):
            raise ValueError("give a picture with at most one text")
        if sum(len(turn.content) for turn in self.turns or ()) > MAX_TEXT_CHARACTERS:
            raise ValueError(f"the turns have more than {MAX_TEXT_CHARACTERS:,} characters together")
        return self

    @property
    def contents(self) -> list[str]:
        """Its parts, in order."""
        if self.turns is not None:
            return [turn.content for turn in self.turns]
        return [self.text] if self.pair is None else [self.text, self.pair]

    def given(self, contents: Sequence[str] | None = None) -> str | tuple[str, str] | list[dict[str, str]]:
        """As `heedful.explain` takes it; `contents`: with other words in the same parts."""
        parts = self.contents if contents is None else contents
        if self.turns is not None:
            turns = zip(self.turns, parts, strict=True)
            return [{"role": turn.role, "content": content} for turn, content in turns]
        return parts[0] if self.pair is None else (parts[0], parts[1])


class PredictionRequest(InputRequest):
    """What is explained."""

    target: Label | None = None  # None: the prediction
    contrast: Label | None = None
    unit: Unit = ""
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
        turns = None if self.turns is None else tuple((turn.role, turn.content) for turn in self.turns)
        given = (self.picture, self.text, self.pair, turns)
        return self.model, given, self.target, self.contrast, self.unit, self.seed, self.long


class LiveRequest(PredictionRequest):
    """Prediction, the methods that cost little, and what the others would cost."""

    methods: Methods | None = None  # None: the usual ones, the most faithful first
    agreement: bool = False  # how far the methods agree, too: it takes as long as a method


class ExplainJobRequest(LiveRequest):
    """Methods run as a job, and tested against random orders."""

    test: bool = True
    automatic: bool = False  # started by the page itself: not stored, and ended by the next one
    owner: Owner = "nobody"


class WordEdit(BaseRequest):
    """One word taken out, or replaced."""

    word: Annotated[int, Field(ge=0, lt=MAX_TEXT_CHARACTERS)]
    by: Label | None = None  # None: it goes,
    operator: Operator | None = None  # in this way; None: as the others do

    @model_validator(mode="after")
    def _one_of_them(self) -> WordEdit:
        if self.by is not None and self.operator is not None:
            raise ValueError("a word is replaced, or goes by an operator, not both")
        return self


class WhatIfRequest(PredictionRequest):
    """The text with words changed: what methods claim, and what the model does."""

    edits: Annotated[list[WordEdit], Field(max_length=MAX_EDITS)]
    operator: Operator | None = None  # of words that name none; None: the one that the methods used
    methods: Methods | None = None


class BrushRequest(PredictionRequest):
    """A region of a picture removed: what methods claim, and what the model does."""

    cells: Annotated[
        list[Annotated[int, Field(ge=0, lt=MAX_CELLS)]], Field(min_length=1, max_length=MAX_CELLS)
    ]
    operator: PictureOperator | None = None  # None: the one that the methods used
    methods: Methods | None = None


class AttentionRequest(InputRequest):
    """Every head on one text."""

    owner: Owner = "nobody"


class FeaturesRequest(BaseRequest):
    """Which features fire on a text."""

    model: Name
    text: Text


class FeatureRequest(BaseRequest):
    """All about one feature."""

    model: Name
    feature: FeatureNumber
    owner: Owner = "nobody"


class SteerRequest(InputRequest):
    """The next token with a feature set to so many times its maximum."""

    feature: FeatureNumber
    strength: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]


class WriteRequest(SteerRequest):
    """The same, writing on."""

    tokens: Annotated[int, Field(ge=1, le=200)] = 40
    owner: Owner = "nobody"


class ContinueRequest(InputRequest):
    """What the model writes after a text."""

    tokens: Annotated[int, Field(ge=1, le=MAX_WRITTEN)] = 16
    owner: Owner = "nobody"


class WhyRequest(InputRequest):
    """Why one of the written tokens was written."""

    tokens: Annotated[list[TokenId], Field(min_length=1, max_length=MAX_WRITTEN)]
    at: Annotated[int, Field(ge=0, lt=MAX_WRITTEN)]
    unit: Unit = "word"


class NamesRequest(BaseRequest):
    """What features are active on, in words."""

    model: Name
    features: Annotated[list[FeatureNumber], Field(min_length=1, max_length=MAX_NAMED_FEATURES)]
    owner: Owner = "nobody"


class LimitRequest(InputRequest):
    """How strongly a feature can be set before the text breaks."""

    feature: FeatureNumber
    owner: Owner = "nobody"


class LoadRequest(BaseRequest):
    """A model that is not there yet."""

    model: Name
