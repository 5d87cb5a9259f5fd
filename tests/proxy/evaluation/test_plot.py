"""A picture for a meeting, and the figures behind it; and a way out where matplotlib is not installed."""

import csv
import sys
from pathlib import Path

import pytest

from proxy.evaluation.curve import Curves, sweep
from proxy.evaluation.packs import PackError
from proxy.evaluation.plot import as_csv, draw, require

SWEPT = sweep([(0.99, True), (0.9, False)], 4)
SHOP = Curves("shop", "P(right)", SWEPT, sweep([(0.95, False), (0.8, True)], 4), (0.25, 0.0), 0.01)
EMPTY = Curves("nothing served", "P(right)", (), (), None, 0.01)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_one_panel_a_pack_is_drawn_with_its_figures_beside_it(count: int, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    table = draw([SHOP, EMPTY, SHOP, EMPTY][:count], tmp_path / "out.png")
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")
    assert table == tmp_path / "out.csv"
    assert len(table.read_text(encoding="utf-8").splitlines()) >= 6


def test_the_figures_are_those_of_the_curves() -> None:
    rows = list(csv.DictReader(as_csv([SHOP]).splitlines()))
    assert [row["curve"] for row in rows] == ["P(right)"] * 2 + ["plain cosine"] * 2 + ["operating point"]
    assert (rows[1]["score"], rows[1]["coverage"], rows[1]["risk"]) == ("0.9", "0.5", "0.5")


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    with pytest.raises(PackError, match="No plot was written to"):
        draw([SHOP], tmp_path / "nowhere" / "out.png")


def test_a_format_that_does_not_exist_is_no_traceback(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    with pytest.raises(PackError, match="No plot was written to"):
        draw([SHOP], tmp_path / "out.nonsense")


def test_without_matplotlib_the_way_out_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(PackError, match=r"pip install 'rejoinder\[plot\]'"):
        require()
