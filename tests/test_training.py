"""The training loop, its checkpoints, its measures and the command line.

What the chapter `pretrain` shows with its models of a minute, nbval tests there;
here everything is as small as it can be and still fail.
"""

from __future__ import annotations

import errno
import inspect
import io
import itertools
import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import lucid
import lucid.pretrain
from lucid.data import (
    Grammar,
    IdealReader,
    PretrainingBatches,
    pydoc_topics,
)
from lucid.models.text.bert import BERTConfig, BERTForPreTraining
from lucid.optim import AdamW, LinearWarmup, decay_groups
from lucid.text import WordPieceTokenizer
from lucid.text.wordpiece import SPECIAL_TOKENS
from lucid.training import (
    ProgressBar,
    Training,
    checkpoint,
    evaluate_pretraining,
    fill_mask,
    find_checkpoints,
    guessing,
    loop,
    read_checkpoint,
    step_seed,
    write_checkpoint,
)
from tools import long_runs

GRAMMAR = Grammar()
WORDS = WordPieceTokenizer([*SPECIAL_TOKENS, *GRAMMAR.words])


def batches(documents: int = 20, seed: int = 0, size: int = 8):
    return PretrainingBatches(
        GRAMMAR.documents(documents, sentences=6, seed=seed),
        WORDS,
        batch_size=size,
        max_length=35,
        short_share=0.0,
        seed=seed,
    )


def model(
    hidden: int = 16, dropout: float = 0.1, words: int = WORDS.vocab_size
):
    lucid.manual_seed(0)
    return BERTForPreTraining(
        BERTConfig(
            vocab_size=words,
            hidden_size=hidden,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=2 * hidden,
            max_position_embeddings=35,
            hidden_dropout=dropout,
            attention_dropout=dropout,
            initializer_range=0.1,
        )
    )


def training(folder: Path | None = None, data=None, steps: int = 16):
    made = model()
    optimizer = AdamW(decay_groups(made, 0.01), lr=1e-2)
    schedule = LinearWarmup(optimizer, 3, steps)
    return Training(
        made, data or batches(), optimizer, schedule, folder=folder, seed=5
    )


def losses(run: Training) -> list[float]:
    return [entry["loss"] for entry in run.history]


def same_weights(one: Training, other: Training) -> bool:
    pairs = zip(
        one.model.parameters(), other.model.parameters(), strict=True
    )
    return all(np.array_equal(p.numpy(), q.numpy()) for p, q in pairs)


class Killed(Exception):
    pass


def kill_at(step: int):
    def report(run: Training) -> None:
        if run.done == step:
            raise Killed

    return report


# ---- stop and resume -------------------------------------------------------------


def test_killed_run_resumes_bit_for_bit(tmp_path):
    """Dropout, moments, warm-up, an epoch's end: all lie on the way."""
    whole = training(tmp_path / "whole")
    whole.run(16, save_every=5)
    assert whole.batches.epoch > 0
    killed = training(tmp_path / "killed")
    with pytest.raises(Killed):
        killed.run(16, save_every=5, report=kill_at(9))
    resumed = training(tmp_path / "killed")
    assert resumed.resume() == 5
    resumed.run(16, save_every=5)
    assert losses(resumed) == losses(whole)
    assert same_weights(resumed, whole)
    ours, theirs = (r.optimizer.state_dict() for r in (resumed, whole))
    assert ours.keys() == theirs.keys()
    assert all(np.array_equal(ours[k], theirs[k]) for k in ours)


def test_what_is_drawn_between_steps_changes_nothing():
    plain, disturbed = training(), training()
    plain.run(4)
    disturbed.run(
        4, report=lambda run: lucid.backend.host_rng().random(run.done)
    )
    assert losses(plain) == losses(disturbed)


def test_steps_have_seeds_of_their_own():
    grid = itertools.product(range(20), range(20))
    assert len({step_seed(seed, step) for seed, step in grid}) == 400


