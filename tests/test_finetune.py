"""Fine-tuning: tables, answers, batches, the command, and that it learns.

What the chapter `finetune` shows with its models of a minute, nbval tests there;
here everything is as small as it can be and still fail.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import lucid
import lucid.finetune
from lucid.data import Grammar
from lucid.data.grammar import LEXICON
from lucid.models.text.bert import (
    BERTConfig,
    BERTForPreTraining,
    BERTForSequenceClassification,
)
from lucid.nn import Linear
from lucid.optim import AdamW, LinearWarmup, decay_groups
from lucid.text import WordPieceTokenizer
from lucid.text.wordpiece import SPECIAL_TOKENS
from lucid.training import (
    Classes,
    Example,
    ExampleBatches,
    Scale,
    Training,
    evaluate_examples,
    find_checkpoints,
    read_examples,
)

GRAMMAR = Grammar()
WORDS = WordPieceTokenizer([*SPECIAL_TOKENS, *GRAMMAR.words])
NOUNS = [set(line.replace("/", " ").split()) for line in LEXICON["noun"]]


def sentences(count: int, seed: int = 0) -> list[str]:
    found = GRAMMAR.documents(count, sentences=1, seed=seed)
    return [sentence for (sentence,) in found]


def topic(sentence: str) -> int:
    words = set(sentence.split())
    return next(i for i, nouns in enumerate(NOUNS) if nouns & words)


def config(**changes) -> BERTConfig:
    fields = dict(
        vocab_size=WORDS.vocab_size,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=24,
        hidden_dropout=0.1,
        attention_dropout=0.1,
        initializer_range=0.1,
    )
    return BERTConfig(**{**fields, **changes})


# ---- tables ----------------------------------------------------------------------


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8", newline="")
    return path


def test_a_table_is_read_line_by_line(tmp_path):
    table = write(
        tmp_path / "a.tsv",
        "\ufefflabel\tpair\ttext\r\nyes\tB two\tA one\r\n\r\n no \t\tA three\r\n",
    )
    first, second = read_examples(table)
    assert (first.text, first.pair, first.label) == ("A one", "B two", "yes")
    assert (second.text, second.pair, second.label) == ("A three", "", "no")
    assert second.place == f"{table}, line 4"


def test_a_table_without_pairs(tmp_path):
    table = write(tmp_path / "a.tsv", "text\tlabel\nA\t1\n")
    assert read_examples(table) == [
        Example("A", None, "1", f"{table}, line 2")
    ]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "a.tsv: the file is empty"),
        ("\n \n", "a.tsv: the file is empty"),
        ("text\tlabel\n", "a.tsv: there is nothing below"),
        ("text\nA\n", "a.tsv, line 1: wanted the columns"),
        ("text,label\nA,1\n", "got text,label"),
        ("text\tlabel\tname\nA\t1\tx\n", "got text, label, name"),
        ("text\ttext\tlabel\nA\tB\t1\n", "got text, text, label"),
        ("text\tlabel\nA\t1\nB\n", "a.tsv, line 3: wanted 2 cells"),
        ("text\tlabel\nA\t1\t2\n", "a.tsv, line 2: wanted 2 cells"),
        ("text\tlabel\n\nA\t \n", "a.tsv, line 3: the label is empty"),
        ("text\tlabel\n \t1\n", "a.tsv, line 2: the text is empty"),
    ],
)
def test_what_is_no_table_is_said_with_file_and_line(
    tmp_path, text, complaint
):
    with pytest.raises(ValueError) as caught:
        read_examples(write(tmp_path / "a.tsv", text))
    assert complaint in str(caught.value)


def test_a_file_that_is_not_text_is_named(tmp_path):
    (tmp_path / "a.tsv").write_bytes(b"text\tlabel\n\xff\t1\n")
    with pytest.raises(ValueError, match="a.tsv: not UTF-8"):
        read_examples(tmp_path / "a.tsv")


# ---- answers ---------------------------------------------------------------------


def labelled(*labels: str) -> list[Example]:
    return [
        Example("the cat", None, label, f"a.tsv, line {n}")
        for n, label in enumerate(labels, 2)
    ]


def test_classes_are_sorted_whole_numbers_by_size():
    assert Classes.of(labelled("b", "a", "b")).names == ("a", "b")
    assert Classes.of(labelled("10", "9", "0")).names == ("0", "9", "10")
    assert Classes.of(labelled("1", "01", "2")).names == ("01", "1", "2")
    found = Classes(["b", "a"]).encode(labelled("a", "b", "b"))
    assert found.tolist() == [1, 0, 0] and found.dtype == np.int64


def test_a_label_that_is_no_class_is_named_with_its_line():
    with pytest.raises(
        ValueError, match="line 3: the label 'c' is none of the classes a, b"
    ):
        Classes(["a", "b"]).encode(labelled("a", "c"))
    with pytest.raises(ValueError, match="at least two"):
        Classes.of(labelled("a", "a"))


@pytest.mark.parametrize("label", ["many", "nan", "inf", "1,5"])
def test_a_label_that_is_no_number_is_named_with_its_line(label):
    with pytest.raises(ValueError, match="line 3: .*is not a number"):
        Scale.of(labelled("1", label))


def test_numbers_that_are_all_the_same_have_no_scale():
    with pytest.raises(ValueError, match="spread 0"):
        Scale.of(labelled("2", "2"))


def test_guessing_and_judging_classes_by_hand():
    classes = Classes(["a", "b", "c"])
    seen = np.array([0, 0, 1])  # raised by one: 3, 2 and 1 of 6
    row = classes.guess(seen)
    np.testing.assert_allclose(np.exp(row), [1 / 2, 1 / 3, 1 / 6])
    judged = classes.judge(np.stack([row, row]), np.array([0, 2]))
    assert math.isclose(judged["loss"], (math.log(2) + math.log(6)) / 2)
    assert judged["accuracy"] == 0.5
    far = classes.judge(np.array([[1000.0, 0.0, 0.0]]), np.array([1]))
    assert math.isclose(far["loss"], 1000.0)


def test_guessing_and_judging_numbers_by_hand():
    examples = labelled("10", "20", "60")
    scale = Scale.of(examples)
    wanted = scale.encode(examples)
    assert wanted.dtype == np.float32
    assert math.isclose(scale.mean, 30.0)
    assert math.isclose(wanted.std(), 1.0, rel_tol=1e-6)
    rows = np.tile(scale.guess(wanted), (3, 1))
    blind = scale.judge(rows, wanted)
    assert math.isclose(blind["loss"], 1.0, rel_tol=1e-6)
    spread = math.sqrt((400 + 100 + 900) / 3)
    assert math.isclose(blind["error"], spread, rel_tol=1e-6)


def test_folding_changes_the_unit_and_nothing_else():
    scale, head = Scale(50.0, 30.0), Linear(8, 1)
    rng = np.random.default_rng(0)
    x = lucid.tensor(rng.standard_normal((5, 8)).astype(np.float32))
    before = head(x).numpy()
    scale.fold(head)
    np.testing.assert_allclose(
        head(x).numpy(), 30.0 * before + 50.0, rtol=1e-5
    )
    scale.unfold(head)
    np.testing.assert_allclose(head(x).numpy(), before, atol=1e-5)
    with pytest.raises(ValueError, match="no bias"):
        scale.fold(Linear(8, 1, bias=False))


def test_saving_a_scale_leaves_every_bit_of_the_model(tmp_path):
    model = BERTForSequenceClassification(config(num_labels=1))
    before = {n: p.numpy().copy() for n, p in model.named_parameters()}
    Scale(51.7, 0.3).save(model, tmp_path)
    for name, parameter in model.named_parameters():
        np.testing.assert_array_equal(parameter.numpy(), before[name], name)
    saved = BERTForSequenceClassification.from_pretrained(tmp_path)
    np.testing.assert_allclose(saved.classifier.bias.numpy(), [51.7])


# ---- batches ---------------------------------------------------------------------


def batches(count: int = 10, size: int = 4, seed: int = 0, **how):
    examples = [
        Example(s, None, str(topic(s))) for s in sentences(count, seed=3)
    ]
    answers = np.arange(count)
    return ExampleBatches(
        examples, answers, WORDS, batch_size=size, seed=seed, **how
    )


def test_each_epoch_has_each_example_once_in_an_order_of_its_own():
    data = batches()
    assert len(data) == 3
    epochs = []
    for _ in range(2):
        found = [next(data)["labels"].numpy().tolist() for _ in range(3)]
        assert [len(rows) for rows in found] == [4, 3, 3]
        epochs.append([row for rows in found for row in rows])
    assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(10))
    assert epochs[0] != epochs[1]
    in_order = [b["labels"].numpy() for b in data.in_order()]
    assert np.concatenate(in_order).tolist() == list(range(10))


def test_text_and_answer_stay_together():
    data = batches()
    for batch in (next(data), *data.in_order()):
        for ids, row in zip(
            batch["input_ids"].numpy(), batch["labels"].numpy(), strict=True
        ):
            want = WORDS.encode(data.examples[row].text)
            assert ids[: len(want)].tolist() == want


def test_a_place_can_be_taken_up_again_even_at_the_end_of_an_epoch():
    for taken in (0, 2, 3, 4):
        data, again = batches(), batches()
        for _ in range(taken):
            next(data)
        again.load_state_dict(json.loads(json.dumps(data.state_dict())))
        for _ in range(4):
            ours, theirs = next(data), next(again)
            for name in ours:
                np.testing.assert_array_equal(
                    ours[name].numpy(), theirs[name].numpy()
                )
    with pytest.raises(ValueError, match="seed"):
        batches(seed=1).load_state_dict(batches().state_dict())
    with pytest.raises(
        ValueError, match="examples: this order is that of 9"
    ):
        batches(count=9).load_state_dict(batches().state_dict())
    with pytest.raises(ValueError, match="batch_size: this order"):
        batches(size=3).load_state_dict(batches().state_dict())
    data = batches()
    for change, named in (
        ({"epoch": -1}, "epoch"),
        ({"x": 1}, "unexpected"),
    ):
        with pytest.raises(ValueError, match=named):
            data.load_state_dict({**data.state_dict(), "batch": 2, **change})
        assert data.state_dict() == batches().state_dict()


def test_pairs_are_segments_and_long_ones_are_cut():
    examples = [Example("the cat", "a dog runs", "1")] * 2
    batch = next(ExampleBatches(examples, np.zeros(2), WORDS, max_length=6))
    assert batch["input_ids"].shape == (2, 6)
    assert batch["token_type_ids"].numpy()[0].tolist() == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    ("examples", "count", "size", "complaint"),
    [
        ([], 0, 1, "as many"),
        (labelled("a", "b"), 1, 1, "as many"),
        (labelled("a"), 1, 0, "batch_size"),
        (
            [Example("a", None, "1"), Example("a", "b", "1")],
            2,
            1,
            "some have a pair",
        ),
    ],
)
def test_batches_that_make_no_sense(examples, count, size, complaint):
    with pytest.raises(ValueError, match=complaint):
        ExampleBatches(examples, np.zeros(count), WORDS, batch_size=size)


# ---- it learns -------------------------------------------------------------------


def tune(examples, judged, answers, epochs=12, lr=3e-3):
    lucid.manual_seed(0)
    model = BERTForSequenceClassification(
        config(
            num_labels=answers.outputs,
            hidden_dropout=0.0,
            attention_dropout=0.0,
        )
    )
    data, test = (
        ExampleBatches(part, answers.encode(part), WORDS, batch_size=16)
        for part in (examples, judged)
    )
    steps = epochs * len(data)
    optimizer = AdamW(decay_groups(model, 0.01), lr=lr)
    schedule = LinearWarmup(optimizer, steps // 10, steps)
    Training(model, data, optimizer, schedule).run(steps)
    rows = np.tile(answers.guess(data.answers), (len(judged), 1))
    return (
        evaluate_examples(model, test, answers),
        answers.judge(rows, test.answers),
    )


def two_sentences(count: int, seed: int):
    found = sentences(2 * count, seed)
    return list(zip(found[:count], found[count:], strict=True))


def in_two(examples, at):
    return examples[:at], examples[at:]


def test_two_classes_beat_the_majority():
    """Is the noun before the verb, the subject, of the plural?"""
    plural = {
        word.split("/")[1]
        for line in LEXICON["noun"]
        for word in line.split()
    }
    every_noun = set().union(*NOUNS)
    examples = []
    for sentence in sentences(240, seed=1):
        subject = next(w for w in sentence.split() if w in every_noun)
        label = "many" if subject in plural else "one"
        examples.append(Example(sentence, None, label))
    found, blind = tune(*in_two(examples, 160), Classes(["many", "one"]))
    assert found["accuracy"] > blind["accuracy"] + 0.25
    assert found["loss"] < blind["loss"] - 0.2


def test_four_classes_beat_the_majority():
    """The topic of the first of two sentences."""
    examples = [
        Example(f"{a} {b}", None, str(topic(a)))
        for a, b in two_sentences(240, seed=2)
    ]
    found, blind = tune(*in_two(examples, 160), Classes(list("0123")))
    assert found["accuracy"] > blind["accuracy"] + 0.4
    assert found["loss"] < blind["loss"] - 0.6


def test_a_number_beats_the_mean():
    """The topic of the first sentence times ten, plus that of the second."""
    examples = [
        Example(a, b, str(1000 + 10 * topic(a) + topic(b)))
        for a, b in two_sentences(240, seed=3)
    ]
    learned, judged = in_two(examples, 160)
    found, blind = tune(learned, judged, Scale.of(learned))
    assert found["error"] < 0.6 * blind["error"]


def test_evaluation_leaves_the_mode_and_ignores_dropout():
    lucid.manual_seed(0)
    model = BERTForSequenceClassification(config(num_labels=10)).train()
    data, answers = batches(), Classes(list("0123456789"))
    first = evaluate_examples(model, data, answers)
    assert model.training
    assert first == evaluate_examples(model, data, answers)
    one = ExampleBatches(data.examples, data.answers, WORDS, batch_size=1)
    other = evaluate_examples(model, one, answers)
    assert math.isclose(first["loss"], other["loss"], rel_tol=1e-5)


# ---- the command -----------------------------------------------------------------


@pytest.fixture
def reader(tmp_path):
    """The folder of a model that was not fine-tuned, with its vocabulary."""
    lucid.manual_seed(1)
    folder = tmp_path / "reader"
    BERTForPreTraining(config()).save_pretrained(folder)
    WORDS.save_pretrained(folder)
    return folder


def table(path: Path, count: int = 48, seed: int = 0, numbers=False) -> Path:
    path.parent.mkdir(exist_ok=True)
    names = ("animals", "kitchen", "sea", "music")
    lines = ["text\tlabel"]
    for sentence in sentences(count, seed):
        number = topic(sentence)
        label = 100 + 25 * number if numbers else names[number]
        lines.append(f"{sentence}\t{label}")
    return write(path, "\n".join(lines))


def given(reader, data, out, *more):
    return [
        *("--model", str(reader), "--data", str(data), "--out", str(out)),
        *("--batch-size", "8", "--lr", "3e-3", "--every", "4", *more),
    ]


@pytest.mark.numpy_only("a second process is killed, and reads no backend")
def test_command_killed_and_resumed_gives_the_same_model(tmp_path, reader):
    data = table(tmp_path / "a.tsv")
    more = ("--epochs", "10")
    done, out = tmp_path / "done", tmp_path / "killed"
    assert lucid.finetune.main(given(reader, data, done, *more)) == 0
    killed = subprocess.Popen(
        [sys.executable, "-m", "lucid.finetune"]
        + given(reader, data, out, *more),
        stderr=subprocess.DEVNULL,
        cwd=Path(__file__).parents[1],
    )
    end = time.monotonic() + 120
    while not find_checkpoints(out) and time.monotonic() < end:
        time.sleep(0.02)
    killed.kill()
    killed.wait()
    assert find_checkpoints(out)
    assert lucid.finetune.main(["--out", str(out), "--resume"]) == 0
    for name in ("model.safetensors", "config.json", "vocab.txt"):
        assert (done / name).read_bytes() == (out / name).read_bytes(), name


@pytest.mark.parametrize("numbers", [False, True])
def test_run_stopped_between_checkpoints_resumes_bit_for_bit(
    tmp_path, reader, monkeypatch, numbers
):
    """Within an epoch, with dropout, its last checkpoint a few steps back."""
    data = table(tmp_path / "a.tsv", numbers=numbers)
    more = ["--epochs", "3"] + ["--regression"] * numbers
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert lucid.finetune.main(given(reader, data, whole, *more)) == 0
    taken = Training.step

    def step(self):
        if self.done == 7:
            raise OSError("the power went")
        return taken(self)

    monkeypatch.setattr(Training, "step", step)
    assert lucid.finetune.main(given(reader, data, cut, *more)) == 1
    assert [p.name for p in find_checkpoints(cut)] == ["step-00000004"]
    monkeypatch.setattr(Training, "step", taken)
    assert lucid.finetune.main(["--out", str(cut), "--resume"]) == 0
    for name in ("model.safetensors", "config.json"):
        assert (whole / name).read_bytes() == (cut / name).read_bytes()


def test_command_names_classes_and_keeps_them(tmp_path, reader, capsys):
    out = tmp_path / "run"
    data = table(tmp_path / "data" / "train.tsv").parent
    table(data / "test.tsv", 12, seed=1)
    assert lucid.finetune.main(given(reader, data, out)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["loss", "accuracy"]
    saved = json.loads((out / "config.json").read_text())
    assert saved["id2label"] == {
        "0": "animals",
        "1": "kitchen",
        "2": "music",
        "3": "sea",
    }
    read = BERTForSequenceClassification.from_pretrained(out)
    assert read.config.num_labels == 4
    more = write(
        tmp_path / "more.tsv",
        "text\tlabel\nthe cat sleeps .\tsea\n" + "a dog runs .\tland\n" * 9,
    )
    assert lucid.finetune.main(given(out, more, tmp_path / "b")) == 1
    said = capsys.readouterr().err
    assert "more.tsv, line 3: the label 'land' is none of" in said


def test_a_class_that_only_the_test_table_has_is_named(
    tmp_path, reader, capsys
):
    data = table(tmp_path / "data" / "train.tsv").parent
    write(
        data / "test.tsv", "text\tlabel\nthe cat\tanimals\nthe cat\tlove\n"
    )
    assert lucid.finetune.main(given(reader, data, tmp_path / "run")) == 1
    assert "test.tsv, line 3: the label 'love'" in capsys.readouterr().err


def test_numbers_come_back_in_their_own_unit(tmp_path, reader, capsys):
    """Also when a model that answers in that unit is trained further."""
    data = table(tmp_path / "a.tsv", 96, numbers=True)
    out, further = tmp_path / "run", tmp_path / "further"
    more = ("--regression", "--epochs", "12")
    assert lucid.finetune.main(given(reader, data, out, *more)) == 0
    words = capsys.readouterr().out.splitlines()[1].split()
    assert words[0] == "error" and float(words[1]) < 0.6 * float(words[-1])
    model = BERTForSequenceClassification.from_pretrained(out)
    held = read_examples(data)[4::5]
    with lucid.no_grad():
        logits = model(**WORDS([e.text for e in held])).logits.numpy()
    wanted = np.array([float(e.label) for e in held])
    error = math.sqrt(((logits[:, 0] - wanted) ** 2).mean())
    assert math.isclose(error, float(words[1]), abs_tol=2e-3)
    more = ("--regression", "--epochs", "1", "--lr", "1e-9")
    assert lucid.finetune.main(given(out, data, further, *more)) == 0
    again = capsys.readouterr().out.splitlines()[1].split()
    assert math.isclose(float(again[1]), error, abs_tol=1e-2)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"--model": ""}, "--model: is needed"),
        ({"--data": ""}, "--data: is needed"),
        ({"--model": "nowhere"}, "there is no such folder"),
        ({"--model": "bare"}, "neither tokenizer.json nor vocab.txt"),
        ({"--model": "wordy"}, "entries, the model has"),
        ({"--data": "none.tsv"}, "none.tsv"),
        ({"--data": "bare"}, "train.tsv"),
        ({"--data": "empty.tsv"}, "empty.tsv: the file is empty"),
        ({"--data": "one.tsv"}, "at least two"),
        ({"--data": "bad.tsv"}, "bad.tsv, line 3: wanted 2 cells"),
        ({"--regression": None}, "a.tsv, line 2: the label"),
        ({"--holdout": "1"}, "--holdout: one in 1"),
        ({"--holdout": "100"}, "--holdout: one in 100 of 48"),
        ({"--holdout": "-2"}, "--holdout: one in -2"),
        ({"--max-length": "25"}, "more than the model's 24 positions"),
        ({"--max-length": "1"}, "max_length"),
        ({"--batch-size": "0"}, "batch_size"),
        ({"--epochs": "0"}, "total_steps"),
        ({"--every": "0"}, "save_every"),
        ({"--out": "a.tsv/run"}, "cannot write to"),
    ],
)
def test_command_says_in_a_line_what_is_wrong(
    tmp_path, reader, monkeypatch, capsys, change, complaint
):
    monkeypatch.chdir(tmp_path)
    table(Path("a.tsv"))
    write(Path("empty.tsv"), "")
    write(Path("one.tsv"), "text\tlabel\n" + "the cat\tyes\n" * 9)
    write(Path("bad.tsv"), "text\tlabel\nthe cat\tyes\nthe dog\n")
    BERTForPreTraining(config()).save_pretrained("bare")
    BERTForPreTraining(config(vocab_size=40)).save_pretrained("wordy")
    WORDS.save_pretrained("wordy")
    arguments = given(reader, "a.tsv", "run")
    for name, value in change.items():
        arguments += [name] if value is None else [name, value]
    assert lucid.finetune.main(arguments) == 1
    found = capsys.readouterr().err.strip()
    assert complaint in found and "\n" not in found
    assert found.startswith("lucid.finetune: ")


def test_command_without_anything_held_out(tmp_path, reader, capsys):
    data = table(tmp_path / "a.tsv", 16)
    arguments = given(reader, data, tmp_path / "run", "--holdout", "0")
    assert lucid.finetune.main(arguments) == 0
    assert capsys.readouterr().out == ""


def test_help_names_each_option(capsys):
    with pytest.raises(SystemExit) as stop:
        lucid.finetune.main(["--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    for name in ("model", "data", "out", "resume", "regression", "epochs"):
        assert f"--{name}" in text


@pytest.mark.numpy_only("compares with transformers")
@pytest.mark.parametrize("numbers", [False, True])
def test_transformers_reads_what_was_fine_tuned(tmp_path, reader, numbers):
    """Optional: the same ids, logits and names, from the folder alone."""
    why = "optional: compares with transformers on torch"
    torch = pytest.importorskip("torch", reason=why)
    transformers = pytest.importorskip("transformers", reason=why)
    data = table(tmp_path / "a.tsv", numbers=numbers)
    out = tmp_path / "run"
    more = ["--regression"] * numbers
    assert lucid.finetune.main(given(reader, data, out, *more)) == 0
    texts = ["the old cats sleep near the small dog ."]
    theirs = transformers.AutoTokenizer.from_pretrained(out)
    encoded = theirs(texts, return_tensors="pt")
    read = transformers.AutoModelForSequenceClassification.from_pretrained(
        out
    ).eval()
    with torch.no_grad():
        want = read(**encoded).logits.numpy()
    made = BERTForSequenceClassification.from_pretrained(out)
    with lucid.no_grad():
        found = made(**WORDS(texts)).logits.numpy()
    assert np.abs(found - want).max() <= 1e-5 * np.abs(want).max()
    if not numbers:
        names = ["animals", "kitchen", "music", "sea"]
        assert list(read.config.id2label.values()) == names
