// Fits of the linear branch, and which of its weights have room: mixling/native/margins.py and mixling/ngrams/fit.py.

import { keep, nearest, pairwiseSum, searchSorted } from "./features.js";

const TOLERANCE = 0.2;
const PASSES = 50;
const TOGETHER = [1, 4, 8, 16];
const MAX_PER_TERM = 255;

const round = Math.fround;

/** The number of scores for a number of labels: of two labels one, how much rather it is the second. */
export const scoresOf = (labels) => (labels === 2 ? 1 : labels);

/** Return whether each text (B) has the label of each score (K), as rows (K, B). */
function marksOf(targets, labels) {
  const scores = scoresOf(labels);
  return Array.from({ length: scores }, (_, k) => Uint8Array.from(targets, (target) => Number(target === k + labels - scores)));
}

/** Return (F, K): the absolute log-count ratios to a power, times what keeps the mean square of the features. */
function scales({ matrix, hashes }, marks, power) {
  const [terms, scores, texts] = [hashes.length, marks.length, matrix.starts.length - 1];
  const counts = new Float32Array(terms * scores);
  const all = new Float32Array(terms);
  const squares = new Float64Array(terms);
  const having = marks.map((own) => own.reduce((sum, mark) => sum + mark, 0));
  for (let text = 0; text < texts; text++) {
    const score = marks.findIndex((own) => own[text]);
    for (let i = matrix.starts[text]; i < matrix.starts[text + 1]; i++) {
      const column = matrix.columns[i];
      all[column]++;
      squares[column] += matrix.values[i] * matrix.values[i];
      if (score >= 0) counts[column * scores + score]++;
    }
  }
  const out = new Float32Array(terms * scores);
  let whole = 0;
  for (let i = 0; i < terms; i++) whole += squares[i];
  for (let k = 0; k < scores; k++) {
    let scaled = 0;
    for (let i = 0; i < terms; i++) {
      const own = counts[i * scores + k];
      const ratio = Math.abs(round(round(Math.log(round((own + 1) / (having[k] + 2)))) - round(Math.log(round((all[i] - own + 1) / (texts - having[k] + 2))))));
      out[i * scores + k] = power === 1 ? ratio : round(ratio * ratio);
      scaled += out[i * scores + k] * squares[i];
    }
    const kept = scaled > 0 ? whole / Math.max(scaled, 1e-30) : 1;
    for (let i = 0; i < terms; i++) out[i * scores + k] *= kept;
  }
  return out;
}

/** Return weights (F, K) of the terms' frequencies and biases (K); `duals` (B, K) are where the fit begins and ends. */
export function fitScores(core, features, targets, labels, { strength, power }, duals) {
  const marks = marksOf(targets, labels);
  const [terms, scores, texts] = [features.hashes.length, marks.length, targets.length];
  const weights = new Float32Array(terms * scores);
  const counts = marks.map((own) => own.reduce((sum, mark) => sum + mark, 0));
  const bias = Float32Array.from(counts, (count) => (count ? 1 : -1));
  let scale = power ? scales(features, marks, 2 * power) : null;
  if (features.kept) scale = Float32Array.from(features.kept, (kept, i) => (kept ? (scale ? scale[i] : 1) : 0));
  const fitted = counts.flatMap((count, k) => (count && count < texts ? [k] : []));
  for (let first = 0; first < fitted.length; first += TOGETHER.at(-1)) {
    const part = fitted.slice(first, first + TOGETHER.at(-1));
    const width = TOGETHER.find((size) => size >= part.length);
    const signs = new Int8Array(texts * width);
    const costs = new Float32Array(texts * width);
    const own = new Float32Array(texts * width);
    const found = new Float32Array((terms + 1) * width);
    const scaled = scale && new Float32Array(terms * width).fill(1);
    part.forEach((score, k) => {
      for (let text = 0; text < texts; text++) {
        signs[text * width + k] = marks[score][text] ? 1 : -1;
        costs[text * width + k] = strength;
        own[text * width + k] = duals[text * scores + score];
      }
      if (scaled) for (let i = 0; i < terms; i++) scaled[i * width + k] = scale[i * scores + score];
    });
    const arrays = { ...features.matrix, signs, costs, duals: own, weights: found, scale: scaled };
    core.fit(arrays, { rows: texts, features: terms, labels: width }, TOLERANCE, PASSES);
    part.forEach((score, k) => {
      for (let text = 0; text < texts; text++) duals[text * scores + score] = own[text * width + k];
      for (let i = 0; i < terms; i++) weights[i * scores + score] = round(found[i * width + k] * features.factors[i]);
      bias[score] = found[terms * width + k];
    });
  }
  return { weights, bias };
}

