// Tables of a file that was dropped: CSV (RFC 4180, with the delimiter that it has), TSV, JSON Lines and JSON.

const DELIMITERS = [",", ";", "\t", "|"];
const LOOKED_AT = 1000; // rows, as in mixling/data/guess.py, where the names are from
const MOST_LABELS = 200;
const TEXT_NAMES = (
  "text message content body review comment sentence utterance query document description abstract tweet post email " +
  "mail feedback complaint summary headline title subject news article question"
).split(" ");
const LABEL_NAMES = (
  "label labels class target category topic intent sentiment y tag tags genre polarity stars rating score emotion spam " +
  "toxic department priority"
).split(" ");
const NO_WORDS = /^\s*(\S+:\/\/\S+|\S+@\S+\.\S+|[\d\p{P}\p{S}\s_]*|[0-9a-f]{8,}(-[0-9a-f]{4,})*)\s*$/iu;

/** Return the text of a file and its encoding: UTF-8, UTF-16 with its mark, else Windows-1252. */
export function decode(bytes) {
  const marks = { "utf-16le": [0xff, 0xfe], "utf-16be": [0xfe, 0xff] };
  const marked = Object.keys(marks).find((name) => marks[name].every((byte, i) => bytes[i] === byte));
  if (marked) return { text: new TextDecoder(marked).decode(bytes), encoding: marked };
  try {
    return { text: new TextDecoder("utf-8", { fatal: true }).decode(bytes), encoding: "utf-8" };
  } catch {
    return { text: new TextDecoder("windows-1252").decode(bytes), encoding: "windows-1252" };
  }
}

/**
 * Return the rows of a file.
 *
 * @param {string} text its content
 * @param {string} name for messages, and what kind of file it is
 * @returns {{columns: string[], rows: {line: number, values: Object<string, string>}[]}} values as text; missing ones are ""
 */
export function readTable(text, name) {
  const begin = text.trimStart()[0];
  if (begin === undefined) throw new Error(`${name}: is empty; a header and at least one row are required`);
  const isJson = /\.(jsonl?|ndjson)$/i.test(name) || (begin === "{" && !/\.(csv|tsv|txt)$/i.test(name));
  const found = isJson ? readJson(text, name) : readDelimited(text, name);
  if (!found.rows.length) throw new Error(`${name}: has no rows; a header and at least one row are required`);
  return found;
}

function readJson(text, name) {
  const objects = [];
  const add = (value, line) => {
    if (value === null || typeof value !== "object" || Array.isArray(value)) throw new Error(`${name}:${line}: is ${JSON.stringify(value).slice(0, 40)}; an object such as {"text": "...", "label": "..."} is required`);
    objects.push({ line, object: value });
  };
  const parse = (part, line) => {
    try {
      return JSON.parse(part);
    } catch (error) {
      throw new Error(`${name}:${line}: is no JSON: ${error.message}`);
    }
  };
  if (text.trimStart()[0] === "[") {
    const list = parse(text, 1);
    list.forEach((value, i) => add(value, i + 1));
  } else {
    text.split("\n").forEach((line, i) => line.trim() && add(parse(line, i + 1), i + 1));
  }
  const columns = [...new Set(objects.flatMap(({ object }) => Object.keys(object)))];
  const shown = (value) => {
    if (Array.isArray(value) && value.length === 1 && typeof value[0] === "string") return value[0];
    return typeof value === "object" && value !== null ? JSON.stringify(value) : String(value ?? "");
  };
  const rows = objects.map(({ line, object }) => ({ line, values: Object.fromEntries(columns.map((column) => [column, shown(object[column])])) }));
  return { columns, rows };
}

/** Yield the records of delimited text, with the line where each begins. */
function* records(text, delimiter, name) {
  let [at, line] = [text.charCodeAt(0) === 0xfeff ? 1 : 0, 1];
  while (at < text.length) {
    const fields = [];
    const begin = line;
    for (let more = true; more; ) {
      let field = "";
      if (text[at] === '"') {
        for (let open = true; open; ) {
          const end = text.indexOf('"', at + 1);
          if (end < 0) throw new Error(`${name}:${begin}: a quote is not closed before the file ends`);
          const part = text.slice(at + 1, end);
          line += part.split("\n").length - 1;
          field += part;
          at = end + 1;
          open = text[at] === '"';
          if (open) field += '"';
        }
      }
      let end = at;
      while (end < text.length && text[end] !== delimiter && text[end] !== "\n" && text[end] !== "\r") end++;
      fields.push(field + text.slice(at, end));
      more = text[end] === delimiter;
      at = end + 1;
      if (text[end] === "\r" && text[at] === "\n") at++;
    }
    line++;
    if (fields.length > 1 || fields[0].trim()) yield { line: begin, fields };
  }
}

