// Which rows are held out: mixling/data/splits.py.

const SHIFTS = [
  [0xbf58476d1ce4e5b9n, 31n],
  [0x94d049bb133111ebn, 29n],
];

/** Apply a seeded bijection of 64-bit numbers. */
function shuffled(hashes, seed) {
  const keys = hashes.map((hash) => hash + seed);
  for (let i = 0; i < keys.length; i++) {
    for (const [multiplier, shift] of SHIFTS) {
      keys[i] ^= keys[i] >> shift;
      keys[i] *= multiplier;
    }
    keys[i] ^= keys[i] >> 32n;
  }
  return keys;
}

const halfToEven = (value) => (value % 1 === 0.5 ? 2 * Math.round(value / 2) : Math.round(value));

/** Return the number of examples of each class to set aside, by largest remainders, but never the whole class. */
function quotasOf(counts, fraction) {
  const exact = counts.map((count) => count * fraction);
  const quotas = exact.map(Math.floor);
  const most = counts.map((count) => Math.max(count - 1, 0));
  const open = [...counts.keys()].sort((a, b) => quotas[a] - exact[a] - (quotas[b] - exact[b]) || a - b);
  const missing = halfToEven(exact.reduce((sum, one) => sum + one, 0)) - quotas.reduce((sum, one) => sum + one, 0);
  for (const c of open.filter((c) => quotas[c] < most[c] && quotas[c] < exact[c]).slice(0, Math.max(missing, 0))) quotas[c]++;
  return quotas.map((quota, c) => Math.min(quota, most[c]));
}

/** Select about `quota` smallest keys, but not all; equal keys are either all selected or all left. */
function smallest(keys, quota) {
  const edge = keys.slice().sort()[quota - 1];
  const below = keys.filter((key) => key < edge).length;
  const upto = keys.filter((key) => key <= edge).length;
  return upto < keys.length && upto - quota <= quota - below ? (key) => key <= edge : (key) => key < edge;
}

/**
 * Divide examples, stratified by their classes; equal texts stay on one side.
 *
 * @param {BigUint64Array} hashes of the texts
 * @param {number[]} classes from 0
 * @returns {[number[], number[]]} the indices of those that are kept, and of those that are set aside
 */
export function divide(hashes, classes, fraction, seed = 0n) {
  const keys = shuffled(hashes, seed);
  const rows = [];
  classes.forEach((own, i) => (rows[own] ??= []).push(i));
  const quotas = quotasOf(Array.from(rows, (own) => own?.length ?? 0), fraction);
  const aside = new Uint8Array(keys.length);
  rows.forEach((own, c) => {
    if (!quotas[c]) return;
    const chosen = smallest(BigUint64Array.from(own, (i) => keys[i]), quotas[c]);
    for (const i of own) aside[i] = Number(chosen(keys[i]));
  });
  const kept = new Set(keys.filter((_, i) => !aside[i]));
  const all = [...keys.keys()];
  const isAside = (i) => aside[i] && !kept.has(keys[i]);
  return [all.filter((i) => !isAside(i)), all.filter(isAside)];
}
