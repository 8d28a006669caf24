"""`host`: the machine's CPU, disks and network, and the server process's own CPU, through psutil.

Read only where the server's process is visible on this machine; elsewhere the feature is absent,
with the reason. All values are counters since boot (seconds, bytes, operations), except the
ceilings: `cpus`, `process_cpus` and the interfaces' `bytes_per_second`; and `cpu_clock_ratio`,
where the kernel shows the clock rates. `cpu_idle_entries` counts how often a processor that the
server may use went idle, on average.
"""

import time

import psutil

from collectors.base import (
    MILLISECOND,
    NO_VALUES,
    CollectorError,
    FailureKind,
    Feature,
    Prepared,
    Values,
)
from collectors.connection import Connection
from collectors.cpu_frequency import CpuClocks
from collectors.cpu_idle_entries import IdleEntries
from collectors.cpu_quota import process_cpus, quota_feature
from collectors.device_selection import (
    LOCAL_NAMES,
    NO_DEVICES,
    Devices,
    disk_counters,
    interface_counters,
    link_speeds,
    named_feature,
    physical_devices,
)
from collectors.disk_flushes import disk_flushes
from collectors.process_lookup import ProcessNotFound, find_server_process, process_io
from collectors.thread_times import ThreadTimes

LINK_SECONDS = 15.0  # seconds between two readings of the interfaces' speeds
DEVICE_SECONDS = 60.0  # seconds between two looks for added devices
CPU_FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


def prepare(connection: Connection, named: Devices = NO_DEVICES) -> Prepared:
    """Find the server's process; without it nothing is read.

    `named` devices are read too; each reading shows whether they are there.
    """
    try:
        process = find_server_process(connection)
    except (psutil.Error, OSError) as error:
        return Prepared(
            None, (Feature("host", False, f"cannot read this host's processes: {error}"),)
        )
    if isinstance(process, ProcessNotFound):
        remedy = "run the agent on the server's host, in its PID namespace"
        return Prepared(None, (Feature("host", False, process.reason, remedy),))
    devices = _PresentDevices(named)
    io = _process_io_feature(process.pid)
    threads, clocks = ThreadTimes(process.pid), CpuClocks(process.cpu_affinity)
    idle = IdleEntries(_allowed_processors(process))
    speeds, latest = _LinkSpeeds(), NO_VALUES

    def read() -> Values:
        nonlocal latest
        clock = clocks.ratio()  # first: it may wait, and the counters have the sample's time
        values = _read(process, devices, speeds, io=io.enabled)
        optional = {
            "cpu_clock_ratio": clock,
            "cpu_idle_entries": idle.per_processor(),
        }
        known = {name: value for name, value in optional.items() if value is not None}
        latest = values
        return {**values, **threads.read(), **known}

    def found() -> tuple[Feature, ...]:
        return named_feature(named, latest, "not on this host", LOCAL_NAMES)

    quota = quota_feature(process.pid)
    return Prepared(read, (Feature("host", enabled=True), quota, io), found)


def _allowed_processors(process: psutil.Process) -> list[int]:
    """Return the processors that the server may use; none where that cannot be read."""
    try:
        return process.cpu_affinity()
    except (psutil.Error, OSError):
        return []


class _PresentDevices:
    """The physical devices and the named ones: one may be added to a running machine."""

    def __init__(self, named: Devices) -> None:
        self._named = named
        self._physical = NO_DEVICES
        self._due = 0.0

    def read(self) -> Devices:
        """Return the devices, looked for again after `DEVICE_SECONDS`."""
        if time.monotonic() >= self._due:
            self._physical = physical_devices(self._physical)
            self._due = time.monotonic() + DEVICE_SECONDS
        return self._physical | self._named


