// The lines in a list of which only those in sight are in the document; the found texts are marked.
import { html, useEffect, useRef, useState } from "../../dom.js";
import { link } from "../../router.js";
import { nameOf } from "./store.js";

const ROW = 20;
const BEYOND = 20;
//: Longer lines are cut on the screen; the saved file has them whole.
const SHOWN = 2000;

function marked(text, pattern) {
  const shown = text.length > SHOWN ? `${text.slice(0, SHOWN)} …` : text;
  if (!pattern) return shown;
  const parts = [];
  let last = 0;
  for (const found of shown.matchAll(pattern)) {
    if (!found[0]) continue;
    parts.push(shown.slice(last, found.index), html`<mark>${found[0]}</mark>`);
    last = found.index + found[0].length;
    if (parts.length > 100) break;
  }
  return parts.length ? [...parts, shown.slice(last)] : shown;
}

// Props: lines, pattern (a RegExp with g, or null), current (the index of the line to show), follow.
export function Lines({ lines, pattern, current, follow, stopFollowing }) {
  const box = useRef(null);
  const [range, setRange] = useState([0, 60]);
  const look = () => {
    const view = box.current;
    if (!view) return;
    const from = Math.max(0, Math.floor(view.scrollTop / ROW) - BEYOND);
    const to = Math.min(lines.length, from + Math.ceil((view.clientHeight || 600) / ROW) + 2 * BEYOND);
    setRange((old) => (old[0] === from && old[1] === to ? old : [from, to]));
  };
  useEffect(look, [lines.length]);
  useEffect(() => {
    // Effects may run after the list has left the page: then there is no box.
    if (follow && box.current) box.current.scrollTop = lines.length * ROW;
    look();
  }, [follow, lines.length]);
  useEffect(() => {
    const view = box.current;
    if (!view || current === null || current === undefined || current < 0) return;
    const top = current * ROW;
    if (top < view.scrollTop || top + ROW > view.scrollTop + view.clientHeight) view.scrollTop = Math.max(0,
      top - view.clientHeight / 2);
    look();
  }, [current]);
  const scrolled = () => {
    look();
    const view = box.current;
    if (follow && view && view.scrollTop + view.clientHeight < lines.length * ROW - 5 * ROW) stopFollowing();
  };
  const [from, to] = [Math.min(range[0], lines.length), Math.min(range[1], lines.length)];
  return html`<div class="scroll lines" ref=${box} onScroll=${scrolled} role="region" aria-label="Lines" tabindex="0">
    <div style=${{ height: `${lines.length * ROW}px` }} class="all">
      <div style=${{ transform: `translateY(${from * ROW}px)` }}>${lines.slice(from, to).map((line, at) => html`
        <div key=${`${line.stream.key} ${line.number}`} class=${`one ${from + at === current ? "current"
          : ""} ${line.stream.suffix}`}>
          <span class="of" title=${nameOf(line.stream)}>${line.stream.suffix === "err" ? "! " : ""}${line.stream.name
            || `pid ${line.stream.pid}`}</span>
          <span class="text">${marked(line.text, pattern)}</span>
          ${line.task && html`<a class="whose" href=${link("work", ["task", line.task.split(":")[0]])}>task</a>`}</div>`)}</div>
    </div></div>`;
}
