// The linear branch, alone or beside a network: its regularization is chosen on validation rows, then it is fitted on these, too. As
// mixling/ngrams/choose.py.

import { distinct, makeFeatures } from "./features.js";
import { branchBytes } from "./file.js";
import { compress, fitScores, prune, scoresOf } from "./margins.js";
import { combine, fitMixture, logitsOf } from "./mixture.js";

const STRENGTHS = [0.03, 0.1, 0.3, 1, 3, 10, 30];
const FIRST = 1;
const POWERS = [0.5, 1];
const MAX_RATIO_LABELS = 16;
const MAX_VALIDATION = 10_000;
const MAX_SEARCH_NONZEROS = 1 << 23;
const MAX_SEARCH_CELLS = 500_000_000;
const [FILE_BYTES, OVERHEAD, MAX_BYTES, MIN_BYTES] = [1_000_000, 1000, 300_000, 10_000];
const [NETWORK, BRANCH] = [1, 3]; // usual weights
const MIN_GAIN = 2; // nats on all validation rows together
const MIN_PROOF = 100; // of fewer rows, none shows the gain

const round = Math.fround;

/** Return numbers from 0 to below `size`, at equal distances, at most `most` of them. */
function spaced(size, most) {
  const number = Math.min(size, most);
  return Array.from({ length: number }, (_, i) => Math.floor(number > 1 ? (i * (size - 1)) / (number - 1) : 0));
}

/** Gives the logits that branches with the terms of some features have for texts, which are read to their end. */
class Judge {
  #texts;

  constructor(windows, words, { hashes }) {
    const located = new Map();
    for (let i = hashes.length - 1; i >= 0; i--) located.set(hashes[i], i);
    const termsOf = (window) => {
      const counts = new Map();
      const add = (hash) => {
        const term = located.get(hash);
        if (term !== undefined) counts.set(term, (counts.get(term) ?? 0) + 1);
      };
      const found = distinct(window, words.hashes);
      for (const word of found.words) {
        add(words.hashes[word]);
        for (let i = words.starts[word]; i < words.starts[word + 1]; i++) add(words.grams[i]);
      }
      found.pairs.forEach(add);
      return [Int32Array.from(counts.keys()), Int32Array.from(counts.values())];
    };
    this.#texts = windows.map((own) => own.map(termsOf));
  }

  /** Return the logits (C) of each text. */
  logits({ packed, squares, scale, bias }, labels) {
    const scores = bias.length;
    return this.#texts.map((windows) => {
      const mean = new Float64Array(labels);
      for (const [terms, counts] of windows) {
        const sums = new Int32Array(scores);
        let square = 0;
        terms.forEach((term, i) => {
          square += squares[term] * counts[i];
          for (let k = 0; k < scores; k++) sums[k] += packed[term * scores + k] * counts[i];
        });
        const root = Math.sqrt(Math.max(square, 1));
        const found = Array.from(sums, (sum, k) => round(bias[k] + round(scale[k] * round(sum / root))));
        logitsOf(found, labels).forEach((logit, c) => (mean[c] += logit));
      }
      return mean.map((sum) => sum / windows.length);
    });
  }
}

/** Return some texts of features, at equal distances, with about a given number of features that are not zero. */
function sampled(features, targets, nonzeros) {
  const { starts, columns, values } = features.matrix;
  const texts = targets.length;
  const chosen = spaced(texts, Math.max(Math.floor((texts * nonzeros) / Math.max(columns.length, 1)), 1));
  const begins = new Int32Array(chosen.length + 1);
  chosen.forEach((text, i) => (begins[i + 1] = begins[i] + starts[text + 1] - starts[text]));
  const matrix = { starts: begins, columns: new Int32Array(begins.at(-1)), values: new Float32Array(begins.at(-1)) };
  chosen.forEach((text, i) => {
    matrix.columns.set(columns.subarray(starts[text], starts[text + 1]), begins[i]);
    matrix.values.set(values.subarray(starts[text], starts[text + 1]), begins[i]);
  });
  return [{ ...features, matrix }, chosen.map((text) => targets[text])];
}

/**
 * Return the branch of a model and the weight of its network; no branch where it does not pay.
 *
 * @param core of core.js
 * @param {{windows: Uint32Array[][], targets: number[]}} train each text in one window of its first words
 * @param {{windows: Uint32Array[][], targets: number[]}} validation read to their end
 * @param {{logits: number[][] | null, bytes: number}} network its logits (C) for the validation texts, null where there is
 *   none, and the size of its file
 * @param {number} labels C
 * @param {(progress: object) => void} tell called before each fit
 */
