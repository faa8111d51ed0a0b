// The bytes of a model file: the template's, with labels and a branch, as mixling/export/encode.py writes them.

import { outputBytes, storedBytes } from "./margins.js";

const FLOAT = 1;
const UINT8 = 2;
const INT8 = 3;
const [GRAPH, METADATA, INITIALIZER, OUTPUT] = [7, 14, 5, 12]; // fields of onnx.proto
const SEAL = "mixling_sha256";
const MAX_PER_TERM = 255;

const utf8 = new TextEncoder();
const text = new TextDecoder();

const join = (parts) => {
  const out = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  parts.reduce((at, part) => (out.set(part, at), at + part.length), 0);
  return out;
};

function varint(value) {
  const out = [];
  for (; value > 127; value = Math.floor(value / 128)) out.push((value % 128) | 128);
  return Uint8Array.from([...out, value]);
}

const number = (field, value) => join([varint(field * 8), varint(value)]);
const bytes = (field, value) => {
  const content = typeof value === "string" ? utf8.encode(value) : value;
  return join([varint(field * 8 + 2), varint(content.length), content]);
};

/** Yield the fields of a message: number, whole bytes, and content. */
function* fieldsOf(message) {
  let at = 0;
  const read = () => {
    for (let value = 0, factor = 1; ; factor *= 128) {
      value += (message[at] & 127) * factor;
      if (message[at++] < 128) return value;
    }
  };
  while (at < message.length) {
    const begin = at;
    const key = read();
    const size = key % 8 === 2 ? read() : 0;
    const inside = at;
    if (key % 8 === 0) read();
    at += size;
    yield { field: Math.floor(key / 8), whole: message.subarray(begin, at), content: message.subarray(inside, at) };
  }
}

function tensor(name, type, shape, array) {
  const content = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
  return bytes(INITIALIZER, join([...shape.map((size) => number(1, size)), number(2, type), bytes(8, name), bytes(9, content)]));
}

/** Return the name of an initializer or an output. */
function nameOf(content, field) {
  for (const part of fieldsOf(content)) if (part.field === field) return text.decode(part.content);
  return "";
}

/** Pack ascending numbers into fewer bits: the low ones as they are, the high ones in unary. */
function packSorted(values) {
  const terms = values.length;
  const low = terms > 1 ? 32 - (32 - Math.clz32(terms)) + 1 : 31;
  const high = new Uint8Array(Math.ceil((2 ** (32 - low) + terms) / 8));
  const lower = new Uint8Array(Math.ceil((terms * low) / 8));
  values.forEach((value, i) => {
    const place = Math.floor(value / 2 ** low) + i;
    high[place >> 3] |= 1 << (place & 7);
    for (let bit = 0; bit < low; bit++) if ((value >>> bit) & 1) lower[(i * low + bit) >> 3] |= 1 << ((i * low + bit) & 7);
  });
  return [high, lower];
}

/** Return the arrays of a branch in a file. */
function branchArrays({ hashes, squares, packed, scale, bias }) {
  const scores = scale.length;
  const first = new Map();
  hashes.forEach((hash, i) => first.has(hash) || first.set(hash, i));
  const terms = Uint32Array.from(first.keys()).sort();
  const order = Array.from(terms, (term) => first.get(term));
  const [high, low] = packSorted(terms);
  const full = new Int8Array(terms.length * scores);
  order.forEach((from, i) => full.set(packed.subarray(from * scores, (from + 1) * scores), i * scores));
  const counts = order.map((_, i) => full.subarray(i * scores, (i + 1) * scores).reduce((sum, value) => sum + (value !== 0), 0));
  const weights = full.filter((value) => value !== 0);
  const out = [
    ["high", UINT8, [high.length], high],
    ["low", UINT8, [low.length], low],
    ["squares", UINT8, [terms.length], Uint8Array.from(order, (from) => squares[from])],
    ["scale", FLOAT, [scores], scale],
    ["bias", FLOAT, [scores], bias],
  ];
  const sparse = storedBytes(terms.length, weights.length, scores) < full.length && counts.every((count) => count <= MAX_PER_TERM);
  if (!sparse) return [...out, ["weights", INT8, [terms.length, scores], full]];
  const width = outputBytes(scores);
  const outputs = new Uint8Array(weights.length * width);
  let at = 0;
  full.forEach((value, i) => {
    if (!value) return;
    for (let byte = 0; byte < width; byte++) outputs[at++] = ((i % scores) >> (8 * byte)) & 255;
  });
  return [
    ...out,
    ["weights", INT8, [weights.length], weights],
    ["counts", UINT8, [terms.length], Uint8Array.from(counts)],
    ["outputs", UINT8, width === 1 ? [weights.length] : [weights.length, width], outputs],
  ];
}