class _LinkSpeeds:
    """The speeds of the interfaces, which change seldom."""

    def __init__(self) -> None:
        self._known: Values = {}
        self._due = 0.0

    def read(self, interfaces: frozenset[str]) -> Values:
        """Return the speeds, read again after `LINK_SECONDS`."""
        if time.monotonic() >= self._due:
            self._known = link_speeds(interfaces)
            self._due = time.monotonic() + LINK_SECONDS
        return self._known


def _process_io_feature(pid: int) -> Feature:
    """Check whether the kernel shows the process's reads and writes, as it does to its own user.

    One check suffices: a process keeps its rights while it runs.
    """
    try:
        process_io(pid)
    except OSError as error:
        reason = f"the process's reads and writes cannot be seen: {error.strerror}"
        remedy = "run the agent as the server's user (host-process-io.conf)"
        return Feature("host_process_io", False, reason, remedy)
    return Feature("host_process_io", enabled=True)


def _read(
    process: psutil.Process, present: _PresentDevices, speeds: _LinkSpeeds, *, io: bool
) -> Values:
    """Read all counters; raises `CollectorError` if the process has ended or one is unreadable."""
    try:
        devices = present.read()
        moved = {**_disk_values(devices.disks), **_interface_values(devices.interfaces)}
        limits = {"process_cpus": process_cpus(process), **speeds.read(devices.interfaces)}
        used = {**_cpu_counters(), **_process_counters(process)}  # first: says if it has ended
        return {**used, **moved, **limits, **(process_io(process.pid) if io else {})}
    except psutil.NoSuchProcess as error:
        message = f"the server's process {process.pid} has ended"
        raise CollectorError(FailureKind.LOST, message) from error
    except (psutil.Error, OSError, RuntimeError) as error:
        raise CollectorError(FailureKind.UNREADABLE, f"host counters: {error}") from error


def _cpu_counters() -> dict[str, float]:
    """Read the host's CPU seconds by kind since boot, and its number of processors."""
    times = psutil.cpu_times()
    values = {f"cpu_{name}_seconds": float(getattr(times, name, 0.0)) for name in CPU_FIELDS}
    values["cpus"] = float(psutil.cpu_count() or 1)
    return values


def _process_counters(process: psutil.Process) -> dict[str, float]:
    """Read the CPU seconds of the server's process since its start."""
    with process.oneshot():
        times = process.cpu_times()
    values = {"process_user_seconds": times.user, "process_system_seconds": times.system}
    clock = process_clock(process.pid)
    values["process_cpu_seconds"] = clock if clock is not None else times.user + times.system
    return values


def process_clock(pid: int) -> float | None:
    """Read the CPU seconds of a whole process in nanosecond steps (Linux); None if not allowed.

    The clock's ID is that of clock_getcpuclockid(3): the process's bits inverted, kind 2.
    """
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return None


def _disk_values(disks: frozenset[str]) -> dict[str, float]:
    """Read requests, bytes and busy time of each disk since boot."""
    values = {}
    for name, io in disk_counters().items():
        if name in disks:
            values[f"disk:{name}:reads"] = float(io.read_count)
            values[f"disk:{name}:writes"] = float(io.write_count)
            values[f"disk:{name}:read_bytes"] = float(io.read_bytes)
            values[f"disk:{name}:written_bytes"] = float(io.write_bytes)
            values[f"disk:{name}:merged_reads"] = float(getattr(io, "read_merged_count", 0))
            values[f"disk:{name}:read_seconds"] = io.read_time * MILLISECOND
            values[f"disk:{name}:busy_seconds"] = io.busy_time * MILLISECOND
    return values | disk_flushes(disks)


def _interface_values(interfaces: frozenset[str]) -> dict[str, float]:
    """Read the bytes received and sent by each interface since boot."""
    values = {}
    for name, io in interface_counters().items():
        if name in interfaces:
            values[f"network:{name}:received_bytes"] = float(io.bytes_recv)
            values[f"network:{name}:sent_bytes"] = float(io.bytes_sent)
    return values
