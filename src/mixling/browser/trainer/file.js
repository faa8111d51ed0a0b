// The bytes of a model file: the template's, with labels, weights and a branch, as mixling/export writes them.

import { nearest } from "./features.js";
import { outputBytes, storedBytes } from "./margins.js";

const FLOAT = 1;
const UINT8 = 2;
const INT8 = 3;
const [GRAPH, METADATA, NODE, INITIALIZER, OUTPUT] = [7, 14, 1, 5, 12]; // fields of onnx.proto
const NAMES = { [NODE]: 2, [INITIALIZER]: 8, [OUTPUT]: 1 }; // the fields that have their names, of a node its output's
const SEAL = "mixling_sha256";
const MAX_PER_TERM = 255;
const MIN_WEIGHTS = 1024; // of a matrix in 8 bits
const HEAD = "head.output.weight";

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

/** Return a matrix (rows, columns) in 8 bits with a scale for each column, or each row, and its error. */
function quantize({ shape: [rows, columns], values }, byRow) {
  const scales = new Float32Array(byRow ? rows : columns);
  const at = byRow ? (i) => Math.floor(i / columns) : (i) => i % columns;
  values.forEach((value, i) => (scales[at(i)] = Math.max(scales[at(i)], Math.abs(value))));
  scales.forEach((largest, i) => (scales[i] = largest > 0 ? largest / 127 : 1));
  const packed = Int8Array.from(values, (value, i) => Math.max(-127, Math.min(127, nearest(Math.fround(value / scales[at(i)])))));
  const error = values.reduce((sum, value, i) => sum + Math.fround(Math.fround(packed[i] * scales[at(i)]) - value) ** 2, 0);
  return { packed, scales, scalesShape: byRow ? [rows, 1] : [1, columns], error };
}

function transposed({ shape: [rows, columns], values }) {
  return { shape: [columns, rows], values: Float32Array.from(values, (_, i) => values[(i % rows) * columns + Math.floor(i / rows)]) };
}

/** Return what gives the tensor of a name in the file, undefined where no weight has it. */
function tensorsOf(weights) {
  const matrices = new Map();
  const packed = (name) => {
    if (!matrices.has(name)) {
      const matrix = float(name);
      const [columns, rows] = [quantize(matrix, false), name === "table" ? null : quantize(matrix, true)];
      matrices.set(name, { shape: matrix.shape, ...(rows && rows.error <= columns.error ? rows : columns) });
    }
    return matrices.get(name);
  };
  const float = (name) => {
    const found = weights[name === "table" ? "embedding.weight" : name.replace(/\.T$/, "")];
    return found && name.endsWith(".T") ? transposed(found) : found;
  };
  return (name) => {
    const [, matrix, part] = /^(?:(.*)\.)?(int8|scale)$/.exec(name === "table" ? "table.int8" : name) ?? [];
    if (part && !float(matrix ?? "table")) return undefined;
    if (part === "int8") return tensor(name, INT8, packed(matrix).shape, packed(matrix).packed);
    if (part) return tensor(name, FLOAT, packed(matrix ?? "table").scalesShape, packed(matrix ?? "table").scales);
    const found = float(name);
    return found && tensor(name, FLOAT, found.shape, found.values);
  };
}

/**
 * Return a model file.
 *
 * @param {Uint8Array} template a file of the same network with other labels and without a branch; one that is read has a
 *   head in 8 bits
 * @param {string[]} labels
 * @param weights of the network, by name; null: it is not read
 * @param branch what `compress` returns, with its weight in the sum multiplied in; null: there is none
 * @param {{min_n: number, max_n: number, network: number}} ngrams lengths of character n-grams, and the weight of the network
 * @param {(bytes: Uint8Array) => string} sha256
 */
export function writeModel(template, labels, weights, branch, { min_n, max_n, network }, sha256) {
  const entries = metadataOf(template);
  delete entries[SEAL];
  const metadata = JSON.parse(entries.mixling);
  weights ??= unread(labels.length, JSON.parse(entries.native).dim);
  metadata.parameters += (labels.length - metadata.labels.names.length) * (weights[HEAD].shape[1] + 1);
  metadata.labels = { ...metadata.labels, names: labels };
  if (branch) metadata.ngrams = { max_n, min_n, network };
  entries.mixling = JSON.stringify(metadata);
  const parts = [];
  for (const { field, whole, content } of fieldsOf(template)) {
    if (field === GRAPH) parts.push(bytes(GRAPH, graphOf(content, labels.length, weights, branch ? branchArrays(branch) : [])));
    else if (field !== METADATA) parts.push(whole);
  }
  for (const [key, value] of Object.entries(entries)) parts.push(bytes(METADATA, join([bytes(1, key), bytes(2, value)])));
  const sealed = join(parts);
  return join([sealed, bytes(METADATA, join([bytes(1, SEAL), bytes(2, sha256(sealed))]))]);
}

/** Return the weights of a head of zeros. */
function unread(labels, dim) {
  const [weight, bias] = [[labels, dim], [labels]].map((shape) => ({ shape, values: new Float32Array(shape[0] * (shape[1] ?? 1)) }));
  return { [HEAD]: weight, "head.output.bias": bias };
}

function graphOf(graph, labels, weights, arrays) {
  const [kept, last] = [[], []];
  const isSmall = weights[HEAD].values.length < MIN_WEIGHTS; // then it is no matrix in 8 bits, which two nodes unpack
  const tensorOf = tensorsOf(weights);
  for (const { field, whole, content } of fieldsOf(graph)) {
    const name = field in NAMES ? nameOf(content, NAMES[field]) : "";
    if (isSmall && (field === NODE ? [`${HEAD}.cast`, HEAD] : [`${HEAD}.scale`]).includes(name)) continue;
    const part = field === INITIALIZER ? tensorOf(isSmall && name === `${HEAD}.int8` ? HEAD : name) : undefined;
    (field > INITIALIZER ? last : kept).push(part ?? (field === OUTPUT && name === "logits" ? logits(labels) : whole));
  }
  return join([...kept, ...arrays.map(([name, ...rest]) => tensor(`ngrams.${name}`, ...rest)), ...last]);
}

/** The output "logits" (texts, C), a float tensor. */
function logits(labels) {
  const shape = join([bytes(1, bytes(2, "texts")), bytes(1, number(1, labels))]);
  return bytes(OUTPUT, join([bytes(1, "logits"), bytes(2, bytes(1, join([number(1, FLOAT), bytes(2, shape)])))]));
}
