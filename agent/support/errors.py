"""The tree of the agent's errors; `agent.cli.main` reports those that no command handles itself.

HeadroomError                   something cannot be done now: exit code 1 of a command
├─ InputError                   wrong input: exit code 2 of a command
│  ├─ ConfigError               a configuration file, with all of its mistakes
│  ├─ InvalidValuesError        values for one of its sections
│  ├─ TableFileError, CellError    a CSV or OpenMetrics file
│  ├─ SourceError, TooEarlyError   a recording, or a period of one
│  ├─ QuestionError, RefusedError  a question to an agent
│  └─ UnknownTargetError        a target that a history does not have
├─ StoreError                   the history
├─ OutputError                  standard output
├─ AccessError, UntrustedError, NoAnswerError    a server accessed over HTTP
│  ├─ AccessOptionError         its URL, login or authority: also an InputError
│  └─ AgentError, PrometheusError, TooMuchError    another agent, or a Prometheus
├─ MissingSeriesError            what a Prometheus does not have
└─ ServerError, PackageError, AddressError       the demo's servers

The collectors, which do not import the agent, raise `collectors.base.CollectorError`.
"""

from collections.abc import Sequence


class HeadroomError(Exception):
    """Something cannot be done; the message is one line, with the remedy where there is one."""

    exit_code = 1

    @property
    def problems(self) -> Sequence[str]:
        """The message for the user, a line for each mistake."""
        return [str(self)]


class InputError(HeadroomError):
    """An option, a file or a question is wrong."""

    exit_code = 2