def test_dropout_differs_from_step_to_step():
    run = training()
    place = run.batches.state_dict()
    found = []
    for done in (0, 1):
        run.batches.load_state_dict(place)
        lucid.manual_seed(step_seed(run.seed, done))
        found.append(run.model(**next(run.batches)).loss.item())
    assert found[0] != found[1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_finishes_the_step_and_loses_nothing(
    tmp_path, monkeypatch, number
):
    """It comes in the middle of a step: gradients are there, no update."""
    whole = training()
    whole.run(6)
    before = signal.getsignal(number)
    stopped = training(tmp_path)
    clip = loop.clip_grad_norm

    def interrupted(parameters, bound):
        if stopped.done == 2:
            signal.raise_signal(number)
        return clip(parameters, bound)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "clip_grad_norm", interrupted)
        with pytest.raises(KeyboardInterrupt, match="stopped after step 3"):
            stopped.run(6)
    assert signal.getsignal(number) is before
    assert [p.name for p in find_checkpoints(tmp_path)] == ["step-00000003"]
    resumed = training(tmp_path)
    resumed.resume()
    resumed.run(6)
    assert losses(resumed) == losses(whole)
    assert same_weights(resumed, whole)


def test_second_ctrl_c_interrupts_at_once(tmp_path):
    class Stubborn(PretrainingBatches):
        def __next__(self):
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            return super().__next__()

    documents = GRAMMAR.documents(4, seed=0)
    run = training(tmp_path, Stubborn(documents, WORDS, max_length=35))
    with pytest.raises(KeyboardInterrupt):
        run.run(6)
    assert run.done == 0 and find_checkpoints(tmp_path) == []


def test_a_folder_with_checkpoints_is_not_overwritten(tmp_path):
    training(tmp_path).run(2)
    with pytest.raises(FileExistsError, match="resume that run"):
        training(tmp_path).run(2)
    with pytest.raises(FileNotFoundError, match="no checkpoint"):
        training(tmp_path / "other").resume()
    with pytest.raises(ValueError, match="save_every"):
        training().run(2, save_every=0)


# ---- checkpoints -----------------------------------------------------------------


def test_only_the_last_two_checkpoints_are_kept(tmp_path):
    training(tmp_path).run(5, save_every=1)
    names = [path.name for path in find_checkpoints(tmp_path)]
    assert names == ["step-00000004", "step-00000005"]


def test_state_comes_back_to_the_bit(tmp_path):
    rng = np.random.default_rng(0)
    state = {
        "arrays": {
            "a.b": rng.random(3),
            "c": rng.random((2, 0), np.float32),
        },
        "numbers": [0.1 + 0.2, 1e-320, 7, True, None, "text"],
        "scalar": np.float32(1 / 3),
    }
    path = write_checkpoint(tmp_path, 3, model(), state)
    back = read_checkpoint(path)
    for name, array in state["arrays"].items():
        assert back["arrays"][name].dtype == array.dtype
        np.testing.assert_array_equal(back["arrays"][name], array)
    assert back["numbers"] == state["numbers"]
    assert back["scalar"] == float(state["scalar"])


@pytest.mark.skipif(os.name == "nt", reason="needs a limit on file sizes")
@pytest.mark.parametrize("limit", [1000, 12_000])
def test_full_disk_leaves_the_last_checkpoint_whole(tmp_path, limit):
    """A limit on file sizes stands for it: within the first file, or later."""
    import resource

    run = training(tmp_path)
    run.run(2)
    held = {p.name: p.read_bytes() for p in tmp_path.glob("*/*")}
    assert (
        min(map(len, held.values())) < 12_000 < max(map(len, held.values()))
    )
    run.step()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        with pytest.raises(OSError, match="whole one is step-00000002"):
            run.save()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [p.name for p in tmp_path.iterdir()] == ["step-00000002"]
    assert held == {p.name: p.read_bytes() for p in tmp_path.glob("*/*")}
    assert training(tmp_path).resume() == 2


def test_a_checkpoint_is_on_the_disk_before_it_is_named(
    tmp_path, monkeypatch
):
    """A power cut must not leave the name without what belongs under it."""
    settled: list[str] = []
    settle, replace = checkpoint._settle, os.replace

    def note(path):
        settled.append(path.name)
        settle(path)

    def name(source, target):
        if Path(source).is_dir():
            held = {path.name for path in Path(source).iterdir()}
            assert held | {Path(source).name} <= set(settled)
            assert len(held) == 4
        replace(source, target)

    monkeypatch.setattr(checkpoint, "_settle", note)
    monkeypatch.setattr(checkpoint.os, "replace", name)
    flushed: list[int] = []
    monkeypatch.setattr(checkpoint.os, "fsync", flushed.append)
    training(tmp_path).run(1)
    assert settled[-1] == tmp_path.name
    assert len(flushed) >= len(settled) == 6


