from typing import Any

import pytest
import yaml

from tests.workloads.specs import GOLDEN


class _Dumper(yaml.SafeDumper):
    """Multi-line text as a block, so that a diff shows lines."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None),
)


@pytest.fixture
def golden(request):
    """Compares an object with `golden/<name>.yaml`; with --update-golden writes it instead."""

    def check(name: str, rendered: dict[str, Any]) -> None:
        path = GOLDEN / f"{name}.yaml"
        if request.config.getoption("--update-golden"):
            path.write_text(yaml.dump(rendered, Dumper=_Dumper, sort_keys=False, width=110))
        assert path.exists(), f"{path} is missing; run pytest --update-golden and review it"
        assert rendered == yaml.safe_load(path.read_text()), f"{path} differs; run pytest --update-golden and review it"

    return check
