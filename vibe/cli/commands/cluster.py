"""``vibe cluster``: manages the certificates, scheduler and workers of a cluster, and shows its status."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from anyio import to_thread
from msgspec import to_builtins

from subagents.remote.places import WorkerSettings
from vibe.app.cluster.address import check_cluster, check_installed, parse_address, read_certificates
from vibe.app.cluster.service import Node, check_free, keep_running, wait_for_scheduler, worker_folder
from vibe.app.engine.settings import Settings
from vibe.cli.environment import Arguments, CliEnvironment
from vibe.cli.parser import CommandLineError
from vibe.cli.signals import served_until_signal
from vibe.core.config.models import ClusterConfig
from vibe.system.awake_loop import run_awake
from vibe.system.own_places import user_home_of

CACHE_VARIABLE = "XDG_CACHE_HOME"
ALL_NETWORKS = "0.0.0.0"  # noqa: S104  every client needs a certificate


def run_certs(args: Arguments, env: CliEnvironment) -> None:
    """Write the certificates."""
    check_installed()
    from vibe.app.cluster.certificates import write_certificates  # noqa: PLC0415  its imports may be missing

    made = write_certificates(env.path(args.dir))
    env.write_lines([
        f"{made.ca.parent}: ca.pem, cert.pem and key.pem, good until {made.expires:%Y-%m-%d}",
        "give the folder to every machine of the cluster and to nobody else: who has it runs programs on all of them",
    ])


def run_scheduler(args: Arguments, env: CliEnvironment) -> int:
    """Run a scheduler until a signal arrives."""
    check_installed()
    config = _config(args, env)
    address = parse_address(args.address or config.address or "tcp://127.0.0.1:8786", lowest_port=0)
    if not address.host:
        raise CommandLineError(f"{address.text} needs no scheduler: each run starts its own workers")
    certificates = read_certificates(config.certificates) if address.is_encrypted else None
    host = address.host if args.address or not address.is_encrypted else ALL_NETWORKS
    listening = f"{address.text.partition(':')[0]}://{host}:{address.port}"
    with TemporaryDirectory(prefix="vibe-scheduler-") as folder:
        node = Node(address=listening, certificates=certificates, environ=env.environ, folder=Path(folder))
        sentence = "scheduler at {}; `vibe cluster worker {}` adds a worker"
        return _serve(node, sentence, env, lambda: to_thread.run_sync(check_free, address, host.strip("[]")))


def run_worker(args: Arguments, env: CliEnvironment) -> int:
    """Run a worker until a signal arrives."""
    config = _config(args, env)
    check_installed()
    address = parse_address(_lasting_cluster(args, config))
    certificates = read_certificates(config.certificates) if address.is_encrypted else None
    cache = Path(env.environ.get(CACHE_VARIABLE) or user_home_of(env.environ) / ".cache") / "vibe" / "workers"
    folder, hold = worker_folder(env.path(args.folder) if args.folder else cache)
    with hold:
        labels, resources = dict(args.label), dict(args.resource)
        settings = WorkerSettings(
            folder=str(folder), labels=labels, resources=resources, lost_seconds=config.lost_seconds
        )
        node = Node(
            address=address.text,
            certificates=certificates,
            environ=env.environ,
            folder=folder / "dask",
            slots=args.slots,
            settings=settings,
        )
        ready = partial(wait_for_scheduler, address, certificates, env.tell)
        return _serve(node, f"worker {{}}, {args.slots} at once, in {folder}", env, ready)


def run_status(args: Arguments, env: CliEnvironment) -> None:
    """List the workers."""
    check_installed()
    from vibe.app.inspect.cluster import cluster_workers, worker_line  # noqa: PLC0415  imports Dask

    config = _config(args, env)
    address = _lasting_cluster(args, config)
    workers = cluster_workers(address, check_cluster(address, config.certificates))
    none = ["no workers: start some with `vibe cluster worker`"]
    env.answer(args, {"workers": to_builtins(workers)}, map(worker_line, workers) if workers else none)


def _serve(node: Node, sentence: str, env: CliEnvironment, ready: Callable[[], Awaitable[object]]) -> int:
    """Run a node and print its address each time it starts."""

    def tell(address: str) -> None:
        env.write_lines([sentence.replace("{}", address)])

    return run_awake(served_until_signal, env, partial(keep_running, node, tell, ready))


def _config(args: Arguments, env: CliEnvironment) -> ClusterConfig:
    config = Settings(env, env.cwd).load().config.cluster
    given = args.certificates
    return config.model_copy(update={"certificates": str(env.path(given))}) if given else config


def _lasting_cluster(args: Arguments, config: ClusterConfig) -> str:
    """Return the address of a cluster that is there without a run."""
    if not (text := args.address or config.address):
        raise CommandLineError("no cluster given: name its ADDRESS, or set `address` in [cluster] of your settings")
    if not parse_address(text).host:
        raise CommandLineError(f"{text} has workers of its own: each run starts them")
    return text
