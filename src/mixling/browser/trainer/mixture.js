// How much a network and the linear branch count, and the biases beside them: mixling/native/minimize.py and mixling/ngrams/mixture.py.

const PAIRS = 10;
const DECREASE = 1e-3;
const FLATTER = 0.9;
const TRIES = 30;

const dot = (one, other) => one.reduce((sum, value, i) => sum + value * other[i], 0);
const along = (here, step, direction) => here.map((value, i) => value + step * direction[i]);

/** Return where a function is smallest; `objective` returns value and gradient (L-BFGS with weak Wolfe conditions). */
export function minimize(objective, start, { gradient = 1e-5, decrease = 2e-9, steps = 15_000 } = {}) {
  let here = start;
  let [value, slopes] = objective(here);
  const pairs = [];
  for (let number = 0; number < steps; number++) {
    if (slopes.every((slope) => Math.abs(slope) <= gradient)) break;
    let direction = curved(slopes, pairs).map((part) => -part);
    let slope = dot(direction, slopes);
    if (slope >= 0) {
      pairs.length = 0;
      direction = slopes.map((part) => -part);
      slope = dot(direction, slopes);
    }
    const found = stepTo(objective, here, value, direction, slope, pairs.length ? 1 : Math.min(1, 1 / Math.sqrt(-slope)));
    if (!found) {
      if (!pairs.length) break;
      pairs.length = 0;
      continue;
    }
    const [next, after, slopesAfter] = found;
    const moved = along(next, -1, here);
    const turned = along(slopesAfter, -1, slopes);
    const curvature = dot(moved, turned);
    if (curvature > Number.EPSILON * dot(turned, turned)) {
      if (pairs.length === PAIRS) pairs.shift();
      pairs.push([moved, turned, curvature]);
    }
    const saved = value - after;
    [here, value, slopes] = [next, after, slopesAfter];
    if (saved <= decrease * Math.max(Math.abs(value), 1)) break;
  }
  return here;
}

function curved(slopes, pairs) {
  let out = slopes.slice();
  const parts = [];
  for (const [moved, turned, curvature] of pairs.toReversed()) {
    parts.unshift(dot(moved, out) / curvature);
    out = along(out, -parts[0], turned);
  }
  if (pairs.length) {
    const [, turned, curvature] = pairs.at(-1);
    out = out.map((part) => part * (curvature / dot(turned, turned)));
  }
  pairs.forEach(([moved, turned, curvature], i) => (out = along(out, parts[i] - dot(turned, out) / curvature, moved)));
  return out;
}

function stepTo(objective, here, value, direction, slope, step) {
  let [low, slopeLow, high, best] = [0, slope, Infinity, null];
  for (let tries = 0; tries < TRIES; tries++) {
    const next = along(here, step, direction);
    const [after, slopes] = objective(next);
    const there = dot(direction, slopes);
    let flat = NaN;
    if (Number.isFinite(there) && there > slopeLow) flat = low + ((step - low) * slopeLow) / (slopeLow - there);
    if (!(after <= value + DECREASE * step * slope)) high = step;
    else if (there < FLATTER * slope) {
      best = [next, after, slopes];
      [low, slopeLow] = [step, there];
    } else return [next, after, slopes];
    const margin = high < Infinity ? 0.1 * (high - low) : 0;
    const [least, most] = high < Infinity ? [low + margin, high - margin] : [1.1 * low, 10 * low];
    if (Number.isFinite(flat)) step = Math.min(Math.max(flat, least), most);
    else step = Math.min((low + high) / 2, low ? 4 * low : high / 2);
  }
  return best;
}

/** Return the probabilities of labels, given their logits. */
export function softmax(logits) {
  const highest = Math.max(...logits);
  const out = logits.map((logit) => Math.exp(logit - highest));
  const sum = out.reduce((all, value) => all + value, 0);
  return out.map((value) => value / sum);
}

/** Return logits (C) of scores (K). */
export const logitsOf = (scores, labels) => (labels === 2 ? [-scores[0] / 2, scores[0] / 2] : scores);

/** Return the logits (C) of a text in the sum of models with some weights and biases. */
export const combine = (logits, weights, bias, labels) => {
  const added = bias.length ? logitsOf(bias, labels) : null;
  return Float64Array.from({ length: labels }, (_, c) => logits.reduce((sum, own, i) => sum + weights[i] * own[c], added ? added[c] : 0));
};

/**
 * Return the weights of models and the biases of the scores that have the smallest log-loss, and that loss.
 *
 * @param {ArrayLike<number>[][]} models for each the logits (C) of texts; the first's own loss is `alone`
 * @param {number[]} usual their weights for many sets of texts
 * @param {number[]} targets the labels of the texts
 */
export function fitMixture(models, usual, targets, labels, scores) {
  const [number, parts] = [targets.length, models.length];
  const rows = targets.map((_, i) => models.map((logits) => logits[i]));
  const biases = scores <= number ? scores : 0;
  const lossOf = (weights, bias, slopesOf) => {
    let loss = 0;
    for (let i = 0; i < number; i++) {
      const found = softmax(combine(rows[i], weights, bias, labels));
      loss -= Math.log(Math.max(found[targets[i]], 1e-300));
      found[targets[i]] -= 1;
      slopesOf?.(found, i);
    }
    return loss;
  };
  const objective = (values) => {
    const [weights, bias] = [values.subarray(0, parts), values.subarray(parts)];
    const added = biases ? logitsOf(bias, labels) : [];
    const gradient = new Float64Array(values.length);
    const ofLogits = new Float64Array(labels);
    let loss = lossOf(weights, bias, (slopes, i) => {
      for (let c = 0; c < labels; c++) {
        for (let part = 0; part < parts; part++) gradient[part] += slopes[c] * rows[i][part][c];
        ofLogits[c] += slopes[c];
      }
    });
    for (let part = 0; part < parts; part++) {
      const away = weights[part] / usual[part] - 1;
      gradient[part] += (2 * away) / usual[part];
      loss += away * away;
    }
    for (let c = 0; c < added.length; c++) {
      ofLogits[c] += 2 * added[c];
      loss += added[c] * added[c];
    }
    if (biases && labels === 2) gradient[parts] = (ofLogits[1] - ofLogits[0]) / 2;
    else if (biases) gradient.set(ofLogits, parts);
    return [loss, gradient];
  };
  const solve = (free) => {
    const masked = (values) => {
      const [value, slopes] = objective(values);
      return [value, slopes.map((slope, i) => (i < parts && !free[i] ? 0 : slope))];
    };
    return minimize(masked, Float64Array.from({ length: parts + biases }, (_, i) => (free[i] ? usual[i] : 0)));
  };
  const isAllowed = (values) => values.subarray(0, parts).every((weight) => weight >= 0);
  const all = 2 ** parts - 1;
  let best = solve(usual.map(() => true));
  if (!isAllowed(best)) {
    const tried = Array.from({ length: all }, (_, number) => solve(usual.map((_, i) => (number >> (parts - 1 - i)) & 1)));
    const losses = tried.map((values) => (isAllowed(values) ? objective(values)[0] : Infinity));
    best = tried[losses.indexOf(Math.min(...losses))];
  }
  const bias = new Float32Array(scores);
  bias.set(best.subarray(parts));
  const weights = Array.from(best.subarray(0, parts));
  const alone = lossOf([1, ...usual.slice(1).fill(0)], []) / number;
  return { weights, bias, loss: lossOf(weights, best.subarray(parts)) / number, alone };
}
