// Labeling in the page: the page of `mixling label` in a frame, whose answers this page keeps, and projects as files.

import { element } from "../playground/render.js";
import { exampleOf } from "../playground/rows.js";
import { Remote } from "../trainer/remote.js";
import { Session } from "./session.js";

const BEGIN = '{"mixling_project":1,';

/** Return the texts of a table, equal ones once, with their labels where there is a column of them. */
export function textsOf(table, textColumn, labelColumn) {
  const found = new Map();
  for (const row of table.rows) {
    const { text: whole, label, line } = exampleOf(row, textColumn, labelColumn);
    const text = whole.trim();
    const given = label || null;
    if (!/[\p{L}\p{N}]/u.test(text)) continue;
    if (!found.has(text)) found.set(text, { text, row: line, given });
    else found.get(text).given ??= given;
  }
  return [...found.values()];
}

/** Return the project that a file has, null if it is another file. */
export function projectOf(content, name) {
  if (!content.startsWith(BEGIN)) return null;
  try {
    const { file, texts, lines } = JSON.parse(content);
    if (texts.every(({ text, row }) => typeof text === "string" && Number.isInteger(row)) && lines.every(({ what }) => typeof what === "string")) return { file, texts, lines };
  } catch {
    /* said below */
  }
  throw new Error(`${name}: is a damaged project; save it again from the page`);
}

/** Return the file of a project: all texts and the lines of the record. */
export function fileOf({ file, byKey, lines }) {
  const texts = [...byKey.values()].map(({ text, row, given }) => ({ text, row, given }));
  return `${BEGIN}${JSON.stringify({ file, texts, lines }).slice(1)}\n`;
}

/** Return a session of a project; `given` is what models are trained with. */
export async function begin({ file, texts, lines }, given, changed) {
  const remote = new Remote();
  const keys = await remote.call("keys", { texts: texts.map(({ text }) => text), ...given });
  const known = texts.map((text, i) => ({ ...text, ...keys[i] }));
  return new Session(file, known, lines, (lesson) => remote.call("learn", { lesson, ...given }), changed);
}

/** Show the page of labeling, until the people who label want a model. */
export function showLabeling(session, { save, train }) {
  const page = document.getElementById("labeling").textContent.replaceAll("<\\/script", "</script");
  const frame = element("iframe", { className: "labeling", title: "Labeling", srcdoc: page });
  const others = [...document.body.children].filter((child) => child.localName !== "script");
  const leave = () => {
    frame.remove();
    for (const other of others) other.inert = false;
    train();
  };
  globalThis.mixling = { session, save, train: leave };
  for (const other of others) other.inert = true;
  document.body.append(frame);
  frame.addEventListener("load", () => frame.focus());
}
