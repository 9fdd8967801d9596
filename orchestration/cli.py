"""The `tidegate` command.

Each word opens what it needs, calls one function, and prints what came of it. A user's mistake is
one sentence on stderr and exit code 2; what went wrong on the way is one sentence and exit code 1.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version

from ops.common.errors import ConfigError, TidegateError
from resources.errors import ConfigError as ResourceConfigError
from resources.errors import ResourceError
from resources.settings import Settings, load_settings

Command = Callable[[argparse.Namespace, Settings], int]


def main(argv: Sequence[str] | None = None) -> int:
    parser = _parser()
    arguments, rest = parser.parse_known_args(argv)
    command: Command = arguments.command
    if rest and command is not _test:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    arguments.rest = rest
    try:
        return command(arguments, load_settings())
    except (TidegateError, ResourceError) as error:
        print(f"tidegate: {error}", file=sys.stderr)
        return 2 if isinstance(error, ConfigError | ResourceConfigError) else 1
    except KeyboardInterrupt:
        print("tidegate: interrupted", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tidegate",
        description="Consistent CDC backfills and incremental materialized views, "
        "on Dagster and Spark.",
        epilog="New here? Run `tidegate demo`.",
    )
    parser.add_argument("--version", action="version", version=_version())
    words = parser.add_subparsers(metavar="COMMAND", required=True)

    def word(name: str, command: Command, summary: str) -> argparse.ArgumentParser:
        added = words.add_parser(name, help=summary, description=summary)
        added.set_defaults(command=command)
        return added

    word(
        "demo", _demo, "a shop of 1 M orders, filled while it is written to, and checked"
    ).add_argument("--rows", type=int, default=1_000_000, help="how many orders (default 1000000)")

    up = word("up", _up, "the Dagster UI and daemon with everything they need, until Ctrl-C")
    up.add_argument("--port", type=int, default=3000, help="of the UI (default 3000)")
    up.add_argument("--host", default="127.0.0.1", help="of the UI (default 127.0.0.1)")
    up.add_argument("--read-only", action="store_true", help="a UI that launches nothing")

    plan = word("plan", _plan, "what the definitions would create, change or drop")
    plan.add_argument("--apply", action="store_true", help="do it")

    word("explain", _explain, "how a view is kept: executors, keys, state tables").add_argument(
        "view"
    )

    run = word("run", _run, "one pipeline, all in this process, without a daemon")
    run.add_argument("pipeline")
    how_long = run.add_mutually_exclusive_group()
    how_long.add_argument(
        "--until", choices=["caught-up"], help="end once all is live, in step and flushed"
    )
    how_long.add_argument("--for", dest="seconds", type=_seconds, help="end after, e.g. 60s or 10m")

    backfill = word("backfill", _backfill, "fill one table or view, or some of its vnodes")
    backfill.add_argument("relation")
    backfill.add_argument("--vnodes", type=_vnodes, help="a..b, both included (default: all)")
    backfill.add_argument(
        "--anew",
        action="store_true",
        help="build it, and what reads it, again beside what is there; swapped when live",
    )

    status = word("status", _status, "where every table and view is")
    status.add_argument("--json", action="store_true", help="for programs")
    status.add_argument("--watch", action="store_true", help="until Ctrl-C")

    flush = word("flush", _flush, "wait until all that the sources hold now is committed")
    flush.add_argument("pipeline")

    pause = word("pause", _pause, "a pipeline reads nothing more from its sources, until resumed")
    pause.add_argument("pipeline")
    resume = word("resume", _resume, "a paused pipeline goes on where it was")
    resume.add_argument("pipeline")

    throttle = word("throttle", _throttle, "limit how fast a table is backfilled, from now on")
    throttle.add_argument("table", metavar="PIPELINE/TABLE")
    throttle.add_argument(
        "rate", metavar="ROWS_PER_S", nargs="?", help="0 or none for no limit (default: as it is)"
    )
    throttle.add_argument(
        "--parallelism", metavar="N", help="how many readers, or default for as many as defined"
    )

    live = word("set", _set, "change settings of a running pipeline")
    live.add_argument("pipeline")
    live.add_argument(
        "words",
        nargs="+",
        metavar="NAME=VALUE",
        help="barrier_interval=500ms, checkpoint_frequency=4, or =default",
    )

    read = word("read", _read, "print tables and views, all as of one epoch")
    read.add_argument("relations", nargs="+", metavar="relation")
    read.add_argument("--as-of", help="an epoch's number or an ISO time (default: the newest)")
    read.add_argument(
        "--partial",
        action="store_true",
        help="a table that one reader is filling (backfill.parallelism = 0): the keys read so far",
    )
    read.add_argument("--limit", type=int, default=20, help="rows to print (default 20)")
    read.add_argument("--format", choices=["table", "csv", "json"], default="table")

    for name, command, summary in (
        ("verify", _verify, "is a table its source's table? exit code 1 if they differ"),
        ("repair", _repair, "write what differs between a table and its source"),
    ):
        compare = word(name, command, summary)
        compare.add_argument("relation")
        compare.add_argument(
            "--range", dest="keys", help="keys a..b, both included; a.. and ..b are open"
        )
        compare.add_argument("--json", action="store_true", help="for programs")

    word("doctor", _doctor, "is everything set up right: Java, disk, sources?")

    test = word(
        "test", _test, "run the tests, `test fast` only those without Spark; options go to pytest"
    )
    test.add_argument("what", nargs="*", metavar="fast|all|PATH", help="default: all")

    bench = word("bench", _bench, "measure, beside a peer, in one run")
    bench.add_argument("what", choices=["tick", "state-table", "verify", "backfill"])
    bench.add_argument(
        "--rows", type=int, help="default: 5000000 for `backfill`, 1000000 for `tick` and `verify`"
    )
    bench.add_argument(
        "--millions", type=int, nargs="+", default=[1, 10, 50], help="keys of `state-table`"
    )
    bench.add_argument("--ticks", type=int, default=1000, help="in a row, of `state-table`")
    bench.add_argument("--json", help="also write the figures to this file")
    return parser


def _demo(arguments: argparse.Namespace, settings: Settings) -> int:
    from orchestration.demo import demo

    return demo(settings, rows=arguments.rows)


def _up(arguments: argparse.Namespace, settings: Settings) -> int:
    from orchestration.up import up

    return up(settings, port=arguments.port, host=arguments.host, read_only=arguments.read_only)


def _plan(arguments: argparse.Namespace, settings: Settings) -> int:
    from orchestration.commands import plan

    return plan(settings, apply=arguments.apply)


def _explain(arguments: argparse.Namespace, settings: Settings) -> int:
    from orchestration.commands import explain_view

    return explain_view(settings, arguments.view)


def _run(arguments: argparse.Namespace, settings: Settings) -> int:
    from orchestration.commands import run

    caught_up = arguments.until == "caught-up"
    return run(settings, arguments.pipeline, until_caught_up=caught_up, seconds=arguments.seconds)


def _backfill(arguments: argparse.Namespace, settings: Settings) -> int:
    from orchestration.commands import backfill

    return backfill(settings, arguments.relation, vnodes=arguments.vnodes, anew=arguments.anew)


def _status(arguments: argparse.Namespace, settings: Settings) -> int:
    from orchestration.commands import status

    return status(settings, as_json=arguments.json, watch=arguments.watch)


def _flush(arguments: argparse.Namespace, settings: Settings) -> int:
    from orchestration.commands import flush

    return flush(settings, arguments.pipeline)


def _pause(arguments: argparse.Namespace, settings: Settings) -> int:
    from orchestration.controls import pause

    return pause(settings, arguments.pipeline)


def _resume(arguments: argparse.Namespace, settings: Settings) -> int:
    from orchestration.controls import resume

    return resume(settings, arguments.pipeline)


def _throttle(arguments: argparse.Namespace, settings: Settings) -> int:
    from orchestration.controls import throttle

    return throttle(settings, arguments.table, arguments.rate, arguments.parallelism)


def _set(arguments: argparse.Namespace, settings: Settings) -> int:
    from orchestration.controls import set_live

    return set_live(settings, arguments.pipeline, arguments.words)


def _read(arguments: argparse.Namespace, settings: Settings) -> int:
    from orchestration.commands import read

    return read(
        settings,
        arguments.relations,
        as_of=arguments.as_of,
        partial=arguments.partial,
        limit=arguments.limit,
        form=arguments.format,
    )


def _verify(arguments: argparse.Namespace, settings: Settings) -> int:
    from orchestration.comparing import verify

    return verify(settings, arguments.relation, keys=arguments.keys, as_json=arguments.json)


def _repair(arguments: argparse.Namespace, settings: Settings) -> int:
    from orchestration.comparing import repair

    return repair(settings, arguments.relation, keys=arguments.keys, as_json=arguments.json)


def _doctor(arguments: argparse.Namespace, settings: Settings) -> int:
    from orchestration.doctor import doctor

    return doctor(settings)


def _test(arguments: argparse.Namespace, settings: Settings) -> int:
    import pytest

    tests = settings.root / "tests"
    # They wait for their servers more than they compute.
    together = ["-n", "2", "--dist", "worksteal"]
    match arguments.what:
        case [] | ["all"]:
            selected = [*together, str(tests)]
        case ["fast"]:
            # Only the folders whose tests need neither Spark nor Dagster: not even imported.
            folders = [str(tests / name) for name in ("unit", "properties")]
            selected = [*together, "-m", "not spark and not system", *folders]
        case paths:
            selected = paths
    return int(pytest.main(["--rootdir", str(settings.root), *selected, *arguments.rest]))


def _bench(arguments: argparse.Namespace, settings: Settings) -> int:
    if arguments.what == "state-table":
        from tests.bench.state_table import bench_state_table

        return bench_state_table(
            settings,
            millions=arguments.millions,
            ticks=arguments.ticks,
            json_path=arguments.json,
        )
    if arguments.what == "backfill":
        from tests.bench.backfill import bench_backfill

        return bench_backfill(settings, rows=arguments.rows or 5_000_000, json_path=arguments.json)
    if arguments.what == "verify":
        from tests.bench.verify import bench_verify

        return bench_verify(settings, rows=arguments.rows or 1_000_000, json_path=arguments.json)
    from tests.bench.tick import bench_tick

    return bench_tick(settings, rows=arguments.rows or 1_000_000, json_path=arguments.json)


def _seconds(text: str) -> float:
    units = {"s": 1, "m": 60, "h": 3600}
    number, unit = (text[:-1], text[-1]) if text[-1:] in units else (text, "s")
    try:
        return float(number) * units[unit]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration; write 60s, 10m or 2h") from None


def _vnodes(text: str) -> range:
    first, _, last = text.partition("..")
    try:
        return range(int(first), int(last or first) + 1)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no range; write 0..3") from None


def _version() -> str:
    try:
        return f"tidegate {version('tidegate')}"
    except PackageNotFoundError:
        return "tidegate (from its folder)"


if __name__ == "__main__":
    sys.exit(main())
