"""`Client(app=...)` and `AsyncClient(app=...)` with an application of FastAPI."""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest

import headgate

pytest.importorskip("fastapi", reason="fastapi is not installed: pip install -r requirements/test.txt")


PROGRAM = """
import asyncio
import threading
from contextlib import asynccontextmanager
from typing import Annotated

import fastapi
from fastapi.responses import RedirectResponse, StreamingResponse
from starlette.middleware.gzip import GZipMiddleware

def setting():
    return "real"

@asynccontextmanager
async def lifespan(_app):
    recorder.events.append("startup")
    yield {"database": "connected"}
    recorder.events.append("shutdown")

app = fastapi.FastAPI(lifespan=lifespan)
app.add_middleware(GZipMiddleware, minimum_size=1000)

@app.middleware("http")
async def name(request: fastapi.Request, call_next):
    response = await call_next(request)
    response.headers["X-Name"] = "middleware"
    return response

@app.get("/items/{number}")
async def item(
    number: int, request: fastapi.Request, of: Annotated[str, fastapi.Depends(setting)], q: str = ""
):
    return {"number": number, "q": q, "of": of, "database": request.state.database}

@app.get("/thread")
def thread():
    return threading.current_thread().name

@app.get("/long")
async def long():
    return "x" * 10_000

@app.get("/login")
async def login():
    response = RedirectResponse("/session")
    response.set_cookie("session", "7")
    return response

@app.get("/session")
async def session(request: fastapi.Request):
    return dict(request.cookies)

@app.get("/fails")
async def fails():
    raise ZeroDivisionError("by zero")

@app.post("/later")
async def later(tasks: fastapi.BackgroundTasks):
    async def work():
        await asyncio.sleep(0.01)
        recorder.events.append("worked")

    tasks.add_task(work)

@app.get("/events")
async def events():
    async def pieces():
        for number in range(10**9):
            recorder.sent = number
            yield f"data: {number}\\n\\n"
            await asyncio.sleep(0.001)

    return StreamingResponse(pieces(), media_type="text/event-stream")
"""


class Recorder:
    """What the application has done."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.sent = -1

    def wait_until_it_stops(self) -> None:
        """Waits until no more is sent."""
        sent = -1
        while sent != self.sent:
            sent = self.sent
            time.sleep(0.2)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def module(recorder: Recorder) -> dict[str, Any]:
    """Returns the names of a module with an application, which uses what tests of applications need most."""
    names: dict[str, Any] = {"recorder": recorder}
    exec(PROGRAM, names)  # noqa: S102 - type checkers need no FastAPI
    return names


@pytest.fixture
def app(module: dict[str, Any]) -> Any:
    return module["app"]


@pytest.fixture
def client(app: Any) -> Iterator[headgate.Client]:
    with headgate.Client(app=app, cookies=True) as client:
        yield client


def test_parameters_dependencies_state_and_middleware(module: dict[str, Any], client: headgate.Client) -> None:
    response = client.get("/items/3", params={"q": "a"})
    assert {"number": 3, "q": "a", "of": "real", "database": "connected"} == response.json()
    assert "middleware" == response.headers["x-name"]
    module["app"].dependency_overrides[module["setting"]] = lambda: "fake"
    assert "fake" == client.get("/items/3").json()["of"]
    assert [422, 404] == [client.get(path).status_code for path in ("/items/x", "/missing")]
    assert "headgate" not in client.get("/thread").json()


def test_redirects_cookies_and_encodings(client: headgate.Client) -> None:
    assert {"session": "7"} == client.get("/login").json() == client.get("/session").json()
    assert ("gzip", 10_002) == ((long := client.get("/long")).headers["content-encoding"], len(long.text))


def test_an_exception_is_raised_though_the_framework_has_responded(app: Any, client: headgate.Client) -> None:
    with pytest.raises(ZeroDivisionError, match="by zero"):
        client.get("/fails")
    with headgate.Client(app=headgate.AsgiApp(app, raise_app_exceptions=False)) as other:
        assert (500, "Internal Server Error") == ((failed := other.get("/fails")).status_code, failed.text)


def test_background_tasks_are_done_when_the_call_returns(client: headgate.Client, recorder: Recorder) -> None:
    client.post("/later")
    assert "worked" == recorder.events[-1]


def test_events_arrive_one_by_one_until_the_client_goes(client: headgate.Client, recorder: Recorder) -> None:
    with client.stream("GET", "/events") as response:
        lines = response.iter_lines()
        assert ["data: 0", "", "data: 1"] == [next(lines) for _ in range(3)]
    recorder.wait_until_it_stops()


def test_the_lifespan_is_that_of_the_block(app: Any, recorder: Recorder) -> None:
    async def main() -> None:
        async with headgate.AsyncClient(app=app) as client:
            assert ["startup"] == recorder.events
            responses = await asyncio.gather(*(client.get(f"/items/{number}") for number in range(50)))
            assert list(range(50)) == [response.json()["number"] for response in responses]
            with pytest.raises(ZeroDivisionError):
                await client.get("/fails")
            async with client.stream("GET", "/events") as response:
                assert "data: 0" == await anext(response.aiter_lines())
            await asyncio.to_thread(recorder.wait_until_it_stops)
        assert ["startup", "shutdown"] == recorder.events

    asyncio.run(main())
