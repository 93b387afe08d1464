// Sends one request to an application from the page: the server of the page passes it on to Serve, and nowhere else.
import { html, useState } from "../../dom.js";
import { seconds } from "../../format.js";
import { post, scope } from "../../session.js";

const METHODS = ["GET", "POST", "PUT", "DELETE", "HEAD"];

export function TryIt({ app, route }) {
  const [method, setMethod] = useState("GET");
  const [busy, setBusy] = useState(false);
  const [answer, setAnswer] = useState(null);
  const send = async (event) => {
    event.preventDefault();
    const given = new FormData(event.target);
    setBusy(true);
    try {
      setAnswer(await post("api/skate/serve/try", { application: app, method, path: given.get("path"), body: given.get("body")
        || "", content_type: given.get("type") || "" }));
    } catch (error) {
      setAnswer({ status: 0, reason: error.message, answer: "" });
    }
    setBusy(false);
  };
  const hasBody = method === "POST" || method === "PUT";
  const id = `try-${app}`;
  if (scope.value === "read") return html`<p class="quiet">Requests need the token for control; this one only reads.</p>`;
  return html`<form class="try" onSubmit=${send} aria-label=${`Try ${app}`}>
    <div class="tools"><label>Method <select value=${method}
      onChange=${(event) => setMethod(event.target.value)}>${METHODS.map((each) => html`<option key=${each}
        selected=${each === method}>${each}</option>`)}</select></label>
      <label for=${`${id}-path`}>Path</label><span class="quiet">${route === "/" ? "" : route}</span><input id=${`${id}-path`}
        name="path" type="text" value="/" required pattern="/[!-~]*" title="It begins with /, without spaces" />
      <button disabled=${busy}>${busy ? "Waiting …" : "Send"}</button></div>
    ${hasBody && html`<div class="body"><label>Type <input name="type" type="text" value="application/json" /></label>
      <label class="tall">Body <textarea name="body" rows="4" spellcheck="false"></textarea></label></div>`}
    <div role="status">${answer && html`<p><strong class=${answer.status >= 200 && answer.status < 400 ? "good"
      : "bad"}>${answer.status || "No answer"}</strong> ${answer.reason}
      ${answer.seconds !== undefined ? html` <span class="quiet">in ${seconds(answer.seconds)}, ${answer.content_type
        || "no type"}${answer.is_cut ? ", cut off" : ""}</span>` : ""}</p>`}</div>
    ${answer?.answer && html`<pre class="trace" tabindex="0" aria-label="Answer">${answer.answer}</pre>`}
  </form>`;
}
