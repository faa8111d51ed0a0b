// How much the linear branch counts, and the biases beside it: mixling/native/minimize.py and mixling/ngrams/mixture.py.

const PAIRS = 10;
const DECREASE = 1e-3;
const FLATTER = 0.9;
const TRIES = 30;
const USUAL = 3; // weight of a branch

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

/**
 * Return the weight of a branch and the biases of its scores that have the smallest log-loss, and that loss.
 *
 * @param {Float64Array[]} branch logits (C) of texts
 * @param {number[]} targets their labels
 */
export function fitMixture(branch, targets, labels, scores) {
  const number = targets.length;
  const biases = scores <= number ? scores : 0;
  const sum = ([weight, ...bias], row) => {
    const added = biases ? logitsOf(bias, labels) : null;
    return row.map((logit, c) => weight * logit + (added ? added[c] : 0));
  };
  const lossOf = (values, slopesOf) => {
    let loss = 0;
    for (let i = 0; i < number; i++) {
      const found = softmax(sum(values, branch[i]));
      loss -= Math.log(Math.max(found[targets[i]], 1e-300));
      found[targets[i]] -= 1;
      slopesOf?.(found, i);
    }
    return loss;
  };
  const objective = (values) => {
    const away = values[0] / USUAL - 1;
    const added = biases ? logitsOf(Array.from(values.subarray(1)), labels) : [];
    const gradient = new Float64Array(values.length);
    const ofLogits = new Float64Array(labels);
    const loss = lossOf(values, (slopes, i) => {
      for (let c = 0; c < labels; c++) {
        gradient[0] += slopes[c] * branch[i][c];
        ofLogits[c] += slopes[c];
      }
    });
    gradient[0] += (2 * away) / USUAL;
    for (let c = 0; c < added.length; c++) ofLogits[c] += 2 * added[c];
    if (biases && labels === 2) gradient[1] = (ofLogits[1] - ofLogits[0]) / 2;
    else if (biases) gradient.set(ofLogits, 1);
    return [loss + away * away + added.reduce((all, value) => all + value * value, 0), gradient];
  };
  const start = new Float64Array(1 + biases);
  start[0] = USUAL;
  let best = minimize(objective, start);
  if (best[0] < 0) {
    const masked = (values) => {
      const [value, slopes] = objective(values);
      slopes[0] = 0;
      return [value, slopes];
    };
    start[0] = 0;
    best = minimize(masked, start);
  }
  const bias = new Float32Array(scores);
  if (biases) bias.set(best.subarray(1));
  return { weight: best[0], bias, loss: lossOf(best) / number };
}
