"""Which operator of a program gets which state of a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from streamline._state.store import Checkpoint, RestoredOperator
from streamline.errors import CheckpointException

__all__ = ("Mapped", "Target", "match")


@dataclass(frozen=True, slots=True)
class Target:
    """An operator of the program that is to be restored."""

    uid: str
    name: str
    parallelism: int
    max_parallelism: int


@dataclass(frozen=True, slots=True)
class Mapped:
    """The outcome: state by uid, and what a person wants to know about it, line by line."""

    operators: Mapping[str, RestoredOperator]
    report: Sequence[str]


def match(checkpoint: Checkpoint, program: Sequence[Target], allow_non_restored_state: bool = False) -> Mapped:
    """Map the state of a checkpoint to a program's operators by uid.

    Raises:
        CheckpointException: state would be left over, and that is not allowed; lists both sides.
    """
    known = {t.uid: t for t in program}
    report: list[str] = []
    operators: dict[str, RestoredOperator] = {}
    lost: list[RestoredOperator] = []
    for uid, found in checkpoint.operators.items():
        target = known.get(uid)
        if target is None:
            if holds_state(found):
                lost.append(found)
            continue
        operators[uid] = found
        rescaled = f", parallelism {found.parallelism} -> {target.parallelism}"
        regrouped = f", key groups {found.max_parallelism} -> {target.max_parallelism}"
        report.append(
            f"{uid}: restored {'state' if holds_state(found) else 'without state'} of {found.name!r}"
            + (rescaled if found.parallelism != target.parallelism else "")
            + (regrouped if found.max_parallelism != target.max_parallelism else "")
        )
    fresh = [t for t in program if t.uid not in checkpoint.operators]
    if lost and not allow_non_restored_state:
        raise CheckpointException(
            f"Failed to rollback to checkpoint/savepoint {checkpoint.location}. Cannot map its state to the program: "
            + "; ".join(f"nobody takes the state of {o.uid!r} ({o.name})" for o in lost)
            + ". The program has "
            + (f"no state there for {', '.join(repr(t.uid) for t in fresh)}" if fresh else "no other operators")
            + ". Give operators with state a uid that stays (.uid('...')), or allow state to be dropped "
            "(allow_non_restored_state, execution.state-recovery.ignore-unclaimed-state)"
        )
    report += [f"{t.uid}: new, starts without state ({t.name})" for t in fresh]
    report += [f"{o.uid}: dropped, no such operator any more ({o.name})" for o in lost]
    return Mapped(operators, report)


def holds_state(operator: RestoredOperator) -> bool:
    """Whether there is anything to lose."""
    return any(any(t.entries for t in s.tables) or s.operator for s in operator.snapshots)
