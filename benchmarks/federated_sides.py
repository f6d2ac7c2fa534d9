"""One round of DP-FedAvg by those that `federated_peers.py` compares: the same users and weights.

Users take batches of their own rows in random order, step with plain SGD on the mean loss a token,
and send what changed. It is clipped as a whole; the mean gets Gaussian noise.
"""

from __future__ import annotations

import os
import sys
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from turns import Stopwatch
from workloads import Sizes, TorchGPT, as_one_writes_it, flat_weights, language_learner, stats_of

from uedp_bench.components.registry import mechanisms
from uedp_bench.contracts.run_context import Run
from uedp_bench.training.device import choose_device


class Work(NamedTuple):
    """The work of all sides. It is pickled.

    Attributes:
        model: one of `workloads.MODELS`.
        sizes: of a round.
        small: small networks.
        rounds: how many.
        epochs, batch_size, rate: of a user's local training; batch_size 0 for all rows.
        clip, noise: l2 bound on a user's update, and noise on their sum over it.
        device: torch device.
    """

    model: str
    sizes: Sizes
    small: bool = False
    rounds: int = 4
    epochs: int = 1
    batch_size: int = 8
    rate: float = 0.1
    clip: float = 0.5
    noise: float = 1.0
    device: str = "cpu"


def learner_of(work: Work) -> Any:
    return language_learner(work.model, work.sizes, small=work.small)


def network_of(learner: Any, work: Work) -> nn.Module:
    """The network that one would train with torch alone: GPT-2 of `transformers` as it is."""
    module = TorchGPT(learner.module.network) if work.model == "gpt" else learner.module
    return module.to(work.device).train()


def users_of(learner: Any, device: str) -> list[tuple[Tensor, Tensor]]:
    """Tokens and targets of each user, as torch code holds them in memory."""
    users = []
    for user in range(learner.corpus.user_count):
        rows = learner.corpus.rows_of_user[user]
        batch = learner.batch(rows, np.zeros(len(rows), np.int64))
        users.append((batch["tokens"].to(device), batch["targets"].to(device)))
    return users


def loss_of(module: nn.Module, tokens: Tensor, targets: Tensor) -> Tensor:
    """Mean loss a token, as one writes it."""
    logits = module(tokens)
    return nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def train_locally(module: nn.Module, user: tuple[Tensor, Tensor], work: Work) -> None:
    """A user's local training, as one writes it."""
    tokens, targets = user
    optimizer = torch.optim.SGD(module.parameters(), lr=work.rate)
    for _ in range(work.epochs):
        for rows in torch.randperm(len(tokens)).split(work.batch_size or len(tokens)):
            optimizer.zero_grad()
            loss_of(module, tokens[rows], targets[rows]).backward()
            optimizer.step()


def engine(work: Work, watch: Stopwatch) -> Tensor:
    """The mechanism `user-dp` of this project, its speed settings at their defaults."""
    device = choose_device(work.device, threads=1)
    learner, users = learner_of(work), work.sizes.users
    mechanism = mechanisms.create("user-dp", {
        "users": users, "users_per_round": users, "rounds": work.rounds, "sampling": "fixed",
        "clip": work.clip, "noise_multiplier": work.noise, "local_epochs": work.epochs,
        "local_batch_size": work.batch_size or None, "local_learning_rate": work.rate,
    })  # fmt: skip
    run = Run(1, stats_of(learner.corpus), device=device, progress=lambda *_: watch.lap())
    watch.start()
    module, _ = mechanism.train(learner, learner.corpus, run)
    return flat_weights(module)


