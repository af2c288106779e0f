"""Measures headgate beside other clients.

Prints the tables to standard output, each trial as it ends to standard error. Exit code 1: an answer was wrong.
"""

import argparse
import dataclasses
import os
import sys
from pathlib import Path
from typing import Final

from harness import environment, kept, tables
from harness.kept import Kept
from harness.servers import ServerError, raise_open_files
from harness.trial import Cores, Trial
from rivals import Rival
from rivals.aiohttp_workers import AiohttpWorkers
from rivals.headgate import Headgate
from rivals.oha import Oha
from rivals.wrk import Wrk
from scenarios import Bench, Scenario, memory, original, throughput

SCENARIOS: Final[dict[str, Scenario]] = {module.NAME: module for module in (throughput, memory, original)}
_ROOT: Final = Path(__file__).parents[1]
_OHA: Final = _ROOT / "target" / "bench-tools" / "bin" / "oha"
_CAVEATS: Final = (
    "- Trust ratios, not figures: a ratio pairs two runs of the same round.",
    "- Loopback, small answers, no TLS: what is measured is the client's own work for a request.",
    "- Where the server's core is as busy as can be and the client's is not, the figure is the server's.",
    "- wrk and oha repeat one request; aiohttp and headgate make a URL for each row.",
    "- wrk is stopped by the clock; the others end with their last request, and slow ends count.",
    "- Rates are by each client's own clock and leave out its start; CPU and memory are the whole process's.",
)


def main() -> int:
    """Measures, prints, and keeps the results if asked."""
    arguments = _arguments()
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) == 1:
        return _refuse("two cores are needed, one for the server and one for the client; this process may use one")
    try:
        raise_open_files(max(*arguments.concurrency, 10_000))
        return _measure(arguments, Cores(server=cores[0], client=cores[1]))
    except ServerError as error:
        return _refuse(str(error))
    except KeyboardInterrupt:
        return 130


def _measure(arguments: argparse.Namespace, cores: Cores) -> int:
    ours, peers = _rivals(arguments)
    if why := ours[0].missing():
        return _refuse(why)
    missing = {peer.name: why for peer in peers if (why := peer.missing())}
    for name, why in missing.items():
        print(f"left out: {name}: {why}", file=sys.stderr)
    if missing and arguments.require_peers:
        return _refuse("--require-peers: not all of them are there")
    rivals = [*(peer for peer in peers if peer.name not in missing), *ours]
    bench = Bench(
        cores=cores,
        rivals=rivals,
        headgate=arguments.headgate,
        concurrencies=arguments.concurrency,
        rounds=arguments.rounds,
        seconds=arguments.seconds,
        memory_rows=tuple(arguments.memory_rows),
    )
    about, before = environment.describe(rivals, missing), environment.cpu_times()
    trials = {name: _tell(SCENARIOS[name], bench) for name in arguments.scenario}
    about |= {name: getattr(bench, name) for name in ("concurrencies", "rounds", "seconds", "memory_rows")}
    about["steal"] = environment.steal(before, environment.cpu_times())

    head = f"# {about['cpu']}, {about['date']}\n\n{environment.caveats(about, _CAVEATS)}"
    versions = "## Versions\n\n" + "\n".join(f"- {name}: {version}" for name, version in about["versions"].items())
    texts = {name: SCENARIOS[name].summary(made) for name, made in trials.items()}
    print("\n\n".join([head, *texts.values(), versions]))
    if arguments.save:
        for name, made in trials.items():
            found = Kept(
                about=about, wrong=tables.mistakes(made), records=[dataclasses.asdict(trial) for trial in made]
            )
            kept.keep(name, found, f"{head}\n\n{texts[name]}\n\n{versions}\n")
    return 1 if any(trial.wrong for made in trials.values() for trial in made) else 0


def _rivals(arguments: argparse.Namespace) -> tuple[list[Rival], list[Rival]]:
    """Ourselves, and the others."""
    return (
        [Headgate(arguments.headgate, "none"), Headgate(arguments.headgate, "parquet")],
        [Wrk(), Oha(arguments.oha), AiohttpWorkers(uvloop=False), AiohttpWorkers(uvloop=True)],
    )


def _tell(scenario: Scenario, bench: Bench) -> list[Trial]:
    trials = []
    for trial in scenario.run(bench):
        trials.append(trial)
        end = f"WRONG: {trial.wrong}" if trial.wrong else f"{trial.requests_per_s:9,.0f} requests/s"
        peak_mb = trial.peak_rss_bytes / 1e6
        print(
            f"{trial.scenario} {trial.round}  c={trial.concurrency:<6} {trial.client:18} {trial.requests:9,} in "
            f"{trial.elapsed_s:6.2f} s {peak_mb:6.1f} MB  {end}",
            file=sys.stderr,
        )
    return trials


def _refuse(why: str) -> int:
    print(f"error: {why}", file=sys.stderr)
    return 2


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    beside = Path(sys.executable).with_name("headgate")
    parser.add_argument("--scenario", nargs="+", choices=SCENARIOS, default=list(SCENARIOS))
    parser.add_argument("--rounds", type=int, default=5, help="at the most; slow scenarios make fewer (default: 5)")
    parser.add_argument("--seconds", type=float, default=4.0, help="of a trial of throughput (default: 4)")
    parser.add_argument("--concurrency", type=int, nargs="+", default=[64, 1_000, 10_000], help="of throughput")
    parser.add_argument("--memory-rows", type=int, nargs=2, default=[500_000, 5_000_000], metavar=("SMALL", "LARGE"))
    parser.add_argument("--headgate", type=Path, default=beside, help="the command (default: beside this interpreter)")
    parser.add_argument("--oha", type=Path, default=os.environ.get("OHA", _OHA), help="the command (default: $OHA)")
    parser.add_argument("--require-peers", action="store_true", help="refuse to run without one of the others")
    parser.add_argument("--save", action="store_true", help="keep the results under bench/results")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
