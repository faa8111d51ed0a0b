// The texts of a file that is dropped on the page.

import { decode, guessColumns, readTable } from "./rows.js";

const MAX_BYTES = 5_000_000; // of a larger file, the lines up to there
const NEWLINE = 10;

/** Return up to `most` texts of a file: lines of a .txt, or a column of a table, and which column it is. */
export async function textsOf(file, most) {
  if (!/\.(txt|csv|tsv|jsonl?|ndjson)$/i.test(file.name)) throw new Error(`${file.name}: ends in none of .txt, .csv, .tsv, .json, .jsonl.`);
  let bytes = new Uint8Array(await file.slice(0, MAX_BYTES).arrayBuffer());
  if (file.size > MAX_BYTES) bytes = bytes.subarray(0, bytes.lastIndexOf(NEWLINE) + 1);
  const content = decode(bytes).text;
  if (/\.txt$/i.test(file.name)) return { texts: content.split(/\r?\n/).filter((line) => line.trim()).slice(0, most) };
  const table = readTable(content, file.name);
  const length = (name) => table.rows.reduce((sum, { values }) => sum + values[name].length, 0);
  const column = guessColumns(table).text ?? table.columns.toSorted((one, two) => length(two) - length(one))[0];
  return { texts: table.rows.slice(0, most).map(({ values }) => values[column]), column };
}
