"""`bfq.agents.BFQ(eta=0.1)`: real keywords, checked values, completion in editors, and nothing imported too early."""

import inspect
import subprocess
import sys

import pytest
from tools.agent_stub import FILE, stub

import bfq
from bfq.agents.registry import ConfiguredAgent, agent_names, get_agent


def test_the_stub_is_up_to_date():
    assert FILE.read_text() == stub(), "run `python -m tools.agent_stub`"


@pytest.mark.parametrize("name", agent_names())
def test_every_agent_is_a_function_with_its_hyperparameters_as_keywords(name):
    function = getattr(bfq.agents, name.upper())
    config = get_agent(name).config()
    parameters = inspect.signature(function).parameters
    assert list(parameters) == list(vars(config))
    for field, parameter in parameters.items():
        assert parameter.default == getattr(config, field)
        assert f"\n    {field}: " in function.__doc__
    assert function() == ConfiguredAgent(get_agent(name), {})


def test_values_are_checked_when_they_are_given():
    chosen = bfq.agents.BFQ(eta=0.1, width=[256, 128], guidance="mean")
    assert chosen.values == {"eta": 0.1, "width": "256x128", "guidance": "mean"}
    assert repr(chosen) == "BFQ(eta=0.1, width='256x128', guidance='mean')"
    several = chosen.with_values(eta=(0.1, 1), critic_width=64)
    assert several.values["eta"] == [0.1, 1.0]
    assert several.values["critic_width"] == 64
    assert chosen.values["eta"] == 0.1
    for values, message in (
        ({"etta": 1}, "unknown hyperparameter of bfq 'etta': did you mean 'eta'"),
        ({"eta": -1}, "bfq's eta must be a finite number of at least 0"),
        ({"eta": [0.1, "x"]}, "bfq's eta must be"),
        ({"eta": []}, "eta has no value"),
        ({"guidance": ["mean", "min"]}, "bfq's guidance must be one of"),
        ({"width": [0, 4]}, "bfq's width must be"),
    ):
        with pytest.raises(bfq.BadInput, match=message):
            bfq.agents.BFQ(**values)
    with pytest.raises(TypeError):
        bfq.agents.BFQ(0.1)
    with pytest.raises(AttributeError, match="no attribute 'BFG'"):
        bfq.agents.BFG  # noqa: B018


def test_importing_the_package_imports_no_agent():
    code = "import sys, bfq, bfq.agents; assert not {'jax', 'numpy', 'bfq.agents.bfq'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_training_takes_an_agent_with_its_hyperparameters(tiny_data, tmp_path):
    agent = bfq.agents.TD3_BC(eta=[0.1, 1], width=[16, 8], critic_width=8, batch_size=16)
    options = {"steps": 2, "seeds": 1, "quiet": True}
    run = bfq.train(tiny_data, agent, **options, values={"critic_width": 4}, out=tmp_path / "run")
    config = run.record.config
    assert (config["width"], config["critic_width"]) == ("16x8", 4)
    assert [member.overrides for member in run.record.members] == [{"eta": 0.1}, {"eta": 1.0}]
    bfq.train(tiny_data, agent, out=run.folder, resume=True, values={"critic_width": 4})
    plan = bfq.plan("pendulum-mixed", agent, steps=2)
    assert plan.varied == {"eta": [0.1, 1.0]}
