"""A plan as one C99 file: constants, and a function without allocation, libraries or global state.

Weights are packed in blocks of outputs, W[block][input][lane]: each block's sums stay in registers while its
weights stream by in the order they lie in memory, and compilers vectorize over the lanes without leave to
reorder sums. The exponential is a polynomial for the same reason.
"""

from typing import Any

import numpy as np

from bfq.deploy.plan import Floats, Layer, Plan

WIDE, NARROW = 64, 8  # lanes of a block: of a hidden layer, and of a layer with few outputs

HEAD = """\
/* {title}
 *
 * void bfq_act(const float *observation, const float *noise, float *action);
 *
 * observation  {observations} numbers, finite, in the units of the log
 * noise        {noise}
 * action       {actions} numbers in the units of the log, within the range there
 *
 * Build: cc -O3 -march=native -fno-trapping-math -c policy.c
 * Declare it as above (in C++ as extern "C"). Any number of threads may call it at once.
 * {remark}
 */

#include <stdint.h>
#include <string.h>

#define BFQ_OBSERVATIONS {observations}
#define BFQ_NOISE {noise_dim}
#define BFQ_ACTIONS {actions}

void bfq_act(const float *observation, const float *noise, float *action);
"""

EXPONENTIAL = """
/* exp(x), |x| <= 80: 2^n times a polynomial of the rest; NaN stays NaN. */
static inline float bfq_exp(float x) {
    float y = x > -80.0f ? x : -80.0f;
    y = y < 80.0f ? y : 80.0f;
    int32_t n = (int32_t)(y * 1.44269504f + 127.5f); /* positive, so this rounds; 127 is the float's bias */
    float k = (float)(n - 127);
    float r = y - k * 0.693359375f + k * 2.12194440e-4f;
    float p = 1.0f / 5040.0f; /* Taylor: |r| is at most 0.35 */
    p = p * r + 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    p = p * r * r + r + 1.0f;
    int32_t bits = n << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    return p * power + (x - x);
}

static inline float bfq_tanh(float x) { return 1.0f - 2.0f / (bfq_exp(2.0f * x) + 1.0f); }
"""

ACTIVATIONS = {
    "none": "v",
    "relu": "v < 0.0f ? 0.0f : v",
    "tanh": "bfq_tanh(v)",
    "mish": "v * ((1.0f + 2.0f * e) / (1.0f + 2.0f * e + 2.0f * e * e))",
    "silu": "v / (1.0f + bfq_exp(-v))",
    "gelu": "v / (1.0f + bfq_exp(-1.59576912f * (v + 0.044715f * v * v * v)))",
}

LAYER = """
static void bfq_layer_{k}(const float *restrict x, float *restrict y) {{
    for (int block = 0; block < {blocks}; ++block) {{
        const float *restrict w = bfq_weight_{k} + block * {inputs} * {lanes};
        float sum[{lanes}];
        for (int j = 0; j < {lanes}; ++j) sum[j] = bfq_bias_{k}[block * {lanes} + j];
        for (int i = 0; i < {inputs}; ++i)
            for (int j = 0; j < {lanes}; ++j) sum[j] += x[i] * w[i * {lanes} + j];
        for (int j = 0; j < {lanes}; ++j) y[block * {lanes} + j] = sum[j];
    }}
{activate}}}
"""

ACTIVATE = """\
    for (int j = 0; j < {width}; ++j) {{
        float v = y[j];
{before}        y[j] = {formula};
    }}
"""

ACT = """
void bfq_act(const float *observation, const float *noise, float *action) {{
    float a[{widest}], b[{widest}];
    for (int i = 0; i < BFQ_OBSERVATIONS; ++i)
        a[i] = (observation[i] - bfq_observation_mean[i]) / bfq_observation_std[i];
{take_noise}{layers}    for (int i = 0; i < BFQ_ACTIONS; ++i) {{
        float y = {output};
        y = bfq_action_middle[i] + bfq_action_half[i] * y;
        y = y < bfq_action_low[i] ? bfq_action_low[i] : y;
        action[i] = y > bfq_action_high[i] ? bfq_action_high[i] : y;
    }}
}}
"""

TAKE_NOISE = """\
    for (int i = 0; i < BFQ_NOISE; ++i)
        a[BFQ_OBSERVATIONS + i] = noise ? {temperature} * noise[i] : 0.0f;
"""
NOISE_MINUS = "(noise ? {temperature} * noise[i] : 0.0f) - {y}[i]"


