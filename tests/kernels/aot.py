"""Compile for GPUs that are not here what calls of the convolutions would launch on them.

    python -m tests.kernels.aot [--all] [--table docs/kernels.md]

The launchers run on CPU tensors with the launch itself recorded, so that signature, constants and
alignment are those of a real call; then each distinct kernel is compiled for sm_80 and sm_90 and
its machine code inspected. Without TRITON_INTERPRET, which replaces what could be compiled.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import torch
import triton
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from zoology_bench.kernels.common import Gates

SHARED_LIMIT = {80: 166_912, 90: 232_448}
"""Bytes of shared memory that one program may take on an A100 and on an H100."""
STACK_LIMIT = 64
"""Bytes of stack per thread: more means that registers spill."""
TYPES = {
    torch.float32: "fp32",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.int32: "i32",
}
ROW_SIZES = ("BLOCK_K1", "N1", "BLOCK_B", "ROWS")
MATRIX_KERNELS = re.compile("toeplitz|fft_conv|fft_part|fft_gradients|cross")
BEGIN, END = "<!-- compiled: begin -->", "<!-- compiled: end -->"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of a convolution, forward and backward."""

    op: str
    length: int
    dtype: torch.dtype
    per_example: bool = False
    batch: int = 64
    precision: str | None = None


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel with everything that decides its machine code."""

    kernel: Any
    signature: tuple[tuple[str, str], ...]
    constants: tuple[tuple[str, Any], ...]
    aligned: tuple[int, ...]
    options: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """What the machine code of one launch takes."""

    name: str
    rows: int
    """Rows of its matrix products; wgmma takes 64."""
    capability: int
    registers: int
    stack: int
    shared: int
    wgmma: int
    mma: int


HALF = (torch.bfloat16, torch.float16)
TOEPLITZ_SIZES = (
    (512, False, 64),
    (512, False, 32),
    (512, False, 16),
    (256, True, 64),
    (512, True, 64),
)
FAST = (
    Call(op="fft", length=32_768, dtype=torch.bfloat16),
    Call(op="fft", length=2048, dtype=torch.bfloat16),
    Call(op="toeplitz", length=512, dtype=torch.bfloat16),
)
"""What needs most registers, in the default tests."""
ALL = (
    *(
        Call(op="fft", length=n, dtype=dtype, per_example=per)
        for n in (256, 512, 1024, 2048, 32_768)
        for dtype in (*HALF, torch.float32)
        for per in (False, True)
    ),
    *(
        Call(op="toeplitz", length=n, dtype=dtype, per_example=per, batch=batch)
        for n, per, batch in TOEPLITZ_SIZES
        for dtype in (*HALF, torch.float32)
    ),
    *(
        Call(op="shift", length=4096, dtype=dtype, per_example=per)
        for dtype in (*HALF, torch.float32)
        for per in (False, True)
    ),
)
"""Every tile of the table with every dtype and filter kind."""


def launches(call: Call, capability: int) -> Iterator[Launch]:
    """Yield what one call launches on a GPU, forward and backward, without launching it."""
    room = import_module(f"zoology_bench.kernels.{call.op}.triton")
    common = import_module("zoology_bench.kernels.triton_common")
    recorded: list[Launch] = []

    def record(kernel: Any, grid: tuple[int, ...], *args: Any, **options: Any) -> None:
        recorded.append(_launch_of(kernel, args, options))

    with (
        patch.object(room, "launch", record),
        patch.object(common, "launch", record),
        patch.object(room, "capability_of", lambda x: divmod(capability, 10), create=True),
    ):
        _run(room, call)
    yield from dict.fromkeys(recorded)


def _run(room: ModuleType, call: Call) -> None:
    channels, taps = 32, 4 if call.op == "shift" else call.length
    u, pre, post = (
        torch.empty(call.batch, channels, call.length, dtype=call.dtype, requires_grad=True)
        for _ in range(3)
    )
    h_shape = (call.batch, channels, taps) if call.per_example else (channels, taps)
    h = torch.zeros(h_shape, dtype=call.dtype, requires_grad=True)
    bias = torch.zeros(channels, requires_grad=True)
    gates = Gates(pre_gate=pre, post_gate=post, skip=None, bias=bias)
    if call.op == "shift":
        y = room.conv(u, torch.zeros(h_shape, dtype=torch.int32), h, gates)
    else:
        y = room.conv(u, h, gates, call.precision)
    # All gradients at once may take other kernels than a part of them.
    for asked in ([u, h, pre, post, bias], [u, pre, post], [h]):
        torch.autograd.grad(y, asked, torch.empty_like(y), retain_graph=True)


def _launch_of(kernel: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Launch:
    compile_options = {k: options.pop(k) for k in ("num_warps", "num_stages") if k in options}
    constants, signature, aligned = dict(options), {}, []
    values = {**dict(zip(kernel.arg_names, args, strict=False)), **options}
    for i, (name, parameter) in enumerate(zip(kernel.arg_names, kernel.params, strict=True)):
        value = values[name]
        if isinstance(value, Tensor):
            signature[name] = "*" + TYPES[value.dtype]
            aligned.append(i)
        elif parameter.do_not_specialize:
            signature[name] = "i32"
        elif name in options or value is None or value == 1:
            # A launch folds None and 1 into the code.
            signature[name] = "constexpr"
            constants[name] = value
        else:
            signature[name] = "i32"
            if value % 16 == 0:
                aligned.append(i)
    return Launch(
        kernel,
        tuple(signature.items()),
        tuple(constants.items()),
        tuple(aligned),
        tuple(compile_options.items()),
    )


def compiled(launch: Launch, capability: int) -> Compiled:
    """Compile one launch and read what its machine code takes."""
    source = ASTSource(
        fn=launch.kernel,
        signature=dict(launch.signature),
        constexprs=dict(launch.constants),
        attrs={(i,): [["tt.divisibility", 16]] for i in launch.aligned},
    )
    target = GPUTarget("cuda", capability, 32)
    result = triton.compile(source, target=target, options=dict(launch.options))
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(result.asm["cubin"])
        file.flush()
        usage, code = (
            subprocess.run(
                [tool, what, file.name], capture_output=True, text=True, check=True
            ).stdout
            for what in ("--dump-resource-usage", "--dump-sass")
        )
    constants = dict(launch.constants)
    found = re.search(r"REG:(\d+) STACK:(\d+)", usage)
    assert found is not None
    return Compiled(
        name=name_of(launch),
        rows=next(
            (constants[n] for n in ("BLOCK_K1", "N1", "BLOCK_B", "ROWS") if n in constants), 0
        ),
        capability=capability,
        registers=int(found[1]),
        stack=int(found[2]),
        shared=result.metadata.shared,
        wgmma=len(re.findall(r"\bHGMMA", code)),
        mma=len(re.findall(r"\bHMMA", code)),
    )


def name_of(launch: Launch) -> str:
    """The kernel, its variant, tile and dtype, in words."""
    constants = dict(launch.constants)
    shown = [launch.kernel.__name__.removesuffix("_kernel")]
    if constants.get("CORRELATE"):
        shown.append("correlation")
    if "spectrum_ptr" in constants:
        shown.append("per example")
    sizes = ("N1", "N2", "BLOCK_K1", "BLOCK_B", "BLOCK_N", "BLOCK_M", "ROWS", "COLS", "BLOCK")
    shown.append(" x ".join(str(constants[s]) for s in sizes if s in constants))
    dtype = next(t for _, t in launch.signature if t.startswith("*"))
    shown.append(f"{dtype[1:]}, {dict(launch.options).get('num_warps', 4)} warps")
    return ", ".join(shown)


def faults(row: Compiled) -> list[str]:
    """What keeps machine code from being shipped."""
    found = []
    if row.shared > SHARED_LIMIT[row.capability]:
        found.append(f"{row.shared} bytes of shared memory")
    if row.stack > STACK_LIMIT:
        found.append(f"{row.stack} bytes of stack")
    if MATRIX_KERNELS.match(row.name) and "fp32" not in row.name:
        wide = row.rows >= 64 and row.capability == 90
        if row.wgmma == 0 and (wide or row.mma == 0):
            found.append("no wgmma" if wide else "no matrix instructions")
    return found


def table(rows: list[Compiled]) -> str:
    """Markdown, one line per kernel and GPU."""
    lines = [
        "| kernel | GPU | registers | stack, B | shared memory, B | wgmma | mma |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {r.name} | sm_{r.capability} | {r.registers} | {r.stack} | {r.shared} | {r.wgmma} |"
        f" {r.mma} |"
        for r in rows
    ]
    return "\n".join(lines)


def main() -> int:
    """Print one line per kernel and GPU; return 1 if one has a fault."""
    parser = argparse.ArgumentParser(description="Compile the kernels for sm_80 and sm_90.")
    parser.add_argument("--all", action="store_true", help="every tile, dtype and filter kind")
    parser.add_argument("--table", type=Path, help="a page whose marked part is rewritten")
    args = parser.parse_args()
    rows, red = [], 0
    for capability in SHARED_LIMIT:
        calls = ALL if args.all else FAST
        for launch in dict.fromkeys(x for call in calls for x in launches(call, capability)):
            row = compiled(launch, capability)
            rows.append(row)
            wrong = faults(row)
            red += bool(wrong)
            print(row, *wrong, "FAULT" if wrong else "ok", sep="; ", flush=True)
    if args.table:
        page = args.table.read_text()
        head, rest = page.split(BEGIN)
        args.table.write_text(f"{head}{BEGIN}\n{table(rows)}\n{END}{rest.split(END)[1]}")
    return int(red > 0)


if __name__ == "__main__":
    os.environ.setdefault("TRITON_CACHE_DIR", tempfile.mkdtemp())
    sys.exit(main())