export function fitBranch(core, train, validation, network, labels, tell) {
  const scores = scoresOf(labels);
  const words = core.words();
  const judged = spaced(validation.targets.length, MAX_VALIDATION);
  const gold = judged.map((i) => validation.targets[i]);
  const beside = network.logits ? [judged.map((i) => network.logits[i])] : [];
  const usual = [...beside.map(() => NETWORK), BRANCH];
  const maxBytes = Math.max(Math.min(FILE_BYTES - OVERHEAD - network.bytes, MAX_BYTES), MIN_BYTES);
  const asTexts = (part) => part.windows.map(([first]) => distinct(first, words.hashes));
  const texts = asTexts(train);
  tell({ phase: "features" });
  const whole = makeFeatures(texts, words);
  if (!whole.hashes.length) throw new RangeError("no text has a word; give texts with words");
  const duals = new Float32Array(train.targets.length * scores);
  const first = { strength: FIRST, power: 0 };
  tell({ phase: "fit", fits: 0 });
  const features = prune(core, whole, train.targets, labels, first, maxBytes, duals);
  const judge = new Judge(judged.map((i) => validation.windows[i]), words, features);
  let fits = 0;

  const attempts = (part, targets, from) => (strength, power) => {
    tell({ phase: "fit", fits: ++fits });
    const branch = compress(part, fitScores(core, part, targets, labels, { strength, power }, from));
    const logits = judge.logits(branch, labels);
    const mixture = fitMixture([...beside, logits], usual, gold, labels, scores);
    const right = gold.filter((target, i) => best([...beside, logits].map((own) => own[i]), mixture, labels) === target).length;
    tell({ phase: "fit", fits, accuracy: right / gold.length, loss: mixture.loss });
    return { strength, power, branch, mixture };
  };
  const powers = scores <= MAX_RATIO_LABELS ? POWERS : [];
  const most = Math.min(MAX_SEARCH_NONZEROS, Math.floor(MAX_SEARCH_CELLS / scores));
  let found = null;
  if (features.matrix.columns.length > most) {
    const [part, targets] = sampled(features, train.targets, most);
    found = search(attempts(part, targets, new Float32Array(targets.length * scores)), powers, null);
  }
  const chosen = search(attempts(features, train.targets, duals), powers, found);
  const { weights, bias, loss } = chosen.mixture;
  const scaled = beside.length && gold.length >= MIN_PROOF ? fitMixture(beside, [NETWORK], gold, labels, scores) : { loss: Infinity };
  const gain = Math.max((scaled.loss - loss) * gold.length, (scaled.alone - loss) * gold.length - scores);
  if (gain < MIN_GAIN) return { branch: null, weight: 1, report: { loss: scaled.alone, fits } };

  tell({ phase: "refit" });
  const targets = [...train.targets, ...gold];
  const all = makeFeatures([...texts, ...asTexts({ windows: judged.map((i) => validation.beginnings[i]) })], words);
  const zeros = new Float32Array(targets.length * scores);
  const pruned = prune(core, all, targets, labels, chosen, maxBytes, zeros);
  const branch = compress(pruned, fitScores(core, pruned, targets, labels, chosen, zeros));
  branch.bias = branch.bias.map((value, k) => round(value * weights.at(-1)) + bias[k]);
  branch.scale = branch.scale.map((value) => value * weights.at(-1));
  const report = { strength: chosen.strength, power: chosen.power, terms: branch.hashes.length, bytes: branchBytes(branch), loss, fits };
  return { branch, weight: beside.length ? weights[0] : 0, report };
}

/** Return the most probable label of a text, given its logits in each model. */
function best(logits, { weights, bias }, labels) {
  const sums = combine(logits, weights, bias, labels);
  return sums.indexOf(Math.max(...sums));
}

/** Return the attempt with the lowest loss: first the strength, then greater powers while they improve it. */
function search(attempt, powers, found) {
  const climbed = (start, steps) => {
    let top = start;
    for (const step of steps) {
      const before = top;
      for (let at = STRENGTHS.indexOf(top.strength) + step; at >= 0 && at < STRENGTHS.length; at += step) {
        const other = attempt(STRENGTHS[at], start.power);
        if (other.mixture.loss >= top.mixture.loss) break;
        top = other;
      }
      if (top !== before) break;
    }
    return top;
  };
  let top = climbed(attempt(found?.strength ?? FIRST, found?.power ?? 0), found ? [-1] : [1, -1]);
  for (const power of powers) {
    if (power <= top.power) continue;
    const other = attempt(top.strength, power);
    if (other.mixture.loss >= top.mixture.loss) break;
    top = climbed(other, [-1]);
  }
  return top;
}
