"""The clock rate of the CPUs that a server may use, as a share of the highest.

By the cpufreq of Linux, in kHz, one directory for each CPU; CPUs whose clocks go together show the
same one. They can run as fast as they are allowed to, `scaling_max_freq`, but no faster than the
nominal clock, the highest that all CPUs can hold together, without turbo:

- `base_frequency` (intel_pstate where the hardware sets its clock),
- `acpi_cppc/nominal_freq`, in MHz (ACPI's CPPC: AMD, Arm),
- the highest less intel_pstate's `turbo_pct`, the turbo's share of all steps,
- `cpuinfo_max_freq`, where turbo is not distinguished.

(Documentation/admin-guide/pm and Documentation/admin-guide/acpi of the kernel.) Virtual machines
have none of it as a rule.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from statistics import fmean

import psutil

CPUS = Path("/sys/devices/system/cpu")
CPUS_AT_ONCE = 4
"""CPUs that are read at a time, in rotation: kernels before 5.18 interrupt a CPU to
look at its clock, and wait 10 ms where they have not looked for a second."""
HIGHEST_GOVERNOR = b"performance"
"""The governor that always asks for the highest clock allowed, whatever is measured."""
IDLE_SHOWS_LOWEST = (b"intel_pstate", b"amd-pstate-epp")
"""Drivers that show the lowest clock allowed for a CPU that has just been idle."""
MHZ = 1e3  # kHz


class Clocks:
    """The clocks of the CPUs that this names, which are on: those that a process may use."""

    def __init__(self, cpus: Callable[[], list[int] | None]) -> None:
        self._cpus = cpus
        self._nominal: dict[int, float] = {}
        self._read = 0

    def ratio(self) -> float | None:
        """The mean of the next few CPUs; None where none reports it.

        Those that were idle until now are left out: their clock is not in use. Turbo counts as 1,
        because not all of them have it.
        """
        try:
            cpus = self._cpus() or []
        except psutil.Error:
            return None
        start = self._read % max(len(cpus), 1)
        turn = (cpus[start:] + cpus[:start])[:CPUS_AT_ONCE]
        self._read = start + len(turn)
        ratios = [ratio for cpu in turn if (ratio := self._ratio(cpu)) is not None]
        return fmean(ratios) if ratios else None

    def _ratio(self, cpu: int) -> float | None:
        policy = f"{CPUS}/cpu{cpu}/cpufreq"
        governor = _word(f"{policy}/scaling_governor")
        if governor is None or governor == HIGHEST_GOVERNOR:
            return None if governor is None else 1.0
        now, allowed = _present(policy), _number(f"{policy}/scaling_max_freq")
        if now is None or allowed is None:
            return None
        if cpu not in self._nominal:
            nominal = _nominal(f"{CPUS}/cpu{cpu}")
            if nominal is None:
                return None
            self._nominal[cpu] = nominal
        return min(now / min(self._nominal[cpu], allowed), 1.0)


def _present(policy: str) -> float | None:
    """The clock (kHz) of the CPUs of this policy."""
    now = _number(f"{policy}/scaling_cur_freq")
    if now is None or now != _number(f"{policy}/scaling_min_freq"):
        return now
    return None if _word(f"{policy}/scaling_driver") in IDLE_SHOWS_LOWEST else now


def _nominal(cpu: str) -> float | None:
    """The nominal clock (kHz) of a CPU."""
    base = _number(f"{cpu}/cpufreq/base_frequency")
    if base is not None:
        return base
    nominal = _number(f"{cpu}/acpi_cppc/nominal_freq")
    if nominal is not None:
        return nominal * MHZ
    highest = _number(f"{cpu}/cpufreq/cpuinfo_max_freq")
    lowest = _number(f"{cpu}/cpufreq/cpuinfo_min_freq")
    turbo = _number(f"{CPUS}/intel_pstate/turbo_pct")
    if highest is None or lowest is None or turbo is None:
        return highest
    return highest - turbo / 100 * (highest - lowest)


def _number(path: str) -> float | None:
    """The number in a file, if above 0."""
    with suppress(ValueError):
        number = float(_word(path) or b"")
        return number if 0 < number < float("inf") else None
    return None


def _word(path: str) -> bytes | None:
    """The content of a file; None where it cannot be read, such as that of a CPU that is off."""
    try:
        file = os.open(path, os.O_RDONLY)  # there are many, and a file object takes twice as long
        try:
            return os.read(file, 100).strip()
        finally:
            os.close(file)
    except OSError:
        return None
