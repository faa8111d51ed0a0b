// node damaged.mjs PACKAGE MODEL NUMBER: open changed copies of a model, and predict with those that open.
// Prints how many opened and how many were refused; any error but those of mixling ends it.

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const { Mixling, ModelFileError } = await import(pathToFileURL(process.argv[2]).href);
const content = readFileSync(process.argv[3]);
const SEAL_LENGTH = 84;
let state = 1;
const random = (below) => {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return Math.floor((state / 2 ** 32) * below);
};

function changed() {
  const copy = Buffer.from(content);
  const end = copy.length - SEAL_LENGTH;
  for (let i = 0; i <= random(4); i++) {
    const at = random(end);
    const how = random(4);
    if (how === 0) copy[at] ^= 1 << random(8);
    else if (how === 1) copy[at] = random(256);
    else if (how === 2) copy.copyWithin(at, random(end), at + random(64));
    else copy.write(String(random(1e9)), at, "latin1");
  }
  const digest = createHash("sha256").update(copy.subarray(0, end)).digest("hex");
  copy.write(digest, copy.length - 64, "latin1"); // so that what is behind the checksum is reached
  return copy;
}

const counts = { opened: 0, refused: 0 };
for (let i = 0; i < Number(process.argv[4]); i++) {
  try {
    const model = await Mixling.load(changed());
    model.predict(["play some music", "", "🫨 it isn't"]);
    counts.opened++;
  } catch (error) {
    if (!(error instanceof ModelFileError)) throw error;
    counts.refused++;
  }
}
console.log(JSON.stringify(counts));
