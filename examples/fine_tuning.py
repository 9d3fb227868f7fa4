"""Offline to online: a policy is trained on a log of Pendulum, then it goes on in the environment."""

import bfq

log = bfq.load_dataset("pendulum-mixed")
agent = bfq.agents.TD3_BC(width=32, critic_width=32)
judged = {"eval_episodes": 3, "quiet": True}
offline = bfq.train(log, agent, env="Pendulum-v1", steps=400, seeds=2, evaluations=1, **judged)
online = bfq.finetune(offline, steps=400, evaluations=4, **judged)

curve = {0: offline.scores["return"]}  # one return per seed
for step, score in zip(online.evaluations["step"], online.evaluations["return"], strict=True):
    curve.setdefault(int(step), []).append(float(score))
for step, scores in curve.items():
    print(f"{step:4} steps: {', '.join(f'{score:.0f}' for score in scores)}")
