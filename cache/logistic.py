"""Logistic regression with a prior: how probable is it that an answer is right, and how sure are we of that. Pure.

The maximum of the posterior by Newton's method, its spread by Laplace's approximation (C. Bishop, Pattern Recognition
and Machine Learning, 2006, 4.4 and 4.5.1). Every use here has few parameters and a prior, so a small solver will do."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
_STEPS = 60
_CLOSE = 1e-8


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """mean: (d,).  covariance: (d, d)."""

    mean: Array
    covariance: Array


def sigmoid(z: Array) -> Array:
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * z)))


def fitted(
    x: Array, right: Array, weight: Array, prior_mean: Array, precision: Array, offset: Array | None = None
) -> Posterior:
    """P(right) = sigmoid(offset + x @ mean).

    x: (n, d).  right: (n,), 0 or 1, or in between where a label is doubted.  weight: (n,).
    prior_mean, precision: (d,), a normal prior with independent components.  n may be 0: the prior is the posterior."""
    mean = prior_mean.astype(np.float64).copy()
    offset = np.zeros(len(x)) if offset is None else offset

    def lost(at: Array) -> float:
        z = offset + x @ at
        likelihood = weight * (np.logaddexp(0.0, z) - right * z)
        return float(likelihood.sum() + 0.5 * (precision * (at - prior_mean) ** 2).sum())

    def curvature(at: Array) -> Array:
        p = sigmoid(offset + x @ at)
        return np.asarray((x * (weight * p * (1.0 - p))[:, None]).T @ x + np.diag(precision))

    loss = lost(mean)
    for _ in range(_STEPS):
        gradient = x.T @ (weight * (sigmoid(offset + x @ mean) - right)) + precision * (mean - prior_mean)
        step = np.linalg.solve(curvature(mean), gradient)
        share = 1.0
        while lost(mean - share * step) > loss and share > 1e-6:  # far from the maximum a whole step may overshoot
            share *= 0.5
        mean = mean - share * step
        before, loss = loss, lost(mean)
        if before - loss < _CLOSE:
            break
    return Posterior(mean, np.asarray(np.linalg.inv(curvature(mean)), dtype=np.float64))


def offset_of(z: Array, right: Array, weight: Array, spread: float) -> tuple[float, float]:
    """(mean, standard deviation) of what must be added to z; before any label it is normal around 0 with `spread`."""
    found = fitted(np.ones((len(z), 1)), right, weight, np.zeros(1), np.array([spread**-2]), z)
    return float(found.mean[0]), float(np.sqrt(found.covariance[0, 0]))
