"""What `rejoinder train` leaves in the state directory, and the shipped calibration: files beside a reader.

reader/trust.json      a calibration                     (see `calibration`)
reader/anchors.npz     what the labelled questions teach (see `anchors`); only where it was adapted
reader/model.onnx      the reader itself, only where it was taught further
reader/reader.json     what that one was made from: it is used only beside the reader that it began as
"""

import hashlib
import json
import logging
from dataclasses import dataclass
from pathlib import Path

from cache.anchors import Anchors, from_bytes
from cache.calibration import Calibration, read_calibration

log = logging.getLogger(__name__)

CALIBRATION = "trust.json"
ANCHORS = "anchors.npz"
READER = "model.onnx"
CARD = "reader.json"


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


def reader_name(path: Path) -> str:
    """Which reader a model.onnx is: `reader@` and the digest of the file. Raises OSError."""
    with path.open("rb") as file:
        return f"reader@{hashlib.file_digest(file, 'sha256').hexdigest()[:12]}"


def own_reader(folder: Path, base: str | None) -> bool:
    """Whether a reader stands in this folder that may be opened: whole, as its calibration knows it, and taught from
    `base`, the name of the reader that would be used otherwise; None = that one has no name here. Else a line in the
    log, unless there is none."""
    if not (folder / READER).is_file():
        return False
    try:
        calibration = read_calibration(folder / CALIBRATION)
        found = reader_name(folder / READER)
        card = json.loads((folder / CARD).read_bytes()) if (folder / CARD).is_file() else {"base": base}
        made_from = card["base"]
    except (ValueError, KeyError, TypeError, OSError) as trouble:
        log.warning("the reader in %s is not used: %s", folder, trouble)
        return False
    if calibration is None or calibration.reader != found:
        log.warning("the reader in %s is not the one that its calibration was made for: it is not used", folder)
        return False
    if base is not None and made_from != base:
        log.warning(
            "the reader in %s was taught from %s, and %s is in use now: it is not used; `rejoinder train` teaches anew",
            folder, made_from, base,
        )  # fmt: skip
        return False
    return True
