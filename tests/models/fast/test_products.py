"""Products by the faster library are those of torch, and only where they are meant."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from uedp_bench.models.fast import products
from uedp_bench.models.fast.products import FasterProducts, outer, product


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize("large", [1, 2**30])  # always the faster library, and never
def test_products_are_those_of_torch(large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "LARGE", large)
    monkeypatch.setattr(products, "NARROW", 1)
    x, weight, bias, gradient = draw(7, 5), draw(6, 5), draw(6), draw(7, 6)
    torch.testing.assert_close(product(x, weight, bias), x @ weight.t() + bias)
    torch.testing.assert_close(product(gradient, weight.t()), gradient @ weight)
    torch.testing.assert_close(outer(gradient, x), gradient.t() @ x)
    double = x.double()
    torch.testing.assert_close(product(double, weight.double()), double @ weight.double().t())


@pytest.mark.parametrize("rows", [31, 37, 64, 131])
def test_rows_of_zeros_change_nothing_and_few_numbers_of_rows_are_met(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(products, "LARGE", 1)
    monkeypatch.setattr(products, "NARROW", 1)
    x, weight, bias, gradient = draw(rows, 5), draw(6, 5), draw(6), draw(rows, 6)
    torch.testing.assert_close(product(x, weight, bias), x @ weight.t() + bias)
    torch.testing.assert_close(outer(gradient, x), gradient.t() @ x)
    met = [n + products._more_rows(n) for n in range(1, 1025)]
    assert all(n <= m <= n + n / 8 for n, m in enumerate(met, 1))
    assert len(set(met)) == 31 + 8 * 5 + 1


@pytest.mark.parametrize("has_bias", [True, False])
def test_networks_of_others_get_the_same_gradients(
    has_bias: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(products, "LARGE", 1)
    monkeypatch.setattr(products, "NARROW", 1)
    calls: list[Any] = []
    if products.onednn_works():
        onednn = products._onednn
        monkeypatch.setattr(
            products, "_onednn", lambda *arguments: calls.append(arguments) or onednn(*arguments)
        )

    def run(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        values = functional.linear(x, weight, bias)
        again = torch.addmm(torch.zeros(5), values.flatten(0, 1), weight)
        return again.sin().sum()

    tensors = [draw(2, 3, 5), draw(6, 5), draw(6) if has_bias else None]
    values_and_gradients = []
    for mode in (False, True):
        leaves = [t if t is None else t.clone().requires_grad_() for t in tensors]
        if mode:
            with FasterProducts():
                value = run(*leaves)  # type: ignore[arg-type]
        else:
            value = run(*leaves)  # type: ignore[arg-type]
        wanted = [t for t in leaves if t is not None]
        values_and_gradients.append([value.detach(), *torch.autograd.grad(value, wanted)])
    for ours, theirs in zip(*values_and_gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    assert calls or not products.onednn_works()


def test_rows_with_gaps_between_them_do_not_reach_the_library(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """oneDNN multiplies by them with code that is a thousand times as slow."""
    if not products.onednn_works():
        pytest.skip("torch has no product by oneDNN")
    met: list[Tensor] = []
    library = torch.ops.mkldnn._linear_pointwise

    def seen(x: Tensor, weight: Tensor, *rest: Any) -> Tensor:
        met.append(weight)
        result: Tensor = library(x, weight, *rest)
        return result

    monkeypatch.setattr(torch.ops.mkldnn, "_linear_pointwise", seen)
    monkeypatch.setattr(products, "LARGE", 1)
    monkeypatch.setattr(products, "NARROW", 1)
    x, wide = draw(7, 5), draw(6, 15)[:, :5]
    for weight in (wide, wide.contiguous(), draw(5, 18)[:, :6].t(), draw(5, 6).t()):
        torch.testing.assert_close(product(x, weight), x @ weight.t())
    assert len(met) == 4
    assert all(weight.is_contiguous() or weight.t().is_contiguous() for weight in met)


def test_transforms_and_overriding_tensors_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "LARGE", 1)
    monkeypatch.setattr(products, "NARROW", 1)
    weights, x = draw(4, 6, 5), draw(4, 3, 5)

    def value(weight: Tensor, x: Tensor) -> Tensor:
        with FasterProducts():
            return functional.linear(x, weight).square().sum()

    gradients = torch.func.vmap(torch.func.grad(value))(weights, x)
    by_hand = torch.stack([2 * (r @ w.t()).t() @ r for w, r in zip(weights, x, strict=True)])
    torch.testing.assert_close(gradients, by_hand)


def test_torch_serves_where_the_operator_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: Any) -> Tensor:
        raise AttributeError("no such operator")

    monkeypatch.setattr(products, "LARGE", 1)
    monkeypatch.setattr(products, "NARROW", 1)
    monkeypatch.setattr(products, "_onednn", missing)
    products.onednn_works.cache_clear()
    try:
        torch.testing.assert_close(product(draw(3, 5), draw(6, 5)), draw(3, 5) @ draw(6, 5).t())
    finally:
        products.onednn_works.cache_clear()


def test_the_activation_of_gpt2_is_the_librarys() -> None:
    from transformers import GPT2Config, GPT2LMHeadModel
    from transformers.activations import NewGELUActivation

    from uedp_bench.models.networks.causal_transformer import TransformerNetwork

    torch.manual_seed(1)
    theirs = GPT2LMHeadModel(GPT2Config(n_layer=2, n_embd=8, n_head=2, vocab_size=11)).eval()
    tokens = torch.arange(10).view(2, 5)
    before = theirs(input_ids=tokens).logits
    ours = TransformerNetwork(theirs)
    torch.testing.assert_close(ours(tokens), before, rtol=1e-5, atol=1e-6)
    assert not any(isinstance(module, NewGELUActivation) for module in ours.modules())


@pytest.mark.parametrize(("columns", "outputs"), [(200, 32), (32, 200)])
def test_the_wider_table_of_a_product_is_not_copied(
    columns: int, outputs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not products.onednn_works():
        pytest.skip("torch has no oneDNN here")
    x, weight, bias = draw(700, columns), draw(outputs, columns), draw(outputs)
    met: list[int] = []
    onednn = products._onednn
    monkeypatch.setattr(
        products, "_onednn", lambda x, *rest: met.append(len(x)) or onednn(x, *rest)
    )
    torch.testing.assert_close(
        product(x, weight, bias), x @ weight.t() + bias, rtol=1e-4, atol=1e-4
    )
    assert met == ([640, 64] if columns > outputs else [704])


def test_rows_past_the_end_of_a_table_are_not_read() -> None:
    table = draw(800, 1000)
    table[700:] = float("nan")
    weight, inputs = draw(32, 1000), draw(700, 32)
    assert bool(torch.isfinite(product(table[:700], weight)).all())
    assert bool(torch.isfinite(outer(table[:700], inputs)).all())
