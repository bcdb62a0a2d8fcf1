"""Equations become the tensors of the paper's layer, and what no layer computes is refused."""

import numpy as np
import pytest
import torch

from zoology_bench.analytic.circuit.layer import (
    BaseConvLayer,
    base_conv,
    causal_fft,
    causal_shifts,
    cyclic_fft,
    cyclic_shifts,
    rounded,
)
from zoology_bench.analytic.circuit.program import (
    Channel,
    Program,
    constant,
    keep,
    read,
    total,
)
from zoology_bench.mixers.base_conv import BaseConvConfig

N_ROWS = 7
MASK = np.array([0, 1, 1, 0, 1, 0, 1], dtype=np.float32)


def random_layer(width: int, n_rows: int, seed: int) -> BaseConvLayer:
    """Every tensor dense, one tap for every lag."""
    draw = np.random.default_rng(seed).normal
    shifts = np.tile(np.arange(n_rows), (width, 1))
    return BaseConvLayer.of(
        draw(size=(width, width)),
        draw(size=(width, n_rows)),
        shifts,
        draw(size=(width, n_rows)),
        draw(size=(width, n_rows)),
    )


def definition(u: torch.Tensor, layer: BaseConvLayer, *, cyclic: bool) -> torch.Tensor:
    """Definition 4.1, sum by sum; rows first, as the paper writes it."""
    x, filters = u.transpose(1, 2), layer.filters()
    n_rows = x.shape[1]
    conv = torch.zeros_like(x)
    for row in range(n_rows):
        for lag in range(n_rows if cyclic else row + 1):
            conv[:, row] += filters[:, lag] * x[:, (row - lag) % n_rows]
    y = (x @ layer.weight + layer.gate_bias.T) * (conv + layer.conv_bias.T)
    return y.transpose(1, 2)


CONVOLUTIONS = [
    (causal_shifts, False),
    (causal_fft, False),
    (cyclic_shifts, True),
    (cyclic_fft, True),
]


@pytest.mark.parametrize(("convolve", "cyclic"), CONVOLUTIONS)
def test_the_layer_is_definition_4_1(convolve, cyclic):
    u = torch.randn(2, 4, N_ROWS, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    layer = random_layer(4, N_ROWS, 1)
    torch.testing.assert_close(base_conv(u, layer, convolve), definition(u, layer, cyclic=cyclic))


def test_with_equal_biases_in_all_rows_it_is_the_learned_layer():
    mixer = BaseConvConfig(filters=["explicit"]).build(4, N_ROWS, 0, 1).double()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.normal_(generator=generator)
    x = torch.randn(3, N_ROWS, 4, dtype=torch.float64, generator=generator)
    layer = BaseConvLayer(
        mixer.gate.weight.T,
        mixer.gate.bias[:, None].expand(-1, N_ROWS),
        torch.arange(N_ROWS).expand(4, -1),
        mixer.filter(N_ROWS),
        mixer.conv_bias[:, None].expand(-1, N_ROWS),
    )
    y = base_conv(x.transpose(1, 2), layer, causal_shifts).transpose(1, 2)
    torch.testing.assert_close(y, mixer(x))


def test_rounding_goes_to_halves():
    u = torch.full((1, 1, 2), 0.3)
    layer = BaseConvLayer.of(
        np.ones((1, 1)),
        np.zeros((1, 2)),
        np.zeros((1, 1), dtype=np.int64),
        np.ones((1, 1)),
        np.zeros((1, 2)),
    ).to(u)
    assert rounded(causal_shifts)(u, layer).tolist() == [[[0.5, 0.5]]]


def run(program: Program, **inputs: list[float]) -> dict[str, list[float]]:
    state = torch.zeros(1, program.width, program.n_rows, dtype=torch.float64)
    for slot, values in enumerate(inputs.values()):
        state[0, slot] = torch.tensor(values, dtype=torch.float64)
    convolve = cyclic_shifts if program.cyclic else causal_shifts
    for layer in program.layers:
        state = base_conv(state, program.dense(layer), convolve)
    return {name: state[0, slot].tolist() for name, slot in program.slots.items()}


def test_equations_mean_what_they_say():
    a, b = [1.0, 2, 3, 4, 5, 6, 7], [1.0, 0, 1, 0, 1, 0, 1]
    program = Program(N_ROWS, ["a", "b"], cyclic=False)
    program.emit(
        "one",
        [
            Channel("product", 1 - 2 * read("a") - read("b"), 3 - read("a").down(2)),
            keep("masked", total([read("a"), read("b")]) * 0.5, MASK),
            Channel("moved", constant(MASK), read("b").down(1, 2)),
        ],
    )
    program.emit("two", [keep("sum", read("product") + read("masked")), keep("m", read("moved"))])
    got = run(program, a=a, b=b)
    x, y = np.array(a), np.array(b)
    above = np.concatenate([[0, 0], x[:-2]])
    expected = (1 - 2 * x - y) * (3 - above) + (x + y) / 2 * MASK
    np.testing.assert_allclose(got["sum"], expected)
    moved = np.concatenate([[0], y[:-1]]) + np.concatenate([[0, 0], y[:-2]])
    np.testing.assert_allclose(got["m"], moved * MASK)
    assert program.n_params == 2 * (program.width**2 + 3 * N_ROWS * program.width)


def test_on_a_cycle_a_row_may_read_the_rows_below():
    program = Program(N_ROWS, ["a"], cyclic=True)
    program.emit("up", [Channel("a", constant(1.0), read("a").down(-2))])
    assert run(program, a=[1, 2, 3, 4, 5, 6, 7])["a"] == [3, 4, 5, 6, 7, 1, 2]


REFUSED = [
    ([Channel("x", constant(1.0), read("a").down(-1))], "x reads 1 rows below its own"),
    ([keep("x", read("a").down(1))], "the gate of x reads another row"),
    ([Channel("x", read("a"), read("a") + read("b"))], r"the convolution of x reads \['a', 'b'\]"),
    (
        [Channel("x", read("a"), read("b")), Channel("y", read("a"), read("b"))],
        "two convolutions read one channel; copy it before",
    ),
    ([keep("x", read("a")), keep("x", read("b"))], "two channels share a name"),
]


@pytest.mark.parametrize(("channels", "message"), REFUSED)
def test_what_no_causal_layer_computes_is_refused(channels, message):
    program = Program(N_ROWS, ["a", "b"], cyclic=False)
    with pytest.raises(ValueError, match=message):
        program.emit("layer", channels)
