"""`kill -9` of the broker with consumer groups (KIP-848): members, epochs, targets and offsets are as committed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import raw
from brokers import PenstockProcess
from consumers import ConsumerMember
from members import find_coordinator, wait_until
from raw import Code

TOPIC = "orders"


@pytest.fixture(params=["os", "fsync"])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[PenstockProcess]:
    with PenstockProcess(tmp_path, {"penstock.durability": request.param}) as process:
        with raw.Connection(process.bootstrap) as connection:
            raw.create_topic(connection, TOPIC, 4)
            find_coordinator(connection, "g")
        yield process


def again(broker: PenstockProcess, member: ConsumerMember) -> ConsumerMember:
    """The same member on a new connection."""
    back = ConsumerMember(broker.bootstrap, "g", member.id, [TOPIC], member.instance)
    back.epoch, back.assigned = member.epoch, member.assigned
    return back


def restart(broker: PenstockProcess) -> None:
    broker.kill()
    broker.start()
    with raw.Connection(broker.bootstrap) as connection:
        find_coordinator(connection, "g")


def test_members_go_on_in_the_middle_of_a_rebalance(broker: PenstockProcess) -> None:
    with ConsumerMember(broker.bootstrap, "g", "a", [TOPIC]) as one:
        one.join()
        assert one.assigned == {TOPIC: [0, 1, 2, 3]}
        assert one.commit(TOPIC, 0, 7) == 0
        with ConsumerMember(broker.bootstrap, "g", "b", [TOPIC], "static") as two:
            two.join()
            one.beat()
            assert (one.assigned, two.assigned) == ({TOPIC: [0, 1]}, {})
            before = one.describe()
    restart(broker)
    with again(broker, one) as one_back, again(broker, two) as two_back:
        assert one_back.describe() == before
        two_back.beat()
        assert two_back.assigned == {}, "the first has not confirmed"
        assert one_back.confirm().error_code == 0
        two_back.beat()
        assert two_back.assigned == {TOPIC: [2, 3]}
        assert one_back.fetch_offset(TOPIC, 0) == (0, 7)
        assert two_back.leave(epoch=-2).error_code == 0
    restart(broker)
    with again(broker, one_back) as last, ConsumerMember(broker.bootstrap, "g", "b2", [TOPIC], "static") as newcomer:
        assert last.confirm().error_code == 0
        newcomer.join()
        assert newcomer.assigned == {TOPIC: [2, 3]}
        assert last.leave().error_code == newcomer.leave().error_code == 0
        assert last.describe().group_state == "Empty"


def test_a_deleted_group_does_not_come_back(broker: PenstockProcess) -> None:
    with ConsumerMember(broker.bootstrap, "g", "a", [TOPIC]) as one:
        one.join(subscribed_topic_regex="ord.*")
        one.leave()
        (deleted,) = one.call("DeleteGroups", 2, groups_names=["g"]).results
        assert deleted.error_code == 0
    restart(broker)
    with again(broker, one) as one_back:
        wait_until(lambda: one_back.describe().error_code == Code.group_id_not_found)
