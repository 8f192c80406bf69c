"""The programs in benchmarks/, which no other test imports."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
LOAD_ALL = """
import runpy, sys
from pathlib import Path
for file in sorted(Path(sys.argv[1]).rglob("*.py")):
    sys.path[:2] = [str(file.parent), sys.argv[1]]
    runpy.run_path(str(file), run_name="loaded")
"""


@pytest.mark.slow
def test_every_benchmark_finds_what_it_imports() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOAD_ALL, str(BENCHMARKS)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    spec = importlib.util.spec_from_file_location("benchmark_of_the_lab", BENCHMARKS / "lab.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_small_rates_have_decimals(lab: ModuleType) -> None:
    assert [lab.format_rate(each) for each in (1_234.5, 100.4, 34.56, 1.234, 0.5)] == [
        "1,234",
        "100",
        "34.6",
        "1.23",
        "0.50",
    ]


def test_the_sizes_of_groups_are_set_in_proportion_to_the_smallest(
    lab: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lab.format_ratio([0.002, 0.003, 0.001]) == "1.00 : 1.50 : 0.50"
    monkeypatch.setattr(lab, "SIZES", {2: 2, 3: 1})
    monkeypatch.setattr(lab, "RUNS", 1)
    lab.print_rebalances()
    printed = capsys.readouterr().out
    assert "CPU time for each member and rebalance, 2 : 3 members\n   without checker: 1.00 : " in printed
