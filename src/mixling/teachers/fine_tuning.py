"""Fine-tuning a model of the `transformers` library as a teacher."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mixling.data.dataset import Dataset
from mixling.data.splits import unseen
from mixling.errors import UserError
from mixling.installation import install_command
from mixling.tasks.base import Task
from mixling.teachers.base import FineTuneConfig
from mixling.teachers.transformer import autocast, encode, first_subwords, load_transformer, longest, quiet

_IGNORED = -100  # label that the library's losses ignore
# BERT's (Devlin et al. 2019, appendix A.3)
_WARMUP = 0.1  # fraction of the steps
_WEIGHT_DECAY = 0.01


def fine_tune(
    base: str,
    train: Dataset,
    validation: Dataset,
    task: Task,
    *,
    folder: Path,
    config: FineTuneConfig,
    seed: int,
    log: Callable[[str], None] = lambda message: None,
) -> float:
    """Train a model with a new head, and save the epoch with the best validation accuracy.

    Validation examples with labels that training never saw are left out.

    Args:
        base: a local folder, or NAME[@REVISION] on the hub.
        folder: where the model is saved.

    Returns:
        The validation accuracy: of words for token labels, of complete sets for multiple labels.

    Raises:
        UserError: a required library is not installed.
        ModelFileError: the model does not exist or cannot be read.
    """
    try:
        import accelerate  # noqa: F401 (transformers reports its absence late, and less clearly)
        import transformers
    except ImportError:
        raise UserError(f"fine-tuning a teacher needs transformers: {install_command('hf')}") from None
    validation = validation.subset(np.setdiff1d(np.arange(len(validation)), unseen(validation, task.labels.names)))
    torch.manual_seed(seed)  # for the new head
    tokenizer, model = load_transformer(base, type(task), task.labels)
    config = config.model_copy(update={"max_len": longest(tokenizer, model, config.max_len)})
    name = "DataCollatorForTokenClassification" if task.per_word else "DataCollatorWithPadding"
    collator = getattr(transformers, name)
    work = folder.with_name(folder.name + ".part")
    shutil.rmtree(work, ignore_errors=True)
    options = transformers.TrainingArguments(
        output_dir=str(work / "epochs"),
        num_train_epochs=config.epochs,
        learning_rate=config.lr,
        per_device_train_batch_size=config.batch_size,
        per_device_eval_batch_size=4 * config.batch_size,
        lr_scheduler_type="linear",
        warmup_steps=_WARMUP,
        weight_decay=_WEIGHT_DECAY,
        train_sampling_strategy="group_by_length",
        eval_strategy="epoch",
        save_strategy="epoch",
        save_only_model=True,
        save_total_limit=1,
        load_best_model_at_end=True,
        metric_for_best_model="accuracy",
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=False,
        use_cpu=not torch.cuda.is_available(),
        seed=seed,
    )
    with quiet(transformers):
        trainer = transformers.Trainer(
            model=model,
            args=options,
            train_dataset=_Examples(train, tokenizer, task, config.max_len),
            eval_dataset=_Examples(validation, tokenizer, task, config.max_len),
            data_collator=collator(tokenizer),
            compute_metrics=lambda outputs: {"accuracy": _accuracy(outputs, task)},
            callbacks=[_logging(transformers, log)],
        )
        trainer.pop_callback(transformers.PrinterCallback)
        with autocast(model.device):
            trainer.train()
        shutil.rmtree(work)
        model.save_pretrained(work)
        tokenizer.save_pretrained(work)
    shutil.rmtree(folder, ignore_errors=True)
    work.rename(folder)  # so that it is complete if it exists
    return float(trainer.state.best_metric or 0)


class _Examples(torch.utils.data.Dataset[Any]):
    """Labeled examples as the library's collators need them."""

    def __init__(self, examples: Dataset, tokenizer: Any, task: Task, max_len: int) -> None:
        self.items: list[dict[str, Any]] = []
        for text, target in zip(examples.texts, task.targets(examples.targets), strict=True):
            encoded = encode(tokenizer, [text], per_word=task.per_word, max_len=max_len)
            item = {name: values[0] for name, values in encoded.items()}
            if task.per_word:
                labels = np.full(len(item["input_ids"]), _IGNORED)
                first = first_subwords(encoded.word_ids(0))
                labels[list(first.values())] = target[list(first)]
                item["labels"] = labels.tolist()
            else:
                item["labels"] = int(target) if task.exclusive else target.astype(np.float32)
            self.items.append(item)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.items[index]


def _accuracy(outputs: Any, task: Task) -> float:
    logits = outputs.predictions
    targets = outputs.label_ids
    if not task.exclusive:
        return float(((logits > 0) == (targets > 0.5)).all(-1).mean())
    counted = targets != _IGNORED
    return float((logits.argmax(-1) == targets)[counted].mean())


def _logging(transformers: Any, log: Callable[[str], None]) -> Any:
    class Logging(transformers.TrainerCallback):
        def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **_: Any) -> None:
            log(f"epoch {state.epoch:g}, validation accuracy {metrics['eval_accuracy']:.4f}")

    return Logging()
