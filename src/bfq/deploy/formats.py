"""A plan as the content of a file: npz for NumPy, C99 source, or an ONNX graph.

C: constants, and a function without allocation, libraries or global state. Weights are packed in
blocks of outputs, W[block][input][lane]: the sums of a block stay in registers while its weights
are read in memory order, and compilers vectorize over the lanes without reordering sums. The
exponential is a polynomial for the same reason.

Names and units of inputs and outputs are enums and comments in C, and JSON in the metadata of the others.

ONNX: inputs `observation` (n, s) and, if the policy draws noise, `noise` (n, a) from N(0, 1); output
`action` (n, a). Writing it needs the package onnx.
"""

import io
import json
import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from bfq.deploy.numpy_policy import VECTORS
from bfq.deploy.plan import Floats, Layer, PolicyPlan
from bfq.errors import BadInput

WIDE, NARROW = 64, 8  # lanes of a block: of a hidden layer, and of a layer with few outputs
C_ACTIVATIONS = {
    "relu": "v < 0.0f ? 0.0f : v",
    "tanh": "bfq_tanh(v)",
    "mish": "v * ((1.0f + 2.0f * e) / (1.0f + 2.0f * e + 2.0f * e * e))",
    "silu": "v / (1.0f + bfq_exp(-v))",
    "gelu": "v / (1.0f + bfq_exp(-1.59576912f * (v + 0.044715f * v * v * v)))",
}
OPSET = 18
IR_VERSION = 8  # that runtimes of this opset read


def arrays_of(plan: PolicyPlan) -> dict[str, Floats]:
    """The plan's arrays by their names in the npz file."""
    vectors = {name: np.asarray(getattr(plan.transforms, name), np.float32) for name in VECTORS}
    weights = {f"weight_{k}": layer.weight for k, layer in enumerate(plan.layers)}
    biases = {f"bias_{k}": layer.bias for k, layer in enumerate(plan.layers)}
    return {**vectors, **weights, **biases}


def npz(plan: PolicyPlan, metadata: dict[str, Any]) -> bytes:
    """An npz file, with nothing in it that would need unpickling."""
    text = np.frombuffer(json.dumps(metadata, allow_nan=False).encode(), np.uint8)
    file = io.BytesIO()
    np.savez(file, metadata=text, **arrays_of(plan))  # type: ignore[arg-type]
    return file.getvalue()


def c_source(plan: PolicyPlan, metadata: dict[str, Any]) -> bytes:
    """A C99 file."""
    transforms = plan.transforms
    half = np.float32(0.5) * (transforms.action_high - transforms.action_low)
    arrays = {name: getattr(transforms, name) for name in VECTORS}
    arrays |= {"action_half": half, "action_middle": transforms.action_low + half}
    layers = []
    for k, layer in enumerate(plan.layers):
        arrays[f"weight_{k}"], arrays[f"bias_{k}"] = pack_blocks(layer)
        blocks, inputs, lanes = arrays[f"weight_{k}"].shape
        layers.append(
            {"blocks": blocks, "inputs": inputs, "lanes": lanes, "activation": layer.activation}
        )
    title = f"{metadata['agent']} trained on {metadata['task']}, update {metadata['update']}"
    environment = Environment(
        loader=PackageLoader("bfq.deploy"),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )
    text = environment.get_template("policy.c.j2").render(
        plan=plan,
        title=_comment(title),
        remark=_comment(metadata["remark"]),
        arrays=[(name, [_literal(x) for x in array.ravel()]) for name, array in arrays.items()],
        layers=layers,
        activations=C_ACTIVATIONS,
        widest=max(len(plan.layers[0].weight), *(x["blocks"] * x["lanes"] for x in layers)),
        temperature=_literal(plan.temperature),
        enums=[
            _enum(prefix, metadata[side])
            for side, prefix in (("inputs", "BFQ_IN_"), ("outputs", "BFQ_OUT_"))
            if side in metadata
        ],
    )
    return text.encode()


