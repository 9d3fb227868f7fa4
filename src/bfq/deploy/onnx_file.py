"""A plan as an ONNX graph, for runtimes on accelerators and phones; needs the package onnx to write.

Inputs `observation` (n, s) and, where the policy draws noise, `noise` (n, a) from N(0, 1); output `action`
(n, a).
"""

from importlib import import_module
from typing import Any

import numpy as np

from bfq.deploy.plan import Plan
from bfq.errors import BadInput

OPSET = 18
IR_VERSION = 8  # what runtimes of this opset's time read


class _Graph:
    """Nodes and constants as they are added; every value has a name."""

    def __init__(self, onnx: Any):
        self._onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, value: Any) -> str:
        """A float32 array of the file."""
        name = f"constant_{len(self.constants)}"
        self.constants.append(
            self._onnx.numpy_helper.from_array(np.asarray(value, np.float32), name)
        )
        return name

    def add(self, kind: str, *inputs: Any, name: str = "", **attributes: Any) -> str:
        """The result of an operation; what is no name is a constant."""
        names = [x if isinstance(x, str) else self.constant(x) for x in inputs]
        result = name or f"value_{len(self.nodes)}"
        self.nodes.append(self._onnx.helper.make_node(kind, names, [result], **attributes))
        return result


def _activated(graph: _Graph, kind: str, x: str) -> str:
    if kind == "none":
        return x
    if kind == "silu":
        return graph.add("Mul", x, graph.add("Sigmoid", x))
    if kind == "gelu":  # ½ (1 + tanh u) = sigmoid(2 u)
        cubed = graph.add("Mul", graph.add("Mul", x, x), x)
        u = graph.add("Add", x, graph.add("Mul", cubed, 0.044715))
        gate = graph.add("Sigmoid", graph.add("Mul", u, 2.0 * (2.0 / np.pi) ** 0.5))
        return graph.add("Mul", x, gate)
    return graph.add({"relu": "Relu", "tanh": "Tanh", "mish": "Mish"}[kind], x)


def onnx_model(plan: Plan, metadata: dict[str, Any]) -> bytes:
    """The bytes of the file."""
    try:
        onnx: Any = import_module("onnx")
    except ImportError as error:
        raise BadInput("the onnx format needs the package onnx: pip install onnx.") from error
    graph, transforms = _Graph(onnx), plan.transforms
    centered = graph.add("Sub", "observation", transforms.observation_mean)
    x = graph.add("Div", centered, transforms.observation_std)
    noise = ""
    if plan.noise_dim:
        noise = graph.add("Mul", "noise", plan.temperature)
        x = graph.add("Concat", x, noise, axis=-1)
    for layer in plan.layers:
        x = _activated(graph, layer.activation, graph.add("Gemm", x, layer.weight, layer.bias))
    if plan.output == "noise_minus":
        x = graph.add("Sub", noise, x)
    elif plan.output == "tanh":
        x = graph.add("Tanh", x)
    half = np.float32(0.5) * (transforms.action_high - transforms.action_low)
    x = graph.add("Add", graph.add("Mul", x, half), transforms.action_low + half)
    graph.add(
        "Min", graph.add("Max", x, transforms.action_low), transforms.action_high, name="action"
    )
    return _model(onnx, graph, plan, metadata)


def _model(onnx: Any, graph: _Graph, plan: Plan, metadata: dict[str, Any]) -> bytes:
    helper = onnx.helper

    def value(name: str, size: int) -> Any:
        return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", size])

    inputs = [value("observation", plan.observation_dim)]
    inputs += [value("noise", plan.noise_dim)] if plan.noise_dim else []
    outputs = [value("action", plan.action_dim)]
    whole = helper.make_graph(graph.nodes, "policy", inputs, outputs, graph.constants)
    model = helper.make_model(
        whole, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION
    )
    helper.set_model_props(model, {name: str(fact) for name, fact in metadata.items()})
    onnx.checker.check_model(model)
    content: bytes = model.SerializeToString()
    return content
