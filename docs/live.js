// The model of live.html: loaded into a worker, asked at each pause in typing. Pages without the form are left alone.
// And, on all pages, names for readers of screens that the theme leaves out.

const changes = { childList: true, subtree: true };
const observer = new MutationObserver(name);
let search; // the element whose shadow has it
observer.observe(document.body, changes);
name();

function name() {
  document.querySelectorAll(".md-code__nav").forEach((nav, number) => (nav.ariaLabel = `Code ${number + 1}`));
  for (const table of document.querySelectorAll(".md-typeset__scrollwrap")) table.tabIndex = 0;
  document.querySelector(".md-overlay")?.removeAttribute("aria-label");
  if (!search && (search = [...document.body.children].find((element) => element.shadowRoot)))
    observer.observe(search.shadowRoot, changes);
  const [input, results, filters] = ["input", "ol", "h3"].map((tag) => search?.shadowRoot.querySelector(tag));
  if (!input || !results || !filters) return;
  Object.assign(search, { role: "search", ariaLabel: "All pages" });
  results.id = "results";
  input.setAttribute("aria-controls", results.id);
  input.ariaExpanded = "true";
  search.shadowRoot.querySelectorAll("button:has(svg)").forEach((button, number) => {
    button.ariaLabel ||= ["Search", "Filters"][number];
  });
  for (const title of search.shadowRoot.querySelectorAll("h3, h4")) title.role = "presentation";
  filters.parentNode.parentNode.tabIndex = 0;
}

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
