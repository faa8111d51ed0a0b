// Projects that the browser keeps for a page of a server; pages that are opened as files share one place, and keep none.

import { element } from "../playground/render.js";

const STORE = "projects";
const canKeep = location.protocol.startsWith("http") && "indexedDB" in globalThis;

const answered = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

async function inStore(mode, use) {
  const opening = indexedDB.open("mixling-trainer", 1);
  opening.onupgradeneeded = () => opening.result.createObjectStore(STORE);
  const database = await answered(opening);
  try {
    return await answered(use(database.transaction(STORE, mode).objectStore(STORE)));
  } finally {
    database.close();
  }
}

const nameOf = ({ file, byKey }) => `${file}, ${byKey.size.toLocaleString("en")} texts`;

/** Keep the file of a session's project; return whether the browser does. */
export async function keep(session, content) {
  if (!canKeep) return false;
  await inStore("readwrite", (store) => store.put(content, nameOf(session)));
  return true;
}

/** Show the projects that are kept, each with a button to go on with it, which calls `open` with its file, and one to forget it. */
export async function offerKept(home, open) {
  const names = canKeep ? await inStore("readonly", (store) => store.getAllKeys()).catch(() => []) : [];
  const button = (text, action) => {
    const made = element("button", { type: "button" }, text);
    made.addEventListener("click", action);
    return made;
  };
  home.replaceChildren(
    ...names.map((name) => {
      const goOn = async () => open(new File([await inStore("readonly", (store) => store.get(name))], name));
      const forget = async () => {
        if (!confirm(`Forget the answers in ${name}?`)) return;
        await inStore("readwrite", (store) => store.delete(name));
        offerKept(home, open);
      };
      return element("p", { className: "row" }, button(`Go on with ${name}`, goOn), button("Forget", forget));
    }),
  );
}
