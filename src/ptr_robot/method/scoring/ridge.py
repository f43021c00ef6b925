"""Cross-fitted regression in closed form: ridge on random Fourier features, one fit for every held-out fold.

A kernel regression whose cost is linear in the number of samples, which has no training schedule and forgets its seed
when a few draws of features are averaged. The Gram matrices of the folds add up, so all folds cost one pass.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

NUM_FEATURES = 160
_WIDTHS = (0.5, 1.0, 2.0)  # of the kernels that share the features, in typical distances
_PENALTIES = (1e-3, 1e-2, 1e-1, 1.0)  # of the mean squared feature, times the number of samples' root
_BOUND = 5.0  # deviations beyond which an input counts as this far


@dataclass(frozen=True)
class FeatureMap:
    """Standardised inputs themselves, and cosines of random projections of them."""

    centre: Array  # (D,)
    width: Array  # (D,)
    frequencies: Array  # (D, M)
    phases: Array  # (M,)

    @classmethod
    def of(cls, inputs: Array, num_features: int, generator: np.random.Generator) -> FeatureMap:
        """For inputs that are spread like these."""
        centre, width = inputs.mean(axis=0), inputs.std(axis=0) + 1e-6
        num_moving = max(1, int((inputs.std(axis=0) > 1e-6).sum()))
        scales = np.resize(np.array(_WIDTHS), num_features) * np.sqrt(2.0 * num_moving)
        frequencies = generator.standard_normal((inputs.shape[1], num_features)) * np.sqrt(2.0) / scales
        phases = generator.uniform(0, 2 * np.pi, num_features)
        return cls(centre, width, frequencies.astype(np.float32), phases.astype(np.float32))

    def __call__(self, inputs: Array) -> Array:  # (n, D) -> (n, 1 + D + M)
        standard = np.clip((inputs - self.centre) / self.width, -_BOUND, _BOUND)
        waves = np.cos(standard @ self.frequencies + self.phases) * np.sqrt(2.0 / max(1, len(self.phases)))
        features: Array = np.concatenate([np.ones((len(inputs), 1)), standard, waves], axis=1).astype(np.float32)
        return features


@dataclass(frozen=True)
class FoldedRidge:
    """One linear map a fold, each fitted on all samples but the fold's own."""

    features: FeatureMap
    weights: Matrix  # (F, features, targets)
    penalised: Matrix  # (F, features, features) each map's Gram matrix and penalty
    _inverses: dict[int, Matrix] = field(default_factory=dict, compare=False, repr=False)

    def predict(self, inputs: Array, fold: int) -> Matrix:  # (n, D) -> (n, targets)
        """By the map that was not fitted on the fold."""
        predicted: Matrix = self.features(inputs).astype(np.float64) @ self.weights[fold]
        return predicted

    def novelty(self, inputs: Array, fold: int) -> Vector:  # (n, D) -> (n,)
        """The variance of a prediction over that of the noise: how little the map saw of such inputs.

        φᵀ (ΦᵀΦ + λ)⁻¹ φ, the share that Bayesian linear regression adds to the noise of a new observation.
        """
        features = self.features(inputs).astype(np.float64)
        share: Vector = ((features @ self._inverse(fold)) * features).sum(axis=1)
        return share

    def _inverse(self, fold: int) -> Matrix:
        """Made when it is first asked for: most maps never are."""
        if fold not in self._inverses:
            self._inverses[fold] = np.asarray(np.linalg.inv(self.penalised[fold]), dtype=np.float64)
        return self._inverses[fold]


class RidgeProblem:
    """Samples with their features, which can be fitted again under other importances without making them anew."""

    def __init__(
        self,
        inputs: Array,  # (N, D)
        targets: Array,  # (N, targets)
        folds: NDArray[np.int64],  # (N,)
        num_folds: int,
        generator: np.random.Generator,
        num_features: int = NUM_FEATURES,
    ) -> None:
        self.targets, self.folds, self.num_folds = targets, folds, num_folds
        self.feature_map = FeatureMap.of(inputs, int(min(num_features, max(8, len(inputs) // 4))), generator)
        self.features = self.feature_map(inputs)  # (N, M)

    def fit(self, importance: NDArray[np.float64] | None = None) -> tuple[FoldedRidge, Matrix]:  # ..., (N, targets)
        """The maps and their held-out errors; the penalty is the one whose held-out predictions are best."""
        counts = np.ones(len(self.folds)) if importance is None else importance
        grams, products = _sums(self.features, self.targets, self.folds, counts, self.num_folds)
        root = np.sqrt(max(1.0, float(counts.sum())))
        best_error, best_penalty = np.inf, _PENALTIES[0]
        best = (np.zeros_like(products), np.zeros(self.targets.shape))
        for penalty in _PENALTIES:
            weights = _solve(grams, products, penalty * root)
            errors = self._held_out_errors(weights)
            error = float((counts[:, None] * errors**2).sum())
            if error < best_error:
                best_error, best_penalty, best = error, penalty, (weights, errors)
        return FoldedRidge(self.feature_map, best[0], _penalised(grams, best_penalty * root)), best[1]

    def _held_out_errors(self, weights: Matrix) -> Matrix:  # (N, targets)
        errors = np.empty(self.targets.shape)
        for fold in range(self.num_folds):
            rows = self.folds == fold
            errors[rows] = self.features[rows] @ weights[fold].astype(np.float32) - self.targets[rows]
        return errors


def _sums(
    features: Array, targets: Array, folds: NDArray[np.int64], counts: NDArray[np.float64], num_folds: int
) -> tuple[Matrix, Matrix]:  # (F, M, M), (F, M, targets)
    grams, products = [], []
    for fold in range(num_folds):
        rows = folds == fold
        own = features[rows].astype(np.float64)
        weighted = own * counts[rows, None]
        grams.append(weighted.T @ own)
        products.append(weighted.T @ targets[rows])
    return np.stack(grams), np.stack(products)


def _solve(grams: Matrix, products: Matrix, penalty: float) -> Matrix:  # (F, M, targets)
    """Of every fold, from the sums of all others."""
    return np.linalg.solve(_penalised(grams, penalty), products.sum(axis=0) - products)


def _penalised(grams: Matrix, penalty: float) -> Matrix:  # (F, M, M)
    """Of every fold, the Gram matrix of all others; the constant is not penalised."""
    shrinkage = penalty * np.eye(grams.shape[1])
    shrinkage[0, 0] = 1e-6
    penalised: Matrix = grams.sum(axis=0) - grams + shrinkage
    return penalised
