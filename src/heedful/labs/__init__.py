"""Labs: experiments and theorems of the field, run in minutes, that check their own claims.

One file per lab. `heedful lab list`, `heedful lab run NAME`; in Python `heedful.run_lab(name)`.
"""

from heedful.core.lab_report import Claim, Figure, LabReport, Paragraph, Table
from heedful.labs.base.registry import Lab, LabRun, lab, labs, run_lab

__all__ = ["Claim", "Figure", "Lab", "LabReport", "LabRun", "Paragraph", "Table", "lab", "labs", "run_lab"]
