"""The language model answers where it is asked, from one generator, within bounded memory."""

from typing import Any

import pytest
import torch
from omegaconf import OmegaConf
from torch import Tensor, nn

from tests.mixers.cases import CASES
from zoology_bench.mixers import INITS
from zoology_bench.mixers.attention import AttentionConfig
from zoology_bench.mixers.base_conv import BaseConvConfig
from zoology_bench.models import LanguageModel, LanguageModelConfig, lm
from zoology_bench.param_count import ParamCount

V, T, D = 30, 12, 8


def config(case: str = "attention", **fields: Any) -> LanguageModelConfig:
    defaults: dict[str, Any] = {"vocab_size": V, "seq_len": T, "d_model": D, "mixer": CASES[case]}
    return LanguageModelConfig(**{**defaults, **fields})


def built(case: str = "attention", seed: int = 0, **fields: Any) -> LanguageModel:
    return config(case, **fields).build(torch.Generator().manual_seed(seed))


def rows(n: int = 3, length: int = T, n_queries: int = 4) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(V, (n, length), generator=generator)
    return tokens, torch.randint(length, (n, n_queries), generator=generator)


@pytest.mark.parametrize("case", CASES)
def test_logits_where_asked_equal_the_full_logits_there(case: str) -> None:
    model = built(case, d_mlp=16).double()
    tokens, positions = rows()
    everywhere = torch.arange(T).expand(len(tokens), -1)
    full = model(tokens, everywhere)
    assert full.shape == (3, T, V)
    expected = full.gather(1, positions[..., None].expand(-1, -1, V))
    assert torch.allclose(model(tokens, positions), expected, atol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_answers_ignore_later_tokens(case: str) -> None:
    model = built(case, d_mlp=16, norm="layer").double()
    tokens, _ = rows()
    changed = torch.cat([tokens[:, :6], (tokens[:, 6:] + 1) % V], dim=1)
    early = torch.arange(6).expand(3, -1)
    assert torch.allclose(model(tokens, early), model(changed, early), atol=1e-12)
    late = torch.full((3, 1), 6)
    assert not torch.allclose(model(tokens, late), model(changed, late), atol=1e-6)


@pytest.mark.parametrize("case", CASES)
def test_every_parameter_is_trained(case: str) -> None:
    model = built(case, d_mlp=16, init="random", norm="layer").double()
    tokens, _ = rows()
    everywhere = torch.arange(T).expand(len(tokens), -1)
    nn.functional.cross_entropy(
        model(tokens, everywhere).flatten(0, 1), tokens.flatten()
    ).backward()
    dead = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert dead == []


@pytest.mark.parametrize("init", INITS)
@pytest.mark.parametrize("case", CASES)
def test_weights_are_all_drawn_from_the_given_generator(case: str, init: str) -> None:
    before = torch.get_rng_state()
    first, same, other = (built(case, seed, d_mlp=16, init=init) for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), before)
    pairs = zip(first.parameters(), same.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    assert not torch.equal(first.embedding.weight, other.embedding.weight)


@pytest.mark.parametrize("init", INITS)
@pytest.mark.parametrize("case", CASES)
def test_no_weight_is_left_unwritten(case: str, init: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # In this mode torch.empty is full of NaN.
    torch.use_deterministic_algorithms(True)
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", True)
    try:
        assert torch.empty(3).isnan().all()
        model = built(case, d_mlp=16, init=init, norm="layer")
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(p.isfinite().all() for p in model.parameters())
    assert all(p.dtype == torch.float32 for p in model.parameters())


@pytest.mark.parametrize("init", ["recipe", "random"])
@pytest.mark.parametrize("case", ["attention", "base_conv"])
def test_initial_logits_have_unit_scale(case: str, init: str) -> None:
    model = built(case, d_model=64, vocab_size=512, init=init)
    tokens, positions = rows(n=16)
    assert model(tokens, positions).std().item() == pytest.approx(1, abs=0.25)


@pytest.mark.parametrize("case", ["attention", "base_conv"])
def test_predict_is_the_argmax_in_chunks_of_any_size(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = built(case)
    tokens, positions = rows(n=7)
    expected = model(tokens, positions).argmax(-1)
    assert torch.equal(model.predict(tokens, positions), expected)
    for limit in (1, 500, 10_000):
        monkeypatch.setattr(lm, "MAX_CHUNK_BYTES", limit)
        assert torch.equal(model.predict(tokens, positions), expected)


def test_predict_never_holds_more_logits_than_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    largest = 0
    linear = nn.functional.linear

    def watched(x: Tensor, w: Tensor, bias: Tensor | None = None) -> Tensor:
        nonlocal largest
        y = linear(x, w, bias)
        if w.shape[0] == V:
            largest = max(largest, y.nbytes)
        return y

    monkeypatch.setattr(nn.functional, "linear", watched)
    monkeypatch.setattr(lm, "MAX_CHUNK_BYTES", 5 * V * 4)
    built().predict(*rows(n=7))
    assert largest == 5 * V * 4


def test_learned_positions_exist_only_where_a_mixer_wants_them() -> None:
    assert built("attention").positions is not None
    for case in ("attention-rotary", "attention-none", "base_conv", "hybrid", "torch_module"):
        assert built(case).positions is None


def test_longer_input_than_learned_positions_is_refused() -> None:
    with pytest.raises(ValueError, match=r"tokens have T=13 but model.seq_len=12 learned"):
        built()(*rows(length=T + 1))


@pytest.mark.parametrize("case", ["attention-rotary", "base_conv", "base_conv-implicit", "hybrid"])
def test_longer_input_works_where_positions_are_not_learned(case: str) -> None:
    assert built(case)(*rows(length=T + 7)).isfinite().all()


def test_parameters_are_counted_by_hand() -> None:
    attention = 2 * 4 * D * D
    norms = 3 * D
    assert built("attention").n_params() == ParamCount(
        total=V * D + T * D + attention + norms, non_embedding=attention + norms, mixer=attention
    )
    base_conv = 2 * (D * D + 2 * D) + 3 * D + T * D
    mlps, more_norms = 2 * 2 * D * 16, 2 * D
    assert built("base_conv", d_mlp=16).n_params() == ParamCount(
        total=V * D + base_conv + norms + mlps + more_norms,
        non_embedding=base_conv + norms + mlps + more_norms,
        mixer=base_conv,
    )


@pytest.mark.parametrize("case", CASES)
def test_measured_state_equals_the_formulas(case: str) -> None:
    model = built(case)
    formulas = [mixer.state_bytes(9) for mixer in model.mixers()]
    if None in formulas:
        assert model.state_bytes(9) is None
    else:
        assert model.state_bytes(9) == sum(f for f in formulas if f is not None)
    assert built("attention").state_bytes(9) == 2 * 2 * 9 * D * 4


def test_dropout_acts_while_training_only() -> None:
    model = built(embedding_dropout=0.5)
    tokens, positions = rows()
    assert not torch.equal(model(tokens, positions), model(tokens, positions))
    model.eval()
    assert torch.equal(model(tokens, positions), model(tokens, positions))


def test_labels() -> None:
    assert config("attention").label == "attention"
    assert config("hybrid").mixer_label == "conv+attention"
    assert built("torch_module").mixer_label == "CausalMean"
    assert config().causal and config().needs_training


def test_the_configuration_survives_omegaconf() -> None:
    for case in CASES:
        plain = OmegaConf.to_object(OmegaConf.structured(config(case)))
        assert plain == config(case)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"vocab_size": 1}, "model.vocab_size=1 must be at least 2"),
        ({"seq_len": 0}, "model.seq_len=0 must be at least 1"),
        ({"d_model": 0}, "model.d_model=0 must be at least 1"),
        ({"n_layers": 0}, "model.n_layers=0 must be at least 1"),
        ({"d_mlp": -1}, "model.d_mlp=-1 must be at least 0"),
        ({"norm": "rmss"}, "model.norm='rmss' is unknown; did you mean 'rms'"),
        ({"init": "recip"}, "model.init='recip' is unknown; did you mean 'recipe'"),
        ({"embedding_dropout": 1.0}, r"model.embedding_dropout=1.0 must lie in \[0, 1\)"),
        ({"mixer": "attention"}, "model.mixer='attention' must be a mixer configuration"),
    ],
    ids=lambda x: next(iter(x)) if isinstance(x, dict) else "",
)
def test_bad_fields_get_one_line(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        config(**fields)


def test_missing_fields_are_named() -> None:
    with pytest.raises(ValueError, match=r"model.vocab_size='\?\?\?' must be an integer"):
        LanguageModelConfig(mixer=AttentionConfig())
    with pytest.raises(ValueError, match=r"model.mixer='\?\?\?' must be a mixer"):
        LanguageModelConfig(vocab_size=V, seq_len=T)


def test_a_model_trains_in_bfloat16_autocast() -> None:
    for mixer in (AttentionConfig(), BaseConvConfig()):
        model = LanguageModelConfig(vocab_size=V, seq_len=T, d_model=D, mixer=mixer).build(
            torch.Generator().manual_seed(0)
        )
        with torch.autocast("cpu", torch.bfloat16):
            model(*rows()).float().square().mean().backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
