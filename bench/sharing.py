"""`python -m bench.sharing`: CPU seconds of dividing the tokens of 100 models among 10,000 tenants each.

Every tenant may call every model, one in six has a guarantee for it, a third a limit, and a fifth is batch. The goal is
3 seconds, and 12 times what 1,000 tenants take. Counted is what a tick does: new asks are divided, with what everybody
lends and borrows. What a tenant owns changes with quotas and capacity only, and trees with quotas only; the first
division and the building of the trees stand beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from statistics import median
from time import process_time
from typing import Any

from forebay import __version__
from forebay.api.tenant_quota import TenantClass
from forebay.sharing.shares import Shares, share_amounts
from forebay.sharing.tenant import Tenant
from forebay.sharing.tenant_tree import TenantTree

RESULTS = Path(__file__).parent / "results" / "sharing.json"
MODELS, TENANTS, FEWER = 100, 10_000, 1_000
PER_GROUP = {"none": 0, "groups of 100": 100, "groups of 10": 10}
"""Children of each group, by the name of the row; half of the tenants are in groups."""
TOKENS_EACH = 700.0
"""Capacity by tenant, in tokens per minute; they ask for 1,500 in the mean."""
GOAL_SECONDS, GOAL_RATIO = 3.0, 12.0


def some_tenants(count: int, per_group: int, random: Random) -> list[Tenant]:
    groups = count // 2 // per_group if per_group else 0
    return [Tenant(f"org-{index:04}") for index in range(groups)] + [
        Tenant(
            f"team-{index:05}",
            guaranteed=random.choice((None, None, None, None, None, random.uniform(10, 1000))),
            limit=random.choice((None, None, random.uniform(500, 9000))),
            weight=random.choice((0.5, 1, 1, 2)),
            tenant_class=TenantClass.BATCH if index % 5 == 0 else TenantClass.INTERACTIVE,
            parent=f"org-{index % groups:04}" if groups and index % 2 else None,
        )
        for index in range(count - groups)
    ]


def seconds(models: int, count: int, per_group: int) -> tuple[float, float, float]:
    """CPU seconds of the divisions after the first, of the first, and of building the trees."""
    random = Random(1)
    tenants = some_tenants(count, per_group, random)
    callers = [tenant.name for tenant in tenants if not tenant.name.startswith("org-")]
    trees: list[TenantTree] = []
    last: list[Shares | None] = [None] * models

    def divide(asks: list[dict[str, float]]) -> None:
        for model, tree in enumerate(trees):
            shares = share_amounts(tree, asks[model], count * TOKENS_EACH, last[model])
            assert len(shares.borrowed) == len(shares.lent) == len(shares.short) == count
            last[model] = shares

    building = _timed(lambda: trees.extend(TenantTree.of(tenants) for _ in range(models)))
    asks = [[{name: random.uniform(0, 3000) for name in callers} for _ in range(models)] for _ in range(2)]
    first = _timed(lambda: divide(asks[0]))
    return _timed(lambda: divide(asks[1])), first, building


def _timed(work: Callable[[], object]) -> float:
    began = process_time()
    work()
    return process_time() - began


def measured(name: str, rounds: int) -> dict[str, Any]:
    """The row of one shape: seconds are the best of the rounds. Both sizes take turns, and the ratio is the median of
    theirs, since the machine may be slower in one round than in the next."""
    many, few = [], []
    for _ in range(rounds):
        few.append(seconds(MODELS, FEWER, PER_GROUP[name]))
        many.append(seconds(MODELS, TENANTS, PER_GROUP[name]))
    dividing, first, building = map(min, zip(*many, strict=True))
    fewer = [each for each, _, _ in few]
    ratios = [one / other for (one, _, _), other in zip(many, fewer, strict=True)]
    return {
        "groups": name,
        "seconds": round(dividing, 2),
        "fewerSeconds": round(min(fewer), 3),
        "ratio": round(median(ratios), 1),
        "firstSeconds": round(first, 2),
        "treeSeconds": round(building, 2),
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.sharing", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rows = []
    for name in PER_GROUP:
        rows.append(row := measured(name, parser.parse_args().rounds))
        print(", ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    results = {
        "version": __version__,
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{os.cpu_count()} cores, Python {sys.version.split()[0]}",
        "models": MODELS,
        "tenants": TENANTS,
        "fewerTenants": FEWER,
        "goals": {"seconds": GOAL_SECONDS, "ratio": GOAL_RATIO},
        "rows": rows,
    }
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
