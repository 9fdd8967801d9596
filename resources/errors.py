"""Errors of the resources, which may not import ops; orchestration maps both trees in one place.

ResourceError
├── ConfigError          refused before anything runs; the user changes something
│   ├── BadSetting           an environment variable holds what it must not
│   ├── MissingSecret        a definition names a secret nobody gave
│   └── SetupFailed          Java, jars or an embedded server cannot be had
└── TransientError       the same step may pass when tried again
    └── ServerNotReady       a server we started or were told of does not answer
"""


class ResourceError(Exception):
    """Base of all; the message is a sentence for the user with the next step."""


class ConfigError(ResourceError):
    """Refused before anything runs."""


class BadSetting(ConfigError):
    def __init__(self, variable: str, why: str) -> None:
        self.variable, self.why = variable, why
        super().__init__(f"{variable} {why}")


class MissingSecret(ConfigError):
    def __init__(self, name: str, variable: str) -> None:
        self.name, self.variable = name, variable
        super().__init__(
            f"secret {name!r} is not set; put its value into {variable}, "
            f"or the path of a file that holds it into {variable}_FILE"
        )


class SetupFailed(ConfigError):
    """Java, jars or an embedded server cannot be had; the message says what to do."""


class TransientError(ResourceError):
    """The same step may pass when tried again."""

    transient = True


class ServerNotReady(TransientError):
    """A server does not answer; the message names it and its log."""