def plain_loop(work: Work, watch: Stopwatch) -> Tensor:
    """One user after the other with torch alone."""
    learner = learner_of(work)
    module = network_of(learner, work)
    users = users_of(learner, work.device)
    weights = [p for p in module.parameters() if p.requires_grad]
    shared = [p.detach().clone() for p in weights]
    watch.start()
    for _ in range(work.rounds):
        total = torch.zeros(sum(p.numel() for p in weights), device=work.device)
        for user in users:
            with torch.no_grad():
                for parameter, value in zip(weights, shared, strict=True):
                    parameter.copy_(value)
            train_locally(module, user, work)
            with torch.no_grad():
                moved = [(p - old).flatten() for p, old in zip(weights, shared, strict=True)]
                update = torch.cat(moved)
                total += update * torch.clamp(work.clip / update.norm(), max=1.0)
        total += work.noise * work.clip * torch.randn_like(total)
        mean = torch.split(total / len(users), [p.numel() for p in weights])
        for value, part in zip(shared, mean, strict=True):
            value += part.view_as(value)
        watch.lap()
    with torch.no_grad():
        for parameter, value in zip(weights, shared, strict=True):
            parameter.copy_(value)
    return flat_weights(module)


class FusedLSTM(nn.Module):
    """The network `lstm` as one writes it with torch: `nn.LSTM` with `proj_size`, output tied.

    torch's layer has two biases that always move together; the second stays 0, so that both
    networks train alike.
    """

    def __init__(self, network: Any) -> None:
        super().__init__()
        layer, vocabulary = network.layers[0], network.shape.vocabulary
        size, units = layer.shape.inputs, layer.shape.units
        self.embedding = nn.Embedding(vocabulary, size)
        self.lstm = nn.LSTM(size, units, proj_size=size, batch_first=True)
        with torch.no_grad():
            self.embedding.weight.copy_(network.embedding)
            self.lstm.weight_ih_l0.copy_(_torch_gates(layer.weight_input))
            self.lstm.weight_hh_l0.copy_(_torch_gates(layer.weight_recurrent))
            self.lstm.bias_ih_l0.copy_(_torch_gates(layer.bias))
            self.lstm.bias_hh_l0.zero_()
            self.lstm.weight_hr_l0.copy_(layer.projection)
        self.lstm.bias_hh_l0.requires_grad_(False)

    def forward(self, tokens: Tensor) -> Tensor:
        outputs, _ = self.lstm(self.embedding(tokens))
        return nn.functional.linear(outputs, self.embedding.weight)


def _torch_gates(weight: Tensor) -> Tensor:
    """Gates forget, output, candidate, input in torch's order: input, forget, candidate, output."""
    forget, out, candidate, first = weight.detach().chunk(4)
    return torch.cat([first, forget, candidate, out])


