"""What `rejoinder train` leaves in the state directory, and the shipped calibration: files beside a reader.

reader/trust.json      a calibration                     (see `calibration`)
reader/anchors.npz     what the labelled questions teach (see `anchors`); only where it was adapted
reader/model.onnx      the reader itself, only where it was taught further
"""

import logging
from dataclasses import dataclass
from pathlib import Path

from cache.anchors import Anchors, from_bytes
from cache.calibration import Calibration, read_calibration

log = logging.getLogger(__name__)

CALIBRATION = "trust.json"
ANCHORS = "anchors.npz"


@dataclass(frozen=True, slots=True)
class Adapted:
    """A calibration with the anchors that it was fitted with."""

    calibration: Calibration
    anchors: Anchors | None


def calibrated(folder: Path, embedder: str) -> Calibration | None:
    """The calibration in this folder, if there is one for this embedder."""
    try:
        found = read_calibration(folder / CALIBRATION)
    except ValueError as trouble:
        log.warning("the calibration is not used: %s", trouble)
        return None
    if found is not None and found.embedder != embedder:
        log.info("the calibration in %s was made for the embedder %s, not for %s", folder, found.embedder, embedder)
        return None
    return found


def read_adapted(folder: Path, embedder: str, reader: str) -> Adapted | None:
    """What stands in this folder, if it was made for these two models; None otherwise, with a line in the log."""
    try:
        calibration = read_calibration(folder / CALIBRATION)
        if calibration is None:
            return None
        path = folder / ANCHORS
        anchors = from_bytes(path.read_bytes()) if path.is_file() else None
    except (ValueError, KeyError, OSError) as trouble:
        log.warning("the calibration in %s is not used: %s", folder, trouble)
        return None
    if (calibration.embedder, calibration.reader) != (embedder, reader):
        log.warning(
            "the calibration in %s was made for %s and %s, not for %s and %s: it is not used",
            folder, calibration.embedder, calibration.reader, embedder, reader,
        )  # fmt: skip
        return None
    return Adapted(calibration, anchors)
