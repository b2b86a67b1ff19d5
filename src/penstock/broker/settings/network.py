"""Settings of sockets: what the broker listens on, what clients are told, and how much each of them may ask for."""

from __future__ import annotations

from penstock.broker.settings.checks import AtLeast, HostCounts
from penstock.broker.settings.setting import (
    CLUSTER_WIDE,
    INT,
    INT_MAX,
    LIST,
    LONG,
    ONE_LOOP,
    PER_BROKER,
    STRING,
    Setting,
)

# A table, two lines to a row.
# fmt: off
NETWORK_SETTINGS = (
    Setting("advertised.listeners", LIST, None, implemented=True,
            doc="The addresses that clients are told to use; when unset, each client is told the address it "
                "connected to."),
    Setting("connections.max.idle.ms", LONG, 600_000, implemented=True,
            doc="After how many milliseconds without a request a connection is closed."),
    Setting("early.start.listeners", LIST, None,
            doc="Listeners that open before the broker is ready."),
    Setting("inter.broker.listener.name", STRING, None, implemented=True,
            doc="The listener that brokers use among themselves."),
    Setting("listener.security.protocol.map", STRING,
            "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT", PER_BROKER,
            implemented=True,
            doc="Which security protocol each listener's name stands for, as NAME:PROTOCOL pairs."),
    Setting("listeners", LIST, ("PLAINTEXT://127.0.0.1:9092",), PER_BROKER, implemented=True,
            differs="nobody else can connect until asked for; Kafka listens on every address",
            doc="The addresses the broker listens on, as NAME://HOST:PORT; an empty host or 0.0.0.0 means every "
                "address of the machine."),
    Setting("max.connection.creation.rate", INT, INT_MAX, CLUSTER_WIDE, check=AtLeast(0),
            doc="How many new connections are accepted each second."),
    Setting("max.connections", INT, INT_MAX, CLUSTER_WIDE, check=AtLeast(0), implemented=True,
            doc="How many connections the broker accepts at a time."),
    Setting("max.connections.per.ip", INT, INT_MAX, CLUSTER_WIDE, check=AtLeast(0), implemented=True,
            doc="How many connections are accepted from one address at a time."),
    Setting("max.connections.per.ip.overrides", STRING, "", CLUSTER_WIDE, check=HostCounts(), implemented=True,
            doc="Other limits than max.connections.per.ip for some addresses, as HOST:COUNT pairs."),
    Setting("num.io.threads", INT, 8, CLUSTER_WIDE, check=AtLeast(1), moot=ONE_LOOP,
            doc="How many threads handle requests in Apache Kafka."),
    Setting("num.network.threads", INT, 3, CLUSTER_WIDE, check=AtLeast(1), moot=ONE_LOOP,
            doc="How many threads read and write sockets in Apache Kafka."),
    Setting("queued.max.request.bytes", LONG, -1,
            doc="How many bytes of requests may wait in memory before the broker stops reading sockets; -1 means "
                "no limit."),
    Setting("queued.max.requests", INT, 500, check=AtLeast(1),
            doc="How many requests may wait in memory before the broker stops reading sockets."),
    Setting("request.timeout.ms", INT, 30_000,
            doc="How many milliseconds the broker waits for an answer to a request of its own."),
    Setting("socket.connection.setup.timeout.max.ms", LONG, 30_000,
            doc="The longest time, in milliseconds, to wait for a connection to another broker to open."),
    Setting("socket.connection.setup.timeout.ms", LONG, 10_000,
            doc="The time, in milliseconds, to wait for a connection to another broker to open, before it grows "
                "with each failure."),
    Setting("socket.listen.backlog.size", INT, 50, check=AtLeast(1), implemented=True,
            doc="How many connections may wait to be accepted."),
    Setting("socket.receive.buffer.bytes", INT, 102_400, implemented=True,
            doc="The socket's receive buffer in bytes; -1 leaves it to the system."),
    Setting("socket.request.max.bytes", INT, 104_857_600, check=AtLeast(1), implemented=True,
            doc="The largest request that is read, in bytes."),
    Setting("socket.send.buffer.bytes", INT, 102_400, implemented=True,
            doc="The socket's send buffer in bytes; -1 leaves it to the system."),
)
# fmt: on
