// The texts of a file that is dropped on the page.

const MAX_BYTES = 5_000_000;
const NAMES = ["text", "message", "review", "sentence", "content"]; // columns, the first that a file has

/** Return up to `most` texts of a file: lines of a .txt, a column of a .csv, .tsv or .jsonl, and which column it is. */
export async function textsOf(file, most) {
  const content = (await file.slice(0, MAX_BYTES).text()).replace(/^\uFEFF/, "");
  const suffix = file.name.toLowerCase().split(".").pop();
  if (suffix === "txt") return { texts: content.split(/\r?\n/).filter((line) => line.trim()).slice(0, most) };
  let rows;
  if (suffix === "jsonl") {
    const lines = content.split(/\r?\n/).filter((line) => line.trim()).slice(0, most);
    rows = lines.map((line, number) => object(line, `${file.name}, line ${number + 1}: is no JSON object.`));
  } else if (suffix === "csv" || suffix === "tsv") {
    const [names, ...cells] = split(content, suffix === "csv" ? separator(content) : "\t", most + 1);
    rows = cells.map((row) => Object.fromEntries((names ?? []).map((name, place) => [name, row[place]])));
  } else {
    throw new Error(`${file.name}: ends in none of .txt, .csv, .tsv, .jsonl.`);
  }
  if (!rows.length) throw new Error(`${file.name}: has no rows.`);
  const strings = Object.keys(rows[0]).filter((name) => typeof rows[0][name] === "string");
  const column = NAMES.find((name) => strings.includes(name)) ?? longest(rows, strings);
  if (column === undefined) throw new Error(`${file.name}: has no column of texts.`);
  return { texts: rows.map((row) => String(row[column] ?? "")), column };
}

function object(line, problem) {
  try {
    const found = JSON.parse(line);
    if (found && typeof found === "object") return found;
  } catch {
    // told below
  }
  throw new Error(problem);
}

/** Return the column whose texts are the longest. */
function longest(rows, names) {
  const length = (name) => rows.reduce((sum, row) => sum + String(row[name] ?? "").length, 0);
  return names.toSorted((one, two) => length(two) - length(one))[0];
}

function separator(content) {
  const header = content.split("\n", 1)[0];
  return header.split(";").length > header.split(",").length ? ";" : ",";
}

/** Return rows of cells; cells in double quotes may have separators, line breaks and doubled quotes. */
function split(content, by, most) {
  const rows = [];
  let row = [];
  let cell = "";
  let quoted = false;
  for (let at = 0; at < content.length && rows.length < most; at += 1) {
    const character = content[at];
    if (quoted) {
      if (character !== '"') cell += character;
      else if (content[at + 1] === '"') cell += content[(at += 1)];
      else quoted = false;
    } else if (character === '"' && !cell) quoted = true;
    else if (character === by) row.push(cell), (cell = "");
    else if (character === "\n") row.push(cell.replace(/\r$/, "")), rows.push(row), (row = []), (cell = "");
    else cell += character;
  }
  if (rows.length < most && (cell || row.length)) rows.push([...row, cell]);
  return rows.filter((cells) => cells.some((item) => item.trim()));
}
