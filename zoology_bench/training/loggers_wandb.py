"""Weights & Biases beside the local file, in a thread of its own.

Whatever a network service or its client does, waits for or throws, a training run neither waits
for it nor ends by it: every call goes through a queue, the first failure is the last, and the
local files are complete without it.
"""

import logging
import queue
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

from zoology_bench.training.loggers_local import (
    Conclusion,
    LocalLogger,
    Logger,
    LoggerConfig,
    RunInfo,
)
from zoology_bench.validation import check_name

MODES = ("offline", "online", "disabled")
ID_FILE = "wandb_id.txt"
STEP_METRIC = "train/tokens"
"""The x axis of every curve: tokens compare across lengths and batch sizes, steps do not."""

_log = logging.getLogger(__name__)


class WandbLogger:
    """Logs locally at once and to a W&B run from a thread."""

    remote = True

    def __init__(
        self,
        local: LocalLogger,
        run_dir: Path,
        init: Callable[[str], Any],
        timeout_s: float = 60.0,
        on_failure: Callable[[], None] = lambda: None,
    ) -> None:
        """Log locally and to the run that ``init(run id)`` opens once the run starts.

        Args:
            local: the file beside.
            run_dir: where the id of the W&B run is kept, for a resumed run to continue it.
            init: opens the W&B run.
            timeout_s: how long ``close`` waits for what is still to be sent.
            on_failure: told once that W&B is given up.
        """
        self._local, self._id_file, self._init = local, run_dir / ID_FILE, init
        self._timeout_s, self._on_failure = timeout_s, on_failure
        self._run: Any = None
        self._broken = False
        self._calls: queue.SimpleQueue[tuple[str, Callable[[], object]] | None] = (
            queue.SimpleQueue()
        )
        self._thread: threading.Thread | None = None

    def start(self, step: int) -> None:
        """Open the W&B run; a resumed training continues the one it left."""
        self._local.start(step)
        self._thread = threading.Thread(target=self._work, name="wandb", daemon=True)
        self._thread.start()
        self._ask("init", lambda: self._open(resumed=step > 0))

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Log to both."""
        self._local.log(step, metrics)
        kept = dict(metrics)
        self._ask("log", lambda: self._run.log(kept, step=step))

    def conclude(self, conclusion: Conclusion) -> None:
        """Send the summary, the tables and the figures."""
        self._local.conclude(conclusion)
        self._ask("summary", lambda: self._run.summary.update(dict(conclusion.summary)))
        if conclusion.tables or conclusion.images:
            self._ask("tables", lambda: self._run.log(media(conclusion)))

    def close(self, failed: bool = False) -> None:
        """Finish the run, waiting for what is still to be sent no longer than the timeout."""
        self._local.close(failed)
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._calls.put(("finish", lambda: self._run.finish(exit_code=int(failed))))
        self._calls.put(None)
        thread.join(self._timeout_s)
        if thread.is_alive():
            self._give_up("finish", f"no answer within {self._timeout_s:g} s")

    def _ask(self, what: str, call: Callable[[], object]) -> None:
        if self._thread is not None and not self._broken:
            self._calls.put((what, call))

    def _work(self) -> None:
        while (item := self._calls.get()) is not None:
            what, call = item
            if self._broken:
                continue
            try:
                call()
            # Whatever a network service or its client throws must not cost a training run.
            except Exception as error:
                lines = str(error).strip().splitlines() or [type(error).__name__]
                self._give_up(what, lines[0])

    def _give_up(self, what: str, reason: str) -> None:
        if self._broken:
            return
        self._broken = True
        self._on_failure()
        _log.warning(
            "wandb %s failed (%s); the run goes on, its metrics stay in %s",
            what,
            reason,
            self._local.path,
        )

    def _open(self, resumed: bool) -> None:
        if resumed and self._id_file.exists():
            run_id = self._id_file.read_text().strip()
        else:
            run_id = uuid.uuid4().hex
            self._id_file.write_text(run_id)
        self._run = self._init(run_id)


def media(conclusion: Conclusion) -> dict[str, Any]:
    """Tables and figures as W&B's own objects by name."""
    import wandb

    tables = {
        name: wandb.Table(columns=cast(Any, columns), data=cast(Any, rows))
        for name, (columns, rows) in conclusion.tables.items()
    }
    return tables | {name: wandb.Image(str(path)) for name, path in conclusion.images.items()}


_unreachable: set[str] = set()
"""Servers that did not answer this process: its later runs do not wait for them again."""


@dataclass(kw_only=True, slots=True)
class WandbLoggerConfig(LoggerConfig):
    """The local file and a W&B run, which stays in the run's folder unless mode is online."""

    name: ClassVar[str] = "wandb"

    mode: str = "offline"
    """offline writes files for ``wandb sync``; online sends; disabled leaves W&B out."""
    project: str = "zoology-bench"
    """W&B project."""
    entity: str | None = None
    """W&B team or user; None = your default one."""
    group: str | None = None
    """W&B group, such as the name of a sweep."""
    tags: list[str] = field(default_factory=list)
    """W&B tags, added to those that say model, task, layout and initialisation."""
    timeout_s: float = 60.0
    """Seconds to wait for W&B at the end of a run before going on without it."""

    def __post_init__(self) -> None:
        check_name("logger.mode", self.mode, MODES)
        if not self.timeout_s > 0:
            raise ValueError(f"logger.timeout_s={self.timeout_s} must be positive")

    def build(self, run_dir: Path, info: RunInfo) -> Logger:
        """See ``LoggerConfig.build``."""
        local = LocalLogger(run_dir)
        if self.mode == "disabled":
            return local
        where = self.entity or ""
        # A server that failed once is not asked again by this process; its files can be sent later.
        mode = "offline" if where in _unreachable else self.mode
        failed = (lambda: _unreachable.add(where)) if mode == "online" else (lambda: None)
        return WandbLogger(
            local,
            run_dir,
            lambda run_id: self.open_run(run_dir, info, run_id, mode),
            self.timeout_s,
            failed,
        )

    def open_run(self, run_dir: Path, info: RunInfo, run_id: str, mode: str) -> Any:
        """Open the W&B run ``run_id``, or continue it, with tokens as the axis of its curves."""
        import wandb

        # console=off: W&B would otherwise wrap stdout of every other run in this process.
        settings = wandb.Settings(
            console="off",
            silent=True,
            init_timeout=self.timeout_s,
            login_timeout=self.timeout_s,
        )
        # Offline there is no upload to wait for; the setting is younger than the oldest wandb
        # that the package accepts.
        if mode == "online" and hasattr(settings, "finish_timeout"):
            settings.finish_timeout = self.timeout_s
        run = wandb.init(
            id=run_id,
            name=info.name,
            config=info.config,
            dir=run_dir,
            mode=cast(Literal["offline", "online"], mode),  # as checked above
            project=self.project,
            entity=self.entity,
            group=self.group,
            job_type=info.job_type,
            tags=list(dict.fromkeys([*self.tags, *info.tags])),
            resume="allow",
            reinit="create_new",
            settings=settings,
        )
        run.define_metric(STEP_METRIC, hidden=True)
        run.define_metric("*", step_metric=STEP_METRIC)
        run.define_metric("select/accuracy", step_metric=STEP_METRIC, summary="max")
        return run
