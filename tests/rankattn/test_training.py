"""Training: determinism, exact resume, protocols, and agreement with plain PyTorch."""

import hashlib
import io
import logging
import math
from dataclasses import replace

import pytest
import torch

from rankattn import checkpoint, targets, tasks, training
from rankattn.architecture import Architecture
from rankattn.cost import batch_parts, peak_bytes
from rankattn.encoder import Encoder, initial_weights, split
from rankattn.optimiser import Adam
from rankattn.reference import ReferenceEncoder, parameters_by_name
from rankattn.runs import Run, Training
from rankattn.schedule import learning_rate

CPU = torch.device("cpu")
RECIPE = Training(
    epochs=4,
    steps_per_epoch=3,
    batch_size=8,
    learning_rate=0.01,
    warmup=0.25,
    final_rate=0.0,
    beta1=0.9,
    beta2=0.95,
    epsilon=1e-8,
    protocol="corrected",
    test_sequences=300,
    memory_gib=1.0,
)
RUN = Run("farthest", Architecture(dim=4, points=4, heads=2, layers=2, width=2, feedforward=8), RECIPE, (0, 1))


def losses(state):
    return [(row["seed"], row["epoch"], row["learning_rate"], row["training_error"]) for row in state.history]


def same(a, b):
    return torch.equal(a.flat, b.flat) and losses(a) == losses(b) and a.epoch == b.epoch


def test_same_run_twice_is_bit_equal_and_another_seed_differs():
    one = training.train(RUN, CPU)
    assert same(one, training.train(RUN, CPU))
    other = training.train(replace(RUN, seeds=(0, 2)), CPU)
    assert not torch.equal(one.flat[1], other.flat[1])


@pytest.mark.parametrize("stop", [1, 2, 3])
def test_resumed_after_any_epoch_is_bit_equal(stop, tmp_path):
    whole = training.train(RUN, CPU)

    def interrupt(state, epochs):
        if state.epoch == stop + 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        training.train(RUN, CPU, tmp_path / "x.pt", "stamp", 0.0, interrupt)
    assert checkpoint.load(tmp_path / "x.pt", "stamp").epoch == stop
    assert same(whole, training.train(RUN, CPU, tmp_path / "x.pt", "stamp", 0.0))


@pytest.mark.parametrize("damage", ["empty", "cut", "garbled", "one bit", "other stamp", "pickle"])
def test_unusable_checkpoint_is_named_set_aside_and_not_resumed(damage, tmp_path, caplog):
    path = tmp_path / "x.pt"
    state = training.train(RUN, CPU)
    checkpoint.save(path, "other" if damage == "other stamp" else "stamp", state)
    content = path.read_bytes()
    if damage == "pickle":

        class Evil:
            def __reduce__(self):
                return (open, (str(tmp_path / "executed"), "w"))

        buffer = io.BytesIO()
        torch.save({"stamp": "stamp", "flat": Evil()}, buffer)
        path.write_bytes(hashlib.sha256(buffer.getvalue()).digest() + buffer.getvalue())
    elif damage != "other stamp":
        middle = len(content) // 2
        flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        path.write_bytes({"empty": b"", "cut": content[:middle], "garbled": b"x" * 500, "one bit": flipped}[damage])
    with caplog.at_level(logging.WARNING):
        assert checkpoint.load(path, "stamp") is None
    assert str(path) in caplog.text
    assert not path.exists()
    assert (tmp_path / "x.pt.unusable").exists()
    assert not (tmp_path / "executed").exists()
    assert same(training.train(RUN, CPU, path, "stamp"), state)


def test_the_older_checkpoint_is_used_when_the_newest_is_damaged(tmp_path, caplog):
    path, whole = tmp_path / "x.pt", training.train(RUN, CPU)

    def interrupt(state, epochs):
        if state.epoch == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        training.train(RUN, CPU, path, "stamp", 0.0, interrupt)
    path.write_bytes(path.read_bytes()[:-5])
    assert checkpoint.load(path, "stamp").epoch == 1
    assert "damaged" in caplog.text
    assert same(whole, training.train(RUN, CPU, path, "stamp", 0.0))
    checkpoint.remove(path)
    assert [file.name for file in tmp_path.iterdir()] == ["x.pt.unusable"]


def test_a_checkpoint_damaged_on_its_way_to_the_disk_replaces_nothing(tmp_path, monkeypatch):
    path, state = tmp_path / "x.pt", training.train(RUN, CPU)
    checkpoint.save(path, "stamp", state)
    before = path.read_bytes()
    write = type(path).write_bytes
    monkeypatch.setattr(type(path), "write_bytes", lambda self, data: write(self, data[:-1]))
    with pytest.raises(OSError, match="damaged while it was written"):
        checkpoint.save(path, "stamp", replace(state, epoch=9))
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_out_of_memory_splits_the_batch_and_is_marked(tmp_path, monkeypatch):
    whole, tried = training.train(RUN, CPU), []
    epoch = training._epoch

    def short_of_memory(run, encoder, adam, number, rate, parts):
        tried.append((number, parts))
        if number == 2 and parts == 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return epoch(run, encoder, adam, number, rate, parts)

    monkeypatch.setattr(training, "_epoch", short_of_memory)
    state = training.train(RUN, CPU, tmp_path / "x.pt", "stamp", 0.0)
    assert tried == [(0, 1), (1, 1), (2, 1), (2, 2), (3, 2)]  # from the checkpoint, nothing done twice
    assert state.retried
    torch.testing.assert_close(outputs(RUN, state.flat), outputs(RUN, whole.flat), rtol=0, atol=1e-4)

    def none_left(*args):
        raise RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(training, "_epoch", none_left)
    with pytest.raises(MemoryError, match=r"lower training\.memory_gib"):
        training.train(RUN, CPU)


