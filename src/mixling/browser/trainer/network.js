// The network: its initial weights and the steps of its training, as mixling/networks and mixling/training/loop.py.

const BATCH = 64; // the defaults of TrainConfig
const RATE = 2e-3;
const DECAY = 0.1;
const WARMUP = 0.05;
const SMOOTHING = 0.1;
const ADAMW = [1, 0.9, 0.999, 1e-8]; // the greatest norm of the gradient, betas, epsilon
const DROPPED = 0.2; // of the words
const TRAINED = 400_000; // words in all epochs, which take some seconds; n-grams are beside the network
const [FEWEST_EPOCHS, MOST_EPOCHS] = [3, 40];
const [FEWEST, MOST] = [3, 10]; // evaluations
const FEW_EVALUATED = 3000; // in all evaluations together
const WINDOW = 50; // batches that are sorted by length together
const [TOGETHER, TOKENS] = [512, 1 << 14]; // texts and tokens that are evaluated together
const MOST_EVALUATED = 5000; // texts in an evaluation, and words
const EVALUATED_WORDS = 250_000;
const LEAST_EVALUATED = 1000;
const WIDE = 16; // floats at whose multiples parameters begin
const OUTPUT = "head.output";
const NO_WORDS = Uint32Array.of(1); // the text without words; words are from 2 on

const round = Math.fround;
const size = (shape) => shape.reduce((product, one) => product * one, 1);
const isTable = ([name]) => name === "embedding.weight";
const isMatrix = ([name, shape]) => name !== "embedding.weight" && shape.length > 1;
const isVector = ([, shape]) => shape.length === 1;

/**
 * Return the plan of a network: mixling/networks/plan.py.
 *
 * @param {{shapes: object, places: object, numbers: number[]}} given the plan of the same network with other labels
 */
export function planOf({ shapes, places, numbers }, labels) {
  const own = Object.entries(shapes).map(([name, shape]) => [name, name.startsWith(OUTPUT) ? [labels, ...shape.slice(1)] : shape]);
  const begins = {};
  const ends = [];
  let end = 0;
  for (const belongs of [isTable, isMatrix, isVector]) {
    for (const [name, shape] of own.filter(belongs)) {
      begins[name] = end;
      end += Math.ceil(size(shape) / WIDE) * WIDE;
    }
    ends.push(end);
  }
  const names = new Map(Object.entries(places).map(([name, place]) => [place, name]));
  const moved = numbers.map((number, i) => {
    const isPlace = (i >= 8 && i < 15) || (i >= 17 && (i - 17) % 8 > 1);
    return isPlace && number >= 0 ? begins[names.get(number)] : number;
  });
  [moved[0], moved[6]] = [end, labels];
  return { shapes: Object.fromEntries(own), places: begins, ends, numbers: BigInt64Array.from(moved, BigInt) };
}

/** Write initial weights: mixling/networks/initial.py. */
function initialize(core, { shapes, places }, weights, dim, seed) {
  const random = core.random(seed);
  const uniform = (number, limit) => random.floats(number).map((value) => (2 * value - 1) * round(limit));
  for (const [name, shape] of Object.entries(shapes)) {
    const [layer, part] = [name.slice(0, name.lastIndexOf(".")), name.slice(name.lastIndexOf(".") + 1)];
    let values = new Float32Array(size(shape));
    if (name === "embedding.weight") values = uniform(size(shape), Math.sqrt(6 / (shape[0] + shape[1])));
    else if (name === "embedding.spread") {
      values = random.normals(size(shape)).map((value) => value * round(0.1 * dim ** -0.5));
      const middle = (shape[1] - dim) / 2;
      for (let i = 0; i < dim; i++) values[i * shape[1] + middle + i] += 1;
    } else if (layer.includes("norm")) values.fill(part === "weight" ? 1 : 0);
    else if (name !== "embedding.bias") values = uniform(size(shape), shapes[`${layer}.weight`][1] ** -0.5);
    weights().set(values, places[name]);
  }
  random.close();
}

/** Return numbers sorted by a key, equal ones in their order. */
const sortedBy = (numbers, key) => Array.from(numbers).sort((a, b) => key(a) - key(b));

