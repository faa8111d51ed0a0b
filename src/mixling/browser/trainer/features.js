// Features of texts for fitting the linear n-gram branch, as mixling/ngrams/features.py, whose words explain them.

const MAX_SQUARE = 127;
const MIN_TEXTS = 2;
const MANY_TEXTS = 10_000;
const FEW_TEXTS = 2_000;
const PART_WORDS = 1 << 15;
const MAX_NONZEROS = 3 << 24;

const round = Math.fround;
const MAGIC = 6755399441055744; // 1.5 2^52: the sum with it is rounded to an even integer at half

export const nearest = (value) => value + MAGIC - MAGIC;

/** Add up numbers as NumPy does, pair by pair, each rounded to the precision of `fit`. */
export function pairwiseSum(values, first, number, fit = (value) => value) {
  if (number < 8) {
    let sum = 0;
    for (let i = 0; i < number; i++) sum = fit(sum + values[first + i]);
    return sum;
  }
  if (number > 128) {
    const half = (number >> 1) - ((number >> 1) % 8);
    return fit(pairwiseSum(values, first, half, fit) + pairwiseSum(values, first + half, number - half, fit));
  }
  const r = Array.from(values.subarray(first, first + 8));
  let i = 8;
  for (; i < number - (number % 8); i += 8) for (let j = 0; j < 8; j++) r[j] = fit(r[j] + values[first + i + j]);
  let sum = fit(fit(fit(r[0] + r[1]) + fit(r[2] + r[3])) + fit(fit(r[4] + r[5]) + fit(r[6] + r[7])));
  for (; i < number; i++) sum = fit(sum + values[first + i]);
  return sum;
}

const mix = (x) => {
  x = Math.imul(x ^ (x >>> 16), 0x85ebca6b);
  x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35);
  return (x ^ (x >>> 16)) >>> 0;
};

