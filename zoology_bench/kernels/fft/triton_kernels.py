"""Causal long convolution by the quarter-shift transform, as chains of small matrix products.

At the N roots of x^N = -i (frequencies k + 1/4) the product of the transforms of two real
sequences of length N is that of y[n] - i y[n + N] with y their full convolution, so the real part
of the inverse is the causal output: no zero padding. tables.py has the factors.

Signals of up to M = N1 N2 points take one kernel; longer ones R parts of M points each, whose
inverse transforms a second kernel combines. The filter's gradient accumulates its cross-spectrum
over the batch on chip: partial spectra per chunk of the batch, no atomics. Where a signal fits one
tile and registers suffice, one kernel makes the gradients of signal, gates and filter together.

Letters: B batch, D channels, L length, K filter taps.

Verified in the interpreter and by compilation; never run on a GPU so far.
"""

# Outside a kernel a jitted function cannot be called: type checkers think that it never returns.
# pyright: reportGeneralTypeIssues=false

import triton
import triton.language as tl

from zoology_bench.kernels.triton_common import COUNTS, load_gated, rounded, store_gated


@triton.jit
def load_planes(ptr, offset, PLANE: tl.constexpr):
    """Load the real and the imaginary plane of a table."""
    return tl.load(ptr + offset).to(tl.float32), tl.load(ptr + PLANE + offset).to(tl.float32)


@triton.jit
def load_factor(ptr, offset, PLANE: tl.constexpr, DOT: tl.constexpr, EMULATE: tl.constexpr):
    """Load both planes of a matrix operand, rounded for the products that it takes part in."""
    real, imaginary = load_planes(ptr, offset, PLANE)
    return rounded(real, DOT, EMULATE), rounded(imaginary, DOT, EMULATE)


@triton.jit
def magnitude(xr, xi):
    """The power of two at or below the largest of all magnitudes, and at least 1e-30.

    What is divided by it is below 2, and no bit of it is lost.
    """
    largest = tl.maximum(tl.max(tl.abs(xr)), tl.max(tl.abs(xi)))
    bits = tl.maximum(largest, 1e-30).to(tl.int32, bitcast=True)
    return (bits & 0x7F800000).to(tl.float32, bitcast=True)


@triton.jit
def transform(
    xr,
    xi,
    f1r,
    f1i,
    tr,
    ti,
    f2r,
    f2i,
    COMPLEX: tl.constexpr,
    DOT: tl.constexpr,
    PRECISION: tl.constexpr,
    EMULATE: tl.constexpr,
):
    """The spectrum (rows of k1, N2) of a tile (N1, N2); xi counts only if COMPLEX, else is xr."""
    if DOT == tl.float16:
        # Its exponents do not reach far: gated products and tiny gradients would leave its range.
        scale = magnitude(xr, xi)
        xr *= 1.0 / scale
        xi *= 1.0 / scale
    if COMPLEX:
        minus_xi = rounded(-xi, DOT, EMULATE)
        xi = rounded(xi, DOT, EMULATE)
        xr = rounded(xr, DOT, EMULATE)
        ar = tl.dot(f1r, xr, input_precision=PRECISION)
        ar = tl.dot(f1i, minus_xi, ar, input_precision=PRECISION)
        ai = tl.dot(f1r, xi, input_precision=PRECISION)
        ai = tl.dot(f1i, xr, ai, input_precision=PRECISION)
    else:
        xr = rounded(xr, DOT, EMULATE)
        ar = tl.dot(f1r, xr, input_precision=PRECISION)
        ai = tl.dot(f1i, xr, input_precision=PRECISION)
    turned = ar * ti + ai * tr
    br = rounded(ar * tr - ai * ti, DOT, EMULATE)
    bi = rounded(turned, DOT, EMULATE)
    minus_bi = rounded(-turned, DOT, EMULATE)
    cr = tl.dot(br, f2r, input_precision=PRECISION)
    cr = tl.dot(minus_bi, f2i, cr, input_precision=PRECISION)
    ci = tl.dot(br, f2i, input_precision=PRECISION)
    ci = tl.dot(bi, f2r, ci, input_precision=PRECISION)
    if DOT == tl.float16:
        cr *= scale
        ci *= scale
    return cr, ci