/** Return the batches of an epoch: mixling/data/batches.py. */
function batchesOf(core, lengths, seed, epoch) {
  const random = core.random(seed, epoch);
  const order = random.permutation(lengths.length);
  const batches = [];
  for (let first = 0; first < order.length; first += WINDOW * BATCH) {
    const part = sortedBy(order.subarray(first, first + WINDOW * BATCH), (text) => lengths[text]);
    for (let i = 0; i < part.length; i += BATCH) batches.push(part.slice(i, i + BATCH));
  }
  const shuffled = Array.from(random.permutation(batches.length), (i) => batches[i]);
  random.close();
  return shuffled;
}

/** Return texts of which each word is missing with a probability. */
function dropped(core, texts, seed) {
  const random = core.random(...seed);
  const drawn = random.floats(texts.length * texts.reduce((most, { length }) => Math.max(most, length), 1));
  random.close();
  return texts.map((text, i) => text.map((word, at) => (drawn[at * texts.length + i] < round(DROPPED) ? 0 : word)));
}

/** Return the logits (C) of each text. */
function logitsOf(core, texts, labels) {
  const order = sortedBy(texts.keys(), (i) => texts[i].length);
  const out = [];
  for (let first = 0, last; first < order.length; first = last) {
    last = first + 1;
    while (last < order.length && last - first < TOGETHER && (last + 1 - first) * texts[order[last]].length <= TOKENS) last++;
    const part = order.slice(first, last);
    const found = core.logits(part.map((i) => texts[i]), labels);
    part.forEach((text, i) => (out[text] = found.slice(i * labels, (i + 1) * labels)));
  }
  return out;
}

const tokensOf = (window) => (window.length ? window.map((word) => word + 2) : NO_WORDS);

/** Texts to evaluate on, which are read to their end. */
class Judged {
  constructor(core, { windows, beginnings, targets }, labels) {
    Object.assign(this, { core, labels, targets });
    this.texts = beginnings.map(([window]) => tokensOf(window));
    this.windows = windows.map((own) => (own.length > 1 ? own.map(tokensOf) : []));
    const words = this.texts.reduce((sum, { length }) => sum + length, 0);
    let most = MOST_EVALUATED;
    if (words > EVALUATED_WORDS) most = Math.min(most, Math.max(Math.floor((this.texts.length * EVALUATED_WORDS) / words), LEAST_EVALUATED));
    this.some = [...this.texts.keys()];
    if (this.some.length <= most) return;
    const random = core.random(0);
    this.some = Array.from(random.permutation(this.some.length).subarray(0, most).sort());
    random.close();
  }

  /** Return the logits (C) of texts. */
  logits(chosen) {
    const found = logitsOf(this.core, chosen.map((i) => this.texts[i]), this.labels);
    const ofWindows = logitsOf(this.core, chosen.flatMap((i) => this.windows[i]), this.labels);
    let at = 0;
    return found.map((own, i) => {
      const number = this.windows[chosen[i]].length;
      if (!number) return own;
      const part = ofWindows.slice(at, (at += number));
      return own.map((_, c) => part.reduce((sum, window) => round(sum + window[c]), 0) / number);
    });
  }

  /** Return accuracy and loss. */
  evaluate() {
    let [right, loss] = [0, 0];
    this.logits(this.some).forEach((own, i) => {
      const target = this.targets[this.some[i]];
      const highest = Math.max(...own);
      const all = Math.log(own.reduce((sum, logit) => sum + Math.exp(logit - highest), 0)) + highest;
      right += own.indexOf(highest) === target;
      loss += all - (1 - SMOOTHING) * own[target] - (SMOOTHING * own.reduce((sum, logit) => sum + logit, 0)) / own.length;
    });
    return { accuracy: right / this.some.length, loss: loss / this.some.length };
  }
}

