"""The same thing has the same name in clients, jobs and tasks."""

import inspect

import pytest

import headgate

CLASSES = {name: value for name in dir(headgate) if isinstance(value := getattr(headgate, name), type)}
WITH_STATISTICS = [
    *("Client", "AsyncClient", "BatchIterator", "AsyncBatchIterator", "Run"),
    *("TaskResults", "MapIterator", "ConcurrencyLimit", "Rate", "Retry"),
]


def options_of(name: str) -> set[str]:
    return set(inspect.signature(getattr(headgate, name)).parameters)


@pytest.mark.parametrize("name", ["amap", "map", "for_each", "gather", "as_completed", "limited_as_completed"])
def test_tasks_have_a_limit(name: str) -> None:
    assert {"limit"} == options_of(name) & {"limit", "concurrency"}


@pytest.mark.parametrize("name", ["Client", "AsyncClient", "fetch", "start", "plan", "map_batches", "fetch_table"])
def test_requests_have_a_concurrency(name: str) -> None:
    assert {"concurrency"} == options_of(name) & {"limit", "concurrency"}


@pytest.mark.parametrize("name", ["amap", "map", "for_each", "fetch", "start"])
def test_the_bound_of_failures_has_one_name(name: str) -> None:
    assert {"max_failures"} == {option for option in options_of(name) if option.startswith("max_") and "fail" in option}


@pytest.mark.parametrize("outcome", [headgate.Succeeded, headgate.Failed, headgate.TaskOutcome])
def test_outcomes_of_requests_and_of_tasks_have_the_same_attributes(outcome: type) -> None:
    assert {"index", "error", "attempts", "elapsed_s", "unwrap"} <= set(dir(outcome))


@pytest.mark.parametrize("name", WITH_STATISTICS)
def test_figures_are_what_statistics_returns(name: str) -> None:
    assert callable(getattr(CLASSES[name], "statistics", None))


def test_there_is_no_other_name_for_them() -> None:
    others = {"figures", "metrics", "snapshot", "stats"}
    assert [] == [(name, other) for name, found in CLASSES.items() for other in others & set(dir(found))]
    assert sorted(WITH_STATISTICS) == sorted(name for name, found in CLASSES.items() if "statistics" in dir(found))


def test_results_become_record_batches_by_one_method() -> None:
    assert callable(headgate.FetchMany.to_arrow_batches)
    assert callable(headgate.AsyncFetchMany.to_arrow_batches)
    assert [] == [name for name, found in CLASSES.items() if callable(getattr(found, "batches", None))]
