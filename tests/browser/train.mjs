// Trains as the page does: node train.mjs FOLDER TABLE TEXT LABEL TEMPLATE PLAN OUT prints the report as JSON.
import { readFile, writeFile } from "node:fs/promises";

const [folder, path, text, label, template, plan, out] = process.argv.slice(2);
const { decode, examplesOf, guessColumns, readTable } = await import(`${folder}/../../serving/playground/rows.js`);
const { train } = await import(`${folder}/train.js`);

const table = readTable(decode(await readFile(path)).text, path);
const wasm = await WebAssembly.compile(await readFile(`${folder}/trainer.wasm`));
const began = performance.now();
const phases = [];
const found = await train(examplesOf(table, text, label).examples, { wasm, template: await readFile(template), plan: JSON.parse(plan) }, (told) => phases.push(told));
await writeFile(out, found.content);
const memory = process.memoryUsage().rss;
console.log(JSON.stringify({ guess: guessColumns(table), labels: found.labels, seconds: (performance.now() - began) / 1000, memory, phases, report: found.report }));
