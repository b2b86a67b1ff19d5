"""The one table of settings: every setting of Apache Kafka 4.3's brokers, topics and groups, and Penstock's own few.

One file for each area, each a tuple of `Setting` rows; here they are joined and looked up by name. A row says what the
setting is called, its type and default, whether it can change at runtime, what it may be, what it does in our own
words, and whether Penstock does it yet (`grep -c implemented=True *.py` shows how far we are). Names, types and
defaults are Kafka's; a row whose default is another says why in `differs`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from penstock.broker.settings.broker import BROKER_SETTINGS
from penstock.broker.settings.group import GROUP_SETTINGS
from penstock.broker.settings.group_coordinator import GROUP_COORDINATOR_SETTINGS
from penstock.broker.settings.log import LOG_SETTINGS
from penstock.broker.settings.network import NETWORK_SETTINGS
from penstock.broker.settings.penstock import PENSTOCK_SETTINGS
from penstock.broker.settings.quotas import QUOTA_SETTINGS
from penstock.broker.settings.raft import RAFT_SETTINGS
from penstock.broker.settings.remote import REMOTE_STORAGE_SETTINGS
from penstock.broker.settings.replication import REPLICATION_SETTINGS
from penstock.broker.settings.sasl import SASL_SETTINGS
from penstock.broker.settings.setting import Setting
from penstock.broker.settings.share import SHARE_SETTINGS
from penstock.broker.settings.tls import TLS_SETTINGS
from penstock.broker.settings.topic import TOPIC_SETTINGS
from penstock.broker.settings.transactions import TRANSACTION_SETTINGS


def _by_name(rows: Iterable[Setting]) -> Mapping[str, Setting]:
    table: dict[str, Setting] = {}
    for row in rows:
        assert row.name not in table, f"{row.name} is in the table twice"
        table[row.name] = row
    return MappingProxyType(dict(sorted(table.items())))


BROKER = _by_name(
    (
        *BROKER_SETTINGS,
        *NETWORK_SETTINGS,
        *LOG_SETTINGS,
        *REPLICATION_SETTINGS,
        *GROUP_COORDINATOR_SETTINGS,
        *SHARE_SETTINGS,
        *TRANSACTION_SETTINGS,
        *QUOTA_SETTINGS,
        *RAFT_SETTINGS,
        *REMOTE_STORAGE_SETTINGS,
        *SASL_SETTINGS,
        *TLS_SETTINGS,
        *PENSTOCK_SETTINGS,
    )
)
TOPIC = _by_name(TOPIC_SETTINGS)
GROUP = _by_name(GROUP_SETTINGS)