@triton.jit
def inverse(
    cr,
    ci,
    f1r,
    f1i,
    tr,
    ti,
    f2r,
    f2i,
    COMPLEX: tl.constexpr,
    DOT: tl.constexpr,
    PRECISION: tl.constexpr,
    EMULATE: tl.constexpr,
):
    """The tile (N1, N2) of a spectrum; its imaginary part is formed only if COMPLEX."""
    if DOT == tl.float16:
        scale = magnitude(cr, ci)
        cr *= 1.0 / scale
        ci *= 1.0 / scale
    er = rounded(cr, DOT, EMULATE)
    minus_er = rounded(-cr, DOT, EMULATE)
    ei = rounded(ci, DOT, EMULATE)
    ar = tl.dot(er, f2r, input_precision=PRECISION)
    ar = tl.dot(ei, f2i, ar, input_precision=PRECISION)
    ai = tl.dot(ei, f2r, input_precision=PRECISION)
    ai = tl.dot(minus_er, f2i, ai, input_precision=PRECISION)
    turned = ar * tr + ai * ti
    br = rounded(turned, DOT, EMULATE)
    bi = rounded(ai * tr - ar * ti, DOT, EMULATE)
    yr = tl.dot(tl.trans(f1r), br, input_precision=PRECISION)
    yr = tl.dot(tl.trans(f1i), bi, yr, input_precision=PRECISION)
    yi = yr
    if COMPLEX:
        minus_br = rounded(-turned, DOT, EMULATE)
        yi = tl.dot(tl.trans(f1r), bi, input_precision=PRECISION)
        yi = tl.dot(tl.trans(f1i), minus_br, yi, input_precision=PRECISION)
    if DOT == tl.float16:
        yr *= scale
        yi *= scale
    return yr, yi


@triton.jit
def multiply(ar, ai, br, bi, CONJUGATE: tl.constexpr):
    """a times b, or a times conj(b)."""
    if CONJUGATE:
        return ar * br + ai * bi, ai * br - ar * bi
    return ar * br - ai * bi, ar * bi + ai * br


@triton.jit
def load_part(
    x_ptr,
    x_base,
    gate_ptr,
    gate_base,
    offset,
    phase_ptr,
    L,
    R,
    M: tl.constexpr,
    N1: tl.constexpr,
    N2: tl.constexpr,
):
    """Part j of a gated signal, of which phase_ptr is row j: sum_r phase[j, r] x[r M + m]."""
    xr = tl.zeros((N1, N2), tl.float32)
    xi = tl.zeros((N1, N2), tl.float32)
    for r in range(R):
        n = r * M + offset
        x = load_gated(x_ptr, x_base, gate_ptr, gate_base, n, n < L)
        xr += tl.load(phase_ptr + 2 * r) * x
        xi += tl.load(phase_ptr + 2 * r + 1) * x
    return xr, xi


