"""Errors of the configuration.

ConfigError                    one setting is wrong (vibe.core.errors)
└── InvalidConfigError         everything that is wrong with the settings, one sentence each
"""

from __future__ import annotations

from vibe.core.errors import ConfigError


class InvalidConfigError(ConfigError):
    """The settings do not hold together; ``problems`` has each of them, and the attributes are those of the first."""

    def __init__(self, problems: tuple[ConfigError, ...]) -> None:
        first = problems[0]
        super().__init__(first.where, first.key, first.problem)
        self.args = ("\n".join(str(problem) for problem in problems),)
        self.problems = problems
