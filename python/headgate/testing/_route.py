"""A route: which requests, and what they are answered."""

import inspect
import threading
from collections.abc import Callable, Iterable
from typing import Self, TypeAlias, Unpack

from headgate._checks import kind_of
from headgate.testing._answer import Answer, Answerable, AnswerKeywords, Error, Failure, answer_of, failure_of
from headgate.testing._calls import Calls
from headgate.testing._mock_request import MockRequest
from headgate.testing._pattern import Pattern

Computed: TypeAlias = Callable[[MockRequest], Answerable | None]
Next: TypeAlias = Answer | Failure | Computed | None
"""What the next request is answered; `None`: nothing more."""


class Route:
    """Requests of one pattern and their answers, as `MockServer.route` makes them.

    >>> with headgate.testing.mock() as server:
    ...     route = server.get("/flaky").answers([503, (200, {"ok": True})])
    ...     print(client.get("/flaky").status_code, client.get("/flaky").json())
    503 {'ok': True}
    >>> route.called, route.call_count
    (True, 2)

    Attributes:
        calls: The newest requests that it answered, up to 1,000.
    """

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern
        self.calls: Calls = Calls()
        self._lock = threading.Lock()
        self._next: Callable[[], Next] = Answer

    @property
    def called(self) -> bool:
        """Whether it answered a request."""
        return self.calls.total > 0

    @property
    def call_count(self) -> int:
        """How many requests it answered; each attempt and each redirect counts."""
        return self.calls.total

    def answer(self, status: int = 200, **answer: Unpack[AnswerKeywords]) -> Self:
        """Answers each request with this. See `Answer`.

        >>> server.route("GET", "/users/1").answer(json={"id": 1}, headers={"ETag": "7"}, delay_s=0.1)
        <headgate.testing.Route GET /users/1>
        """
        return self.gives(Answer(status, **answer))

    def gives(self, answer: Answerable | Computed | Failure) -> Self:
        """Answers each request with this, or with what this function returns for it.

        >>> with headgate.testing.mock() as server:
        ...     route = server.route("GET", "/users/{name}").gives(lambda request: request.path_params["name"])
        ...     print(client.get("/users/ann").text)
        ann

        Args:
            answer: An `Answer`, a status, a body, `(status, body)`, an error, or a function that returns one of these.
                It is called with the `MockRequest`, in a thread of its own; up to 64 run at once. If it returns `None`,
                the next route that matches answers.

        Raises:
            TypeError: It is none of these.
        """
        given = _checked(answer)
        self._next = lambda: given
        return self

    def answers(self, answers: Iterable[Answerable | Computed]) -> Self:
        """Answers each request with the next one of these: `[503, (200, {"ok": True})]`.

        After the last one, requests have no answer. An iterator may be endless; it is read in the one thread of the
        mock as far as needed, so it must not block.

        Raises:
            TypeError: Not an iterable.
        """
        if isinstance(answers, str | bytes) or not isinstance(answers, Iterable):
            raise TypeError(f"answers must be a list of answers, not {kind_of(answers)}")
        given = [_checked(answer) for answer in answers] if isinstance(answers, list | tuple) else answers
        left = iter(given)

        def take() -> Next:
            with self._lock:
                answer = next(left, None)
            return None if answer is None else _checked(answer)

        self._next = take
        return self

    def fails(self, error: Error) -> Self:
        """Makes each request fail with this: `headgate.ConnectTimeout`, or one with a message, or the name of its kind.

        >>> with headgate.testing.mock() as server:
        ...     route = server.route("GET", "/down").fails(headgate.ConnectError)
        ...     print([outcome.error.kind for outcome in client.fetch_many(["/down"])])
        ['connect']

        Raises:
            TypeError: It isn't an error of a request.
            ValueError: There is no such kind.
        """
        failure = failure_of(error)
        self._next = lambda: failure
        return self

    def next(self) -> Next:
        """What the next request is answered."""
        return self._next()

    def __repr__(self) -> str:
        return f"<headgate.testing.Route {self}>"

    def __str__(self) -> str:
        return str(self.pattern)


def _checked(answer: object) -> Answer | Failure | Computed:
    if isinstance(answer, Failure):
        return answer
    if not callable(answer) or isinstance(answer, type):
        return answer_of(answer)
    if inspect.iscoroutinefunction(answer):
        raise TypeError("a function that computes answers must be a plain one: it is called in a thread of its own")
    return answer  # pyright: ignore[reportReturnType] # what it returns is looked at when it has
