"""Settings of quotas: over how long the rates are measured."""

from __future__ import annotations

from penstock.broker.settings.checks import AtLeast
from penstock.broker.settings.setting import CLASS, INT, Setting

# A table, two lines to a row.
# fmt: off
QUOTA_SETTINGS = (
    Setting("alter.log.dirs.replication.quota.window.num", INT, 11, check=AtLeast(1),
            doc="How many windows the quota on moving replicas between directories looks back over."),
    Setting("alter.log.dirs.replication.quota.window.size.seconds", INT, 1, check=AtLeast(1),
            doc="How long one window of the quota on moving replicas between directories lasts, in seconds."),
    Setting("client.quota.callback.class", CLASS, None,
            doc="A Java class that decides client quotas."),
    Setting("controller.quota.window.num", INT, 11, check=AtLeast(1),
            doc="How many windows the quota on creating and deleting topics looks back over."),
    Setting("controller.quota.window.size.seconds", INT, 1, check=AtLeast(1),
            doc="How long one window of the quota on creating and deleting topics lasts, in seconds."),
    Setting("quota.window.num", INT, 11, check=AtLeast(1),
            doc="How many windows the client quotas look back over."),
    Setting("quota.window.size.seconds", INT, 1, check=AtLeast(1),
            doc="How long one window of the client quotas lasts, in seconds."),
    Setting("replication.quota.window.num", INT, 11, check=AtLeast(1),
            doc="How many windows the quota on replication looks back over."),
    Setting("replication.quota.window.size.seconds", INT, 1, check=AtLeast(1),
            doc="How long one window of the quota on replication lasts, in seconds."),
)
# fmt: on