def test_what_a_killed_writer_left_is_no_checkpoint(tmp_path):
    training(tmp_path).run(2)
    draft = tmp_path / ".step-00000003.draft"
    draft.mkdir()
    (draft / "config.json").write_text("{")
    run = training(tmp_path)
    assert run.resume() == 2
    run.run(3)
    assert not draft.exists()
    assert find_checkpoints(tmp_path)[-1].name == "step-00000003"


def test_a_damaged_checkpoint_is_named(tmp_path):
    training(tmp_path).run(1)
    (path,) = find_checkpoints(tmp_path)
    (path / "training.json").write_text('{"done"')
    with pytest.raises(
        ValueError, match="step-00000001 is not a checkpoint"
    ):
        training(tmp_path).resume()


def test_a_checkpoint_is_a_model_folder(tmp_path):
    run = training(tmp_path)
    run.run(1)
    read = BERTForPreTraining.from_pretrained(find_checkpoints(tmp_path)[0])
    for (name, p), q in zip(
        run.model.named_parameters(), read.parameters(), strict=True
    ):
        np.testing.assert_array_equal(p.numpy(), q.numpy(), err_msg=name)


# ---- what is not a number --------------------------------------------------------


def test_nan_stops_with_step_and_batch_and_the_old_weights(tmp_path):
    run = training(tmp_path)
    run.run(3)
    bias = run.model.cls.predictions.bias.data
    bias[7] = np.nan
    before = [p.numpy().copy() for p in run.model.parameters()]
    with pytest.raises(FloatingPointError) as caught:
        run.run(6)
    text = str(caught.value)
    assert "step 4" in text and "'batch': 3" in text
    assert "the loss is nan" in text
    for p, q in zip(run.model.parameters(), before, strict=True):
        np.testing.assert_array_equal(p.numpy(), q)
    assert [p.name for p in find_checkpoints(tmp_path)] == ["step-00000003"]
    assert run.done == 3


def test_gradient_that_is_not_finite_stops_likewise(monkeypatch):
    run = training()
    weight = run.model.bert.pooler.dense.weight
    clip = loop.clip_grad_norm

    def spoiled(parameters, bound):
        weight.grad.data[0, 0] = np.inf
        return clip(parameters, bound)

    monkeypatch.setattr(loop, "clip_grad_norm", spoiled)
    before = weight.numpy().copy()
    with pytest.raises(FloatingPointError, match="step 1.*pooler.*weight"):
        run.step()
    np.testing.assert_array_equal(weight.numpy(), before)


# ---- measuring -------------------------------------------------------------------


def test_evaluation_is_the_mean_over_answers():
    made = model(dropout=0.5)
    held = list(itertools.islice(batches(seed=1, size=5), 3))
    made.eval()
    sums = np.zeros(4)
    for batch in held:
        output = made(**batch)
        words = int((batch["labels"].numpy() != -100).sum())
        pairs = len(batch["next_sentence_label"].numpy())
        sums += [
            output.mlm_loss.item() * words,
            words,
            output.nsp_loss.item() * pairs,
            pairs,
        ]
    made.train()
    found = evaluate_pretraining(made, held)
    assert made.training
    assert math.isclose(found["mlm_loss"], sums[0] / sums[1], rel_tol=1e-5)
    assert math.isclose(found["nsp_loss"], sums[2] / sums[3], rel_tol=1e-5)
    assert 0 <= found["mlm_accuracy"] <= 1


def test_guessing_by_hand():
    def batch(labels, pairs):
        return {
            "labels": lucid.tensor(np.array(labels)),
            "next_sentence_label": lucid.tensor(np.array(pairs)),
        }

    seen = [batch([[1, -100, 1]], [1]), batch([[2, -100, -100]], [1])]
    found = guessing(seen, [batch([[1, 2, -100]], [0])], vocab_size=3)
    share = {1: 3 / 6, 2: 2 / 6}  # counts 0, 2, 1 raised by one
    want = -(math.log(share[1]) + math.log(share[2])) / 2
    assert math.isclose(found["mlm_loss"], want)
    assert found["mlm_accuracy"] == 0.5
    assert math.isclose(found["nsp_loss"], -math.log(1 / 4))
    assert found["nsp_accuracy"] == 0.0


def test_fill_mask_speaks_of_each_mask():
    made = model()
    found = fill_mask(made, WORDS, "the [MASK] cat [MASK]", count=3)
    assert [len(words) for words in found] == [3, 3]
    for words in found:
        chances = [chance for _, chance in words]
        assert chances == sorted(chances, reverse=True)
        assert {word for word, _ in words} <= set(WORDS.vocab)
    with pytest.raises(ValueError, match=r"no \[MASK\]"):
        fill_mask(made, WORDS, "the cat")


