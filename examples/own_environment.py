"""An environment of your own scores the policy while it trains; the run ends when it stops improving."""

import gymnasium
import numpy as np

import bfq


class Room(gymnasium.Env):  # it cools; the action is the power of its heater
    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float32)  # degrees too warm
    action_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.error = self.np_random.normal(0, 3, 1)
        return self.error, {}

    def step(self, action):
        self.error = self.error + action - 0.5
        return self.error, -abs(self.error.item()), False, False, {}


def episode(room, seed, length=30):
    """The log of a thermostat that heats too little and wavers."""
    rng, seen, powers, rewards = np.random.default_rng(seed), [room.reset(seed=seed)[0]], [], []
    for _ in range(length):
        powers.append(np.clip(0.5 - 0.1 * seen[-1] + rng.normal(0, 0.2, 1), 0, 1))
        after, reward, *_ = room.step(powers[-1])
        seen, rewards = [*seen, after], [*rewards, reward]
    return {"observations": seen, "actions": powers, "rewards": rewards, "terminated": False}


log = bfq.from_episodes([episode(Room(), k) for k in range(50)], action_low=0, action_high=1)
values, scores = {"width": 64, "critic_width": 64}, []
fit = bfq.fit(log, "td3_bc", values=values, steps=3000, seeds=2, env=Room, episode_steps=30)
for progress in fit:
    scores += [progress.mean("return")] if progress.scores else []
    if len(scores) > 2 and max(scores[-2:]) <= max(scores[:-2]):
        break
print(f"{progress.step} updates: {scores[-1]:.1f}; log: {log.describe()['return_mean']:.1f}")
