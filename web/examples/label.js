// node label.js MODEL.onnx TEXT...: one line of JSON for each text.

import { Mixling, MixlingError } from "mixling";

const [path, ...texts] = process.argv.slice(2);
try {
  const model = await Mixling.load(path);
  for (const prediction of model.predict(texts)) console.log(JSON.stringify(prediction));
} catch (error) {
  if (!(error instanceof MixlingError)) throw error;
  console.error(error.message);
  process.exitCode = 2;
}
