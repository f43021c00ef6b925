"""Folded ridge regression against a plain one that is fitted anew for every fold."""

from __future__ import annotations

import numpy as np

from ptr_robot.method.scoring import ridge
from ptr_robot.method.scoring.ridge import RidgeProblem


def samples(num: int = 200):
    generator = np.random.default_rng(0)
    inputs = generator.standard_normal((num, 3)).astype(np.float32)
    targets = np.stack([np.sin(2 * inputs[:, 0]), inputs[:, 1] * inputs[:, 2]], axis=1).astype(np.float32)
    return inputs, targets, generator.integers(0, 4, num)


def test_every_fold_is_fitted_without_its_own_samples(monkeypatch) -> None:
    inputs, targets, folds = samples()
    penalty = 0.01
    monkeypatch.setattr(ridge, "_PENALTIES", (penalty,))
    importance = np.random.default_rng(1).uniform(0.2, 1.0, len(inputs))
    problem = RidgeProblem(inputs, targets, folds, 4, np.random.default_rng(2), num_features=20)
    model, errors = problem.fit(importance)
    features = model.features(inputs).astype(np.float64)
    shrinkage = penalty * np.sqrt(importance.sum()) * np.eye(features.shape[1])
    shrinkage[0, 0] = 1e-6
    for fold in range(4):
        own = folds != fold
        weighted = features[own] * importance[own, None]
        weights = np.linalg.solve(weighted.T @ features[own] + shrinkage, weighted.T @ targets[own])
        predicted = features[~own] @ weights
        np.testing.assert_allclose(model.predict(inputs[~own], fold), predicted, atol=1e-5)
        np.testing.assert_allclose(errors[~own], predicted - targets[~own], atol=1e-3)


def test_it_learns_what_is_not_linear() -> None:
    inputs, targets, folds = samples(800)
    _, errors = RidgeProblem(inputs, targets, folds, 4, np.random.default_rng(2)).fit()
    assert (errors**2).mean() < 0.3 * targets.var()


def test_what_the_fit_saw_little_of_is_new() -> None:
    """Against the posterior variance of a Bayesian linear regression, written as a plain inverse; and far away."""
    inputs, targets, folds = samples()
    problem = RidgeProblem(inputs, targets, folds, 4, np.random.default_rng(2), num_features=12)
    model, _ = problem.fit()
    features = model.features(inputs).astype(np.float64)
    found = model.novelty(inputs, 1)
    own = folds != 1
    penalties = [one * np.sqrt(len(inputs)) for one in ridge._PENALTIES]
    plain = []
    for penalty in penalties:
        shrinkage = penalty * np.eye(features.shape[1])
        shrinkage[0, 0] = 1e-6
        inverse = np.linalg.inv(features[own].T @ features[own] + shrinkage)
        plain.append(np.array([row @ inverse @ row for row in features]))
    assert any(np.allclose(found, one, rtol=1e-6) for one in plain)
    assert model.novelty(inputs + 4.0, 1).mean() > 3.0 * found.mean()
