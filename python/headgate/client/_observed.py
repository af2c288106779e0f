"""Requests of clients that have hooks or log."""

from typing import TYPE_CHECKING

from headgate.client._content import Source
from headgate.client._feeder import send_in_steps
from headgate.client._hook_calls import run, run_async
from headgate.client._loop_feeder import send_source_async
from headgate.client._native_requests import async_observed_native_of, observed_native_of
from headgate.client._observer import Observer
from headgate.client._request import NativeRequest, Request
from headgate.client._response import Response, response_of

if TYPE_CHECKING:
    from headgate._native import NativeOutcome
    from headgate.client._engine import Engine
    from headgate.client._loops import Loops
    from headgate.client._open_streams import OpenStreams


def send_observed(engine: "Engine", streams: "OpenStreams", request: Request) -> Response:
    """Sends a request as `send` does, calls hooks and logs."""
    with Observer(engine.options, request) as observer:
        streams.check("thread", request)
        native = observed_native_of(engine, request, observer)
        with engine.request_for_app(native) as of_app:
            outcome = _wait(engine, of_app, observer)
        engine.raise_of_app(outcome)
        response = response_of(request, outcome)
        run(observer.response(response))
    return response


async def send_observed_async(engine: "Engine", loops: "Loops", streams: "OpenStreams", request: Request) -> Response:
    """Sends a request as `AsyncClient.send` does, calls hooks and logs."""
    async with Observer(engine.options, request) as observer:
        streams.check("task", request)
        native = await async_observed_native_of(engine, request, observer)
        if isinstance(native.body, Source):
            with engine.request_for_app(native) as of_app:
                outcome = await send_source_async(engine, of_app, native.body, observer)
            engine.raise_of_app(outcome)
        else:
            outcome = await loops.of_running_loop().send(native, observer)
        response = response_of(request, outcome)
        await run_async(observer.response(response))
    return response


def _wait(engine: "Engine", request: NativeRequest, observer: Observer) -> "NativeOutcome":
    source = request.body if isinstance(request.body, Source) else None
    if source is not None or observer.follows_attempts:
        return send_in_steps(engine, request, source, observer)
    outcome = engine.native.call(request)
    return outcome if outcome is not None else engine.raise_closed()
