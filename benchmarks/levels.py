"""Labels with levels: the path from the top down, and abstaining that ends higher up, beside the flat decision.

    python benchmarks/levels.py --data ../shared/data clinc10 mtop

The sets: clinc has CLINC150's ten domains over its 150 intents, from all 15,000 rows or, as clinc10, from ten random
ones of each intent; mtop has MTOP's English intents by their verb. Each is trained once for each seed, by the command,
with `--label-levels` and the set's validation rows. The flat decision, the baseline, is the most probable label of the
same model. Both abstain where the validation rows say that 95% of the answers are right: the flat one from the whole
label, the other one level by level. The test is read once for each model. Written to benchmarks/results/levels.json.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from side_by_side import arguments

from mixling import Predictor
from mixling.answers import answers_by_level, targets_by_level
from mixling.metrics import choose_abstention
from mixling.provenance import provenance
from mixling.storage import write_json
from training import Rows, read, write

SEPARATOR = " > "
WANTED = 0.95
# The domains of the intents: Larson et al., "An Evaluation Dataset for Intent Classification and Out-of-Scope
# Prediction", EMNLP-IJCNLP 2019, which the rows at hand do not name.
DOMAINS = {
    "auto and commute": "current_location directions distance gas gas_type jump_start last_maintenance mpg "
    "oil_change_how oil_change_when schedule_maintenance tire_change tire_pressure traffic "
    "uber",
    "banking": "account_blocked balance bill_balance bill_due freeze_account interest_rate min_payment "
    "order_checks pay_bill pin_change report_fraud routing spending_history transactions "
    "transfer",
    "credit cards": "application_status apr card_declined credit_limit credit_limit_change credit_score "
    "damaged_card expiration_date improve_credit_score international_fees new_card "
    "redeem_rewards replacement_card_duration report_lost_card rewards_balance",
    "home": "calendar calendar_update next_song order order_status play_music reminder "
    "reminder_update shopping_list shopping_list_update smart_home todo_list todo_list_update "
    "update_playlist what_song",
    "kitchen and dining": "accept_reservations calories cancel_reservation confirm_reservation cook_time food_last "
    "how_busy ingredient_substitution ingredients_list meal_suggestion nutrition_info recipe "
    "restaurant_reservation restaurant_reviews restaurant_suggestion",
    "meta": "cancel change_accent change_ai_name change_language change_speed change_user_name "
    "change_volume maybe no repeat reset_settings sync_device user_name whisper_mode yes",
    "small talk": "are_you_a_bot do_you_have_pets fun_fact goodbye greeting how_old_are_you meaning_of_life "
    "tell_joke thank_you what_are_your_hobbies what_can_i_ask_you what_is_your_name "
    "where_are_you_from who_do_you_work_for who_made_you",
    "travel": "book_flight book_hotel car_rental carry_on exchange_rate flight_status "
    "international_visa lost_luggage plug_type timezone translate travel_alert "
    "travel_notification travel_suggestion vaccines",
    "utility": "alarm calculator date definition find_phone flip_coin make_call measurement_conversion "
    "roll_dice share_location spelling text time timer weather",
    "work": "direct_deposit income insurance insurance_change meeting_schedule next_holiday payday "
    "pto_balance pto_request pto_request_status pto_used rollover_401k schedule_meeting taxes "
    "w2",
}


def rows_of(name: str, folder: Path, seed: int) -> Iterator[Rows]:
    """Yield the training, validation and test rows of a set, whose labels have two levels."""
    if name == "mtop":
        for part in ("train", "dev", "test"):
            yield [
                (text, label.replace("_", SEPARATOR, 1)) for text, label in read(folder / f"mtop_en/{part}.jsonl.gz")
            ]
        return
    domain = {intent: name for name, intents in DOMAINS.items() for intent in intents.split()}
    for part in ("train", "val", "test"):
        rows = read(folder / f"clinc150/{part}.jsonl.gz")
        assert {label for _, label in rows} == domain.keys()
        if name == "clinc10" and part == "train":
            by_label: dict[str, Rows] = defaultdict(list)
            for row in rows:
                by_label[row[1]].append(row)
            draw = random.Random(f"levels {seed}")
            rows = [row for label in sorted(by_label) for row in draw.sample(by_label[label], 10)]
        yield [(text, f"{domain[label]}{SEPARATOR}{label}") for text, label in rows]


def answered(right: Any, certainty: Any, threshold: float) -> dict[str, float]:
    """Return how many texts are answered, how many by a whole label, and how many of the answers are right."""
    depth = (certainty >= threshold).sum(1)
    some = depth > 0
    return {
        "answered": round(float(some.mean()), 4),
        "by_a_whole_label": round(float((depth == right.shape[1]).mean()), 4),
        "right_of_answered": round(float(right[some, depth[some] - 1].mean()), 4),
    }


def measure(name: str, data: Path, seed: int) -> dict[str, Any]:
    """Train on one set with one seed, and return the metrics of the test."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        parts = list(rows_of(name, data, seed))
        known = {label for _, label in parts[0]}
        train, validation, test = ([row for row in rows if row[1] in known] for rows in parts)
        for part, rows in (("train", train), ("validation", validation), ("test", test)):
            write(rows, folder / f"{part}.jsonl")
        command = [sys.executable, "-m", "mixling", "train", folder / "train.jsonl", "--label-levels", SEPARATOR]
        command += ["--validation", folder / "validation.jsonl", "--seed", seed, "-o", folder / "model"]
        subprocess.run([*map(str, command)], check=True, capture_output=True)
        predictor = Predictor(folder / "model")
        outputs = predictor.text_logits([text for text, _ in test])
        metrics = predictor.task.evaluate(outputs, predictor.task.targets([label for _, label in test]))
        out = {"rows": len(train), "levels": metrics.to_dict()["levels"]}
        for kind, rule in (("flat", None), ("levels", predictor.task.rule)):
            found = []
            for rows in (validation, test):
                probabilities = predictor.predict_proba([text for text, _ in rows])
                targets = predictor.task.targets([label for _, label in rows])
                answers, certainty = answers_by_level(probabilities, rule)
                found.append((answers == targets_by_level(np.asarray(targets), rule), certainty))
            threshold = choose_abstention(*found[0], wanted=WANTED).threshold
            out[f"abstaining_{kind}"] = None if threshold is None else answered(*found[1], threshold)
    return out


def main() -> None:
    assert __doc__ is not None
    parser = arguments(__doc__, "levels")
    parser.add_argument("sets", nargs="+", choices=("clinc", "clinc10", "mtop"))
    parser.add_argument("--data", type=Path, required=True, help="the folder of the data sets' folders")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    options = parser.parse_args()
    found = json.loads(options.out.read_text()) if options.out.exists() else {}
    for name in options.sets:
        for seed in options.seeds:
            line = {**measure(name, options.data, seed), "provenance": provenance(seed=seed)}
            found[f"{name} {seed}"] = line
            print(name, seed, json.dumps({key: line[key] for key in line if key != "provenance"}), flush=True)
            write_json(options.out, found)


if __name__ == "__main__":
    main()
