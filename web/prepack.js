// Copy the files of the package, which are part of the Python package as well, to dist/; `npm pack` runs this.

import { cpSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";

const at = (name) => fileURLToPath(new URL(name, import.meta.url));

rmSync(at("dist"), { recursive: true, force: true });
cpSync(at("../src/mixling/browser/package"), at("dist"), { recursive: true });
cpSync(at("../LICENSE"), at("LICENSE"));
