"""What was explained, shaded: a text, a picture, or a picture with its text below it on the same scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from heedful.core.document import PictureMap, UnitMap
from heedful.core.input import Input
from heedful.core.internals import Removal
from heedful.modalities.image import ImageInput
from heedful.modalities.joint import JointInput
from heedful.reports.columns import ScoreColumn
from heedful.reports.picture_map import picture_effects, picture_map, plain_picture
from heedful.reports.tested_methods import largest_effect
from heedful.reports.text_map import effect_map, plain_map, text_map

Maps = tuple[UnitMap | PictureMap, ...]


def has_picture(x: Input) -> bool:
    return isinstance(x, ImageInput | JointInput)


def shaded_map(col: ScoreColumn, x: Input, unit: str, named: Sequence[int] = ()) -> Maps:
    """By one method; units of a picture in `named` are outlined."""
    if isinstance(x, ImageInput):
        return (replace(picture_map(col, x, unit), named=tuple(named)),)
    if isinstance(x, JointInput):
        count = x.picture_units(unit)
        own, words = replace(col, words=col.words[:count]), replace(col, words=col.words[count:])
        return picture_map(own, x.picture, x.parts_of(unit)[0]), text_map(words, x.text.text)
    return (text_map(col, str(x.raw)),)


def effects_map(measured: Removal, col: ScoreColumn, unit: str, named: Sequence[int] = ()) -> Maps:
    """By the measured effect of removing each unit; `col` has the units."""
    x, top = col.item.x, largest_effect(measured)
    if isinstance(x, ImageInput):
        return (replace(picture_effects(measured, x, unit, top), named=tuple(named)),)
    if isinstance(x, JointInput):
        count, effects = x.picture_units(unit), measured.leave_one_out
        own, words = (
            replace(measured, leave_one_out=effects[:count]),
            replace(measured, leave_one_out=effects[count:]),
        )
        drawn = picture_effects(own, x.picture, x.parts_of(unit)[0], top)
        return drawn, effect_map(words, col.words[count:], x.text.text, top)
    return (effect_map(measured, col.words, str(x.raw), top),)


def unshaded_map(x: Input) -> Maps:
    """Without colours."""
    if isinstance(x, ImageInput):
        return (plain_picture(x),)
    if isinstance(x, JointInput):
        return plain_picture(x.picture), plain_map(x.text.text)
    return (plain_map(str(x.raw)),)
