"""The budget of server connections that all workers share in a file."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bough.gateway.pooling.budget import ServerBudget

KEY = "ep-quiet-river-a1b2c3d4"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "pools"


def make_budgets(folder: Path, count: int, alive: set[int] | None = None) -> list[ServerBudget]:
    living = set(range(count)) if alive is None else alive
    return [ServerBudget(folder, number, living.__contains__) for number in range(count)]


def acquire_all(budget: ServerBudget, limit: int) -> int:
    """Take as many as allowed."""
    return next(count for count in range(limit + 1) if not budget.acquire(KEY, limit))


def test_together_they_never_have_more_than_the_limit(folder: Path) -> None:
    one, other = make_budgets(folder, 2)
    assert acquire_all(one, 5) == 5
    assert not other.acquire(KEY, 5)
    one.release(KEY)
    assert other.acquire(KEY, 5)
    assert not one.acquire(KEY, 5)


def test_keys_are_apart(folder: Path) -> None:
    (one,) = make_budgets(folder, 1)
    assert one.acquire(KEY, 1)
    assert one.acquire("ep-other", 1)
    assert not one.acquire(KEY, 1)


def test_while_another_waits_nobody_has_more_than_its_share(folder: Path) -> None:
    one, other = make_budgets(folder, 2)
    assert acquire_all(one, 10) == 10
    assert one.get_excess(KEY, 10) == (0, 0)
    other.set_waiting(KEY, 3)
    assert one.get_excess(KEY, 10) == (3, 5)
    for _ in range(5):
        one.release(KEY)
        assert not one.acquire(KEY, 10), "what was given up is the other's"
    assert one.get_excess(KEY, 10) == (3, 0)
    assert acquire_all(other, 10) == 5
    other.set_waiting(KEY, 0)
    other.release(KEY)
    assert one.acquire(KEY, 10), "nobody waits any longer"


def test_what_a_dead_worker_had_is_free(folder: Path) -> None:
    alive = {0, 1}
    one, other = make_budgets(folder, 2, alive)
    assert acquire_all(other, 4) == 4
    assert not one.acquire(KEY, 4)
    alive.discard(1)
    assert acquire_all(one, 4) == 4


def test_who_takes_over_a_number_begins_with_nothing(folder: Path) -> None:
    one, other = make_budgets(folder, 2)
    assert acquire_all(other, 4) == 4
    ServerBudget(folder, 1, lambda _: True)
    assert acquire_all(one, 4) == 4


def test_the_last_one_takes_the_file_away_and_nobody_counts_in_it_any_more(folder: Path) -> None:
    one, other = make_budgets(folder, 2)
    assert one.acquire(KEY, 3)
    assert other.acquire(KEY, 3)
    one.withdraw(KEY)
    assert [path.name for path in folder.iterdir()] == [KEY]
    other.withdraw(KEY)
    assert not list(folder.iterdir())
    one.set_waiting(KEY, 0)  # its file is closed, or was deleted
    assert acquire_all(other, 3) == 3
    assert not one.acquire(KEY, 3)


def test_closing_leaves_everything(folder: Path) -> None:
    one, other = make_budgets(folder, 2)
    assert acquire_all(one, 2) == 2
    one.close()
    assert acquire_all(other, 2) == 2


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield tmp_path_factory.mktemp("shared")


steps = st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["take", "give", "want", "rest", "leave"])), max_size=60)


@given(steps=steps, limit=st.integers(1, 7), turn=st.uuids())
def test_whatever_they_do_the_counts_are_right(
    shared: Path, steps: list[tuple[int, str]], limit: int, turn: object
) -> None:
    budgets = make_budgets(shared / str(turn), 3)
    have = [0, 0, 0]
    for number, step in steps:
        budget = budgets[number]
        if step == "take" and budget.acquire(KEY, limit):
            have[number] += 1
        elif step == "give" and have[number]:
            budget.release(KEY)
            have[number] -= 1
        elif step in ("want", "rest"):
            budget.set_waiting(KEY, int(step == "want"))
        elif step == "leave":
            budget.withdraw(KEY)
            have[number] = 0
        assert sum(have) <= limit
    for budget in budgets:
        budget.set_waiting(KEY, 0)
    assert acquire_all(budgets[0], limit) == limit - sum(have)
    for budget in budgets:
        budget.close()
