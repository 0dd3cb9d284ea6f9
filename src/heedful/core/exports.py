"""Results as tables of pandas and as figures of matplotlib. Both packages are optional.

Like views, the code that makes them is found by name: results import none of it.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from heedful.core.errors import HeedfulError
from heedful.core.result import reports

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame


def frame_of(result: object, **options: Any) -> DataFrame:
    """What `to_frame` of a result returns."""
    _need("pandas", "to_frame", "frames")
    return reports("frames").frame(result, **options)


def frames_of(result: object) -> dict[str, DataFrame]:
    """What `to_frames` of a result returns."""
    _need("pandas", "to_frames", "frames")
    return dict(reports("frames").frames(result))


def plot_of(result: object, **options: Any) -> Figure:
    """What `plot` of a result returns."""
    _need("matplotlib", "plot", "plots")
    figure: Figure = reports("plots").plot(result, **options)
    return figure


def _need(package: str, method: str, extra: str) -> None:
    if find_spec(package) is None:
        raise HeedfulError(
            f"{method}() needs {package}", "it is not installed", f"Type: pip install 'heedful[{extra}]'"
        )
