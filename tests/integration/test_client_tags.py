"""The tags of requests are a column of `to_arrow_batches()`."""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import headgate
from headgate import Request
from support.run import serving


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with serving() as url:
        yield url


@pytest.fixture(params=["threads", "loop"])
def table(request: pytest.FixtureRequest, server: str) -> Any:
    """Returns the results of requests as a table, in their order."""

    def in_thread(requests: Any, **options: Any) -> pa.Table:
        with headgate.Client(base_url=server) as client:
            return pa.table(client.fetch_many(requests).to_arrow_batches(**options)).sort_by("row")

    def in_loop(requests: Any, **options: Any) -> pa.Table:
        async def main() -> pa.Table:
            async with headgate.AsyncClient(base_url=server) as client:
                return pa.table(await client.fetch_many(requests).to_arrow_batches(**options).table()).sort_by("row")

        return asyncio.run(main())

    return in_thread if request.param == "threads" else in_loop


@pytest.mark.parametrize(
    ("tags", "kind"),
    [
        ([7, None, -(2**63), 2**63 - 1], pa.int64()),
        ([1.5, None, float("inf")], pa.float64()),
        ([True, False, None], pa.bool_()),
        (["a", "", None, "ü"], pa.string()),
        ([b"a", b"", None, b"\xff"], pa.binary()),
    ],
)
def test_the_type_of_the_column_follows_from_the_first_tag(table: Any, tags: list[Any], kind: pa.DataType) -> None:
    found = table([Request(f"/{n}", tag=tag) for n, tag in enumerate(tags)])
    assert kind == found.schema.field("tag").type
    assert "tag" == found.schema.names[-1]
    assert tags == found["tag"].to_pylist()
    assert [200] * len(tags) == found["status"].to_pylist()


def test_the_type_of_a_tag_can_be_written_with_the_request(server: str) -> None:
    request = Request[int]("/1", tag=1)
    assert Request is type(request)
    with headgate.Client(base_url=server) as client:
        outcomes: headgate.FetchMany[int] = client.fetch_many([request])
        assert [(1, request)] == [(outcome.tag, outcome.request) for outcome in outcomes]


def test_requests_of_all_forms_have_tags(table: Any) -> None:
    requests = [{"url": "/1", "tag": 1}, "/2", Request("/3", tag=3), {"url": "/4"}, {"tag": 5}, Request("/6", tag=6)]
    assert [1, None, 3, None, 5, 6] == table(requests)["tag"].to_pylist()


def test_thousands_of_requests_keep_their_tags(table: Any) -> None:
    found = table(Request(f"/bytes/{n % 10}", tag=f"tag {n}") for n in range(5000))
    assert [f"tag {n}" for n in range(5000)] == found["tag"].to_pylist()


def test_without_tags_there_is_no_column(table: Any) -> None:
    for requests in (["/1", "/2"], [Request("/1")], [{"url": "/1"}], []):
        assert "tag" not in table(requests).schema.names


@pytest.mark.parametrize(
    ("first", "wrong", "why"),
    [
        (1, "a", "tag: the first one was int, so this one can't be str"),
        (1, True, "tag: the first one was int, so this one can't be bool"),
        (1, 2**63, "tag: an int must fit into 64 bits"),
        (True, 1, "tag: the first one was bool, so this one can't be int"),
        (1.5, 1, "tag: the first one was float, so this one can't be int"),
        ("a", b"a", "tag: the first one was str, so this one can't be bytes"),
        ("a", "\ud800", "tag: it is text that UTF-8 can't encode"),
        ("a", ("a",), "tag: the first one was str, so this one can't be tuple"),
    ],
)
def test_a_tag_of_another_type_fails_its_request_alone(table: Any, first: Any, wrong: Any, why: str) -> None:
    found = table([Request("/1", tag=first), Request("/2", tag=wrong), Request("/3", tag=first)])
    assert [first, None, first] == found["tag"].to_pylist()
    assert [None, "invalid_request", None] == found["error"].to_pylist()
    assert why in found["error_message"].to_pylist()[1]
    assert found["url"].to_pylist()[1].endswith("/2")


def test_a_first_tag_that_no_column_can_have_is_an_error(table: Any) -> None:
    for tag in (("a", 1), object(), {"a": 1}, [1]):
        with pytest.raises(
            TypeError, match=r"tag: a column of results can't have .*, only bool, int, .*drop=\['tag'\]"
        ):
            table([Request("/1", tag=tag)])


def test_tags_can_be_left_out(table: Any) -> None:
    for drop in (["tag"], "tag", ["headers", "tag"], "headers,tag"):
        found = table([Request("/1", tag=("a", 1)), Request("/2", tag=7)], drop=drop)
        assert "tag" not in found.schema.names
        assert ("headers" in drop) == ("headers" not in found.schema.names)
        assert [200, 200] == found["status"].to_pylist()


def test_a_tag_after_a_batch_without_any_is_not_lost_silently(server: str) -> None:
    def requests() -> Iterator[Request[int]]:
        for _ in range(3000):
            yield Request("/1")
        yield Request("/2", tag=1)

    with headgate.Client(base_url=server) as client:
        found = pa.table(client.fetch_many(requests()).to_arrow_batches()).sort_by("row")
    assert "tag" not in found.schema.names
    assert "the first request had none" in found["error_message"].to_pylist()[-1]


@pytest.mark.parametrize("delay_s", [0, 0.02])
def test_the_first_request_alone_decides_however_fast_the_source_is(server: str, delay_s: float) -> None:
    def requests() -> Iterator[Request[Any]]:
        yield Request("/1")
        time.sleep(delay_s)
        yield Request("/2", tag=2)

    with headgate.Client(base_url=server) as client:
        found = pa.table(client.fetch_many(requests()).to_arrow_batches()).sort_by("row")
    assert "tag" not in found.schema.names
    assert [None, "invalid_request"] == found["error"].to_pylist()


def test_the_columns_are_known_before_the_first_batch(server: str) -> None:
    with headgate.Client(base_url=server) as client:
        batches = client.fetch_many([Request("/1", tag=1)]).to_arrow_batches()
        assert pa.int64() == pa.schema(batches.schema).field("tag").type
        assert 1 == pa.table(batches).num_rows


def test_an_extracted_column_of_the_same_name_is_refused(table: Any) -> None:
    with pytest.raises(headgate.InputError, match="it is the name of an extracted column"):
        table([Request("/echo", tag=1)], extract={"tag": "$.method"})
