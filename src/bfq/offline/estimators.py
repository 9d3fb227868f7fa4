"""Every estimator for every policy, on the held-out episodes of a log. Policy 0 is the log itself."""

import hashlib
import json
import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import numpy as np

from bfq.data.coverage import evenly_spaced
from bfq.data.dataset import Floats
from bfq.offline.fitted_q import fit_values, q_values
from bfq.offline.judged import TRIED, Judged, actions_at, is_random, joined
from bfq.offline.log import Rows, SplitLog, first_rows, returns_to_go
from bfq.offline.model import Model, Rollouts, fit_model, replay_log, rollouts
from bfq.offline.record import Calibration, Judgment, LogRecord, OfflineRecord, estimate, finite
from bfq.offline.support import Support, calibrate, find_support
from bfq.offline.training import EstimatorSizes, Work
from bfq.offline.weighting import (
    Density,
    Interval,
    Weighting,
    fit_density,
    log_ratios,
    two_way_interval,
)
from bfq.progress import reporting
from bfq.run import versions

STARTS = 32  # held-out starts from which episodes in the model begin
DRAWN_ROWS, MOST_DRAWS = 100_000, 4  # actions of a random policy: more per state if there are few
KNOWN = (
    0.7  # weight of the rewards in the log, of all that follow, from which on a return is compared
)
DENSITY = "Gaussian with mean and variance that depend on the state"


