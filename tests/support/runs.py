"""A run that does nothing but note what is asked of it; when it ends is for each test to say."""

from support.figures import snapshot_json, summary_json


class NotingRun:
    """What the engine's `Run` has beside `wait`."""

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
