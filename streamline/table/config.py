"""TableConfig: the options of a table environment, in force from the next planning."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from streamline._core.config import Configuration
from streamline._core.options import OPTIONS

__all__ = ("TableConfig",)


class TableConfig:
    """Options by key, over those of the stream environment.

    What is set here counts for what is planned from then on: a conversion (`to_data_stream`, …) that was planned before
    keeps what was in force then, and a warning names it.
    """

    def __init__(self, configuration: Configuration | None = None, below: Configuration | None = None) -> None:
        """
        Args:
            configuration: options to begin with.
            below: what answers for keys that are not set here: the stream environment's configuration.
        """
        self._configuration = Configuration()
        self._below = below
        self._planned: list[str] = []
        if configuration is not None:
            self._configuration.add_all(configuration)
        self._configuration.observe(self._changed)

    # -- writing -------------------------------------------------------------------------------------------------

    def set(self, key: str, value: Any) -> TableConfig:
        """Set an option; gives the config back.

        Raises:
            ValidationException: a key that nobody knows, or a value that is none of the option's type.
        """
        self._configuration.set(key, value)
        return self

    def set_local_timezone(self, timezone_id: str) -> None:
        """The session's time zone: an IANA name, or an offset such as `GMT+08:00`."""
        self.set("table.local-time-zone", timezone_id)

    def set_idle_state_retention(self, duration: timedelta) -> None:
        """How long state of a key is kept after its last use: `table.exec.state.ttl`."""
        self.set("table.exec.state.ttl", duration)

    def add_configuration(self, configuration: Configuration) -> None:
        """Set all options of a configuration."""
        self._configuration.add_all(configuration)

    def remove(self, key: str) -> bool:
        """Take an option back to its default; whether it was set."""
        return self._configuration.remove_config(key)

    # -- reading -------------------------------------------------------------------------------------------------

    def get(self, key: str, default: Any = None) -> Any:
        """The text of an option: as set here, else in the stream environment, else `default`, else its own default."""
        if self._configuration.contains_key(key) or self._below is None or not self._below.contains_key(key):
            return self._configuration.get(key, default)
        return self._below.get(key, default)

    def value(self, key: str) -> Any:
        """The option's value in its own type (durations in milliseconds)."""
        if self._configuration.contains_key(key) or self._below is None or not self._below.contains_key(key):
            return self._configuration.value(key)
        return self._below.value(key)

    def is_set(self, key: str) -> bool:
        """Whether the option was set, here or in the stream environment."""
        return self._configuration.contains_key(key) or (self._below is not None and self._below.contains_key(key))

    def get_local_timezone(self) -> str:
        """The session's time zone; UTC where none is set."""
        zone = str(self.get("table.local-time-zone")) if self.is_set("table.local-time-zone") else "UTC"
        return "UTC" if zone == "default" else zone

    def get_idle_state_retention(self) -> timedelta:
        """How long state of a key is kept after its last use; zero: for ever."""
        return timedelta(milliseconds=self.value("table.exec.state.ttl") or 0)

    def get_configuration(self) -> Configuration:
        """The options that are set here; setting one there is the same as setting it here."""
        return self._configuration

    # -- what came too late --------------------------------------------------------------------------------------

    def planned(self, what: str) -> None:
        """Remember that something was planned with the options as they are."""
        if what not in self._planned:
            self._planned.append(what)

    def forget(self, whats: Callable[[str], bool]) -> None:
        """Forget what was planned where `whats` says so: it has run."""
        self._planned = [p for p in self._planned if not whats(p)]

    def _changed(self, key: str, text: str | None) -> None:
        option = OPTIONS.get(key)
        if self._planned and option is not None and option.reader == "table":
            shown = f"{key} = {text}" if text is not None else f"{key} (taken back)"
            warnings.warn(
                f"{shown} comes too late for what was planned before: {', '.join(self._planned)}; it is in force from "
                "the next conversion or statement",
                UserWarning,
                stacklevel=4,
            )