def outputs(run, flat):
    """Outputs of trained weights on fixed points. (Weights themselves may differ: a key bias has no

    effect on a softmax, so its gradient is rounding noise, which Adam scales up.)
    """
    x = tasks.sphere((20, 4, 4), [torch.Generator().manual_seed(0)])
    return Encoder(run.architecture, flat)(x).detach()


def test_a_seed_does_not_depend_on_the_seeds_beside_it():
    """Up to rounding, amplified by 12 steps of training: stated tolerance 1e-4 on outputs."""
    together, alone = replace(RUN, seeds=(5, 1, 9)), replace(RUN, seeds=(1,))
    got = outputs(together, training.train(together, CPU).flat)[1:2]
    torch.testing.assert_close(got, outputs(alone, training.train(alone, CPU).flat), rtol=0, atol=1e-4)


def test_threads_change_no_bit():
    """Jobs of these sizes give the same bytes with 1 and 2 threads."""
    one = training.train(RUN, CPU)
    torch.set_num_threads(2)
    try:
        assert same(one, training.train(RUN, CPU))
    finally:
        torch.set_num_threads(1)


def test_split_batches_equal_the_whole_batch():
    whole = training.train(RUN, CPU)
    tight = replace(RUN, training=replace(RECIPE, memory_gib=0.5 * peak_bytes(RUN) / 2**30))
    assert batch_parts(RUN) == 1
    assert batch_parts(tight) > 1
    split_outputs = outputs(RUN, training.train(tight, CPU).flat)
    torch.testing.assert_close(split_outputs, outputs(RUN, whole.flat), rtol=0, atol=1e-4)


def test_equals_plain_pytorch_training():
    """The same data and rates, a module per replica and torch.optim.Adam on its own parameters."""
    torch.manual_seed(0)
    final = training.train(RUN, CPU)
    start = training.initial_state(RUN)
    for replica, seed in enumerate(RUN.seeds):
        model = ReferenceEncoder(RUN.architecture)
        _load(model, start.flat[replica : replica + 1])
        adam = torch.optim.Adam(model.parameters(), betas=(0.9, 0.95), eps=1e-8)
        for epoch in range(RECIPE.epochs):
            adam.param_groups[0]["lr"] = learning_rate(epoch, 4, 0.01, 0.25)
            streams = training.streams(replace(RUN, seeds=(seed,)), epoch, CPU)
            for _ in range(RECIPE.steps_per_epoch):
                x = tasks.sphere((8, 4, 4), streams[0])[0]
                y = tasks.gather_points(x, targets.farthest_index(x))
                adam.zero_grad()
                (torch.nn.functional.mse_loss(model(x), y) * 4).backward()
                adam.step()
        x = tasks.sphere((20, 4, 4), [torch.Generator().manual_seed(0)])[0]
        torch.testing.assert_close(outputs(RUN, final.flat)[replica], model(x).detach(), rtol=0, atol=1e-4)


def _load(model, flat):
    """Put one replica's fused weights into the modules."""
    weights = split(model.arch, flat)
    w = model.arch.width
    for name, parameters in parameters_by_name(model).items():
        value, kind = weights[name][0], name.rpartition(".")[2]
        if kind in ("qkv", "qkv_bias"):
            parts = [part.flatten(0, 1) for part in value.unflatten(0, (3, w, -1)).unbind(1)]
        elif kind == "out":
            parts = value.chunk(w, dim=1)
        elif kind == "out_bias":
            parts = value.unbind(0)
        else:
            parts = [value]
        for parameter, part in zip(parameters, parts, strict=True):
            parameter.data.copy_(part.reshape(parameter.shape))


def test_streams_are_fresh_every_epoch_and_independent_between_seeds():
    def first_batch(run, seed, epoch, step=0):
        streams = training.streams(replace(run, seeds=(seed,)), epoch, CPU)
        for earlier in range(step):
            tasks.sphere((8, 4, 4), streams[earlier % len(streams)])
        return tasks.sphere((8, 4, 4), streams[step % len(streams)])

    batches = [first_batch(RUN, seed, epoch) for seed in (0, 1, 2) for epoch in (0, 1)]
    batches += [first_batch(RUN, 0, 0, step=1)]
    for i, a in enumerate(batches):
        assert not any(torch.isin(a, b).any() for b in batches[:i])
    # As run by the authors: worker k of seed s drew from stream s + k, so seeds 0 and 1 share batches.
    published = replace(RUN, training=replace(RECIPE, protocol="published"))
    assert torch.equal(first_batch(published, 0, 0, step=1), first_batch(published, 1, 0, step=0))


