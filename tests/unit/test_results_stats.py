"""Statistics against brute force, against scipy, and at their edges."""

import itertools
import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from rackbench_results import stats

tasks = st.dictionaries(
    st.sampled_from("abcdefgh"), st.lists(st.booleans(), max_size=5), max_size=8
)
counts = st.integers(0, 9).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n)))


@settings(deadline=None)
@given(tasks)
def test_solved_share_is_the_mean_of_the_tasks_that_have_attempts(per_task):
    shares = [Fraction(sum(a), len(a)) for a in per_task.values() if a]
    found = stats.solved_share(per_task)
    if not shares:
        assert found is None
    else:
        assert found == pytest.approx(float(sum(shares) / len(shares)))


def test_a_task_with_more_attempts_weighs_no_more():
    assert stats.solved_share({"a": [True], "b": [False] * 9}) == 0.5


@settings(deadline=None)
@given(st.integers(1, 300).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_is_scipys(pair):
    solved, count = pair
    ours = stats.wilson(solved, count)
    theirs = binomtest(solved, count).proportion_ci(0.95, method="wilson")
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=1e-12)
    assert 0 <= ours.low <= solved / count <= ours.high <= 1


def test_wilson_as_published():
    # 7 of 10, as in every textbook.
    found = stats.wilson(7, 10)
    assert (round(found.low, 2), round(found.high, 2)) == (0.40, 0.89)
    assert stats.wilson(0, 0) is None


def percentiles_by_enumeration(shares):
    """Every way to draw n of n tasks, equally likely."""
    n = len(shares)
    means = sorted(sum(drawn) / n for drawn in itertools.product(shares, repeat=n))

    def at(level):
        return means[min(len(means) - 1, math.floor(level * len(means)))]

    return at(0.025), at(0.975)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "per_task",
    [
        {"a": [True, True], "b": [True, False], "c": [False, False], "d": [False, True]},
        {"a": [True] * 3, "b": [False] * 3, "c": [True, False, False], "d": [True], "e": [False]},
    ],
)
def test_bootstrap_agrees_with_every_possible_draw(per_task, seed):
    exact = percentiles_by_enumeration([sum(a) / len(a) for a in per_task.values()])
    found = stats.task_bootstrap(per_task, seed=seed)
    # One step of the finest grid on which means of these tasks lie.
    step = 1 / (len(per_task) * 3)
    assert found.low == pytest.approx(exact[0], abs=step)
    assert found.high == pytest.approx(exact[1], abs=step)


def test_bootstrap_repeats_itself_with_its_seed():
    per_task = {str(n): [n % 2 == 0, n % 3 == 0, True] for n in range(20)}
    once = stats.task_bootstrap(per_task, seed=1)
    assert once == stats.task_bootstrap(per_task, seed=1)
    assert once != stats.task_bootstrap(per_task, seed=2)


@settings(deadline=None, max_examples=50)
@given(tasks)
def test_every_interval_is_an_interval(per_task):
    share = stats.solved_share(per_task)
    for found in (
        stats.task_bootstrap(per_task, seed=0, resamples=200),
        stats.headline_interval(per_task, seed=0),
    ):
        if share is None:
            assert found is None
        else:
            assert 0 <= found.low <= found.high <= 1


@pytest.mark.parametrize(
    ("per_task", "method"),
    [
        ({"a": [True], "b": [False]}, "Wilson"),
        ({"a": [True], "b": []}, "Wilson"),
        ({"a": [True, False, True]}, "Wilson"),
        ({"a": [True, False], "b": [True, True]}, "task bootstrap"),
        ({"a": [True, True], "b": [True, True]}, "Wilson, tasks"),
        ({"a": [True, False], "b": [False, True]}, "Wilson, tasks"),
    ],
)
def test_the_headline_says_how_it_was_made(per_task, method):
    assert stats.headline_interval(per_task, seed=0).method == method


def test_repeats_are_no_further_tasks():
    """Five attempts of each of five tasks, all solved, say as much as five solved tasks."""
    repeated = stats.headline_interval({str(n): [True] * 5 for n in range(5)}, seed=0)
    once = stats.headline_interval({str(n): [True] for n in range(5)}, seed=0)
    assert (repeated.low, repeated.high) == (once.low, once.high)
    assert repeated.low < 0.6


def test_nothing_counted_has_no_interval():
    assert stats.headline_interval({}, seed=0) is None
    assert stats.headline_interval({"a": []}, seed=0) is None


@settings(deadline=None)
@given(counts, st.integers(0, 10))
def test_pass_at_k_counts_every_choice(pair, k):
    attempts, solved = pair
    outcomes = [True] * solved + [False] * (attempts - solved)
    chosen = list(itertools.combinations(outcomes, k)) if 1 <= k <= attempts else []
    if not chosen:
        assert stats.pass_at_k(attempts, solved, k) is None
        assert stats.pass_hat_k(attempts, solved, k) is None
        return
    assert stats.pass_at_k(attempts, solved, k) == pytest.approx(
        sum(map(any, chosen)) / len(chosen)
    )
    assert stats.pass_hat_k(attempts, solved, k) == pytest.approx(
        sum(map(all, chosen)) / len(chosen)
    )


def test_the_bracket_of_one_solved_and_two_voids():
    low, high = stats.bracket({"a": [True]}, {"a": 2})
    assert (round(low, 2), high) == (0.33, 1.0)
    low, high = stats.bracket({"a": [True]}, {"b": 1, "c": 1})
    assert (round(low, 2), high) == (0.33, 1.0)


def test_nothing_counted_has_no_bracket():
    assert stats.bracket({}, {"a": 3}) is None


@settings(deadline=None)
@given(tasks, st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 5)))
def test_the_bracket_holds_the_solve_rate_at_its_upper_end(per_task, voids):
    found = stats.bracket(per_task, voids)
    if found is None:
        assert stats.solved_share(per_task) is None
        return
    low, high = found
    assert high == stats.solved_share(per_task)
    assert 0 <= low <= high + 1e-12
    if not any(voids.values()):
        assert low == pytest.approx(high)
    # Voids as unsolved is what it would be, had each of them been a wrong answer.
    filled = {
        task: [*per_task.get(task, []), *[False] * voids.get(task, 0)]
        for task in {*per_task, *voids}
    }
    assert low == pytest.approx(stats.solved_share(filled))


def test_quantiles_of_what_is_known():
    assert stats.quantile([4, None, 1, 3, 2], 0.5) == 2.5
    assert stats.quantile([1, 2], 0.25) == 1.25
    assert stats.quantile([7], 0.99) == 7
    assert stats.quantile([None], 0.5) is None
    assert stats.median_or_none([]) is None
    assert stats.median_or_none(iter([3.0, None, 1.0, 2.0])) == 2.0


def test_totals_of_what_is_known():
    assert stats.total_or_none([1, None, 2]) == 3
    assert stats.total_or_none([0]) == 0
    assert stats.total_or_none([None]) is None
