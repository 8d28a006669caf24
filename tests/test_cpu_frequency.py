"""How fast the clocks of the server's CPUs run, by a tree like the kernel's."""

from pathlib import Path

import psutil
import pytest

from collectors import cpu_frequency
from collectors.cpu_frequency import CPUS_AT_ONCE, CpuClocks
from testbed.real.daemon import wait_until


@pytest.fixture
def cpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree like the kernel's, to be filled with CPUs."""
    monkeypatch.setattr(cpu_frequency, "CPUS", tmp_path)
    return tmp_path


def write(cpus: Path, cpu: int, **files: object) -> Path:
    """What cpufreq says of a CPU; its directory."""
    policy = cpus / f"cpu{cpu}" / "cpufreq"
    policy.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (policy / name).write_text(f"{text}\n")
    return policy


def saving(cpus: Path, cpu: int, now: int, nominal: int = 2_400_000, **files: object) -> Path:
    """A CPU of the kind whose hardware sets the clock, within 0.8 to 3.6 GHz."""
    usual: dict[str, object] = {
        "scaling_driver": "intel_pstate",
        "scaling_governor": "powersave",
        "scaling_min_freq": 800_000,
        "scaling_max_freq": 3_600_000,
        "cpuinfo_min_freq": 800_000,
        "cpuinfo_max_freq": 3_600_000,
        "base_frequency": nominal,
        "scaling_cur_freq": now,
    }
    return write(cpus, cpu, **{**usual, **files})


def ratio(*cpus: int) -> float | None:
    """Of these CPUs, which are on."""
    return CpuClocks(lambda: list(cpus)).ratio()


def test_a_lowered_clock_is_measured(cpus: Path) -> None:
    """The mean over the CPUs, of cores with a base of their own too; turbo is the nominal clock."""
    saving(cpus, 0, 1_200_000)
    saving(cpus, 1, 3_300_000)
    saving(cpus, 2, 1_350_000, nominal=1_800_000)
    assert ratio(0) == pytest.approx(0.5)
    assert ratio(1) == 1.0
    assert ratio(2) == pytest.approx(0.75)
    assert ratio(0, 1, 2) == pytest.approx(0.75)


def test_the_nominal_clock_is_read_from_each_driver(cpus: Path) -> None:
    """In MHz by ACPI, by the turbo's share, or as the highest; never 0 or no number."""
    schedutil: dict[str, object] = {
        "scaling_driver": "cppc_cpufreq",
        "scaling_governor": "schedutil",
        "scaling_max_freq": 2_500_000,
        "scaling_cur_freq": 1_000_000,
    }
    bounds = {"cpuinfo_min_freq": 500_000, "cpuinfo_max_freq": 2_500_000}
    write(cpus, 0, **schedutil, **bounds)
    assert ratio(0) == pytest.approx(0.4)
    (cpus / "cpu0" / "acpi_cppc").mkdir()
    nominal = cpus / "cpu0" / "acpi_cppc" / "nominal_freq"
    nominal.write_text("2000\n")
    assert ratio(0) == pytest.approx(0.5)
    for nothing in ("0\n", "<unknown>\n", ""):
        nominal.write_text(nothing)
        assert ratio(0) == pytest.approx(0.4)
    (cpus / "intel_pstate").mkdir()
    (cpus / "intel_pstate" / "turbo_pct").write_text("25\n")
    assert ratio(0) == pytest.approx(0.5)


def test_the_performance_governor_counts_as_the_highest_clock(cpus: Path) -> None:
    """Whatever an idle or hot CPU shows."""
    saving(cpus, 0, 800_000, scaling_governor="performance")
    saving(cpus, 1, 1_200_000, scaling_governor="performance")
    assert ratio(0, 1) == 1.0


def test_the_clock_is_relative_to_the_allowed_maximum(cpus: Path) -> None:
    """A configured maximum is as fast as it can be; an allowed turbo does not count."""
    saving(cpus, 0, 1_200_000, scaling_max_freq=1_500_000)
    saving(cpus, 1, 1_500_000, scaling_max_freq=1_500_000)
    saving(cpus, 2, 2_400_000, scaling_max_freq=3_000_000)
    assert [ratio(cpu) for cpu in range(3)] == pytest.approx([0.8, 1.0, 1.0])


def test_an_idle_cpu_has_no_known_clock(cpus: Path) -> None:
    """Where the driver shows the lowest clock for it; another driver shows the requested one."""
    saving(cpus, 0, 800_000)
    saving(cpus, 1, 1_800_000)
    assert ratio(0) is None
    assert ratio(0, 1) == pytest.approx(0.75)
    saving(cpus, 2, 800_000, scaling_driver="acpi-cpufreq")
    assert ratio(2) == pytest.approx(1 / 3)
    saving(cpus, 3, 0)
    assert ratio(3) is None


def test_an_unreadable_cpu_does_not_affect_others(cpus: Path) -> None:
    """A missing or invalid file, an offline CPU; without any, no clock."""
    saving(cpus, 0, 1_200_000)
    (saving(cpus, 1, 2_400_000) / "scaling_cur_freq").unlink()
    broken = saving(cpus, 2, 2_400_000) / "scaling_cur_freq"
    broken.unlink()
    broken.mkdir()
    assert ratio(0, 1, 2, 7) == pytest.approx(0.5)
    assert ratio(1) is None
    assert ratio(2) is None
    assert ratio(7) is None
    assert ratio() is None


def test_a_cpu_is_read_as_soon_as_it_is_available(cpus: Path) -> None:
    """One that comes online, and one whose nominal clock could not be read at first."""
    found = CpuClocks(lambda: [0])
    assert found.ratio() is None
    base = saving(cpus, 0, 1_200_000, cpuinfo_max_freq="") / "base_frequency"
    base.unlink()
    assert found.ratio() is None
    base.write_text("2400000\n")
    assert found.ratio() == pytest.approx(0.5)


def test_of_many_cpus_a_few_are_read_at_a_time(cpus: Path) -> None:
    """All of them in turn, also if their number changes."""
    for cpu in range(64):
        saving(cpus, cpu, 2_400_000 if cpu < 32 else 1_200_000)
    on = list(range(64))
    many = CpuClocks(lambda: on)
    ratios = [many.ratio() for _ in range(64 // CPUS_AT_ONCE)]
    assert ratios == [1.0] * (32 // CPUS_AT_ONCE) + [0.5] * (32 // CPUS_AT_ONCE)
    assert many.ratio() == 1.0
    on = [62, 63]
    assert many.ratio() == 0.5


def test_a_process_that_has_ended_has_no_clocks() -> None:
    """Its end is detected by its other counters."""

    def gone() -> list[int]:
        raise psutil.NoSuchProcess(1)

    assert CpuClocks(gone).ratio() is None


def test_the_clocks_of_this_machine_are_known_or_absent() -> None:
    """With any kernel: none without cpufreq, as in a virtual machine."""
    cpus = psutil.Process().cpu_affinity()
    clocks = CpuClocks(lambda: cpus)
    if any(Path(f"/sys/devices/system/cpu/cpu{cpu}/cpufreq").exists() for cpu in cpus):
        found = wait_until("a CPU that was in use", clocks.ratio)
        assert found is not None
        assert 0 < found <= 1
    else:
        assert clocks.ratio() is None
