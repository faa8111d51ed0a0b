// The model of live.html: loaded into a worker, asked at each pause in typing. Pages without the form are left alone.

const form = document.querySelector("#live");
if (form) start(form);

async function start(form) {
  const { Mixling } = await import("./live/mixling/index.js");
  const { answerOf } = await import("./live/playground/render.js");
  const [input, output] = [form.querySelector("textarea"), form.querySelector("output")];
  let model;
  try {
    model = await Mixling.loadInWorker(new URL("./live/models/messages.onnx", import.meta.url).href);
  } catch (error) {
    output.textContent = `The model cannot be loaded: ${error.message}`;
    return;
  }

  let asked = 0;
  async function answer() {
    const number = ++asked;
    const text = input.value;
    const parts = text.trim() ? answerOf(await model.predict(text), { text }) : [];
    if (number === asked) output.replaceChildren(...parts); // nothing else was typed meanwhile
  }
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("click", ({ target }) => {
    if (target.type !== "button") return;
    input.value = target.textContent;
    answer();
  });
  input.addEventListener("input", answer);
  await answer();
}