def _enum(prefix: str, labels: list[dict[str, str]]) -> list[tuple[str, str]]:
    """An identifier and a comment for each number; equal identifiers are numbered."""
    words = [re.sub(r"\W+", "_", one["name"].upper(), flags=re.A).strip("_") for one in labels]
    names = [
        f"{prefix}{word}" if word and words.count(word) == 1 else f"{prefix}{word}_{k}"
        for k, word in enumerate(words)
    ]
    texts = [_comment(", ".join(filter(None, one.values()))) for one in labels]
    return list(zip(names, texts, strict=True))


def _comment(text: str) -> str:
    """Text that cannot end the comment around it."""
    return " ".join(text.replace("*/", "* /").split())


def _literal(value: Any) -> str:
    """The shortest decimal that is exactly this float32."""
    return f"{np.float32(value)!s}f"


def pack_blocks(layer: Layer) -> tuple[Floats, Floats]:
    """W[block][input][lane] and the bias, padded with zeros to whole blocks."""
    lanes = WIDE if len(layer.bias) > NARROW else NARROW
    more = -len(layer.bias) % lanes
    weight = np.pad(layer.weight, ((0, 0), (0, more)))
    return weight.reshape(len(weight), -1, lanes).swapaxes(0, 1), np.pad(layer.bias, (0, more))


class _Graph:
    """An ONNX graph under construction; every value has a name."""

    def __init__(self, onnx: Any):
        self._onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, kind: str, *inputs: Any, name: str = "", **attributes: Any) -> str:
        """The result of an operation; inputs that are not names become constants."""
        names = [x if isinstance(x, str) else self._constant(x) for x in inputs]
        result = name or f"value_{len(self.nodes)}"
        self.nodes.append(self._onnx.helper.make_node(kind, names, [result], **attributes))
        return result

    def activate(self, kind: str, x: str) -> str:
        """An activation of a layer."""
        if kind == "none":
            return x
        if kind == "silu":
            return self.add("Mul", x, self.add("Sigmoid", x))
        if kind == "gelu":  # ½ (1 + tanh u) = sigmoid(2 u)
            cubed = self.add("Mul", self.add("Mul", x, x), x)
            u = self.add("Add", x, self.add("Mul", cubed, 0.044715))
            gate = self.add("Sigmoid", self.add("Mul", u, 2.0 * (2.0 / np.pi) ** 0.5))
            return self.add("Mul", x, gate)
        return self.add({"relu": "Relu", "tanh": "Tanh", "mish": "Mish"}[kind], x)

    def _constant(self, value: Any) -> str:
        name = f"constant_{len(self.constants)}"
        array = np.asarray(value, np.float32)
        self.constants.append(self._onnx.numpy_helper.from_array(array, name))
        return name


def onnx_model(plan: PolicyPlan, metadata: dict[str, Any]) -> bytes:
    """An ONNX file."""
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
        x = graph.activate(layer.activation, graph.add("Gemm", x, layer.weight, layer.bias))
    if plan.output == "noise_minus":
        x = graph.add("Sub", noise, x)
    elif plan.output == "tanh":
        x = graph.add("Tanh", x)
    half = np.float32(0.5) * (transforms.action_high - transforms.action_low)
    x = graph.add("Add", graph.add("Mul", x, half), transforms.action_low + half)
    x = graph.add("Max", x, transforms.action_low)
    graph.add("Min", x, transforms.action_high, name="action")

    helper = onnx.helper
    inputs = {"observation": plan.observation_dim}
    inputs |= {"noise": plan.noise_dim} if plan.noise_dim else {}
    given, returned = (
        [
            helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", size])
            for name, size in sizes.items()
        ]
        for sizes in (inputs, {"action": plan.action_dim})
    )
    whole = helper.make_graph(graph.nodes, "policy", given, returned, graph.constants)
    opsets = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(whole, opset_imports=opsets, ir_version=IR_VERSION)
    named = {side: json.dumps(metadata[side]) for side in ("inputs", "outputs") if side in metadata}
    facts = {name: str(fact) for name, fact in metadata.items()} | named
    helper.set_model_props(model, facts)
    onnx.checker.check_model(model)
    return model.SerializeToString()


FORMATS: dict[str, Callable[[PolicyPlan, dict[str, Any]], bytes]] = {
    "npz": npz,
    "c": c_source,
    "onnx": onnx_model,
}