function readDelimited(text, name) {
  const delimiter = /\.tsv$/i.test(name) ? "\t" : sniffed(text);
  const all = records(text, delimiter, name);
  const { fields: columns } = all.next().value;
  const names = columns.map((column) => column.trim());
  const twice = names.find((column, i) => column && names.indexOf(column) !== i);
  if (twice !== undefined) throw new Error(`${name}:1: the header has ${JSON.stringify(twice)} twice; give each column a name of its own`);
  const rows = [];
  for (const { line, fields } of all) {
    if (fields.length > names.length && fields.slice(names.length).some((field) => field.trim())) {
      throw new Error(`${name}:${line}: has ${fields.length} fields; the header has ${names.length}: quote a field that has ${JSON.stringify(delimiter)} in it`);
    }
    rows.push({ line, values: Object.fromEntries(names.map((column, i) => [column, fields[i] ?? ""])) });
  }
  return { columns: names.filter(Boolean), rows };
}

/** Return the delimiter that divides the first lines into the most columns, of the same number. */
function sniffed(text) {
  const head = text.slice(0, 1 << 16);
  const fits = DELIMITERS.map((delimiter) => {
    const sizes = [];
    try {
      for (const { fields } of records(head, delimiter, "")) if (sizes.push(fields.length) === 20) break;
    } catch {
      // a quote that is closed behind the part
    }
    const same = sizes.filter((size) => size === sizes[0]).length / Math.max(sizes.length, 1);
    return sizes[0] > 1 ? same * 100 + sizes[0] : 0;
  });
  return DELIMITERS[fits.indexOf(Math.max(...fits))];
}

/** Return the columns that are probably the texts and the labels, null where none may be. */
export function guessColumns({ columns, rows }) {
  const step = Math.max(rows.length / LOOKED_AT, 1);
  const some = Array.from({ length: Math.min(rows.length, LOOKED_AT) }, (_, i) => rows[Math.floor(i * step)].values);
  const found = columns.map((name) => {
    const values = some.map((row) => row[name]).filter((value) => value.trim());
    const sum = values.reduce((all, value) => all + value.length, 0);
    const words = values.filter((value) => !NO_WORDS.test(value)).length / Math.max(values.length, 1);
    return { name, filled: values.length, different: new Set(values).size, length: sum / Math.max(values.length, 1), words };
  });
  const texts = found.filter((one) => one.words > 0.5 && one.different > Math.max(2, 0.3 * one.filled)).sort((a, b) => b.length - a.length);
  const near = texts.filter((one) => one.length >= 0.5 * texts[0].length);
  const called = (name) => (columns.includes(name) ? name : undefined);
  const text = called("text") ?? named(near, TEXT_NAMES) ?? texts[0]?.name ?? null;
  const repeats = (one) => one.different >= 2 && one.different <= MOST_LABELS && (one.filled >= 3 * one.different || rank(one.name, LABEL_NAMES) !== null);
  const labels = found.filter((one) => one.name !== text && repeats(one)).sort((a, b) => a.different - b.different);
  return { text, label: called("label") ?? named(labels, LABEL_NAMES) ?? labels[0]?.name ?? null };
}

function named(columns, names) {
  const ranked = columns.map(({ name }) => [rank(name, names), name]).filter(([place]) => place !== null);
  return ranked.sort(([a], [b]) => a - b)[0]?.[1];
}

/** Return the place of a column's name, or of a word of it, among known names; null: it is not there. */
function rank(name, names) {
  const words = name.replace(/([a-z])(?=[A-Z])/g, "$1_").toLowerCase().match(/[a-z]+/g) ?? [];
  const places = words.map((word) => names.indexOf(word)).filter((place) => place >= 0);
  return places.length ? Math.min(...places) : null;
}

/** Return the list that a cell has, null where it has none. */
function listIn(cell) {
  try {
    const value = cell.startsWith("[") ? JSON.parse(cell) : null;
    return Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}

/** Return the text of a row, which may be a list of words; and its label, of which there is one. */
export function exampleOf({ line, values }, text, label) {
  const words = listIn(values[text]);
  const name = label ? values[label].trim() : "";
  if (listIn(name)) throw new Error(`line ${line}: the label is a list, ${name.slice(0, 40)}. This page labels and trains one label for each text; for several, or for spans: mixling label FILE --task multi_label, or --task tagging, and mixling train.`);
  return { text: words?.every((word) => typeof word === "string") ? words.join(" ") : values[text], label: name, line };
}

/** Return the rows with a text and a label, and the number of the others. */
export function examplesOf({ rows }, text, label) {
  const examples = rows.map((row) => exampleOf(row, text, label)).filter((row) => row.text.trim() && row.label);
  return { examples, left: rows.length - examples.length };
}