def c_source(plan: Plan, metadata: dict[str, Any]) -> str:
    """The text of the file."""
    parts = [_head(plan, metadata), *_ranges(plan), *_constants(plan), EXPONENTIAL]
    parts += [_layer(k, layer) for k, layer in enumerate(plan.layers)]
    return "".join([*parts, _act(plan)])


def _head(plan: Plan, metadata: dict[str, Any]) -> str:
    title = f"{metadata['agent']} trained on {metadata['task']}, update {metadata['update']}"
    noise = "not used, may be NULL"
    if plan.noise_dim:
        noise = (
            f"{plan.noise_dim} draws from N(0, 1); times {plan.temperature:g} here; NULL: no noise"
        )
    return HEAD.format(
        title=_comment(title), noise=noise, remark=_comment(metadata["remark"]),
        observations=plan.observation_dim, noise_dim=plan.noise_dim, actions=plan.action_dim,
    )  # fmt: skip


def _comment(words: str) -> str:
    """Words that cannot end the comment they stand in."""
    return " ".join(words.replace("*/", "* /").split())


def _number(value: Any) -> str:
    """The shortest decimal that is this float32 and no other."""
    return f"{np.float32(value)!s}f"


def _array(name: str, values: Floats) -> str:
    numbers = [_number(value) for value in values.ravel()]
    lines = [", ".join(numbers[k : k + 8]) for k in range(0, len(numbers), 8)]
    return (
        f"\nstatic const float {name}[{len(numbers)}] = {{\n    " + ",\n    ".join(lines) + "\n};\n"
    )


def _ranges(plan: Plan) -> list[str]:
    transforms = plan.transforms
    half = np.float32(0.5) * (transforms.action_high - transforms.action_low)
    return [
        _array("bfq_observation_mean", transforms.observation_mean),
        _array("bfq_observation_std", transforms.observation_std),
        _array("bfq_action_low", transforms.action_low),
        _array("bfq_action_high", transforms.action_high),
        _array("bfq_action_half", half),
        _array("bfq_action_middle", transforms.action_low + half),
    ]


def _lanes(layer: Layer) -> int:
    return WIDE if len(layer.bias) > NARROW else NARROW


def _padded(layer: Layer) -> int:
    """Outputs rounded up to whole blocks; those beyond the last are 0 and are never read."""
    return -(-len(layer.bias) // _lanes(layer)) * _lanes(layer)


def packed(layer: Layer) -> tuple[Floats, Floats]:
    """W[block][input][lane] and the bias, padded with zeros to whole blocks."""
    more, lanes = _padded(layer) - len(layer.bias), _lanes(layer)
    weight = np.pad(layer.weight, ((0, 0), (0, more)))
    return weight.reshape(len(weight), -1, lanes).swapaxes(0, 1), np.pad(layer.bias, (0, more))


def _constants(plan: Plan) -> list[str]:
    found = []
    for k, layer in enumerate(plan.layers):
        weight, bias = packed(layer)
        found += [_array(f"bfq_weight_{k}", weight), _array(f"bfq_bias_{k}", bias)]
    return found


def _layer(k: int, layer: Layer) -> str:
    activate = ""
    if layer.activation != "none":
        before = "        float e = bfq_exp(-v);\n" if layer.activation == "mish" else ""
        activate = ACTIVATE.format(
            width=_padded(layer), before=before, formula=ACTIVATIONS[layer.activation]
        )
    blocks = _padded(layer) // _lanes(layer)
    return LAYER.format(
        k=k, blocks=blocks, inputs=len(layer.weight), lanes=_lanes(layer), activate=activate
    )


def _act(plan: Plan) -> str:
    temperature = _number(plan.temperature)
    widest = max(plan.layers[0].weight.shape[0], *(_padded(layer) for layer in plan.layers))
    calls, x, y = "", "a", "b"
    for k in range(len(plan.layers)):
        calls += f"    bfq_layer_{k}({x}, {y});\n"
        x, y = y, x
    output = {"plain": "{y}[i]", "tanh": "bfq_tanh({y}[i])", "noise_minus": NOISE_MINUS}[
        plan.output
    ]
    take_noise = (
        TAKE_NOISE.format(temperature=temperature) if plan.noise_dim else "    (void)noise;\n"
    )
    return ACT.format(
        widest=widest,
        take_noise=take_noise,
        layers=calls,
        output=output.format(temperature=temperature, y=x),
    )