def fingerprint_of(log: SplitLog, judged: Judged, settings: EstimatorSizes) -> str:
    """A short hash of everything that the numbers depend on, with a few actions of each policy."""
    tried = log.held.observations[:TRIED]
    actions = judged.act(np.broadcast_to(tried, (len(judged.names), *tried.shape)), 0)
    content = {
        "data": [log.fit.sha256, log.held.sha256],
        "discount": log.discount,
        "settings": settings._asdict(),
        "names": judged.names,
        "actions": hashlib.sha256(np.ascontiguousarray(actions).tobytes()).hexdigest(),
    }
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Evaluation:
    """The estimators, each fitted when it is first asked, and what they say about every policy."""

    log: SplitLog
    judged: Judged
    settings: EstimatorSizes
    work: Work

    @cached_property
    def density(self) -> Density:
        """The density of the logged actions."""
        return fit_density(self.log, self.settings, self.work)

    @cached_property
    def everyone(self) -> Judged:
        """All policies; that of the log draws from its density."""

        def act(observations: Floats, number: int) -> Floats:
            mean, std = self.density(self.log.transforms.normalize(observations))
            random = np.random.default_rng((self.settings.seed, number))
            unit = np.clip(mean + std * random.standard_normal(mean.shape), -1.0, 1.0)
            return self.log.transforms.from_unit(unit.astype(np.float32))

        return joined([Judged(("log",), act), self.judged])

    def actions(self, words: str, observations: Floats) -> Floats:
        """Actions within ±1 of every policy: (policies, rows, draws, a)."""
        fit = self.log.fit
        random = is_random(self.judged, fit.observations)
        draws = int(np.clip(DRAWN_ROWS // len(fit), 1, MOST_DRAWS)) if random else 1
        with reporting(f"actions {words}", len(observations), self.work.quiet, "states") as shown:
            return actions_at(
                self.everyone, self.log.transforms, observations, draws,
                lambda done: shown.show(done, {}),
            )  # fmt: skip

    @cached_property
    def critics(self) -> Any:
        """The critics of every policy; those of the log follow the actions that were logged."""
        found = self.actions("in the log", self.log.fit.next_observations)
        following, known = self.log.fit.next_actions(slice(None))
        found[0] = self.log.transforms.to_unit(following)[:, None]
        there = np.ones(found.shape[:2], np.float32)
        there[0] = known
        return fit_values(self.log, found, there, self.settings, self.work)

    def values(self, observations: Floats, actions: Floats) -> Floats:
        """Fitted Q: (policies, critics, rows)."""
        return q_values(self.critics, self.log.transforms.normalize(observations), actions)

    @cached_property
    def model(self) -> Model:
        """The learned dynamics."""
        return fit_model(self.log, self.settings, self.work)

    @cached_property
    def starts(self) -> Rows:
        """The held-out rows in which episodes begin."""
        return first_rows(self.log.held)

    @cached_property
    def rollouts(self) -> Rollouts:
        """Episodes in the model from some of the starts."""
        log, act = self.log, self.everyone.act

        def tail(observations: Floats, number: int) -> Any:
            acted = log.transforms.to_unit(act(observations, number))
            return log.in_units(self.values(observations, acted[:, :, None]).mean(1))

        begin = log.held.observations[self.starts[self.some]]
        count = len(self.everyone.names)
        return rollouts(log, self.model, act, begin, count, tail, self.work.quiet)

    @cached_property
    def some(self) -> Rows:
        """The starts of episodes in the model."""
        return evenly_spaced(len(self.starts), STARTS)

    @cached_property
    def acted(self) -> Floats:
        """Actions at the held-out states."""
        return self.actions("in held-out episodes", self.log.held.observations)

    @cached_property
    def first(self) -> Floats:
        """Fitted Q at the starts: (policies, critics, starts)."""
        return self.values(self.log.held.observations[self.starts], self.acted[:, self.starts])

    @cached_property
    def logged_q(self) -> Floats:
        """Fitted Q of the logged actions: (policies, critics, rows)."""
        logged = self.log.columns(self.log.held)["actions"][:, None]
        everyone = np.broadcast_to(logged, (len(self.everyone.names), *logged.shape))
        return self.values(self.log.held.observations, everyone)

    @cached_property
    def weighting(self) -> Weighting:
        """Importance weights; those of the log are 1."""
        part, after = self.log.columns(self.log.held), self.log.held.next_observations
        ratios = log_ratios(self.density, part["observations"], part["actions"], self.acted)
        ratios[0] = 0.0
        later = self.values(after, self.actions("one step later", after)).mean(1)
        return Weighting(self.log, ratios, self.logged_q.mean(1), later, self.first.mean(1))

    @cached_property
    def support(self) -> Support:
        """The neighbors of held-out states."""
        return find_support(self.log)

    def calibration(self) -> Calibration:
        """The critics of the log against the returns that followed, where enough of an episode does."""
        held, discount = self.log.held, self.log.discount
        known = returns_to_go(held, np.where(held.terminals, 1.0, 1.0 - discount), discount)
        rows = np.flatnonzero(known >= KNOWN) if (known >= KNOWN).any() else self.starts
        returns = returns_to_go(held, self.weighting.rewards[0], discount)
        predicted = self.log.in_units(self.logged_q[0].mean(0))
        return calibrate(predicted[rows], self.log.in_units(returns)[rows])

    def judgment(self, k: int) -> Judgment:
        """What the estimators say about one policy."""
        logged, first, run = self.weighting.logged, self.log.in_units(self.first[k]), self.rollouts
        values = {
            "fqe": two_way_interval(first),
            "model": two_way_interval(run.discounted[k]),
            **self.weighting.estimates(k),
        }
        gains = {
            "fqe": two_way_interval(first - logged),
            "model": two_way_interval(run.discounted[k] - logged[self.some]),
        }
        gap = self.acted[k].mean(1) - self.log.transforms.to_unit(self.log.held.actions)
        return Judgment(
            name=self.everyone.names[k],
            values={name: estimate(found) for name, found in values.items()},
            gains={name: estimate(found) for name, found in gains.items()},
            bound=finite(logged.mean() + min(found[1] for found in gains.values())),
            verdict=_verdict(list(gains.values())),
            episode_return=estimate(two_way_interval(run.undiscounted[k])),
            effective_episodes=finite(self.weighting.effective_episodes(k)),
            action_distance=finite(float(np.square(gap).sum(-1).mean()) ** 0.5),
            outside_support=finite(self.support.outside(self.acted[k, self.support.rows])),
        )

    def record(self, seen: bool) -> OfflineRecord:
        """Everything; `seen`: whether a judged run was trained on the held-out episodes."""
        began, log, count = time.monotonic(), self.log, len(self.log.whole.last_rows)
        policies = [self.judgment(k) for k in range(1, len(self.everyone.names))]
        logged, received = self.weighting.logged, log.held.episode_returns
        return OfflineRecord(
            policies=policies,
            log=LogRecord(
                log.whole.name, log.whole.source, log.whole.sha256, len(log.whole), count,
                len(logged), seen, estimate(two_way_interval(logged[None])),
                estimate(two_way_interval(received[None])),
            ),
            discount=log.discount,
            steps=self.rollouts.steps,
            density=DENSITY,
            fitted_q=self.calibration(),
            model=replay_log(log, self.model),
            settings={**self.settings._asdict(), "held_out": len(logged) / count},
            versions=versions(),
            device=jax.devices()[0].device_kind,
            seconds=time.monotonic() - began,
        )  # fmt: skip


def _verdict(gains: list[Interval]) -> Any:
    """Whether the estimators agree that a policy is better or worse than the log."""
    if not np.isfinite(gains).all():
        return "diverged"
    if min(low for _, low, _ in gains) > 0.0:
        return "better"
    return "worse" if max(high for *_, high in gains) < 0.0 else "unclear"
