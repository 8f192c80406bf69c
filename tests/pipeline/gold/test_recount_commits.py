"""Late and transactional commits in simulated runs, and who made them, beside a count with code of its own."""

import pytest

from regroup.lab.search.swarm import draw_plan
from regroup.lab.simulation.run import play
from tests.pipeline.gold import recount
from tests.pipeline.gold.test_recount import check_gaps, check_last_commits, complete
from tests.pipeline.histories import GROUP_ID, all_rows, rows_of_table

SEEDS = ((63, "delayed"), (104, "delayed"), (116, "transactional"), (72, "transactional"), (96, "transactional"))


@pytest.mark.parametrize(("seed", "kind"), SEEDS)
@pytest.mark.quick("63-delayed", "116-transactional")
def test_each_commit_names_its_member_and_the_owner_has_its_time(seed: int, kind: str) -> None:
    records = play(draw_plan(seed)).records
    rows, expected = all_rows(records), recount.commits(records, GROUP_ID)
    found = complete("commits", rows_of_table(rows, "commits"))
    assert found == complete("commits", expected)
    of_kind = [row for row in found if row["kind"] == kind]
    assert of_kind
    assert all(row["member_id"] for row in of_kind)
    check_last_commits(rows_of_table(rows, "ownership"), expected)
    check_gaps(rows_of_table(rows, "gaps"), rows_of_table(rows, "ownership"))
