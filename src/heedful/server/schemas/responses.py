"""What a client gets."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel


class Problem(BaseModel):
    """Why there is no answer, and what to do."""

    error: str


class Prediction(BaseModel):
    label: str
    shown: str  # 97.2 %, or a number
    share: float | None  # of a bar, 0 to 1


class MethodCost(BaseModel):
    """A method and what it costs here."""

    method: str
    state: Literal["live", "waits", "done", "skipped"]
    rows: int  # at most
    least: int
    seconds: float
    why: str = ""  # it is refused
    summary: str = ""


class TextPiece(BaseModel):
    """A word of the text, or another unit; places count code points."""

    text: str
    start: int
    end: int


class WordEffect(BaseModel):
    text: str
    effect: float | None  # of removing it alone; None: not measured


class BetterMethod(BaseModel):
    """A method that is better than random orders on this text."""

    method: str
    beat: int
    draws: int


class FirstScreen(BaseModel):
    """The first screen below the prediction, in the words of every other surface."""

    sentence: str  # which words decide
    operator: str  # by which words were removed to say so
    effects: list[WordEffect]
    shading: str  # the method that shades the text
    better: list[BetterMethod]
    methods: str  # the same as a sentence
    advice: str


class PictureCells(BaseModel):
    """The cells of a picture that one can brush over, row by row."""

    unit: str
    rows: list[int]  # where each row of cells begins, and where the last ends, in pixels that the model sees
    columns: list[int]


class StoredPictureInfo(BaseModel):
    """A picture that was sent: only its colours are kept."""

    id: str
    width: int
    height: int
    notes: list[str]


class ExamplePicture(BaseModel):
    """A picture that comes with a model."""

    id: str
    label: str


class LiveAnswer(BaseModel):
    text: str  # as the model reads it: both texts of a pair, a chat in its template
    picture: PictureCells | None = None  # where the model reads a picture
    prediction: list[Prediction]
    target: str
    explained: str
    words: list[TextPiece]
    methods: list[MethodCost]
    testing: float  # seconds that the test of the methods takes
    testing_rows: int
    automatic: bool  # the test is cheap: the page starts it without a click
    later: bool  # it is cheap, but others are at work: the page asks again soon
    html: dict[str, str]  # parts of the report
    notes: list[str]
    operators: list[str]


class MethodClaim(BaseModel):
    """What a method says of the words that were changed."""

    method: str
    signed: bool
    claimed: float | None
    stderr: float | None = None
    operator: str | None = None  # by which it took words out to say so; None: it took none out


class WhatIfResponse(BaseModel):
    before: float  # the explained number
    after: float
    text: str
    prediction: list[Prediction]
    claims: list[MethodClaim]
    target: str
    operators: list[str]  # by which words went
    notes: list[str]


class RegionClaim(MethodClaim):
    """The same of a region of a picture."""

    share: float | None  # of the sizes of all scores, what is inside the region


class RemovedRegion(BaseModel):
    """A region of a picture removed."""

    before: float  # the explained number
    after: float
    elsewhere: list[float]  # the change when the same shape is removed at other places, drawn at random
    area: float  # share of the picture
    picture: str  # what the model read, as a PNG in base64; "": it read the same picture in another way
    prediction: list[Prediction]
    claims: list[RegionClaim]
    target: str
    operators: list[str]  # by which the region went
    notes: list[str]


class ServedModelInfo(BaseModel):
    name: str
    kind: str
    modality: str  # text, image, or both
    few: list[str]  # methods that run when none is chosen, the most faithful first
    units: list[str]  # what can be removed as one
    examples: list[ExamplePicture] = []
    labels: list[str]
    window: int | None
    pairs: bool  # reads two texts
    chat: bool  # has a chat template
    operators: list[str]
    capabilities: list[str]
    features: int  # of its dictionary; 0: it has none
    skipped: dict[str, str]  # method -> why it cannot explain this model
    facts: dict[str, str | int | float | bool]


class Method(BaseModel):
    name: str
    summary: str
    cite: str
    signed: bool


class ServerInfo(BaseModel):
    """What this server has."""

    version: str
    models: list[ServedModelInfo]
    offered: list[str]
    allow_load: bool
    methods: list[Method]
    written: int  # tokens that may be written
    limit: int  # characters of a text
    picture_limit: int  # bytes of a picture
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


class ActiveFeature(BaseModel):
    """A feature on the text."""

    feature: int
    most: float
    share: float | None  # of its greatest activation in training
    token: str
    at: int
    html: str
    name: str = ""  # what it is active on, where that was worked out


class FeatureActivity(BaseModel):
    features: list[ActiveFeature]
    site: str
    width: int
    active: float  # mean over tokens of the text
    notes: list[str]


class NextTokens(BaseModel):
    base: list[Prediction]
    steered: list[Prediction]
    greatest: float | None
    moved: float


class TokenAnswer(BaseModel):
    """Why a token was written."""

    token: str
    prediction: list[Prediction]  # what else could stand there
    explained: str
    html: str


class RunEntry(BaseModel):
    id: str
    name: str
    kind: str
    title: str
    when: float


class RunList(BaseModel):
    root: str
    temporary: bool  # the root is removed when the server stops
    runs: list[RunEntry]
    more: int  # folders that are not listed


class RunPage(BaseModel):
    id: str
    name: str
    kind: str
    html: str
    notes: list[str]
    ask: dict[str, Any] | None  # of an explanation: so that it can be opened in the page
    data: dict[str, Any] | None = None  # of an atlas: the numbers that its script draws
    component: str = ""  # which script
