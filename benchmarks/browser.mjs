// node browser.mjs PACKAGE MODEL TEXTS.json ROUNDS: logits and microseconds a text, as JSON; see browser.py.

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const { Mixling } = await import(pathToFileURL(process.argv[2]).href);
const [path, texts, rounds] = [process.argv[3], JSON.parse(readFileSync(process.argv[4], "utf8")), Number(process.argv[5])];
const begin = performance.now();
const model = await Mixling.load(path);
model.predict(texts[0]);
const first = performance.now() - begin;

/** Microseconds a text of the processor, and of the clock. */
function timed(call) {
  const [before, clock] = [process.cpuUsage(), performance.now()];
  call();
  const { user, system } = process.cpuUsage(before);
  return { processor: (user + system) / texts.length, clock: (1000 * (performance.now() - clock)) / texts.length };
}

const [warm, cold] = [[], []];
for (let round = -2; round < rounds; round++) {
  const fresh = await Mixling.load(path);
  const times = [timed(() => fresh.predict(texts)), timed(() => model.predict(texts))];
  if (round >= 0) [cold, warm].forEach((list, i) => list.push(times[i]));
}
const single = texts.map((text) => {
  const before = performance.now();
  model.predict(text);
  return 1000 * (performance.now() - before);
});
const logits = texts.map((text) => model.logits(text));
console.log(JSON.stringify({ node: process.version, load_and_first_ms: first, warm, cold, single, logits }));
