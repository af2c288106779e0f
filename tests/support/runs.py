"""A run that only records the calls it gets; each test decides when it ends."""

from support.figures import snapshot_json, summary_json


class NotingRun:
    """Has the methods of the engine's `Run` except `wait`."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def stop(self) -> None:
        self.calls.append("stop")

    def abort(self) -> None:
        self.calls.append("abort")

    def set(self, settings: dict[str, str]) -> None:
        self.calls.append(f"set {settings}")

    def pause(self) -> None:
        self.calls.append("pause")

    def unpause(self) -> None:
        self.calls.append("unpause")

    def snapshot(self) -> str:
        return snapshot_json()

    def summary(self) -> str:
        return summary_json()
