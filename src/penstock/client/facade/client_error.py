"""What failed in the client, as an exception with a sentence: what was being done, what is wrong, what helps.

librdkafka has error codes of its own beside Kafka's; the common ones get words and the nearest code of Kafka here.
`raw` is librdkafka's error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    import confluent_kafka

_CODES = {int(code): code for code in ErrorCode}

_LOCAL = {
    "_ALL_BROKERS_DOWN": (
        ErrorCode.BROKER_NOT_AVAILABLE,
        "No broker answers. Is one running there? `penstock serve` starts one.",
    ),
    "_TRANSPORT": (ErrorCode.NETWORK_EXCEPTION, ""),
    "_RESOLVE": (ErrorCode.NETWORK_EXCEPTION, "The host's name is not known. Is the address right?"),
    "_MSG_TIMED_OUT": (
        ErrorCode.REQUEST_TIMED_OUT,
        "No broker confirmed it within delivery.timeout.ms. Is the broker reachable, and does the topic exist?",
    ),
    "_TIMED_OUT": (ErrorCode.REQUEST_TIMED_OUT, "No answer came in time. Is the broker reachable?"),
    "_TIMED_OUT_QUEUE": (ErrorCode.REQUEST_TIMED_OUT, "No answer came in time. Is the broker reachable?"),
    "_UNKNOWN_TOPIC": (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no such topic."),
    "_UNKNOWN_PARTITION": (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic has no such partition."),
    "_AUTHENTICATION": (ErrorCode.SASL_AUTHENTICATION_FAILED, "The broker did not accept the credentials."),
    "_MAX_POLL_EXCEEDED": (
        ErrorCode.UNKNOWN_MEMBER_ID,
        "Two polls were more than max.poll.interval.ms apart, so the group gave the partitions to others.",
    ),
    "_ASSIGNMENT_LOST": (ErrorCode.ILLEGAL_GENERATION, "The group gave the partitions to others."),
    "_QUEUE_FULL": (ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The buffer is full."),
    "_FENCED": (
        ErrorCode.PRODUCER_FENCED,
        (
            "This producer is out: another one with the same transactional_id began, or its transaction was open for "
            "longer than transaction.timeout.ms, or an operator aborted it. Go on with a new producer; each that runs "
            "at the same time needs an id of its own."
        ),
    ),
    "_AUTO_OFFSET_RESET": (ErrorCode.OFFSET_OUT_OF_RANGE, ""),
}
"""librdkafka's name -> Kafka's nearest code, and words where its own are not enough."""

_WORDS = {
    "UNKNOWN_TOPIC_OR_PART": "There is no such topic or partition.",
    "ILLEGAL_GENERATION": "The group has moved on: another consumer has the partitions and reads from the last commit.",
    "UNKNOWN_MEMBER_ID": "The group does not know this consumer any more; others have its partitions.",
}


class ClientError(KafkaError):
    """A call to a broker, or librdkafka itself, failed."""

    def __init__(self, raw: confluent_kafka.KafkaError, doing: str) -> None:
        self.raw = raw
        self.name = raw.name()
        """librdkafka's name of the error; its own begin with an underscore."""
        code, words = _LOCAL.get(self.name) or (_code(raw), _WORDS.get(self.name, ""))
        super().__init__(code, f"{doing}: {_sentence(words or raw.str())}")

    @property
    def retriable(self) -> bool:
        return self.raw.retriable() or self.code.retriable

    @property
    def is_fatal(self) -> bool:
        """The client cannot go on; make a new one."""
        return self.raw.fatal()


class TransactionAborted(KafkaError):
    """A transaction could not be committed and is aborted: nothing of it is visible. Do its work again."""

    def __init__(self, cause: KafkaError) -> None:
        super().__init__(cause.code, f"The transaction was aborted and can be done again. {cause}")
        self.cause = cause

    @property
    def retriable(self) -> bool:
        return True


def error_of(failure: Exception, doing: str) -> ClientError:
    """From confluent-kafka's exception, which carries librdkafka's error."""
    raw: Any = failure.args[0]
    return ClientError(raw, doing)


def _code(raw: confluent_kafka.KafkaError) -> ErrorCode:
    return _CODES.get(raw.code(), ErrorCode.UNKNOWN_SERVER_ERROR)


def _sentence(words: str) -> str:
    return words if words.endswith((".", "?", "!")) else f"{words}."
