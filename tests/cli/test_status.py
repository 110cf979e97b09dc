"""`bough status` of a running platform."""

import json
import os

from support.program import Program


def test_it_tells_where_volumes_are_and_what_keeps_computes_apart(shared_bough: Program) -> None:
    status = json.loads(
        shared_bough.run_in_new_interpreter("status", "--home", str(shared_bough.home), "--json").stdout
    )
    assert status["driver"] in ("plain", "reflink", "btrfs")
    assert status["isolation"] == (os.geteuid() == 0)
    assert status["limits"]
    assert 0 < status["storage_free_bytes"] <= status["storage_total_bytes"]
    assert status["accepts_new"]
    assert status["postgres_warnings"] == []

    rows = dict(line.split("  ", 1) for line in shared_bough("status").stdout.splitlines())
    assert rows["isolation"].strip() == ("yes" if os.geteuid() == 0 else "no")
    assert rows["storage free"].strip().endswith(("GB", "MB"))
    assert rows["accepts new"].strip() == "yes"
    assert rows["postgres"].strip() == "ok"
