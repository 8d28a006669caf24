"""The agent's errors are one tree; what no command handles itself is reported by `agent.cli.main`.

HeadroomError                   something cannot be done now: a command ends with 1
├─ InputError                   what was given is wrong: a command ends with 2
│  ├─ ConfigError               a configuration file, with all of its mistakes
│  ├─ InvalidValuesError        values for one of its sections
│  ├─ TableFileError, CellError    a CSV or OpenMetrics file
│  ├─ SourceError, TooEarlyError   a recording, or a period of one
│  ├─ QuestionError, RefusedError  a question to an agent
│  └─ UnknownTargetError        a target that a history does not have
├─ StoreError                   the history
├─ AccessError, UntrustedError, NoAnswerError    a server that is asked over HTTP
└─ ServerError, PackageError, AddressError       the demo's servers

Of the collectors, which know nothing of the agent, it is `collectors.base.CollectorError`.
"""

from collections.abc import Sequence


class HeadroomError(Exception):
    """Something cannot be done; the message is one line, with the remedy where there is one."""

    exit_code = 1

    @property
    def problems(self) -> Sequence[str]:
        """The message for a person, a line for each mistake."""
        return [str(self)]


class InputError(HeadroomError):
    """An option, a file or a question is wrong."""

    exit_code = 2
