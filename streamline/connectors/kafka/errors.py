"""Errors of Kafka in people's words: what, where, what to do."""

from __future__ import annotations

import aiokafka.errors as kafka_errors

from streamline.errors import StreamlineError

__all__ = ("KafkaConnectionError", "KafkaException", "KafkaOffsetLostError", "explained", "not_connected")


class KafkaException(StreamlineError):
    """Kafka refused something, or has not what was asked for."""


class KafkaConnectionError(KafkaException):
    """No broker answers."""


class KafkaOffsetLostError(KafkaException):
    """The offset to go on from is no longer, or not yet, in the log.

    Attributes:
        topic, partition, wanted: where reading should go on.
        available: the first offset there is, and the one after the last.
    """

    def __init__(self, topic: str, partition: int, wanted: int, available: tuple[int, int]) -> None:
        self.topic, self.partition, self.wanted, self.available = topic, partition, wanted, available
        begin, end = available
        why = "retention has removed it" if wanted < begin else "the topic was made anew or truncated"
        super().__init__(
            f"topic {topic!r}, partition {partition}: reading should go on at offset {wanted}, but the log has "
            f"{begin} to {end}: {why}. To skip what is lost, say so: KafkaSource(on_offset_lost='earliest') or "
            "'latest', in SQL 'scan.on-offset-lost'; or start without the old checkpoint."
        )


def not_connected(bootstrap: str, error: BaseException) -> KafkaConnectionError:
    """No broker answers at the bootstrap addresses."""
    return KafkaConnectionError(
        f"no Kafka broker answers at {bootstrap} ({str(error) or type(error).__name__}). Is it running, is "
        "bootstrap.servers its address, and can this machine reach it and what it advertises?"
    )


def explained(error: Exception, doing: str) -> Exception:
    """An error of the client as one of ours; one that says enough by itself stays."""
    match error:
        case StreamlineError():
            return error
        case kafka_errors.UnsupportedCodecError():
            return KafkaException(
                f"{doing}: the records are compressed in a way that needs another package: {error}. "
                "`pip install streamline[compression]`"
            )
        case kafka_errors.TopicAuthorizationFailedError() | kafka_errors.GroupAuthorizationFailedError():
            return KafkaException(f"{doing}: the broker does not allow it to this user: {error}")
        case kafka_errors.ProducerFenced():
            return KafkaException(
                f"{doing}: another producer was started with this transactional id. Does another job use the same "
                "prefix, or is an old run of this one still alive?"
            )
        case kafka_errors.InvalidTransactionTimeout():
            return KafkaException(
                f"{doing}: 'transaction.timeout.ms' is longer than the broker allows (its transaction.max.timeout.ms)"
            )
        case kafka_errors.KafkaTimeoutError() | kafka_errors.RequestTimedOutError() | TimeoutError():
            return KafkaConnectionError(f"{doing}: the broker did not answer in time ({error or 'no more is known'})")
        case kafka_errors.KafkaConnectionError() | kafka_errors.NodeNotReadyError() | kafka_errors.StaleMetadata():
            return KafkaConnectionError(f"{doing}: the connection to the broker is lost ({error})")
        case kafka_errors.KafkaError():
            return KafkaException(f"{doing}: {type(error).__name__}: {error}")
    return error
