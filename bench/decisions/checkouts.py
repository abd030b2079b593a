"""Commits laid out as folders, to be played beside this checkout."""

from __future__ import annotations

import subprocess
from pathlib import Path

CHECKOUT = Path(__file__).parent.parent.parent


def laid_out(commit: str, folder: Path) -> Path:
    """The files of the commit in the folder, which is returned. The folder must exist."""
    archive = subprocess.run(["git", "archive", commit], cwd=CHECKOUT, check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x"], cwd=folder, input=archive, check=True)
    return folder
