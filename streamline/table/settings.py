"""EnvironmentSettings: what is fixed for the life of a table environment."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import Any

from streamline._core.config import Configuration

__all__ = ("EnvironmentSettings",)


class _Builder:
    """Collects settings; `build` makes them."""

    def __init__(self) -> None:
        self._settings = EnvironmentSettings()

    def _with(self, **changes: Any) -> _Builder:
        self._settings = replace(self._settings, **changes)
        return self

    def in_streaming_mode(self) -> _Builder:
        """Inputs may go on for ever; results are changes (the default)."""
        return self._with(streaming=True)

    def in_batch_mode(self) -> _Builder:
        """Inputs come to an end; results are final."""
        return self._with(streaming=False)

    def with_built_in_catalog_name(self, built_in_catalog_name: str) -> _Builder:
        """The name of the catalog that is there from the start."""
        return self._with(built_in_catalog_name=built_in_catalog_name)

    def with_built_in_database_name(self, built_in_database_name: str) -> _Builder:
        """The name of its database."""
        return self._with(built_in_database_name=built_in_database_name)

    def with_configuration(self, configuration: Configuration) -> _Builder:
        """Options that the environment starts with."""
        return self._with(configuration=configuration)

    def use_blink_planner(self) -> _Builder:
        """Does nothing: there is one planner."""
        return _one_planner(self, "use_blink_planner")

    def use_any_planner(self) -> _Builder:
        """Does nothing: there is one planner."""
        return _one_planner(self, "use_any_planner")

    def build(self) -> EnvironmentSettings:
        """The settings."""
        return self._settings


def _one_planner(builder: _Builder, method: str) -> _Builder:
    warnings.warn(f"{method}() has no effect: there is one planner; remove the call", DeprecationWarning, stacklevel=3)
    return builder


@dataclass(frozen=True)
class EnvironmentSettings:
    """What is fixed for the life of a table environment.

    `EnvironmentSettings.new_instance().in_batch_mode().build()` is `EnvironmentSettings(streaming=False)`.

    Attributes:
        streaming: whether inputs may go on for ever; False is batch mode.
        built_in_catalog_name: the catalog that is there from the start.
        built_in_database_name: its database.
        configuration: options that the environment starts with.
    """

    streaming: bool = True
    built_in_catalog_name: str = "default_catalog"
    built_in_database_name: str = "default_database"
    configuration: Configuration = field(default_factory=Configuration)

    @staticmethod
    def new_instance() -> _Builder:
        """A builder."""
        return _Builder()

    @staticmethod
    def in_streaming_mode() -> EnvironmentSettings:
        """Default settings for inputs that may go on for ever."""
        return EnvironmentSettings()

    @staticmethod
    def in_batch_mode() -> EnvironmentSettings:
        """Default settings for inputs that come to an end."""
        return EnvironmentSettings(streaming=False)

    def get_built_in_catalog_name(self) -> str:
        """The name of the catalog that is there from the start."""
        return self.built_in_catalog_name

    def get_built_in_database_name(self) -> str:
        """The name of its database."""
        return self.built_in_database_name

    def is_streaming_mode(self) -> bool:
        """Whether inputs may go on for ever."""
        return self.streaming

    def get_configuration(self) -> Configuration:
        """Options that the environment starts with."""
        return self.configuration
