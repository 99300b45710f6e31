"""Random jobs that crash at random moments and go on at another parallelism: the results stay the same."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from streamline import StreamExecutionEnvironment
from streamline.testing import FailInCommit, FailInOpen, FailInSnapshot, FailOnRecord, MiniJob
from tests.recovery.ledger import Ledger
from tests.recovery.pipelines import Case, build, cases, fold


def fault(kind: str, where: str, n: int) -> Any:
    match kind:
        case "record":
            return FailOnRecord(where, n)
        case "snapshot":
            return FailInSnapshot(where, n % 4 + 1)
        case "commit":
            return FailInCommit("ledger", n % 3 + 1, after=n % 2 == 0)
    return FailInOpen(where)


FAULTS = st.lists(
    st.tuples(
        st.sampled_from(["record", "record", "snapshot", "commit", "open"]), st.integers(0, 9), st.integers(1, 20)
    ),
    max_size=3,
)
#: Processing time until the process dies, and with how many subtasks the next one goes on.
DEATHS = st.lists(st.tuples(st.integers(0, 1500), st.integers(1, 4)), max_size=2)
MODES: dict[str, dict[str, Any]] = {
    "aligned": {},
    "unaligned": {"execution.checkpointing.unaligned.enabled": "true"},
    "aligned at first": {
        "execution.checkpointing.unaligned.enabled": "true",
        "execution.checkpointing.aligned-checkpoint-timeout": "5 ms",
    },
    "two at once": {"execution.checkpointing.max-concurrent-checkpoints": 2},
    "rocksdb": {"state.backend.type": "rocksdb"},
    "incremental": {"state.backend.type": "rocksdb", "execution.checkpointing.incremental": "true"},
}


#: Syncing files takes longer than all the rest; a folder in memory, where there is one, does not.
MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None


async def undisturbed(case: Case) -> Any:
    ledger = Ledger()
    async with MiniJob(lambda env: build(env, case, ledger)) as job:
        await job.wait()
    return fold(ledger.committed)


@given(
    case=cases(),
    faults=FAULTS,
    deaths=DEATHS,
    parallelism=st.integers(1, 4),
    mode=st.sampled_from(list(MODES)),
    interval=st.sampled_from([3, 50, 400]),
)
async def test_as_if_nothing_had_happened(
    case: Case, faults: Any, deaths: Any, parallelism: int, mode: str, interval: int
) -> None:
    expected = await undisturbed(case)
    ledger = Ledger()
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        places = [f"source{i}" for i in range(len(case.inputs))] + [f"stage{i}" for i in range(len(case.stages))]
        places.append("ledger")
        made = [fault(kind, places[i % len(places)], n) for kind, i, n in faults]

        def job(env: StreamExecutionEnvironment) -> None:
            build(env, case, ledger)

        configuration = {
            "execution.checkpointing.interval": f"{interval} ms",
            "execution.checkpointing.dir": folder,
            "execution.checkpointing.tolerable-failed-checkpoints": 100,
            "state.backend.rocksdb.localdir": f"{folder}/local",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": 50,
            "restart-strategy.fixed-delay.delay": "10 ms",
            **MODES[mode],
        }
        mini = MiniJob(job, configuration=configuration, parallelism=parallelism, faults=made)
        await mini.start()
        for after, next_parallelism in deaths:
            await mini.advance(after)
            if (await mini.status()).name == "FINISHED":
                break
            await mini.crash()
            await mini.start(parallelism=next_parallelism)
        await mini.wait()
    assert fold(ledger.committed) == expected
    assert ledger.prepared == {} or all(name not in ledger.commits for name in ledger.prepared)
