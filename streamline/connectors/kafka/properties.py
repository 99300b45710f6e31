"""Kafka's client properties (`bootstrap.servers`, `sasl.mechanism`, …) as arguments of aiokafka."""

from __future__ import annotations

import difflib
import logging
import re
import ssl
from collections.abc import Callable, Mapping
from typing import Any, Final

from streamline.errors import ValidationException

__all__ = ("consumer_arguments", "number_property", "producer_arguments", "truth")

_log = logging.getLogger("streamline.kafka")


def truth(value: Any) -> bool:
    """A boolean property."""
    if isinstance(value, bool):
        return value
    if str(value).strip().lower() in ("true", "false"):
        return str(value).strip().lower() == "true"
    raise ValueError("true or false is expected")


def _acks(value: Any) -> int | str:
    return "all" if str(value) in ("all", "-1") else int(value)


def _compression(value: Any) -> str | None:
    name = str(value).lower()
    if name not in ("none", "gzip", "snappy", "lz4", "zstd"):
        raise ValueError("none, gzip, snappy, lz4 or zstd is expected")
    return None if name == "none" else name


def _isolation(value: Any) -> str:
    if value not in ("read_committed", "read_uncommitted"):
        raise ValueError("read_committed or read_uncommitted is expected")
    return str(value)


_Table = Mapping[str, tuple[str, Callable[[Any], Any]]]
_COMMON: Final[_Table] = {
    "bootstrap.servers": ("bootstrap_servers", str),
    "client.id": ("client_id", str),
    "connections.max.idle.ms": ("connections_max_idle_ms", int),
    "metadata.max.age.ms": ("metadata_max_age_ms", int),
    "request.timeout.ms": ("request_timeout_ms", int),
    "retry.backoff.ms": ("retry_backoff_ms", int),
    "sasl.kerberos.domain.name": ("sasl_kerberos_domain_name", str),
    "sasl.kerberos.service.name": ("sasl_kerberos_service_name", str),
    "sasl.mechanism": ("sasl_mechanism", str),
    "sasl.oauth.token.provider": ("sasl_oauth_token_provider", lambda provider: provider),
    "sasl.password": ("sasl_plain_password", str),
    "sasl.username": ("sasl_plain_username", str),
    "security.protocol": ("security_protocol", str),
}
_CONSUMER: Final[_Table] = {
    **_COMMON,
    "check.crcs": ("check_crcs", truth),
    "client.rack": ("client_rack", str),
    "fetch.max.bytes": ("fetch_max_bytes", int),
    "fetch.max.wait.ms": ("fetch_max_wait_ms", int),
    "fetch.min.bytes": ("fetch_min_bytes", int),
    "isolation.level": ("isolation_level", _isolation),
    "max.partition.fetch.bytes": ("max_partition_fetch_bytes", int),
}
_PRODUCER: Final[_Table] = {
    **_COMMON,
    "acks": ("acks", _acks),
    "batch.size": ("max_batch_size", int),
    "compression.type": ("compression_type", _compression),
    "enable.idempotence": ("enable_idempotence", truth),
    "linger.ms": ("linger_ms", int),
    "max.request.size": ("max_request_size", int),
    "transaction.timeout.ms": ("transaction_timeout_ms", int),
}
#: Read elsewhere, or of no meaning here: no group is joined, and formats are not Java classes.
_SILENT: Final = frozenset(
    {
        "auto.commit.interval.ms",
        "auto.offset.reset",
        "buffer.memory",
        "client.id.prefix",
        "commit.offsets.on.checkpoint",
        "delivery.timeout.ms",
        "enable.auto.commit",
        "group.id",
        "heartbeat.interval.ms",
        "key.deserializer",
        "key.serializer",
        "max.block.ms",
        "max.in.flight.requests.per.connection",
        "max.poll.interval.ms",
        "max.poll.records",
        "partition.assignment.strategy",
        "partition.discovery.interval.ms",
        "retries",
        "sasl.jaas.config",
        "session.timeout.ms",
        "transactional.id",
        "value.deserializer",
        "value.serializer",
    }
)


def consumer_arguments(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of AIOKafkaConsumer.

    Raises:
        ValidationException: a value is not of its property's type.
    """
    return _arguments(properties, _CONSUMER, _PRODUCER)


def producer_arguments(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of AIOKafkaProducer.

    Raises:
        ValidationException: a value is not of its property's type.
    """
    return _arguments(properties, _PRODUCER, _CONSUMER)


def number_property(properties: Mapping[str, Any], name: str, default: int) -> int:
    """A property that is a whole number.

    Raises:
        ValidationException: it is none.
    """
    return int(_convert(name, properties.get(name, default), int))


def _arguments(properties: Mapping[str, Any], table: _Table, others: _Table) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    for name, value in properties.items():
        if name in table:
            argument, convert = table[name]
            arguments[argument] = _convert(name, value, convert)
        elif name not in others and name not in _SILENT and not name.startswith("ssl."):
            near = difflib.get_close_matches(name, [*table, *_SILENT], 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            _log.warning("the Kafka property %r is not known here and has no effect%s", name, hint)
    if "sasl.jaas.config" in properties:
        arguments.update(_from_jaas(str(properties["sasl.jaas.config"])))
    if str(arguments.get("security_protocol", "")).endswith("SSL"):
        arguments["ssl_context"] = _ssl_context(properties)
    return arguments


def _convert(name: str, value: Any, convert: Callable[[Any], Any]) -> Any:
    try:
        return convert(value)
    except (TypeError, ValueError) as e:
        raise ValidationException(f"the Kafka property {name!r} has no such value as {value!r}: {e}") from None


def _from_jaas(text: str) -> dict[str, str]:
    found = dict(re.findall(r'\b(username|password)\s*=\s*"((?:[^"\\]|\\.)*)"', text))
    if set(found) != {"username", "password"}:
        raise ValidationException(
            'the Kafka property \'sasl.jaas.config\' is read for username="…" and password="…" only; '
            "both have to be there"
        )
    return {f"sasl_plain_{k}": re.sub(r"\\(.)", r"\1", v) for k, v in found.items()}


def _ssl_context(properties: Mapping[str, Any]) -> ssl.SSLContext:
    """From `ssl.context` (one made by the program), or from PEM files."""
    given = properties.get("ssl.context")
    if isinstance(given, ssl.SSLContext):
        return given
    for kind in ("truststore", "keystore"):
        form = str(properties.get(f"ssl.{kind}.type", "PEM" if f"ssl.{kind}.location" not in properties else "JKS"))
        if form.upper() != "PEM":
            raise ValidationException(
                f"the Kafka property 'ssl.{kind}.location' is a Java key store ({form}); give a PEM file and set "
                f"'ssl.{kind}.type' to 'PEM'"
            )
    authority = properties.get("ssl.truststore.location", properties.get("ssl.ca.location"))
    certificate = properties.get("ssl.keystore.location", properties.get("ssl.certificate.location"))
    try:
        context = ssl.create_default_context(cafile=authority)
        if certificate is not None:
            key = properties.get("ssl.key.location")
            context.load_cert_chain(certificate, key, properties.get("ssl.key.password"))
    except (OSError, ssl.SSLError) as e:
        raise ValidationException(f"the certificates of the Kafka properties 'ssl.…' cannot be read: {e}") from None
    if properties.get("ssl.endpoint.identification.algorithm") == "":
        context.check_hostname = False
    return context
