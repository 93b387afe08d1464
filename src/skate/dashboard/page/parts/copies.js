// "Copy as": how a program, curl or a shell asks for what is shown.
import { html, useState } from "../dom.js";

export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false; // no permission, or plain HTTP from another machine
  }
}

const curl = (path) => `curl -H "Authorization: Bearer $RAY_AUTH_TOKEN" '${new URL(path, location.href).href.split("#")[0]}'`;

// Props: python, cli (texts), path (relative, of a GET). Those that are missing are left out.
export function Copies({ python, path, cli }) {
  const [said, setSaid] = useState("");
  const ways = [["Python", python], ["curl", path && curl(path)], ["CLI", cli]].filter(([, text]) => text);
  const take = async (name, text) => setSaid((await copy(text)) ? `${name} copied` : text);
  return html`<details><summary>Copy as</summary><div class="menu">
    ${ways.map(([name, text]) => html`<button key=${name} onClick=${() => take(name, text)}>${name}</button>`)}
    ${said && html`<code>${said}</code>`}
  </div></details>`;
}
