"""What an audit recommends for a model, in a form that an explanation can carry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Advice:
    """The recommended method, the sentence that says why, and of which model it was found."""

    use: str  # "" where the audit recommends none
    sentence: str
    run: str = ""  # the run folder
    fingerprint: str = ""  # of the model's weights; "" where it has none
    model: str = ""
    verified: bool = True  # the numbers of the audit were computed from its shards, here and now

    def settings(self) -> dict[str, Any]:
        """As it is kept in the settings of a comparison."""
        settings = {"use": self.use, "sentence": self.sentence, "run": self.run}
        return settings if self.verified else {**settings, "verified": False}