/** Return the factor of the logits with which they are calibrated: mixling/training/calibration.py. */
export function temperature(logits, targets) {
  const rows = logits.map((own) => Array.from(own, (logit) => logit - Math.max(...own)));
  const right = rows.reduce((sum, own, i) => sum + own[targets[i]], 0);
  let [low, high, slope] = [0.01, 100, 1];
  for (let i = 0; i < 60; i++) {
    let [gradient, curvature] = [2 * (slope - 1) - right, 2];
    for (const own of rows) {
      const powers = own.map((logit) => Math.exp(slope * logit));
      const sum = powers.reduce((all, power) => all + power, 0);
      const mean = powers.reduce((all, power, c) => all + power * own[c], 0) / sum;
      gradient += mean;
      curvature += powers.reduce((all, power, c) => all + power * own[c] ** 2, 0) / sum - mean ** 2;
    }
    if (gradient < 0) low = slope;
    else high = slope;
    const step = slope - gradient / curvature;
    const before = slope;
    slope = low < step && step < high ? step : (low + high) / 2;
    if (Math.abs(slope - before) < 1e-10) break;
  }
  return slope;
}

function rateOf(step, steps) {
  const warmup = Math.max(1, halfToEven(WARMUP * steps));
  if (step < warmup) return (RATE * (step + 1)) / warmup;
  return (RATE * (1 + Math.cos((Math.PI * (step - warmup)) / Math.max(1, steps - warmup)))) / 2;
}

const halfToEven = (value) => (value % 1 === 0.5 ? 2 * Math.round(value / 2) : Math.round(value));

/**
 * Train a network, and return its weights by name, calibrated, from the evaluation with the highest accuracy.
 *
 * @param core of core.js
 * @param given see planOf
 * @param {{windows: Uint32Array[][], targets: number[]}} train each text in one window of its first words
 * @param validation as `fitBranch` takes it
 * @param {(progress: object) => void} tell called after each evaluation
 */
export function trainNetwork(core, given, train, validation, labels, tell, seed = 0) {
  const plan = planOf(given, labels);
  const weights = core.begin(plan.numbers);
  initialize(core, plan, weights, given.numbers[3], seed);
  const texts = train.windows.map(([window]) => tokensOf(window));
  const lengths = texts.map(({ length }) => length);
  const judged = new Judged(core, validation, labels);
  const perEpoch = Math.ceil(texts.length / BATCH);
  const epochs = Math.min(Math.max(Math.round(TRAINED / lengths.reduce((sum, length) => sum + length, 0)), FEWEST_EPOCHS), MOST_EPOCHS);
  const steps = perEpoch * epochs;
  const most = Math.floor(Math.max(Math.floor(0.1 * 3 * steps * BATCH), FEW_EVALUATED) / judged.some.length);
  const evaluations = Math.min(MOST, Math.max(FEWEST, most));
  const interval = steps >= evaluations * perEpoch ? perEpoch : Math.ceil(steps / evaluations);
  const [table, matrices, vectors] = plan.ends;
  let batches;
  let best = null;
  for (let step = 0; step < steps; ) {
    if (step % perEpoch === 0) batches = batchesOf(core, lengths, seed, step / perEpoch);
    const batch = batches[step % perEpoch];
    const rate = rateOf(step, steps);
    const groups = [0, table, rate, DECAY, table, matrices, rate, DECAY, matrices, vectors, rate, 0];
    const read = dropped(core, batch.map((i) => texts[i]), [seed, 1, step]);
    step++;
    const [loss, , norm] = core.step(read, batch.map((i) => train.targets[i]), [SMOOTHING, step, ...ADAMW, ...groups]);
    if (!Number.isFinite(loss) || !Number.isFinite(norm)) throw new RangeError(`step ${step}: the loss is not finite`);
    if (step % interval && step < steps) continue;
    const found = judged.evaluate();
    tell({ phase: "network", done: step / steps, accuracy: found.accuracy });
    const better = best && (found.accuracy === best.accuracy ? found.loss < best.loss : found.accuracy > best.accuracy);
    if (!best || better) best = { ...found, step, weights: weights().slice() };
  }
  weights().set(best.weights);
  const slope = round(temperature(judged.logits([...judged.texts.keys()]), validation.targets));
  const out = {};
  for (const [name, shape] of Object.entries(plan.shapes)) {
    const values = best.weights.slice(plan.places[name], plan.places[name] + size(shape));
    out[name] = { shape, values: name.startsWith(OUTPUT) ? values.map((value) => value * slope) : values };
  }
  return { weights: out, report: { epochs, steps, best: best.step, accuracy: best.accuracy, slope } };
}