/** Return the bytes that a branch takes in a file. */
export const branchBytes = (branch) => branchArrays(branch).reduce((sum, [, , , array]) => sum + array.byteLength, 0);

/** Return the metadata of a file. */
export function metadataOf(file) {
  const out = {};
  for (const { field, content } of fieldsOf(file)) {
    if (field !== METADATA) continue;
    const [key, value] = Array.from(fieldsOf(content), (part) => text.decode(part.content));
    out[key] = value;
  }
  return out;
}

/**
 * Return a model file.
 *
 * @param {Uint8Array} template a file whose network is not read, of other labels and without a branch
 * @param {string[]} labels
 * @param branch what `compress` returns, with its weight in the sum multiplied in
 * @param {{min_n: number, max_n: number}} lengths of character n-grams
 * @param {(bytes: Uint8Array) => string} sha256
 */
export function writeModel(template, labels, branch, { min_n, max_n }, sha256) {
  const size = labels.length;
  const entries = metadataOf(template);
  delete entries[SEAL];
  const metadata = JSON.parse(entries.mixling);
  const before = metadata.labels.names.length;
  const dim = JSON.parse(entries.native).dim;
  metadata.labels = { ...metadata.labels, names: labels };
  metadata.parameters += (size - before) * (dim + 1);
  metadata.ngrams = { max_n, min_n, network: 0 };
  entries.mixling = JSON.stringify(metadata);
  const parts = [];
  for (const { field, whole, content } of fieldsOf(template)) {
    if (field === GRAPH) parts.push(bytes(GRAPH, graphOf(content, size, dim, branchArrays(branch))));
    else if (field !== METADATA) parts.push(whole);
  }
  for (const [key, value] of Object.entries(entries)) parts.push(bytes(METADATA, join([bytes(1, key), bytes(2, value)])));
  const sealed = join(parts);
  return join([sealed, bytes(METADATA, join([bytes(1, SEAL), bytes(2, sha256(sealed))]))]);
}

function graphOf(graph, labels, dim, arrays) {
  const heads = {
    "head.output.weight": [[labels, dim], new Float32Array(labels * dim)],
    "head.output.bias": [[labels], new Float32Array(labels)],
  };
  const [kept, last] = [[], []];
  for (const { field, whole, content } of fieldsOf(graph)) {
    const name = field === INITIALIZER ? nameOf(content, 8) : field === OUTPUT ? nameOf(content, 1) : "";
    const head = heads[name];
    const part = name === "logits" ? logits(labels) : head ? tensor(name, FLOAT, ...head) : whole;
    (field > INITIALIZER ? last : kept).push(part);
  }
  return join([...kept, ...arrays.map(([name, ...rest]) => tensor(`ngrams.${name}`, ...rest)), ...last]);
}

/** The output "logits" (texts, C), a float tensor. */
function logits(labels) {
  const shape = join([bytes(1, bytes(2, "texts")), bytes(1, number(1, labels))]);
  return bytes(OUTPUT, join([bytes(1, "logits"), bytes(2, bytes(1, join([number(1, FLOAT), bytes(2, shape)])))]));
}
