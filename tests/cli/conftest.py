"""A fixture that writes the files that commands read."""

from pathlib import Path
from typing import Any

import pytest
import yaml


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def write_file(name: str, content: Any) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else yaml.safe_dump(content)
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write_file