@triton.jit(do_not_specialize=COUNTS)
def fft_conv_kernel(
    x_ptr,
    x_b,
    x_d,
    x_gate_ptr,
    x_gate_b,
    x_gate_d,
    w_ptr,
    w_b,
    w_d,
    w_gate_ptr,
    w_gate_b,
    w_gate_d,
    spectrum_ptr,
    skip_ptr,
    bias_ptr,
    bias_d,
    bias_l,
    out_ptr,
    out_gate_ptr,
    out_gate_b,
    out_gate_d,
    out2_ptr,
    out2_gate_ptr,
    out2_gate_b,
    out2_gate_d,
    f1_ptr,
    f2_ptr,
    twiddle_ptr,
    B,
    D,
    L,
    L_W,
    L_OUT,
    CHUNK,
    SCALE: tl.constexpr,
    N1: tl.constexpr,
    N2: tl.constexpr,
    CORRELATE: tl.constexpr,
    DOT: tl.constexpr,
    PRECISION: tl.constexpr,
    EMULATE: tl.constexpr,
):
    """CHUNK examples of one channel in one tile; the filter is w, or what spectrum_ptr holds."""
    M: tl.constexpr = N1 * N2
    d = (tl.program_id(0) % D).to(tl.int64)
    n1 = tl.arange(0, N1)[:, None]
    n2 = tl.arange(0, N2)
    n = n1 * N2 + n2[None, :]
    f1r, f1i = load_factor(f1_ptr, n1 * N1 + tl.arange(0, N1)[None, :], N1 * N1, DOT, EMULATE)
    f2r, f2i = load_factor(f2_ptr, n2[:, None] * N2 + n2[None, :], N2 * N2, DOT, EMULATE)
    first = tl.program_id(0) // D * CHUNK
    for b in range(first, tl.minimum(first + CHUNK, B)):
        row = d * 0 + b
        x_base = row * x_b + d * x_d
        x_gate_base = row * x_gate_b + d * x_gate_d
        x = load_gated(x_ptr, x_base, x_gate_ptr, x_gate_base, n, n < L)
        # Twiddles are loaded anew for each use: registers are scarcer than the cache's bandwidth.
        tr, ti = load_planes(twiddle_ptr, n, M)
        xr, xi = transform(x, x, f1r, f1i, tr, ti, f2r, f2i, False, DOT, PRECISION, EMULATE)
        if w_ptr is not None:
            w = load_gated(
                w_ptr,
                row * w_b + d * w_d,
                w_gate_ptr,
                row * w_gate_b + d * w_gate_d,
                n,
                n < L_W,
            )
            tr, ti = load_planes(twiddle_ptr, n, M)
            hr, hi = transform(w, w, f1r, f1i, tr, ti, f2r, f2i, False, DOT, PRECISION, EMULATE)
            hr *= SCALE
            hi *= SCALE
        else:
            hr, hi = load_planes(spectrum_ptr + d * (2 * M), n, M)
        cr, ci = multiply(xr, xi, hr, hi, CORRELATE)
        tr, ti = load_planes(twiddle_ptr, n, M)
        y, _ = inverse(cr, ci, f1r, f1i, tr, ti, f2r, f2i, False, DOT, PRECISION, EMULATE)
        mask = n < L_OUT
        if skip_ptr is not None:
            skip = tl.load(skip_ptr + d).to(tl.float32)
            y += skip * load_gated(x_ptr, x_base, x_gate_ptr, x_gate_base, n, n < L)
        if bias_ptr is not None:
            bias = tl.load(bias_ptr + d * bias_d + n * bias_l, mask=mask, other=0.0)
            y += bias.to(tl.float32)
        out_base = (row * D + d) * L_OUT
        out_gate_base = row * out_gate_b + d * out_gate_d
        store_gated(out_ptr, out_base, out_gate_ptr, out_gate_base, y, n, mask)
        if out2_ptr is not None:
            out2_gate_base = row * out2_gate_b + d * out2_gate_d
            store_gated(out2_ptr, out_base, out2_gate_ptr, out2_gate_base, y, n, mask)