def test_progress_counts_real_tokens_and_shows_the_last_evaluation():
    run = training()
    run.run(2, evaluate=lambda: {"mlm_loss": 1.5})
    real = 0
    again = batches()
    for _ in range(2):
        real += int(next(again)["attention_mask"].numpy().sum())
    assert sum(entry["tokens"] for entry in run.history) == real
    stream = io.StringIO()
    bar = ProgressBar(4, stream)
    bar(run)
    text = stream.getvalue()
    for piece in (
        "2/4",
        "##########.",
        "tokens/s",
        "left",
        "mlm_loss 1.500",
    ):
        assert piece in text
    bar(run)
    assert stream.getvalue() == text, "a file gets a line every ten seconds"


# ---- it learns -------------------------------------------------------------------


def learn(made, data, judged, steps: int, lr: float) -> dict[str, float]:
    optimizer = AdamW(decay_groups(made, 0.01), lr=lr)
    schedule = LinearWarmup(optimizer, steps // 10, steps)
    Training(made, data, optimizer, schedule).run(steps)
    return evaluate_pretraining(made, judged)


def test_beats_the_unigram_baseline_on_the_grammar():
    held = list(itertools.islice(batches(60, seed=1, size=16), 6))
    seen = itertools.islice(batches(200, seed=0), 60)
    blind = guessing(seen, held, WORDS.vocab_size)
    data = batches(200, seed=0, size=16)
    found = learn(model(32, 0.0), data, held, 150, 1e-2)
    floor = IdealReader(GRAMMAR, WORDS, 35, sentences=6).evaluate(held)
    assert floor["mlm_loss"] < found["mlm_loss"]
    assert found["mlm_loss"] < blind["mlm_loss"] - 0.8
    assert found["mlm_accuracy"] > blind["mlm_accuracy"] + 0.1
    assert floor["nsp_loss"] < found["nsp_loss"] < blind["nsp_loss"] + 0.2


# ---- the stored long runs --------------------------------------------------------


def test_divergence_falls_into_word_and_form():
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.ones(5), size=(2, 3))
    p[0, 1] = 0.0
    p[1, :2] = 0.0
    p /= p.sum(-1, keepdims=True)
    groups = (0, 1), (2,), (3,), (4,)
    word, form = long_runs.two_parts(p, q, np.array([1, 0, -1, -1, -1]))
    for n in range(3):
        by_word = by_form = 0.0
        for group in groups:
            both_p, both_q = p[n, group].sum(), q[n, group].sum()
            if both_p > 0:
                by_word += both_p * math.log(both_p / both_q)
            for v in group:
                if p[n, v] > 0:
                    ratio = (p[n, v] / both_p) / (q[n, v] / both_q)
                    by_form += p[n, v] * math.log(ratio)
        assert math.isclose(word[n], by_word, abs_tol=1e-12)
        assert math.isclose(form[n], by_form, abs_tol=1e-12)


def test_two_forms_of_a_word_name_one_another():
    other = long_runs.other_forms(WORDS)
    (has,) = np.nonzero(other >= 0)
    np.testing.assert_array_equal(other[other[has]], has)
    assert other[WORDS.vocab["cats"]] == WORDS.vocab["cat"]
    assert other[WORDS.vocab["near"]] == -1


@pytest.mark.numpy_only("reads what has been stored")
def test_long_runs_are_stored_and_beat_guessing():
    stored = json.loads(long_runs.STORE.read_text(encoding="utf-8"))
    assert stored.keys() == long_runs.RUNS.keys()
    for name, run in stored.items():
        default = inspect.signature(long_runs.RUNS[name]).parameters["steps"]
        last, blind = run["evaluations"][-1], run["guessing"]
        assert run["steps"] == last["step"] == default.default, name
        assert run["minutes"] < 15, name
        assert last["mlm_loss"] < blind["mlm_loss"] - 0.5, name
        assert last["mlm_accuracy"] > 3 * blind["mlm_accuracy"], name
    run = stored["grammar"]
    last, ideal = run["evaluations"][-1], run["ideal"]
    assert 0 < last["mlm_loss"] - ideal["mlm_loss"] < 0.1
    assert abs(last["nsp_accuracy"] - ideal["nsp_accuracy"]) < 0.02


