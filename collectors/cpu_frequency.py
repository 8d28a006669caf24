"""The clock rate of the CPUs that a server may use, as a share of the highest.

From the cpufreq files of Linux, in kHz, one directory per CPU; CPUs that share a clock show the
same value. The highest clock is what is allowed, `scaling_max_freq`, but not more than the nominal
clock, the highest that all CPUs can hold together, without turbo:

- `base_frequency` (intel_pstate where the hardware sets its clock),
- `acpi_cppc/nominal_freq`, in MHz (ACPI's CPPC: AMD, Arm),
- the highest less intel_pstate's `turbo_pct`, the turbo's share of all steps,
- `cpuinfo_max_freq`, where turbo is not distinguished.

(Documentation/admin-guide/pm and Documentation/admin-guide/acpi of the kernel.) Virtual machines
usually have none of these files.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

CPUS = Path("/sys/devices/system/cpu")
CPUS_AT_ONCE = 4
"""CPUs that are read at a time, in rotation: kernels before 5.18 interrupt a CPU to
read its clock, and wait 10 ms where they have not read it for a second."""
HIGHEST_GOVERNOR = b"performance"
"""The governor that always asks for the highest clock allowed, whatever is measured."""
IDLE_SHOWS_LOWEST = (b"intel_pstate", b"amd-pstate-epp")
"""Drivers that show the lowest clock allowed for a CPU that has just been idle."""
MHZ = 1e3  # kHz


class CpuClocks:
    """Reads the clocks of the CPUs that `cpus` returns: those online that a process may use."""

    def __init__(self, cpus: Callable[[], list[int] | None]) -> None:
        self._cpus = cpus
        self._nominal: dict[int, float] = {}
        self._position = 0

    def ratio(self) -> float | None:
        """Compute the mean share of the next few CPUs; None where none of them reports it.

        CPUs that were idle until now are left out: their clock is not in use. Turbo counts as 1,
        because not all CPUs have it.
        """
        try:
            cpus = self._cpus() or []
        except psutil.Error:
            return None
        start = self._position % max(len(cpus), 1)
        chosen = (cpus[start:] + cpus[:start])[:CPUS_AT_ONCE]
        self._position = start + len(chosen)
        ratios = [ratio for cpu in chosen if (ratio := self._ratio(cpu)) is not None]
        return sum(ratios) / len(ratios) if ratios else None

    def _ratio(self, cpu: int) -> float | None:
        """Compute the clock of one CPU as a share of the highest allowed; None if unknown."""
        policy = f"{CPUS}/cpu{cpu}/cpufreq"
        governor = _read_word(f"{policy}/scaling_governor")
        if governor is None or governor == HIGHEST_GOVERNOR:
            return None if governor is None else 1.0
        now, allowed = _current_clock(policy), _read_number(f"{policy}/scaling_max_freq")
        if now is None or allowed is None:
            return None
        if cpu not in self._nominal:
            nominal = _nominal_clock(f"{CPUS}/cpu{cpu}")
            if nominal is None:
                return None
            self._nominal[cpu] = nominal
        return min(now / min(self._nominal[cpu], allowed), 1.0)


def _current_clock(policy: str) -> float | None:
    """Read the present clock (kHz) of the CPUs of this policy; None where it is not known."""
    now = _read_number(f"{policy}/scaling_cur_freq")
    if now is None or now != _read_number(f"{policy}/scaling_min_freq"):
        return now
    return None if _read_word(f"{policy}/scaling_driver") in IDLE_SHOWS_LOWEST else now


def _nominal_clock(cpu: str) -> float | None:
    """Read the nominal clock (kHz) of a CPU; None where it is not known."""
    base = _read_number(f"{cpu}/cpufreq/base_frequency")
    if base is not None:
        return base
    nominal = _read_number(f"{cpu}/acpi_cppc/nominal_freq")
    if nominal is not None:
        return nominal * MHZ
    highest = _read_number(f"{cpu}/cpufreq/cpuinfo_max_freq")
    lowest = _read_number(f"{cpu}/cpufreq/cpuinfo_min_freq")
    turbo = _read_number(f"{CPUS}/intel_pstate/turbo_pct")
    if highest is None or lowest is None or turbo is None:
        return highest
    return highest - turbo / 100 * (highest - lowest)


def _read_number(path: str) -> float | None:
    """Read the number in a file; None unless it is finite and above 0."""
    with suppress(ValueError):
        number = float(_read_word(path) or b"")
        return number if 0 < number < float("inf") else None
    return None


def _read_word(path: str) -> bytes | None:
    """Read a file; None where it cannot be read, as for a CPU that is offline."""
    try:
        file = os.open(path, os.O_RDONLY)  # many are read, and a file object takes twice as long
        try:
            return os.read(file, 100).strip()
        finally:
            os.close(file)
    except OSError:
        return None
