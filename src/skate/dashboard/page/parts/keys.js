// The list of keys, which `?` opens.
import { html } from "../dom.js";
import { VIEWS } from "../views.js";

const KEYS = [
  ["/", "go to the search field"],
  ["Esc", "leave it"],
  ["↑ ↓ Home End", "move in a table"],
  ["Enter", "open the row"],
  ["?", "these keys"],
];

export function Keys({ dialog }) {
  const views = VIEWS.map((view, at) => [`g ${(at + 1) % 10}`, view.title]);
  return html`<dialog ref=${dialog} aria-labelledby="keys">
    <h2 id="keys">Keys</h2>
    <dl class="keys">${[...KEYS, ...views].map(([key, text]) => html`<div key=${key}><dt><kbd>${key}</kbd></dt><dd>${text}</dd>
      </div>`)}</dl>
    <p>Programs ask the same server: <code>skate list tasks --address ${location.origin}</code></p>
    <form method="dialog"><button>Close</button></form>
  </dialog>`;
}