class _PflModule(nn.Module):
    """The methods that pfl wants of a network."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def loss(self, tokens: Tensor, targets: Tensor) -> Tensor:
        return loss_of(self.module, tokens, targets)

    def metrics(self, tokens: Tensor, targets: Tensor) -> dict[str, Any]:
        return {}


def pfl_research(work: Work, watch: Stopwatch) -> Tensor:
    """Federated averaging of pfl-research in its simulation."""
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.callback.base import TrainingProcessCallback
    from pfl.data.dataset import Dataset
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.sampling import get_user_sampler
    from pfl.hyperparam import NNTrainHyperParams
    from pfl.metrics import Metrics
    from pfl.model.pytorch import PyTorchModel
    from pfl.privacy.gaussian_mechanism import GaussianMechanism
    from pfl.privacy.privacy_mechanism import CentrallyAppliedPrivacyMechanism

    class Laps(TrainingProcessCallback):
        def after_central_iteration(self, *_: Any, **__: Any) -> tuple[bool, Any]:
            watch.lap()
            return False, Metrics()

    learner = learner_of(work)
    users = users_of(learner, work.device)

    def shuffled(user: int) -> Dataset:
        tokens, targets = users[user]
        order = torch.randperm(len(tokens))
        return Dataset(raw_data=[tokens[order], targets[order]], user_id=str(user))

    sampler = get_user_sampler("minimize_reuse", list(range(len(users))))
    data = FederatedDataset(shuffled, sampler)
    module = network_of(learner, work)
    wrapped = _PflModule(module)
    model = PyTorchModel(
        model=wrapped,
        local_optimizer_create=torch.optim.SGD,
        central_optimizer=torch.optim.SGD(wrapped.parameters(), lr=1.0),
    )
    private = CentrallyAppliedPrivacyMechanism(GaussianMechanism(work.clip, work.noise))
    watch.start()
    FederatedAveraging().run(
        algorithm_params=NNAlgorithmParams(
            central_num_iterations=work.rounds, evaluation_frequency=work.rounds + 1,
            train_cohort_size=len(users), val_cohort_size=0,
        ),
        backend=SimulatedBackend(training_data=data, val_data=data, postprocessors=[private]),
        model=model,
        model_train_params=NNTrainHyperParams(
            local_num_epochs=work.epochs, local_learning_rate=work.rate,
            local_batch_size=work.batch_size or None,
        ),
        callbacks=[Laps()],
    )  # fmt: skip
    return flat_weights(module)


_actor: dict[Work, tuple[nn.Module, list[tuple[Tensor, Tensor]]]] = {}
"""The network and the users that a process of Ray keeps from call to call."""


def _of_this_process(work: Work) -> tuple[nn.Module, list[tuple[Tensor, Tensor]]]:
    if work not in _actor:
        torch.set_num_threads(1)
        as_one_writes_it()
        learner = learner_of(work)
        module = network_of(learner, work)
        _actor[work] = module, users_of(learner, work.device)
    return _actor[work]


def flower(work: Work, watch: Stopwatch) -> Tensor:
    """Flower's simulation on Ray, one client at a time on one core, server-side clipping."""
    os.environ.update(
        FLWR_TELEMETRY_ENABLED="0", RAY_USAGE_STATS_ENABLED="0", RAY_DEDUP_LOGS="0",
        PYTHONPATH=os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]),
    )  # fmt: skip
    from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp
    from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg
    from flwr.simulation import run_simulation

    client, server, ended = ClientApp(), ServerApp(), {}

    @client.train()
    def train(message: Message, context: Context) -> Message:
        import federated_sides

        module, users = federated_sides._of_this_process(work)
        named = dict(module.named_parameters())
        arrays = message.content["arrays"].to_torch_state_dict()
        with torch.no_grad():
            for name, value in arrays.items():
                named[name].copy_(value)
        federated_sides.train_locally(module, users[int(context.node_config["partition-id"])], work)
        content = RecordDict({
            "arrays": ArrayRecord(OrderedDict((n, p.detach().cpu()) for n, p in named.items())),
            "metrics": MetricRecord({"num-examples": 1}),
        })  # fmt: skip
        return Message(content=content, reply_to=message)

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        module, _ = _of_this_process(work)
        initial = ArrayRecord(OrderedDict((n, p.detach()) for n, p in module.named_parameters()))

        def after(round_: int, arrays: ArrayRecord) -> None:
            watch.lap() if round_ else watch.start()
            ended["weights"] = arrays

        averaging = FedAvg(fraction_evaluate=0.0, min_available_nodes=work.sizes.users,
                           min_train_nodes=work.sizes.users)  # fmt: skip
        strategy = DifferentialPrivacyServerSideFixedClipping(
            averaging, work.noise, work.clip, work.sizes.users
        )
        strategy.start(grid, initial, num_rounds=work.rounds, evaluate_fn=after)
        # Peaks are read before Ray ends its processes.
        ended["figures"] = watch.figures(work.sizes.users)

    with redirect_stdout(sys.stderr):
        run_simulation(
            server_app=server, client_app=client, num_supernodes=work.sizes.users,
            backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0},
                            "init_args": {"num_cpus": 1, "logging_level": "error"}},
        )  # fmt: skip
    watch.figures = lambda *_, **__: ended["figures"]  # type: ignore[method-assign]
    return torch.cat([v.reshape(-1) for v in ended["weights"].to_torch_state_dict().values()])


def weights_of(side: str, work: Work, watch: Stopwatch) -> Tensor:
    """Run a side; the weights that it ends with, in the order of our networks."""
    if side != "engine":
        as_one_writes_it()
    by_side = {
        "plain loop": plain_loop, "engine": engine, "pfl-research": pfl_research, "Flower": flower,
    }  # fmt: skip
    return by_side[side](work, watch)


def needs(side: str) -> Iterator[tuple[str, str]]:
    """Packages that a side needs and how to install them."""
    install = "pip install -r benchmarks/peers.txt, in an environment of its own"
    if side == "pfl-research":
        yield "pfl", install
    if side == "Flower":
        yield from (("flwr", install), ("ray", install))
