"""How a member gets from what it has to what it shall have, one step for each heartbeat. Pure.

    keeps      has and shall have
    revokes    has and shall not have: it is told to give them up, and goes on only when it says that it did
    gets       shall have, and nobody else holds
    waits      shall have, but another member still holds: those come with a later heartbeat

A partition is held by whoever may read it, or must give it up and has not confirmed that. It is given to another only
when nobody holds it (B21): never two owners. While a member revokes it keeps its epoch; the target's epoch is its own
only when it holds nothing that the target does not give it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from penstock.broker.groups.assignors import TopicIdPartition
from penstock.broker.groups.consumer_member import ConsumerMember, MemberState

IsFree = Callable[[TopicIdPartition], bool]
"""Whether no other member holds the partition."""


def reconcile(
    member: ConsumerMember,
    target_epoch: int,
    target: Collection[TopicIdPartition],
    owned: Collection[TopicIdPartition] | None,
    is_free: IsFree,
) -> ConsumerMember:
    """The member's next step. `owned` is what it says that it has; None when it does not say."""
    if member.state is MemberState.STABLE and member.epoch == target_epoch:
        return member
    if member.state is MemberState.UNREVOKED_PARTITIONS and _owns_any(owned, member.pending_revocation):
        return member
    return _next(member, target_epoch, target, owned, is_free)


def _next(
    member: ConsumerMember,
    target_epoch: int,
    target: Collection[TopicIdPartition],
    owned: Collection[TopicIdPartition] | None,
    is_free: IsFree,
) -> ConsumerMember:
    kept = {part: epoch for part, epoch in member.assigned.items() if part in target}
    revoked = {part: epoch for part, epoch in member.assigned.items() if part not in target}
    if revoked and _owns_any(owned, revoked):
        return replace(
            member, state=MemberState.UNREVOKED_PARTITIONS, assigned=kept, pending_revocation=revoked
        )  # fmt: skip
    missing = [part for part in target if part not in kept]
    free = [part for part in missing if is_free(part)]
    state = MemberState.STABLE if len(free) == len(missing) else MemberState.UNRELEASED_PARTITIONS
    is_new_epoch = member.epoch != target_epoch
    return replace(
        member,
        state=state,
        epoch=target_epoch,
        previous_epoch=member.epoch if is_new_epoch else member.previous_epoch,
        assigned=kept | dict.fromkeys(free, target_epoch),
        pending_revocation={},
    )


def _owns_any(owned: Collection[TopicIdPartition] | None, parts: Collection[TopicIdPartition]) -> bool:
    """A member that does not say what it has may have all of it."""
    return owned is None or any(part in owned for part in parts)