# ---- the command -----------------------------------------------------------------


@pytest.fixture
def texts(tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    for i, document in enumerate(GRAMMAR.documents(24, seed=3)):
        text = "\n\n".join(document)
        (folder / f"{i:02}.txt").write_text(text, encoding="utf-8")
    return folder


TINY = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 32,
    "vocab_size": 150,
}


def options(tmp_path, texts, steps=12):
    config = tmp_path / "tiny.json"
    config.write_text(json.dumps(TINY))
    return [
        *(
            "--text",
            str(texts),
            "--config",
            str(config),
            "--batch-size",
            "8",
        ),
        *("--max-length", "32", "--steps", str(steps), "--every", "4"),
        *("--holdout", "6"),
    ]


@pytest.mark.numpy_only("the processes that are stopped know no stand-in")
def test_command_stopped_and_resumed_gives_the_same_model(
    tmp_path, texts, capsys
):
    """Killed by SIGKILL, then asked to stop by SIGINT, then left alone."""
    given = options(tmp_path, texts, 60)
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    assert lucid.pretrain.main([*given, "--out", str(whole)]) == 0
    said = capsys.readouterr().out
    again = ["--out", str(stopped), "--resume"]
    for number, arguments in (
        (signal.SIGKILL, [*given, "--out", str(stopped)]),
        (signal.SIGINT, again),
    ):
        had = find_checkpoints(stopped)
        process = subprocess.Popen(
            [sys.executable, "-m", "lucid.pretrain", *arguments],
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[1],
        )
        end = time.monotonic() + 120
        while find_checkpoints(stopped) == had and time.monotonic() < end:
            time.sleep(0.02)
        process.send_signal(number)
        _, errors = process.communicate()
        assert find_checkpoints(stopped) != had
        if number == signal.SIGKILL:
            assert process.returncode == -signal.SIGKILL
        else:
            assert process.returncode == 130
            last = int(find_checkpoints(stopped)[-1].name[5:])
            assert f"stopped after step {last}" in errors
    assert lucid.pretrain.main(again) == 0
    assert capsys.readouterr().out == said and "by guessing" in said
    for name in ("model.safetensors", "config.json", "vocab.txt"):
        ours, theirs = (run / name for run in (stopped, whole))
        assert ours.read_bytes() == theirs.read_bytes(), name


@pytest.mark.parametrize("full", ["checkpoint", "model"])
def test_command_on_a_full_disk_goes_on_where_it_was(
    tmp_path, texts, monkeypatch, capsys, full
):
    given = options(tmp_path, texts)
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    assert lucid.pretrain.main([*given, "--out", str(whole)]) == 0
    save, no_room = BERTForPreTraining.save_pretrained, "No space left"

    def fail(model, folder):
        where = "12" if full == "checkpoint" else "stopped"
        if Path(folder).stem.endswith(where):
            (Path(folder) / "config.json").write_text("{")
            raise OSError(errno.ENOSPC, no_room)
        save(model, folder)

    with monkeypatch.context() as patch:
        patch.setattr(BERTForPreTraining, "save_pretrained", fail)
        assert lucid.pretrain.main([*given, "--out", str(stopped)]) == 1
    found = capsys.readouterr().err.splitlines()[-1]
    assert found.startswith("lucid.pretrain: ") and no_room in found
    if full == "checkpoint":
        assert "last whole one is step-00000008" in found
    assert lucid.pretrain.main(["--out", str(stopped), "--resume"]) == 0
    ours, theirs = (run / "model.safetensors" for run in (stopped, whole))
    assert ours.read_bytes() == theirs.read_bytes()


def test_command_writes_a_folder_that_can_be_read(tmp_path, texts, capsys):
    out = tmp_path / "run"
    status = lucid.pretrain.main(
        [*options(tmp_path, texts), "--out", str(out)]
    )
    assert status == 0
    tokenizer = WordPieceTokenizer.from_pretrained(out)
    read = BERTForPreTraining.from_pretrained(out)
    assert tokenizer.vocab_size <= read.config.vocab_size == 150
    assert fill_mask(read, tokenizer, "the [MASK]")
    assert len(capsys.readouterr().out.splitlines()) == 4


def test_command_needs_no_text_of_its_own(tmp_path):
    """Without --text it reads Python's manual."""
    settings = lucid.pretrain.PretrainSettings(steps=1)
    learned, judged = lucid.pretrain._documents(settings)
    pages = pydoc_topics()
    assert len(list(judged)) == len(pages) // 10
    assert len(list(learned)) + len(list(judged)) == len(pages)


