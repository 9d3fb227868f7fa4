"""An agent in a file of its own, my_agent.py: choose its η with a sweep, and export the best policy."""

from pathlib import Path

import bfq

AGENT = str(Path(__file__).with_name("my_agent.py"))
values = {"eta": [0.1, 1.0], "width": 32}

sweep = bfq.sweep(
    "pendulum-mixed",
    AGENT,
    values=values,
    steps=200,
    seeds=2,
    evaluations=1,
    eval_episodes=2,
    quiet=True,
)
for eta, mean in zip(sweep.table["eta"], sweep.table["mean"], strict=True):
    print(f"eta {eta:g}: {mean:.1f}")
best = sweep.runs[0]
member = [one.overrides for one in best.record.members].index(sweep.best)
print(f"exported: {bfq.export(best, 'policy.npz', member=member).path}")
