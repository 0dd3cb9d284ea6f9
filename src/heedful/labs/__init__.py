"""Labs: experiments and theorems of the field, run in minutes, that check their own claims.

One file per lab. `heedful lab list`, `heedful lab run NAME`; in Python `heedful.run_lab(name)`.
"""

from heedful.core.document import Figure, Paragraph
from heedful.core.lab_report import Claim, LabReport, NumberTable
from heedful.labs.base.registry import Lab, LabRun, lab, labs, run_lab

__all__ = [
    "Claim",
    "Figure",
    "Lab",
    "LabReport",
    "LabRun",
    "NumberTable",
    "Paragraph",
    "lab",
    "labs",
    "run_lab",
]
