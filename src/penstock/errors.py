"""Kafka's error codes: one table of code, whether a client may retry, and the words for a person.

The peer is wrong: raise `KafkaError`, and one place in the broker turns it into a response.
The world failed (`OSError`): caught by the layer that owns the resource. We are wrong: `assert`.
Subclasses exist only for errors that our own code catches by type.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Self


class ErrorCode(IntEnum):
    """An error of the protocol; `retriable` as in Kafka, `message` for a person when nothing better is known."""

    retriable: bool
    message: str

    def __new__(cls, code: int, retriable: bool, message: str) -> Self:
        member = int.__new__(cls, code)
        member._value_ = code
        member.retriable = retriable
        member.message = message
        return member

    UNKNOWN_SERVER_ERROR = -1, False, "The broker failed in a way it did not expect; its log says more."
    NONE = 0, False, "No error."
    OFFSET_OUT_OF_RANGE = 1, False, "The offset is not between the log's start and end."
    CORRUPT_MESSAGE = 2, True, "The message failed its checksum, is too large, or is otherwise corrupt."
    UNKNOWN_TOPIC_OR_PARTITION = 3, True, "This broker does not host that topic or partition."
    INVALID_FETCH_SIZE = 4, False, "The fetch size is not valid."
    LEADER_NOT_AVAILABLE = 5, True, "The partition has no leader yet: an election is under way."
    NOT_LEADER_OR_FOLLOWER = 6, True, "This broker is neither leader nor follower of the partition."
    REQUEST_TIMED_OUT = 7, True, "The request timed out."
    BROKER_NOT_AVAILABLE = 8, False, "The broker is not available."
    REPLICA_NOT_AVAILABLE = 9, True, "The replica is not available for the partition."
    MESSAGE_TOO_LARGE = 10, False, "The batch is larger than the topic's max.message.bytes."
    STALE_CONTROLLER_EPOCH = 11, False, "The controller has moved to another broker."
    OFFSET_METADATA_TOO_LARGE = 12, False, "The metadata of the committed offset is too large."
    NETWORK_EXCEPTION = 13, True, "The connection ended before an answer came."
    COORDINATOR_LOAD_IN_PROGRESS = 14, True, "The coordinator is loading and cannot answer yet."
    COORDINATOR_NOT_AVAILABLE = 15, True, "The coordinator is not available."
    NOT_COORDINATOR = 16, True, "This broker is not the coordinator."
    INVALID_TOPIC_EXCEPTION = 17, False, "The topic's name or the operation on it is not valid."
    RECORD_LIST_TOO_LARGE = 18, False, "The batch is larger than a segment of the log."
    NOT_ENOUGH_REPLICAS = 19, True, "Fewer replicas are in sync than min.insync.replicas asks for."
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, True, "The message was written, but too few replicas are in sync."
    INVALID_REQUIRED_ACKS = 21, False, "acks must be 0, 1 or -1 (all)."
    ILLEGAL_GENERATION = 22, False, "The group's generation is not the current one."
    INCONSISTENT_GROUP_PROTOCOL = 23, False, "The member's protocols have nothing in common with the group's."
    INVALID_GROUP_ID = 24, False, "The group id is not valid."
    UNKNOWN_MEMBER_ID = 25, False, "The coordinator does not know this member."
    INVALID_SESSION_TIMEOUT = 26, False, "The session timeout is outside the broker's bounds."
    REBALANCE_IN_PROGRESS = 27, False, "The group is rebalancing: rejoin."
    INVALID_COMMIT_OFFSET_SIZE = 28, False, "The committed offset's data is too large."
    TOPIC_AUTHORIZATION_FAILED = 29, False, "Not authorized for the topic."
    GROUP_AUTHORIZATION_FAILED = 30, False, "Not authorized for the group."
    CLUSTER_AUTHORIZATION_FAILED = 31, False, "Not authorized for the cluster."
    INVALID_TIMESTAMP = 32, False, "The message's timestamp is out of the accepted range."
    UNSUPPORTED_SASL_MECHANISM = 33, False, "The broker does not offer that SASL mechanism."
    ILLEGAL_SASL_STATE = 34, False, "The request is not valid in this state of the SASL exchange."
    UNSUPPORTED_VERSION = 35, False, "The API's version is not supported."
    TOPIC_ALREADY_EXISTS = 36, False, "A topic with that name exists."
    INVALID_PARTITIONS = 37, False, "The number of partitions is not valid."
    INVALID_REPLICATION_FACTOR = 38, False, "The replication factor is below 1 or above the number of brokers."
    INVALID_REPLICA_ASSIGNMENT = 39, False, "The replica assignment is not valid."
    INVALID_CONFIG = 40, False, "A setting is not valid."
    NOT_CONTROLLER = 41, True, "This broker is not the controller."
    INVALID_REQUEST = 42, False, "The request does not fit the protocol."
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, False, "The message format does not support the request."
    POLICY_VIOLATION = 44, False, "A policy of the cluster refuses the request."
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, False, "The producer's sequence number is out of order."
    DUPLICATE_SEQUENCE_NUMBER = 46, False, "The producer's sequence number was seen before."
    INVALID_PRODUCER_EPOCH = 47, False, "The producer's epoch is older than the last one seen."
    INVALID_TXN_STATE = 48, False, "The transaction is not in a state that allows this."
    INVALID_PRODUCER_ID_MAPPING = 49, False, "The producer id does not belong to the transactional id."
    INVALID_TRANSACTION_TIMEOUT = 50, False, "The transaction timeout is above transaction.max.timeout.ms."
    CONCURRENT_TRANSACTIONS = 51, True, "The previous transaction of this id is still ending."
    TRANSACTION_COORDINATOR_FENCED = 52, False, "The transaction coordinator has moved."
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, False, "Not authorized for the transactional id."
    SECURITY_DISABLED = 54, False, "Security features are off."
    OPERATION_NOT_ATTEMPTED = 55, False, "Not tried, because another part of the request failed."
    KAFKA_STORAGE_ERROR = 56, True, "The disk failed while the log was read or written."
    LOG_DIR_NOT_FOUND = 57, False, "The log directory is not one of the broker's."
    SASL_AUTHENTICATION_FAILED = 58, False, "Authentication failed."
    UNKNOWN_PRODUCER_ID = 59, False, "The broker keeps nothing of that producer id."
    REASSIGNMENT_IN_PROGRESS = 60, False, "A reassignment of the partition is under way."
    DELEGATION_TOKEN_AUTH_DISABLED = 61, False, "Delegation tokens are off."
    DELEGATION_TOKEN_NOT_FOUND = 62, False, "No such delegation token."
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, False, "The principal does not own the delegation token."
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, False, "Delegation tokens cannot be asked for on this connection."
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, False, "Not authorized for the delegation token."
    DELEGATION_TOKEN_EXPIRED = 66, False, "The delegation token has expired."
    INVALID_PRINCIPAL_TYPE = 67, False, "The principal's type is not supported."
    NON_EMPTY_GROUP = 68, False, "The group is not empty."
    GROUP_ID_NOT_FOUND = 69, False, "No such group."
    FETCH_SESSION_ID_NOT_FOUND = 70, True, "No such fetch session."
    INVALID_FETCH_SESSION_EPOCH = 71, True, "The fetch session's epoch is not the expected one."
    LISTENER_NOT_FOUND = 72, True, "The leader has no listener of the name the client used."
    TOPIC_DELETION_DISABLED = 73, False, "delete.topic.enable is false."
    FENCED_LEADER_EPOCH = 74, True, "The leader epoch in the request is older than the broker's."
    UNKNOWN_LEADER_EPOCH = 75, True, "The leader epoch in the request is newer than the broker's."
    UNSUPPORTED_COMPRESSION_TYPE = 76, False, "The client does not support the batch's compression."
    STALE_BROKER_EPOCH = 77, False, "The broker's epoch has changed."
    OFFSET_NOT_AVAILABLE = 78, True, "The high watermark is not yet known after an election."
    MEMBER_ID_REQUIRED = 79, False, "Join again with the member id in this answer."
    PREFERRED_LEADER_NOT_AVAILABLE = 80, True, "The preferred leader is not available."
    GROUP_MAX_SIZE_REACHED = 81, False, "The group has as many members as it may."
    FENCED_INSTANCE_ID = 82, False, "Another member registered with the same instance id."
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, True, "No replica may become leader."
    ELECTION_NOT_NEEDED = 84, True, "The partition has its leader already."
    NO_REASSIGNMENT_IN_PROGRESS = 85, False, "No reassignment is under way."
    GROUP_SUBSCRIBED_TO_TOPIC = 86, False, "The group is subscribed to the topic."
    INVALID_RECORD = 87, False, "A record of the batch is not valid."
    UNSTABLE_OFFSET_COMMIT = 88, True, "Offsets of open transactions are not yet decided."
    THROTTLING_QUOTA_EXCEEDED = 89, True, "The quota is used up."
    PRODUCER_FENCED = 90, False, "A newer producer has the same transactional id."
    RESOURCE_NOT_FOUND = 91, False, "No such resource."
    DUPLICATE_RESOURCE = 92, False, "The resource is named twice."
    UNACCEPTABLE_CREDENTIAL = 93, False, "The credential does not meet the requirements."
    INCONSISTENT_VOTER_SET = 94, False, "The voter sets differ."
    INVALID_UPDATE_VERSION = 95, False, "The update's version is not valid."
    FEATURE_UPDATE_FAILED = 96, False, "The feature could not be updated."
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, False, "The forwarded principal could not be read."
    SNAPSHOT_NOT_FOUND = 98, False, "No such snapshot."
    POSITION_OUT_OF_RANGE = 99, False, "The position is not in the snapshot."
    UNKNOWN_TOPIC_ID = 100, True, "This broker does not know the topic id."
    DUPLICATE_BROKER_REGISTRATION = 101, False, "The broker id is in use."
    BROKER_ID_NOT_REGISTERED = 102, False, "The broker id is not registered."
    INCONSISTENT_TOPIC_ID = 103, True, "The log's topic id is not the request's."
    INCONSISTENT_CLUSTER_ID = 104, False, "The request's cluster id is not this cluster's."
    TRANSACTIONAL_ID_NOT_FOUND = 105, False, "No such transactional id."
    FETCH_SESSION_TOPIC_ID_ERROR = 106, True, "The fetch session mixes topic names and topic ids."
    INELIGIBLE_REPLICA = 107, False, "The replica may not join the in-sync set."
    NEW_LEADER_ELECTED = 108, False, "A new leader was elected."
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, False, "The offset is in tiered storage."
    FENCED_MEMBER_EPOCH = 110, False, "The member's epoch is not the expected one: rejoin."
    UNRELEASED_INSTANCE_ID = 111, False, "The instance id is still in use by another member."
    UNSUPPORTED_ASSIGNOR = 112, False, "The group does not support the assignor."
    STALE_MEMBER_EPOCH = 113, False, "The member's epoch is stale: retry after the next heartbeat."
    MISMATCHED_ENDPOINT_TYPE = 114, False, "The request went to the wrong kind of endpoint."
    UNSUPPORTED_ENDPOINT_TYPE = 115, False, "The endpoint type is not supported."
    UNKNOWN_CONTROLLER_ID = 116, False, "No such controller."
    UNKNOWN_SUBSCRIPTION_ID = 117, False, "The client's telemetry subscription is not the current one."
    TELEMETRY_TOO_LARGE = 118, False, "The telemetry data is too large."
    INVALID_REGISTRATION = 119, False, "The registration is not valid."
    TRANSACTION_ABORTABLE = 120, False, "The transaction must be aborted; the producer can go on after it."
    INVALID_RECORD_STATE = 121, False, "The record is not in a state that allows this."
    SHARE_SESSION_NOT_FOUND = 122, True, "No such share session."
    INVALID_SHARE_SESSION_EPOCH = 123, True, "The share session's epoch is not the expected one."
    FENCED_STATE_EPOCH = 124, False, "The share state's epoch is not the expected one."
    INVALID_VOTER_KEY = 125, False, "The voter key is not the receiver's."
    DUPLICATE_VOTER = 126, False, "The voter is in the set already."
    VOTER_NOT_FOUND = 127, False, "The voter is not in the set."
    INVALID_REGULAR_EXPRESSION = 128, False, "The regular expression is not valid."
    REBOOTSTRAP_REQUIRED = 129, False, "The client should bootstrap again."
    STREAMS_INVALID_TOPOLOGY = 130, False, "The streams topology is not valid."
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, False, "The streams topology's epoch is not valid."
    STREAMS_TOPOLOGY_FENCED = 132, False, "The streams topology's epoch is outdated."
    SHARE_SESSION_LIMIT_REACHED = 133, True, "The limit of share sessions is reached."


class KafkaError(Exception):
    """The peer asked for something it cannot have: an error code, and a sentence."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(message or code.message)
        self.code = code
        self.message = message or code.message

    @property
    def retriable(self) -> bool:
        return self.code.retriable


class MalformedError(KafkaError):
    """Bytes that are not the message they claim to be; the connection that sent them is closed."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INVALID_REQUEST, message)


class InvalidRecordsError(KafkaError):
    """A batch refused because of some of its records; `records` says which, by their place in the batch, and why."""

    def __init__(self, code: ErrorCode, message: str, records: Sequence[tuple[int, str]]) -> None:
        super().__init__(code, message)
        self.records = records


class StorageError(KafkaError):
    """The disk failed under a log; retriable, another replica may serve it."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, message)


class ConfigError(Exception):
    """A setting that cannot be used: a sentence that names it, and what to write instead."""
