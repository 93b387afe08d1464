// Chooses the moment that the view Now shows: of a kept session any, of a live one as far back as this page has looked.
import { html, useEffect, useState } from "../../dom.js";
import { clock } from "../../format.js";
import { kept } from "../../session.js";
import { forget, model, moment } from "./model.js";

// Returns the first and the last moment, in whole seconds since 1970; null before there is one.
function bounds() {
  if (kept.value) return [Math.floor(kept.value.began), Math.ceil(kept.value.ended)];
  const first = model.past[0];
  return first && model.last ? [Math.floor(first.now), Math.floor(model.last.now)] : null;
}

export function choose(at) {
  const ends = bounds();
  const next = !ends || at === null || at >= ends[1] ? null : Math.max(ends[0], at);
  if (next === moment.value) return;
  if (kept.value) forget();
  moment.value = next;
}

export function Moment() {
  const ends = bounds();
  const [held, setHeld] = useState(null);
  useEffect(() => () => { if (!kept.value) moment.value = null; }, []);
  if (!ends || ends[1] - ends[0] < 4) return "";
  const last = kept.value ? "the end" : "now";
  const at = held ?? moment.value ?? ends[1];
  const text = at >= ends[1] ? last : clock(at * 1000);
  // While the knob of a kept session is moved, only the text follows; the server is asked for where it is left.
  const move = (event) => (kept.value ? setHeld(Number(event.target.value)) : choose(Number(event.target.value)));
  const leave = (event) => { setHeld(null); choose(Number(event.target.value)); };
  return html`<div class="moment"><label>Moment <input type="range" min=${ends[0]} max=${ends[1]} step="1" value=${at}
      aria-valuetext=${text} onInput=${move} onChange=${leave} /></label>
    <output>${text}</output>
    ${moment.value !== null && html`<button onClick=${() => choose(null)}>Back to ${last}</button>`}</div>`;
}