def test_help_names_each_option(capsys):
    with pytest.raises(SystemExit) as stop:
        lucid.pretrain.main(["--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    for name in ("text", "config", "out", "resume", "steps", "whole-words"):
        assert f"--{name}" in text


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"--text": "nowhere"}, "nowhere is not a folder"),
        ({"--text": "empty"}, "holds no *.txt"),
        ({"--text": "lone"}, "two documents are needed"),
        ({"--holdout": "20"}, "less than two documents"),
        ({"--config": "bad.json"}, "bad.json is not JSON"),
        ({"--config": "list.json"}, "is not a JSON object"),
        ({"--config": "none.json"}, "No such file"),
        ({"--config": "heads.json"}, "does not divide hidden_size 16"),
        ({"--config": "segment.json"}, "type_vocab_size 1"),
        ({"--max-length": "64"}, "more than the model's 32 positions"),
        ({"--out": "bad.json/run"}, "cannot write to"),
        ({"--steps": "0"}, "total_steps"),
        ({"--every": "0"}, "--every"),
        ({"--batch-size": "0"}, "batch_size"),
        ({"--tokenizer": "big"}, "more than the vocab_size 150"),
    ],
)
def test_command_says_in_a_line_what_is_wrong(
    tmp_path, texts, monkeypatch, capsys, change, complaint
):
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    Path("lone").mkdir()
    Path("lone/a.txt").write_text("The cat sat. It purred.")
    Path("bad.json").write_text("{")
    Path("list.json").write_text("[]")
    for name, value in (
        ("heads", {"num_attention_heads": 3}),
        ("segment", {"type_vocab_size": 1}),
    ):
        Path(f"{name}.json").write_text(json.dumps({**TINY, **value}))
    many = [f"w{i}" for i in range(200)]
    WordPieceTokenizer([*SPECIAL_TOKENS, *many]).save_pretrained("big")
    given = [*options(tmp_path, texts), "--out", "run"]
    for name, value in change.items():
        given += [name, value]
    assert lucid.pretrain.main(given) == 1
    found = capsys.readouterr().err.strip()
    assert complaint in found and "\n" not in found
    assert found.startswith("lucid.pretrain: ")
    assert not Path("run").exists(), "the next try would find a run"


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (["--resume"], "no run in"),
        (["--steps", "3", "--resume"], "leave out --steps"),
        (["--colour", "red"], "unrecognized arguments"),
        (["--steps", "many"], "invalid int"),
    ],
)
def test_options_that_make_no_sense(tmp_path, capsys, given, complaint):
    with pytest.raises(SystemExit) as stop:
        lucid.pretrain.main([*given, "--out", str(tmp_path)])
    assert stop.value.code == 2
    assert complaint in capsys.readouterr().err


def test_a_run_is_not_begun_twice(tmp_path, texts, capsys):
    given = [*options(tmp_path, texts, 1), "--out", str(tmp_path / "run")]
    assert lucid.pretrain.main(given) == 0
    with pytest.raises(SystemExit):
        lucid.pretrain.main(given)
    assert "--resume?" in capsys.readouterr().err


def test_transformers_reads_what_was_pretrained(tmp_path, texts):
    """Optional: the same ids and the same logits, from the folder alone."""
    why = "optional: compares with transformers on torch"
    torch = pytest.importorskip("torch", reason=why)
    transformers = pytest.importorskip("transformers", reason=why)
    out = tmp_path / "run"
    given = [*options(tmp_path, texts, 20), "--out", str(out)]
    assert lucid.pretrain.main(given) == 0
    text = "the old cats [MASK] near the small dog ."
    theirs = transformers.AutoTokenizer.from_pretrained(out)
    ours = WordPieceTokenizer.from_pretrained(out)([text], ["some pot ."])
    encoded = theirs([text], ["some pot ."], return_tensors="pt")
    for name, values in ours.items():
        np.testing.assert_array_equal(values.numpy(), encoded[name].numpy())
    read = transformers.BertForPreTraining.from_pretrained(out).eval()
    with torch.no_grad():
        want = read(**encoded)
    made = BERTForPreTraining.from_pretrained(out)
    found = made(**ours)
    for name in ("prediction_logits", "seq_relationship_logits"):
        a, b = found[name].numpy(), want[name].numpy()
        assert np.abs(a - b).max() <= 1e-5 * np.abs(b).max(), name