def test_initial_weights_by_protocol():
    corrected = training.initial_state(RUN).flat
    assert not torch.equal(corrected[0], corrected[1])
    published = training.initial_state(replace(RUN, training=replace(RECIPE, protocol="published"))).flat
    assert torch.equal(published[0], published[1])


def test_history_records_every_epoch_and_its_rate():
    state = training.train(RUN, CPU)
    rates = [row["learning_rate"] for row in state.history if row["seed"] == 0]
    assert rates == [0.0, 0.01, pytest.approx(0.005), pytest.approx(0.0, abs=1e-18)]
    assert [row["epoch"] for row in state.history] == [0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("final", [0.0, 0.1])
@pytest.mark.parametrize("epochs", [20, 40, 1000, 2000])
def test_schedule_at_first_peak_and_last_epoch(epochs, final):
    rates = [learning_rate(e, epochs, 0.01, final=final) for e in range(epochs)]
    peak = epochs // 20
    assert rates[0] == 0.0
    assert rates[peak] == 0.01 == max(rates)
    assert rates[peak // 2] == pytest.approx(0.01 * (peak // 2) / peak)
    assert rates[-1] == pytest.approx(0.01 * final, abs=1e-18)
    assert all(a > b for a, b in zip(rates[peak:], rates[peak + 1 :], strict=False))
    middle = (peak + epochs - 1) / 2
    if middle == int(middle):
        assert rates[int(middle)] == pytest.approx(0.01 * (1 + final) / 2)


@pytest.mark.parametrize(("epochs", "warmup"), [(1, 0.05), (2, 0.05), (1, 1.0), (4, 1.0), (3, 0.0)])
def test_schedule_of_very_short_runs(epochs, warmup):
    rates = [learning_rate(e, epochs, 0.01, warmup) for e in range(epochs)]
    assert all(0 <= rate <= 0.01 for rate in rates)
    if warmup < 1:
        assert rates[0] == 0.01


def test_a_full_rank_head_learns_the_task():
    arch = Architecture(dim=4, points=3, heads=1, layers=1, feedforward=32)
    recipe = replace(RECIPE, epochs=20, steps_per_epoch=25, batch_size=64)
    state = training.train(Run("farthest", arch, recipe, (0,)), CPU)
    assert state.history[0]["training_error"] > 0.8
    assert state.history[-1]["training_error"] < 0.25


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 40.0])
def test_a_seed_that_diverges_is_ended_and_does_not_harm_the_others(value, monkeypatch):
    """One weight is spoilt before step 4, the second step of the second epoch."""
    clean, count = training.train(RUN, CPU), iter(range(100))
    gradient = training.gradient

    def spoilt(run, encoder, points, parts):
        loss = gradient(run, encoder, points, parts)
        if next(count) == 4:
            encoder.flat[0] = value
            loss[0] = value if value != 40.0 else 1e4
        return loss

    monkeypatch.setattr(training, "gradient", spoilt)
    hurt = training.train(RUN, CPU)
    assert hurt.diverged == {0: 4}
    assert hurt.flat[0].isnan().all()
    assert torch.equal(hurt.flat[1], clean.flat[1])
    errors = {seed: [row["training_error"] for row in hurt.history if row["seed"] == seed] for seed in (0, 1)}
    assert [math.isnan(error) for error in errors[0]] == [False, True, True, True]
    assert errors[1] == [row["training_error"] for row in clean.history if row["seed"] == 1]


def test_devices():
    assert training.resolve_device("cpu").type == "cpu"
    with pytest.raises(ValueError, match="device = 'tpu'"):
        training.resolve_device("tpu")
    if not torch.cuda.is_available():
        assert training.resolve_device("auto").type == "cpu"
        with pytest.raises(ValueError, match="no usable GPU"):
            training.resolve_device("cuda")


def test_initial_weights_take_no_numbers_from_the_global_generator():
    torch.manual_seed(3)
    before = torch.get_rng_state()
    initial_weights(RUN.architecture, torch.Generator().manual_seed(0))
    training.train(RUN, CPU)
    assert torch.equal(before, torch.get_rng_state())


def test_adam_is_that_of_pytorch():
    start, rates = torch.randn(2, 7, dtype=torch.float64), [0.0, 0.1, 0.05]
    ours, theirs = start.clone(), start.clone().requires_grad_()
    adam = Adam(ours, (0.9, 0.95), 1e-8)
    reference = torch.optim.Adam([theirs], betas=(0.9, 0.95), eps=1e-8)
    for rate in rates:
        grad = torch.randn(2, 7, dtype=torch.float64)
        adam.step(grad, rate)
        reference.param_groups[0]["lr"], theirs.grad = rate, grad
        reference.step()
        torch.testing.assert_close(ours, theirs.detach(), rtol=0, atol=1e-14)