@triton.jit(do_not_specialize=COUNTS)
def fft_part_kernel(
    x_ptr,
    x_b,
    x_d,
    x_gate_ptr,
    x_gate_b,
    x_gate_d,
    w_ptr,
    w_b,
    w_d,
    w_gate_ptr,
    w_gate_b,
    w_gate_d,
    spectrum_ptr,
    scratch_ptr,
    f1_ptr,
    f2_ptr,
    twiddle_ptr,
    phase_ptr,
    FIRST,
    D,
    L,
    L_W,
    R,
    SCALE: tl.constexpr,
    N1: tl.constexpr,
    N2: tl.constexpr,
    CORRELATE: tl.constexpr,
    DOT: tl.constexpr,
    PRECISION: tl.constexpr,
    EMULATE: tl.constexpr,
):
    """Part j of one channel of example FIRST + b, transformed, multiplied and transformed back.

    Parts are next to each other in the launch order, so that a signal comes from the L2 cache for
    all but the first. scratch (examples, D, R, 2, M) fp32.
    """
    M: tl.constexpr = N1 * N2
    part = tl.program_id(0) % R
    d = (tl.program_id(0) // R % D).to(tl.int64)
    b = (tl.program_id(0) // R // D).to(tl.int64)
    row = b + FIRST
    n1 = tl.arange(0, N1)[:, None]
    n2 = tl.arange(0, N2)
    m = n1 * N2 + n2[None, :]
    f1r, f1i = load_factor(
        f1_ptr + part * (2 * N1 * N1), n1 * N1 + tl.arange(0, N1)[None, :], N1 * N1, DOT, EMULATE
    )
    f2r, f2i = load_factor(f2_ptr, n2[:, None] * N2 + n2[None, :], N2 * N2, DOT, EMULATE)
    phases = phase_ptr + part * (2 * R)
    twiddles = twiddle_ptr + part * (2 * M)
    zr, zi = load_part(
        x_ptr,
        row * x_b + d * x_d,
        x_gate_ptr,
        row * x_gate_b + d * x_gate_d,
        m,
        phases,
        L,
        R,
        M,
        N1,
        N2,
    )
    tr, ti = load_planes(twiddles, m, M)
    xr, xi = transform(zr, zi, f1r, f1i, tr, ti, f2r, f2i, True, DOT, PRECISION, EMULATE)
    if w_ptr is not None:
        zr, zi = load_part(
            w_ptr,
            row * w_b + d * w_d,
            w_gate_ptr,
            row * w_gate_b + d * w_gate_d,
            m,
            phases,
            L_W,
            R,
            M,
            N1,
            N2,
        )
        tr, ti = load_planes(twiddles, m, M)
        hr, hi = transform(zr, zi, f1r, f1i, tr, ti, f2r, f2i, True, DOT, PRECISION, EMULATE)
        hr *= SCALE
        hi *= SCALE
    else:
        hr, hi = load_planes(spectrum_ptr + (d * R + part) * (2 * M), m, M)
    cr, ci = multiply(xr, xi, hr, hi, CORRELATE)
    tr, ti = load_planes(twiddles, m, M)
    yr, yi = inverse(cr, ci, f1r, f1i, tr, ti, f2r, f2i, True, DOT, PRECISION, EMULATE)
    out = scratch_ptr + ((b * D + d) * R + part) * (2 * M) + m
    tl.store(out, yr)
    tl.store(out + M, yi)


@triton.jit(do_not_specialize=COUNTS)
def fft_combine_kernel(
    scratch_ptr,
    x_ptr,
    x_b,
    x_d,
    x_gate_ptr,
    x_gate_b,
    x_gate_d,
    skip_ptr,
    bias_ptr,
    bias_d,
    bias_l,
    out_ptr,
    out_gate_ptr,
    out_gate_b,
    out_gate_d,
    out2_ptr,
    out2_gate_ptr,
    out2_gate_b,
    out2_gate_d,
    phase_ptr,
    FIRST,
    D,
    L,
    L_OUT,
    R,
    M,
    R_PADDED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Outputs r M + m for all r and BLOCK m: Re sum_j conj(phase[j, r]) y_j[m] / R, then gates."""
    d = (tl.program_id(0) % D).to(tl.int64)
    b = (tl.program_id(0) // D).to(tl.int64)
    row = b + FIRST
    r = tl.arange(0, R_PADDED)[:, None]
    m = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    acc = tl.zeros((R_PADDED, BLOCK), tl.float32)
    for part in range(R):
        y = scratch_ptr + ((b * D + d) * R + part) * (2 * M) + m
        phase = phase_ptr + (part * R + r) * 2
        acc += tl.load(phase, mask=r < R, other=0.0) * tl.load(y)
        acc += tl.load(phase + 1, mask=r < R, other=0.0) * tl.load(y + M)
    acc /= R
    n = r * M + m
    mask = (r < R) & (n < L_OUT)
    if skip_ptr is not None:
        skip = tl.load(skip_ptr + d).to(tl.float32)
        x_base = row * x_b + d * x_d
        x_gate_base = row * x_gate_b + d * x_gate_d
        acc += skip * load_gated(x_ptr, x_base, x_gate_ptr, x_gate_base, n, mask & (n < L))
    if bias_ptr is not None:
        bias = tl.load(bias_ptr + d * bias_d + n * bias_l, mask=mask, other=0.0)
        acc += bias.to(tl.float32)
    out_base = (row * D + d) * L_OUT
    out_gate_base = row * out_gate_b + d * out_gate_d
    store_gated(out_ptr, out_base, out_gate_ptr, out_gate_base, acc, n, mask)
    if out2_ptr is not None:
        out2_gate_base = row * out2_gate_b + d * out2_gate_d
        store_gated(out2_ptr, out_base, out2_gate_ptr, out2_gate_base, acc, n, mask)


@triton.jit(do_not_specialize=COUNTS)
def cross_spectrum_kernel(
    dy_ptr,
    dy_b,
    dy_d,
    post_ptr,
    post_b,
    post_d,
    u_ptr,
    u_b,
    u_d,
    pre_ptr,
    pre_b,
    pre_d,
    out_ptr,
    f1_ptr,
    f2_ptr,
    twiddle_ptr,
    phase_ptr,
    B,
    D,
    L,
    R,
    CHUNK,
    N1: tl.constexpr,
    N2: tl.constexpr,
    BLOCK_K1: tl.constexpr,
    COMPLEX: tl.constexpr,
    DOT: tl.constexpr,
    PRECISION: tl.constexpr,
    EMULATE: tl.constexpr,
):
    """BLOCK_K1 rows of sum over CHUNK examples of spectrum(dz) conj(spectrum(v)), of one part.

    COMPLEX is R > 1. out (chunks, D, R, 2, N1, N2) fp32.
    """
    M: tl.constexpr = N1 * N2
    N_BLOCKS: tl.constexpr = N1 // BLOCK_K1
    d = (tl.program_id(0) % D).to(tl.int64)
    chunk = (tl.program_id(0) // D).to(tl.int64)
    part = tl.program_id(1) // N_BLOCKS
    n1 = tl.arange(0, N1)
    n2 = tl.arange(0, N2)
    k1 = tl.program_id(1) % N_BLOCKS * BLOCK_K1 + tl.arange(0, BLOCK_K1)[:, None]
    m = n1[:, None] * N2 + n2[None, :]
    k = k1 * N2 + n2[None, :]
    f1r, f1i = load_factor(
        f1_ptr + part * (2 * N1 * N1), k1 * N1 + n1[None, :], N1 * N1, DOT, EMULATE
    )
    f2r, f2i = load_factor(f2_ptr, n2[:, None] * N2 + n2[None, :], N2 * N2, DOT, EMULATE)
    phases = phase_ptr + part * (2 * R)
    twiddles = twiddle_ptr + part * (2 * M)
    gr = tl.zeros((BLOCK_K1, N2), tl.float32)
    gi = tl.zeros((BLOCK_K1, N2), tl.float32)
    first = tl.program_id(0) // D * CHUNK
    for b in range(first, tl.minimum(first + CHUNK, B)):
        row = d * 0 + b
        u_base = row * u_b + d * u_d
        pre_base = row * pre_b + d * pre_d
        dy_base = row * dy_b + d * dy_d
        post_base = row * post_b + d * post_d
        if COMPLEX:
            zr, zi = load_part(u_ptr, u_base, pre_ptr, pre_base, m, phases, L, R, M, N1, N2)
        else:
            zr = load_gated(u_ptr, u_base, pre_ptr, pre_base, m, m < L)
            zi = zr
        tr, ti = load_planes(twiddles, k, M)
        vr, vi = transform(zr, zi, f1r, f1i, tr, ti, f2r, f2i, COMPLEX, DOT, PRECISION, EMULATE)
        if COMPLEX:
            zr, zi = load_part(dy_ptr, dy_base, post_ptr, post_base, m, phases, L, R, M, N1, N2)
        else:
            zr = load_gated(dy_ptr, dy_base, post_ptr, post_base, m, m < L)
            zi = zr
        tr, ti = load_planes(twiddles, k, M)
        er, ei = transform(zr, zi, f1r, f1i, tr, ti, f2r, f2i, COMPLEX, DOT, PRECISION, EMULATE)
        pr, pi = multiply(er, ei, vr, vi, True)
        gr += pr
        gi += pi
    out = out_ptr + ((chunk * D + d) * R + part) * (2 * M) + k
    tl.store(out, gr)
    tl.store(out + M, gi)


@triton.jit(do_not_specialize=COUNTS)
def fft_gradients_kernel(
    dy_ptr,
    dy_b,
    dy_d,
    post_ptr,
    post_b,
    post_d,
    u_ptr,
    u_b,
    u_d,
    pre_ptr,
    pre_b,
    pre_d,
    w_ptr,
    w_b,
    w_d,
    spectrum_ptr,
    skip_ptr,
    bias_ptr,
    bias_d,
    bias_l,
    du_ptr,
    d_pre_ptr,
    d_post_ptr,
    dw_ptr,
    f1_ptr,
    f2_ptr,
    twiddle_ptr,
    B,
    D,
    L,
    L_W,
    CHUNK,
    SCALE: tl.constexpr,
    N1: tl.constexpr,
    N2: tl.constexpr,
    DOT: tl.constexpr,
    PRECISION: tl.constexpr,
    EMULATE: tl.constexpr,
):
    """Every gradient but those of skip and bias, for CHUNK examples of one channel in one tile.

    For a shared filter two transforms and two inverses replace the four and two of separate
    kernels, for one per example three and three the six and three, and each operand is read from
    memory once. The filter is w, with dw (B, D, L_W), or what spectrum_ptr holds, with dw (chunks,
    D, 2, N1, N2) fp32 for the sums of the cross-spectra.
    """
    M: tl.constexpr = N1 * N2
    d = (tl.program_id(0) % D).to(tl.int64)
    chunk = (tl.program_id(0) // D).to(tl.int64)
    n1 = tl.arange(0, N1)[:, None]
    n2 = tl.arange(0, N2)
    n = n1 * N2 + n2[None, :]
    mask = n < L
    f1r, f1i = load_factor(f1_ptr, n1 * N1 + tl.arange(0, N1)[None, :], N1 * N1, DOT, EMULATE)
    f2r, f2i = load_factor(f2_ptr, n2[:, None] * N2 + n2[None, :], N2 * N2, DOT, EMULATE)
    gr = tl.zeros((N1, N2), tl.float32)
    gi = tl.zeros((N1, N2), tl.float32)
    first = tl.program_id(0) // D * CHUNK
    for b in range(first, tl.minimum(first + CHUNK, B)):
        row = d * 0 + b
        u_base = row * u_b + d * u_d
        pre_base = row * pre_b + d * pre_d
        dy_base = row * dy_b + d * dy_d
        post_base = row * post_b + d * post_d
        base = (row * D + d) * L
        v = load_gated(u_ptr, u_base, pre_ptr, pre_base, n, mask)
        # Loaded anew for each use, the second time from the cache: registers are scarcer.
        tr, ti = load_planes(twiddle_ptr, n, M)
        vr, vi = transform(v, v, f1r, f1i, tr, ti, f2r, f2i, False, DOT, PRECISION, EMULATE)
        if w_ptr is not None:
            w = load_gated(w_ptr, row * w_b + d * w_d, None, 0, n, n < L_W)
            tr, ti = load_planes(twiddle_ptr, n, M)
            hr, hi = transform(w, w, f1r, f1i, tr, ti, f2r, f2i, False, DOT, PRECISION, EMULATE)
            hr *= SCALE
            hi *= SCALE
        else:
            hr, hi = load_planes(spectrum_ptr + d * (2 * M), n, M)
        if d_post_ptr is not None:
            cr, ci = multiply(vr, vi, hr, hi, False)
            tr, ti = load_planes(twiddle_ptr, n, M)
            z, _ = inverse(cr, ci, f1r, f1i, tr, ti, f2r, f2i, False, DOT, PRECISION, EMULATE)
            if skip_ptr is not None:
                skip = tl.load(skip_ptr + d).to(tl.float32)
                z += skip * load_gated(u_ptr, u_base, pre_ptr, pre_base, n, mask)
            if bias_ptr is not None:
                bias = tl.load(bias_ptr + d * bias_d + n * bias_l, mask=mask, other=0.0)
                z += bias.to(tl.float32)
            store_gated(d_post_ptr, base, dy_ptr, dy_base, z, n, mask)
        dz = load_gated(dy_ptr, dy_base, post_ptr, post_base, n, mask)
        tr, ti = load_planes(twiddle_ptr, n, M)
        er, ei = transform(dz, dz, f1r, f1i, tr, ti, f2r, f2i, False, DOT, PRECISION, EMULATE)
        pr, pi = multiply(er, ei, vr, vi, True)
        if w_ptr is not None:
            tr, ti = load_planes(twiddle_ptr, n, M)
            dw, _ = inverse(pr, pi, f1r, f1i, tr, ti, f2r, f2i, False, DOT, PRECISION, EMULATE)
            store_gated(dw_ptr, (row * D + d) * L_W, None, 0, SCALE * dw, n, n < L_W)
        else:
            gr += pr
            gi += pi
            hr, hi = load_planes(spectrum_ptr + d * (2 * M), n, M)
        cr, ci = multiply(er, ei, hr, hi, True)
        tr, ti = load_planes(twiddle_ptr, n, M)
        dv, _ = inverse(cr, ci, f1r, f1i, tr, ti, f2r, f2i, False, DOT, PRECISION, EMULATE)
        if skip_ptr is not None:
            skip = tl.load(skip_ptr + d).to(tl.float32)
            dv += skip * load_gated(dy_ptr, dy_base, post_ptr, post_base, n, mask)
        store_gated(du_ptr, base, pre_ptr, pre_base, dv, n, mask)
        if d_pre_ptr is not None:
            store_gated(d_pre_ptr, base, u_ptr, u_base, dv, n, mask)
    if w_ptr is None:
        out = dw_ptr + (chunk * D + d) * (2 * M) + n
        tl.store(out, gr)
        tl.store(out + M, gi)