const lowBits = (number) => (number > 1 ? 32 - (32 - Math.clz32(number)) + 1 : 31);

/** Return the bytes of terms in a file. */
export function termBytes(number) {
  const low = lowBits(number);
  return number + Math.ceil((number * low) / 8) + Math.ceil((2 ** (32 - low) + number) / 8);
}

export const outputBytes = (outputs) => (outputs <= 1 << 8 ? 1 : outputs <= 1 << 16 ? 2 : 3);
export const storedBytes = (terms, weights, outputs) => terms + weights * (1 + outputBytes(outputs));

function mostWithin(size, number, limit) {
  let low = 0;
  let high = number;
  while (low < high) {
    const middle = (low + high + 1) >>> 1;
    if (size(middle) <= limit) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** Return the features that fit into a branch's bytes, chosen by their weights in a fit of all. */
export function prune(core, features, targets, labels, how, maxBytes, duals) {
  const scores = scoresOf(labels);
  const terms = features.hashes.length;
  const room = maxBytes - 8 * scores - 200;
  if (termBytes(terms) + terms * scores <= room) return features;
  const { weights } = fitScores(core, features, targets, labels, how, duals);
  const kept = choose(weights.map((weight, i) => Math.abs(weight) * features.spread[Math.floor(i / scores)]), scores, room);
  if (kept.every(Boolean)) return features;
  const chosen = Int32Array.from(features.hashes.keys()).filter((term) => kept.subarray(term * scores, (term + 1) * scores).some(Boolean));
  const out = keep(features, chosen);
  out.kept = new Uint8Array(chosen.length * scores);
  chosen.forEach((term, place) => out.kept.set(kept.subarray(term * scores, (term + 1) * scores), place * scores));
  return out;
}

/** Choose which weights (F, K) to keep within a size: by term or by weight, whichever discards less. */
function choose(matters, outputs, maxBytes) {
  const terms = matters.length / outputs;
  const squares = matters.map((value) => value * value);
  const ofTerm = Float32Array.from({ length: terms }, (_, i) => pairwiseSum(squares, i * outputs, outputs, round));
  const order = Int32Array.from(ofTerm.keys()).sort((a, b) => ofTerm[b] - ofTerm[a] || a - b);
  const whole = new Uint8Array(matters.length);
  for (const term of order.subarray(0, mostWithin((number) => termBytes(number) + number * outputs, terms, maxBytes))) {
    whole.fill(1, term * outputs, (term + 1) * outputs);
  }
  if (outputs === 1) return whole;
  const ranked = matters.slice().sort().reverse();
  const largest = Float32Array.from({ length: terms }, (_, i) => Math.max(...matters.subarray(i * outputs, (i + 1) * outputs))).sort();
  const size = (number) => {
    const used = number ? terms - searchSorted(largest, ranked[number - 1]) : 0;
    return termBytes(used) + storedBytes(used, number, outputs);
  };
  const most = mostWithin(size, ranked.findLastIndex((value) => value > 0) + 1, maxBytes);
  const single = matters.map((value) => (most && value >= ranked[most - 1] ? 1 : 0));
  for (let term = 0; term < terms; term++) {
    const own = single.subarray(term * outputs, (term + 1) * outputs);
    if (own.reduce((sum, one) => sum + one, 0) <= MAX_PER_TERM) continue;
    const values = matters.subarray(term * outputs, (term + 1) * outputs);
    const ranks = Int32Array.from(own.keys()).sort((a, b) => values[b] - values[a] || a - b);
    for (const score of ranks.subarray(MAX_PER_TERM)) own[score] = 0;
  }
  const held = (kept) => squares.reduce((sum, square, i) => sum + (kept[i] ? square : 0), 0);
  return held(single) > held(whole) ? Uint8Array.from(single) : whole;
}

/** Return the weights (F, K) in 8 bits with their scales (K). */
export function compress(features, { weights, bias }) {
  const scores = bias.length;
  const scale = new Float32Array(scores);
  for (let i = 0; i < weights.length; i++) scale[i % scores] = Math.max(scale[i % scores], Math.abs(weights[i]));
  for (let k = 0; k < scores; k++) scale[k] = scale[k] > 0 ? scale[k] / 127 : 1;
  const packed = Int8Array.from(weights, (weight, i) => nearest(round(weight / scale[i % scores])));
  return { hashes: features.hashes, squares: features.squares, packed, scale, bias };
}