/** Return the first index at which an ascending array has at least a value. */
export function searchSorted(array, value) {
  let low = 0;
  let high = array.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (array[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Return the distinct words (numbers, by ascending hash) and hashes of pairs, ascending, of a window. */
export function distinct(window, hashes) {
  const byHash = new Map();
  const pairs = new Set();
  let before = -1;
  for (const word of window) {
    const hash = hashes[word];
    if (!byHash.has(hash)) byHash.set(hash, word);
    if (before >= 0) pairs.add(mix((Math.imul(before, 0x9e3779b1) + mix(hash) + 7) >>> 0));
    before = hash;
  }
  const sorted = Uint32Array.from(byHash.keys()).sort();
  return { words: Array.from(sorted, (hash) => byHash.get(hash)), pairs: Uint32Array.from(pairs).sort() };
}

/** Return the parts of texts with about as many words. */
function* partsOf(sizes) {
  for (let first = 0; first < sizes.length; ) {
    let last = first;
    let words = 0;
    while (last < sizes.length && (last === first || words + sizes[last] <= PART_WORDS)) words += sizes[last++];
    yield [first, last];
    first = last;
  }
}

/** Return ascending distinct values, and how often each is there. */
function unique(values) {
  const sorted = values.slice().sort();
  const found = new Uint32Array(sorted.length);
  const counts = new Int32Array(sorted.length);
  let number = 0;
  for (let i = 0; i < sorted.length; i++) {
    if (!i || sorted[i] !== sorted[i - 1]) found[number++] = sorted[i];
    counts[number - 1]++;
  }
  return [found.slice(0, number), counts.slice(0, number)];
}

/** Words and pairs of words: their hashes, the texts that have each, and the columns of each text with how often. */
function wholeWords(texts, hashes) {
  const sizes = texts.map(({ words, pairs }) => words.length + pairs.length);
  const terms = new Uint32Array(sizes.reduce((sum, size) => sum + size, 0));
  let at = 0;
  for (const { words, pairs } of texts) {
    for (const word of words) terms[at++] = hashes[word];
    terms.set(pairs, at);
    at += pairs.length;
  }
  const [all, counts] = unique(terms);
  const least = texts.length < MANY_TEXTS ? 1 : MIN_TEXTS;
  const kept = all.filter((_, i) => counts[i] >= least);
  const rows = ({ words, pairs }, add) => {
    const own = [...words.map((word) => hashes[word]), ...pairs];
    const columns = Int32Array.from(own, (hash) => searchSorted(kept, hash)).filter((column, i) => kept[column] === own[i]).sort();
    for (let i = 0, end; i < columns.length; i = end) {
      for (end = i + 1; columns[end] === columns[i]; ) end++;
      add(columns[i], end - i);
    }
  };
  const found = counts.filter((count) => count >= least);
  return { hashes: kept, texts: found, total: found.reduce((sum, count) => sum + count, 0), rows };
}

/** The n-grams of the words of each text, without n-grams of few texts. */
function characters(texts, { grams, starts }) {
  const [all] = unique(grams);
  const columns = Int32Array.from(grams, (gram) => searchSorted(all, gram));
  const counts = new Int32Array(all.length);
  const sums = new Float64Array(all.length);
  const places = new Int32Array(all.length).fill(-1);
  const found = [];
  const values = [];
  const each = ({ words }, column, add) => {
    found.length = values.length = 0;
    for (const word of words) {
      for (let i = starts[word]; i < starts[word + 1]; i++) {
        const own = column[i];
        if (own < 0) continue;
        if (places[own] < 0) {
          places[own] = found.length;
          found.push(own);
          values.push(1);
        } else values[places[own]]++;
      }
    }
    for (let i = 0; i < found.length; i++) {
      places[found[i]] = -1;
      add(found[i], values[i]);
    }
  };
  for (const text of texts) {
    each(text, columns, (column, value) => {
      counts[column]++;
      sums[column] += value;
    });
  }
  const least = texts.length <= FEW_TEXTS ? 1 : MIN_TEXTS;
  const located = new Int32Array(all.length).fill(-1);
  let number = 0;
  let total = 0;
  for (let i = 0; i < all.length; i++) {
    if (counts[i] < least) continue;
    located[i] = number++;
    total += sums[i];
  }
  const kept = columns.map((column) => located[column]);
  return {
    hashes: all.filter((_, i) => located[i] >= 0),
    texts: counts.filter((count) => count >= least),
    total,
    rows: (text, add) => each(text, kept, add),
  };
}

/**
 * Return the features of texts.
 *
 * @param {{words: number[], pairs: Uint32Array}[]} texts as `distinct` returns them
 * @param {{hashes: Uint32Array, grams: Uint32Array, starts: Uint32Array}} words
 */
export function makeFeatures(texts, words) {
  const number = texts.length;
  const cells = texts.reduce((sum, { words: own, pairs }) => sum + pairs.length + own.reduce((all, word) => all + words.starts[word + 1] - words.starts[word] + 1, 0), 0);
  if (cells > MAX_NONZEROS) throw new RangeError("these texts are too many to train on in a page; `mixling train` can");
  const blocks = [wholeWords(texts, words.hashes), characters(texts, words)];
  const sizes = texts.map(({ words: own }) => own.length);
  const total = sizes.reduce((sum, size) => sum + size, 0);
  const terms = blocks[0].hashes.length + blocks[1].hashes.length;
  const inTexts = new Int32Array(terms);
  const hashes = new Uint32Array(terms);
  const unsorted = new Float64Array(terms);
  let before = 0;
  for (const block of blocks) {
    inTexts.set(block.texts, before);
    hashes.set(block.hashes, before);
    const idf = Float64Array.from(block.texts, (count) => Math.log((1 + number) / (1 + count)) + 1);
    const mean = idf.length ? pairwiseSum(idf, 0, idf.length) / idf.length : 1;
    const root = Math.sqrt(Math.max(block.total / Math.max(total, 1), 1e-9));
    for (let i = 0; i < idf.length; i++) unsorted[before + i] = idf[i] / Math.max(mean, 1e-9) / root;
    before += idf.length;
  }
  const order = Int32Array.from(inTexts.keys()).sort((a, b) => inTexts[b] - inTexts[a] || a - b);
  const column = new Int32Array(terms);
  order.forEach((term, place) => (column[term] = place));
  const factors = Float32Array.from(order, (term) => unsorted[term]);
  let unit = round(1e-9);
  for (const factor of factors) unit = Math.max(unit, round(factor * factor));
  unit = round(unit / MAX_SQUARE);
  const squares = Uint8Array.from(factors, (factor) => Math.min(Math.max(nearest(round(round(factor * factor) / unit)), 1), MAX_SQUARE));
  const root = round(Math.sqrt(unit));
  for (let i = 0; i < terms; i++) factors[i] /= root;
  const lengths = new Float32Array(number).fill(1);
  const starts = new Int32Array(number + 1);
  let columns = new Int32Array(1 << 16);
  let values = new Float32Array(1 << 16);
  let end = 0;
  const spread = new Float64Array(terms);
  for (const [first, last] of partsOf(sizes)) {
    const part = new Float64Array(terms);
    for (let text = first; text < last; text++) {
      const begin = end;
      let sum = 0;
      blocks.forEach((block, i) =>
        block.rows(texts[text], (own, count) => {
          if (end === columns.length) [columns, values] = [larger(columns), larger(values)];
          columns[end] = column[own + (i ? blocks[0].hashes.length : 0)];
          sum += count * squares[columns[end]];
          values[end++] = count;
        }),
      );
      lengths[text] = Math.sqrt(Math.max(sum, 1));
      for (let i = begin; i < end; i++) {
        const value = round(values[i] / lengths[text]);
        part[columns[i]] += value * value;
        values[i] = round(value * factors[columns[i]]);
      }
      starts[text + 1] = end;
    }
    for (let i = 0; i < terms; i++) spread[i] += part[i];
  }
  return {
    hashes: Uint32Array.from(order, (term) => hashes[term]),
    factors,
    squares,
    spread: Float32Array.from(spread, (square) => Math.sqrt(square / Math.max(number, 1))),
    matrix: { starts, columns: columns.slice(0, end), values: values.slice(0, end) },
    lengths,
    kept: null,
  };
}

function larger(array) {
  const out = new array.constructor(2 * array.length);
  out.set(array);
  return out;
}

/** Return some of the features, given their ascending numbers. */
export function keep(features, chosen) {
  const { matrix } = features;
  const located = new Int32Array(features.hashes.length).fill(-1);
  chosen.forEach((column, place) => (located[column] = place));
  const pick = (array) => array.constructor.from(chosen, (column) => array[column]);
  const factors = pick(features.factors);
  const squares = pick(features.squares);
  const texts = features.lengths.length;
  const lengths = new Float32Array(texts).fill(1);
  const starts = new Int32Array(texts + 1);
  const columns = new Int32Array(matrix.columns.length);
  const values = new Float32Array(matrix.columns.length);
  let end = 0;
  for (let text = 0; text < texts; text++) {
    const begin = end;
    const before = features.lengths[text];
    let sum = 0;
    for (let i = matrix.starts[text]; i < matrix.starts[text + 1]; i++) {
      const column = located[matrix.columns[i]];
      if (column < 0) continue;
      columns[end] = column;
      values[end++] = matrix.values[i];
      sum += round(round(round(matrix.values[i] * before) / factors[column]) * squares[column]);
    }
    lengths[text] = Math.sqrt(Math.max(nearest(sum), 1));
    const ratio = round(before / lengths[text]);
    for (let i = begin; i < end; i++) values[i] = round(values[i] * ratio);
    starts[text + 1] = end;
  }
  return {
    hashes: pick(features.hashes),
    factors,
    squares,
    spread: pick(features.spread),
    matrix: { starts, columns: columns.slice(0, end), values: values.slice(0, end) },
    lengths,
    kept: null,
  };
}
