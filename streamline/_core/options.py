"""The options that exist: key, type, default, and who reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

__all__ = ("ALIASES", "FOREIGN", "FOREIGN_PREFIXES", "OPTIONS", "Option", "OptionType")

OptionType: TypeAlias = Literal["bool", "int", "float", "str", "duration", "memory", "enum", "list", "map"]


@dataclass(frozen=True, slots=True)
class Option:
    """One option.

    Attributes:
        key: its name.
        type: how its text is read. Durations are whole milliseconds, memory is bytes.
        default: its value where it is not set; None: not set.
        reader: who looks at it: "stream" (the environment, at execution), "table" (the planner), "runtime", "nobody":
            Flink knows it, and here it changes nothing.
        choices: of an enum.
        default_text: the default as text.
    """

    key: str
    type: OptionType
    default: Any
    reader: str
    choices: tuple[str, ...] = ()
    default_text: str | None = None


OPTIONS: Final[dict[str, Option]] = {}


def _option(key: str, kind: OptionType, default: Any, reader: str, *choices: str) -> None:
    text = str(default).lower() if isinstance(default, bool) else None if default is None else str(default)
    if kind == "duration" and default is not None:
        text = f"{default} ms"
    OPTIONS[key] = Option(key, kind, default, reader, choices, text)


_SECOND: Final = 1000
_MINUTE: Final = 60 * _SECOND
_HOUR: Final = 60 * _MINUTE

# -- the environment -----------------------------------------------------------------------------------------------
_option("parallelism.default", "int", 1, "stream")
_option("pipeline.max-parallelism", "int", -1, "stream")
_option("pipeline.name", "str", None, "stream")
_option("pipeline.auto-watermark-interval", "duration", 200, "stream")
_option("pipeline.global-job-parameters", "map", {}, "stream")
_option("pipeline.time-slice", "duration", 5, "stream")
_option("execution.runtime-mode", "enum", "STREAMING", "stream", "STREAMING", "BATCH", "AUTOMATIC")
_option("execution.attached", "bool", True, "nobody")

# -- checkpoints and state -----------------------------------------------------------------------------------------
_option("execution.checkpointing.interval", "duration", None, "stream")
_option("execution.checkpointing.mode", "enum", "EXACTLY_ONCE", "stream", "EXACTLY_ONCE", "AT_LEAST_ONCE")
_option("execution.checkpointing.timeout", "duration", 10 * _MINUTE, "stream")
_option("execution.checkpointing.min-pause", "duration", 0, "stream")
_option("execution.checkpointing.max-concurrent-checkpoints", "int", 1, "stream")
_option("execution.checkpointing.tolerable-failed-checkpoints", "int", 0, "stream")
_option("execution.checkpointing.num-retained", "int", 1, "stream")
_option(
    "execution.checkpointing.externalized-checkpoint-retention",
    "enum",
    "NO_EXTERNALIZED_CHECKPOINTS",
    "stream",
    "NO_EXTERNALIZED_CHECKPOINTS",
    "RETAIN_ON_CANCELLATION",
    "DELETE_ON_CANCELLATION",
)
_option("execution.checkpointing.dir", "str", None, "stream")
_option("execution.checkpointing.savepoint-dir", "str", None, "stream")
_option("execution.checkpointing.storage", "enum", "jobmanager", "stream", "jobmanager", "filesystem")
_option("execution.checkpointing.unaligned.enabled", "bool", False, "stream")
_option("execution.checkpointing.unaligned.forced", "bool", False, "nobody")
_option("execution.checkpointing.aligned-checkpoint-timeout", "duration", 0, "stream")
_option("execution.checkpointing.incremental", "bool", False, "stream")
_option("execution.checkpointing.snapshot-compression", "bool", False, "stream")
_option("execution.checkpointing.interval-during-backlog", "duration", None, "stream")
_option("execution.checkpointing.checkpoints-after-tasks-finish", "bool", True, "nobody")
_option("execution.state-recovery.path", "str", None, "stream")
_option("execution.state-recovery.ignore-unclaimed-state", "bool", False, "stream")
_option("execution.state-recovery.claim-mode", "enum", "NO_CLAIM", "stream", "NO_CLAIM", "CLAIM")
_option("state.backend.type", "enum", "hashmap", "stream", "hashmap", "rocksdb")
_option("state.backend.rocksdb.localdir", "str", None, "stream")

# -- restarts ------------------------------------------------------------------------------------------------------
_option(
    "restart-strategy.type",
    "enum",
    None,
    "stream",
    "none",
    "fixed-delay",
    "failure-rate",
    "exponential-delay",
    "off",
    "disable",
)
_option("restart-strategy.fixed-delay.attempts", "int", 1, "stream")
_option("restart-strategy.fixed-delay.delay", "duration", _SECOND, "stream")
_option("restart-strategy.failure-rate.max-failures-per-interval", "int", 1, "stream")
_option("restart-strategy.failure-rate.failure-rate-interval", "duration", _MINUTE, "stream")
_option("restart-strategy.failure-rate.delay", "duration", _SECOND, "stream")
_option("restart-strategy.exponential-delay.initial-backoff", "duration", _SECOND, "stream")
_option("restart-strategy.exponential-delay.max-backoff", "duration", _MINUTE, "stream")
_option("restart-strategy.exponential-delay.backoff-multiplier", "float", 1.5, "stream")
_option("restart-strategy.exponential-delay.reset-backoff-threshold", "duration", _HOUR, "stream")
_option("restart-strategy.exponential-delay.jitter-factor", "float", 0.1, "stream")
_option("restart-strategy.exponential-delay.attempts-before-reset-backoff", "int", 2147483647, "stream")

# -- the planner ---------------------------------------------------------------------------------------------------
_option("table.exec.mini-batch.enabled", "bool", False, "table")
_option("table.exec.mini-batch.allow-latency", "duration", 0, "table")
_option("table.exec.mini-batch.size", "int", -1, "table")
_option("table.exec.state.backend", "enum", None, "table", "hashmap", "rocksdb")
_option("table.exec.state.checkpoint-interval", "duration", None, "table")
_option("table.exec.state.ttl", "duration", 0, "table")
_option("table.exec.streaming.prefer-append-only", "bool", False, "table")
_option("table.exec.emit.early-fire.enabled", "bool", False, "table")
_option("table.exec.emit.early-fire.delay", "duration", None, "table")
_option("table.exec.emit.late-fire.enabled", "bool", False, "table")
_option("table.exec.emit.late-fire.delay", "duration", None, "table")
_option("table.exec.emit.allow-lateness", "duration", None, "table")
_option("table.exec.source.idle-timeout", "duration", 0, "table")
_option("table.exec.source.cdc-events-duplicate", "bool", False, "nobody")
_option("table.exec.sink.not-null-enforcer", "enum", "ERROR", "table", "ERROR", "DROP")
_option("table.exec.sink.type-length-enforcer", "enum", "IGNORE", "table", "IGNORE", "TRIM_PAD", "ERROR")
_option("table.exec.sink.nested-constraint-enforcer", "enum", "IGNORE", "nobody", "IGNORE", "ERROR")
_option("table.exec.sink.upsert-materialize", "enum", "AUTO", "nobody", "NONE", "AUTO", "FORCE")
_option(
    "table.exec.sink.upsert-materialize-strategy.type", "enum", "LEGACY", "nobody", "LEGACY", "MAP", "VALUE", "ADAPTIVE"
)
_option("table.exec.sink.keyed-shuffle", "enum", "AUTO", "nobody", "NONE", "AUTO", "FORCE")
_option("table.exec.sink.require-on-conflict", "bool", True, "table")
_option("table.exec.sink.rowtime-inserter", "enum", "ENABLED", "table", "ENABLED", "DISABLED")
_option("table.exec.resource.default-parallelism", "int", -1, "table")
_option("table.exec.async-lookup.buffer-capacity", "int", 100, "nobody")
_option("table.exec.async-lookup.timeout", "duration", 3 * _MINUTE, "nobody")
_option("table.exec.async-lookup.output-mode", "enum", "ORDERED", "nobody", "ORDERED", "ALLOW_UNORDERED")
_option("table.exec.async-lookup.key-ordered-enabled", "bool", False, "nobody")
for _family in ("scalar", "table", "ml-predict", "vector-search"):
    _reader = "table" if _family == "scalar" else "nobody"
    _option(f"table.exec.async-{_family}.max-concurrent-operations", "int", 10, _reader)
    _option(f"table.exec.async-{_family}.timeout", "duration", 3 * _MINUTE, _reader)
    _option(f"table.exec.async-{_family}.retry-strategy", "enum", "FIXED_DELAY", _reader, "NO_RETRY", "FIXED_DELAY")
    _option(f"table.exec.async-{_family}.retry-delay", "duration", 100, _reader)
    _option(f"table.exec.async-{_family}.max-attempts", "int", 3, _reader)
    _option(f"table.exec.async-{_family}.output-mode", "enum", "ORDERED", _reader, "ORDERED", "ALLOW_UNORDERED")
_option("table.exec.rank.topn-cache-size", "int", 10000, "nobody")
_option("table.exec.deduplicate.insert-update-after-sensitive-enabled", "bool", True, "nobody")
_option("table.exec.deduplicate.mini-batch.compact-changes-enabled", "bool", False, "nobody")
_option("table.exec.interval-join.min-cleanup-interval", "duration", 0, "nobody")
_option("table.exec.unbounded-over.version", "int", 2, "nobody")
_option("table.exec.delta-join.cache-enabled", "bool", True, "nobody")
_option("table.exec.delta-join.left.cache-size", "int", 10000, "nobody")
_option("table.exec.delta-join.right.cache-size", "int", 10000, "nobody")
_option("table.exec.legacy-cast-behaviour", "enum", "DISABLED", "table", "ENABLED", "DISABLED")
_option("table.exec.simplify-operator-name-enabled", "bool", True, "nobody")
_option("table.exec.uid.generation", "enum", "PLAN_ONLY", "nobody", "PLAN_ONLY", "ALWAYS", "DISABLED")
_option("table.exec.uid.format", "str", "<id>_<transformation>", "nobody")
_option("table.exec.async-state.enabled", "bool", False, "nobody")
_option("table.exec.window-agg.buffer-size-limit", "int", 100000, "nobody")
_option("table.exec.local-hash-agg.adaptive.enabled", "bool", True, "nobody")
_option("table.exec.disabled-operators", "list", [], "nobody")
_option("table.exec.shuffle-mode", "str", "ALL_EXCHANGES_BLOCKING", "nobody")
_option("table.optimizer.agg-phase-strategy", "enum", "AUTO", "nobody", "AUTO", "ONE_PHASE", "TWO_PHASE")
_option("table.optimizer.distinct-agg.split.enabled", "bool", False, "nobody")
_option("table.optimizer.distinct-agg.split.bucket-num", "int", 1024, "nobody")
_option("table.optimizer.incremental-agg-enabled", "bool", True, "nobody")
_option("table.optimizer.reuse-sub-plan-enabled", "bool", True, "nobody")
_option("table.optimizer.reuse-source-enabled", "bool", True, "nobody")
_option("table.optimizer.reuse-sink-enabled", "bool", True, "nobody")
_option("table.optimizer.reuse-optimize-block-with-digest-enabled", "bool", False, "nobody")
_option("table.optimizer.join-reorder-enabled", "bool", False, "nobody")
_option("table.optimizer.bushy-join-reorder-threshold", "int", 12, "nobody")
_option("table.optimizer.multi-join.enabled", "bool", False, "nobody")
_option("table.optimizer.delta-join.strategy", "enum", "AUTO", "nobody", "AUTO", "FORCE", "NONE")
_option("table.optimizer.multiple-input-enabled", "bool", True, "nobody")
_option("table.optimizer.dynamic-filtering.enabled", "bool", True, "nobody")
_option("table.optimizer.runtime-filter.enabled", "bool", False, "nobody")
_option("table.optimizer.adaptive-broadcast-join.strategy", "enum", "AUTO", "nobody", "AUTO", "RUNTIME_ONLY", "NONE")
_option("table.optimizer.skewed-join-optimization.strategy", "enum", "AUTO", "nobody", "AUTO", "FORCED", "NONE")
_option("table.optimizer.non-deterministic-update.strategy", "enum", "IGNORE", "nobody", "IGNORE", "TRY_RESOLVE")
_option("table.optimizer.ptf.max-tables", "int", 20, "nobody")
_option("table.optimizer.union-all-as-breakpoint-enabled", "bool", True, "nobody")
_option("table.optimizer.source.predicate-pushdown-enabled", "bool", True, "nobody")
_option("table.optimizer.source.aggregate-pushdown-enabled", "bool", True, "nobody")
_option("table.optimizer.source.report-statistics-enabled", "bool", True, "nobody")
_option("table.optimizer.high-availability", "bool", False, "nobody")
_option("table.local-time-zone", "str", "default", "table")
_option("table.sql-dialect", "str", "default", "nobody")
_option("table.dml-sync", "bool", False, "table")
_option("table.dynamic-table-options.enabled", "bool", True, "table")
_option("table.display.max-column-width", "int", 30, "table")
_option("table.builtin-catalog-name", "str", "default_catalog", "table")
_option("table.builtin-database-name", "str", "default_database", "table")
_option("table.column-expansion-strategy", "list", [], "nobody")
_option("table.plan.compile.catalog-objects", "enum", "ALL", "nobody", "ALL", "SCHEMA", "IDENTIFIER")
_option("table.plan.restore.catalog-objects", "enum", "ALL", "nobody", "ALL", "ALL_ENFORCED", "IDENTIFIER")
_option("table.plan.force-recompile", "bool", False, "nobody")
_option("table.rtas-ctas.atomicity-enabled", "bool", False, "nobody")
_option("table.legacy-nested-row-nullability", "bool", False, "nobody")
_option("table.generated-code.max-length", "int", 4000, "nobody")
_option("table.generated-code.max-members", "int", 10000, "nobody")
_option("table.resources.download-dir", "str", None, "nobody")
_option("table.catalog-store.kind", "str", "generic_in_memory", "nobody")
_option("sql-client.execution.result-mode", "str", "TABLE", "nobody")

#: Older names of options.
ALIASES: Final[dict[str, str]] = {
    "restart-strategy": "restart-strategy.type",
    "state.backend": "state.backend.type",
    "state.backend.incremental": "execution.checkpointing.incremental",
    "state.checkpoints.dir": "execution.checkpointing.dir",
    "state.savepoints.dir": "execution.checkpointing.savepoint-dir",
    "state.checkpoints.num-retained": "execution.checkpointing.num-retained",
    "state.checkpoint-storage": "execution.checkpointing.storage",
    "execution.checkpointing.unaligned": "execution.checkpointing.unaligned.enabled",
    "execution.checkpointing.alignment-timeout": "execution.checkpointing.aligned-checkpoint-timeout",
    "execution.checkpointing.checkpoints-after-tasks-finish.enabled": (
        "execution.checkpointing.checkpoints-after-tasks-finish"
    ),
    "execution.savepoint.path": "execution.state-recovery.path",
    "execution.savepoint.ignore-unclaimed-state": "execution.state-recovery.ignore-unclaimed-state",
    "execution.savepoint-restore-mode": "execution.state-recovery.claim-mode",
}

#: Keys that Flink knows and that mean nothing here.
FOREIGN: Final = frozenset(
    {
        "execution.buffer-timeout.enabled",
        "execution.buffer-timeout.interval",
        "execution.buffer-timeout",
        "execution.batch-shuffle-mode",
        "execution.batch.adaptive.auto-parallelism.enabled",
        "execution.checkpointing.data-inline-threshold",
        "execution.checkpointing.file-merging.enabled",
        "execution.checkpointing.local-backup.enabled",
        "execution.checkpointing.local-backup.dirs",
        "execution.checkpointing.pause-sources-until-first-checkpoint",
        "execution.checkpointing.write-buffer-size",
        "execution.job-listeners",
        "execution.shutdown-on-attached-exit",
        "execution.shutdown-on-application-finish",
        "execution.sorted-inputs.enabled",
        "execution.state-recovery.from-local",
        "execution.target",
        "pipeline.cached-files",
        "pipeline.classpaths",
        "pipeline.closure-cleaner-level",
        "pipeline.force-avro",
        "pipeline.force-kryo",
        "pipeline.generic-types",
        "pipeline.jars",
        "pipeline.object-reuse",
        "pipeline.operator-chaining",
        "pipeline.operator-chaining.enabled",
        "pipeline.serialization-config",
        "pipeline.vertex-description-mode",
        "pipeline.watermark-alignment.allow-unaligned-source-splits",
        "state.backend.changelog.enabled",
        "state.backend.latency-track.keyed-state-enabled",
        "state.backend.local-recovery",
        "state.latency-track.keyed-state-enabled",
        "state.ttl.cleanup",
        "table.exec.sort.default-limit",
    }
)
FOREIGN_PREFIXES: Final = (
    "akka.",
    "blob.",
    "client.",
    "cluster.",
    "env.",
    "fs.",
    "high-availability",
    "historyserver.",
    "io.",
    "jobmanager.",
    "jobstore.",
    "kubernetes.",
    "metrics.",
    "pekko.",
    "pipeline-",
    "process.",
    "python.",
    "queryable-state.",
    "resourcemanager.",
    "rest.",
    "s3.",
    "security.",
    "slot.",
    "slotmanager.",
    "sql-gateway.",
    "state.backend.forst.",
    "state.backend.rocksdb.",
    "state.changelog.",
    "task.",
    "taskmanager.",
    "web.",
    "yarn.",
    "zookeeper.",
)
