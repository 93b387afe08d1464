// Logs: one search over the output of all workers. "Locate" keeps all lines and jumps between what is found; "only found" hides
// the rest.
import { html, useEffect, useMemo, useRef, useState } from "../dom.js";
import { number } from "../format.js";
import { useAsked } from "../parts/asked.js";
import { Copies } from "../parts/copies.js";
import { save } from "../parts/saving.js";
import { usePoll } from "../poll.js";
import { setQuery } from "../router.js";
import { address, token } from "../session.js";
import { Lines } from "./logs/lines.js";
import { nameOf, store, update } from "./logs/store.js";

const CONTEXTS = [0, 2, 5, 20];
const WAIT_MS = 150;
const COPIES = {
  python: "from skate.util.state import get_log\n\nfor text in get_log(pid=PID, follow=True):\n    print(text, end='')",
  path: "api/v0/logs/file?filename=worker-PID.out",
  cli: "skate logs",
};

// Returns the pattern of a search; a text that is no regular expression is searched as it is.
function patternOf(text, exact) {
  if (!text) return { pattern: null, problem: "" };
  try {
    return { pattern: new RegExp(text, exact ? "g" : "gi"), problem: "" };
  } catch (error) {
    return { pattern: new RegExp(text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), exact ? "g" : "gi"),
      problem: `taken as plain text: ${error.message}` };
  }
}

function found(lines, pattern) {
  if (!pattern) return [];
  const hits = [];
  for (let at = 0; at < lines.length; at += 1) {
    pattern.lastIndex = 0;
    if (pattern.test(lines[at].text)) hits.push(at);
  }
  return hits;
}

function around(lines, hits, context) {
  const keep = new Set();
  for (const at of hits) for (let near = Math.max(0, at - context); near <= Math.min(lines.length - 1,
    at + context); near += 1) keep.add(near);
  return [...keep].sort((a, b) => a - b).map((at) => lines[at]);
}

function useLater(value) {
  const [later, setLater] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setLater(value), WAIT_MS);
    return () => clearTimeout(timer);
  }, [value]);
  return later;
}

function Files() {
  const [answer] = useAsked("api/skate/logs/files");
  const names = Object.entries(answer?.files || {}).filter(([group]) => group !== "worker_out"
    && group !== "worker_err").flatMap(([, each]) => each);
  const take = async (name) => {
    const got = await fetch(address("api/v0/logs/file", { filename: name, lines: -1 }),
      { headers: { Authorization: `Bearer ${token()}` } });
    save(name, await got.text(), "text/plain");
  };
  if (!names.length) return "";
  return html`<details><summary>Files (${names.length})</summary>
    <div class="menu">${names.map((name) => html`<button key=${name} onClick=${() => take(name)}>${name}</button>`)}</div>
      </details>`;
}

function useFound(query) {
  const [exact, setExact] = useState(false);
  const text = useLater(query.search || "");
  const turn = store.turn.value;
  const lines = useMemo(() => {
    const [pid, suffix] = (query.stream || "").split(".");
    return query.stream ? store.lines.filter((line) => String(line.stream.pid) === pid && line.stream.suffix === suffix)
      : store.lines;
  }, [turn, query.stream]);
  const { pattern, problem } = useMemo(() => patternOf(text, exact), [text, exact]);
  const hits = useMemo(() => found(lines, pattern), [lines, pattern]);
  return { lines, pattern, problem, hits, exact, setExact, text };
}

function useUpdates() {
  const stop = useRef(new AbortController());
  useEffect(() => () => stop.current.abort(), []);
  const busy = useRef(false);
  usePoll("api/skate/logs/streams", {
    take: async (answer) => {
      if (busy.current) return;
      busy.current = true;
      try {
        await update(answer, stop.current.signal);
      } catch {
        // the next question says what is wrong
      } finally {
        busy.current = false;
      }
    },
  });
}

function Search({ query, state, position, step, hits }) {
  const press = (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    step(event.shiftKey ? -1 : 1);
  };
  return html`<input type="search" data-search aria-label="Search all lines, by a regular expression"
    placeholder="Search: a regular expression" value=${query.search || ""}
      onInput=${(event) => setQuery({ search: event.target.value })} onKeyDown=${press} />
    <span class="count" data-found>${state.pattern ? `${hits.length ? number(position + 1) : 0} of ${number(hits.length)}`
      : ""}</span>
    <button onClick=${() => step(-1)} disabled=${!hits.length} aria-label="Previous (Shift+Enter)">↑</button>
    <button onClick=${() => step(1)} disabled=${!hits.length} aria-label="Next (Enter)">↓</button>
    <label><input type="checkbox" checked=${state.exact} onChange=${(event) => state.setExact(event.target.checked)}
      /> upper and lower case differ</label>`;
}

function Choice({ query }) {
  const streams = [...store.streams.values()].sort((a, b) => nameOf(a).localeCompare(nameOf(b)));
  const chosen = query.stream || "";
  const known = streams.some((stream) => `${stream.pid}.${stream.suffix}` === chosen);
  return html`<label>Stream <select value=${chosen} onChange=${(event) => setQuery({ stream: event.target.value })}>
    <option value="">all ${streams.length} streams</option>${chosen && !known
      && html`<option value=${chosen}>pid ${chosen}</option>`}
    ${streams.map((stream) => html`<option key=${stream.key} value=${`${stream.pid}.${stream.suffix}`}
      selected=${`${stream.pid}.${stream.suffix}` === chosen}>${nameOf(stream)}${stream.open ? "" : " (ended)"}</option>`)}
  </select></label>`;
}

export function View({ query }) {
  useUpdates();
  const state = useFound(query);
  const { lines, hits, pattern, text } = state;
  const [position, setPosition] = useState(0);
  const [follow, setFollow] = useState(true);
  const [context, setContext] = useState(2);
  const only = query.only === "1";
  useEffect(() => { setPosition(0); if (pattern) setFollow(false); }, [text]);
  const step = (by) => { if (hits.length) setPosition((old) => (old + by + hits.length) % hits.length); };
  const shown = useMemo(() => (only && pattern ? around(lines, hits, context) : lines), [lines, hits, only, context, pattern]);
  const current = pattern && hits.length ? shown.indexOf(lines[hits[Math.min(position, hits.length - 1)]]) : -1;
  const lost = [...store.streams.values()].reduce((sum, stream) => sum + stream.lost, 0);
  const saving = () => save("lines.txt", shown.map((line) => `${nameOf(line.stream)}: ${line.text}\n`).join(""), "text/plain");
  return html`<h1>Logs</h1>
    <div class="tools"><${Search} query=${query} state=${state} position=${position} step=${step} hits=${hits} /></div>
    <div class="tools"><${Choice} query=${query} />
      <span role="group" aria-label="Lines"><button aria-pressed=${!only}
        onClick=${() => setQuery({ only: "" })}>Locate</button> <button aria-pressed=${only}
          onClick=${() => setQuery({ only: "1" })}>Only found</button></span>
      ${only && html`<label>with <select value=${context}
        onChange=${(event) => setContext(Number(event.target.value))}>${CONTEXTS.map((each) => html`<option key=${each}
          value=${each} selected=${each === context}>${each}</option>`)}</select> lines around</label>`}
      <button aria-pressed=${follow} onClick=${() => setFollow(!follow)}>Follow</button>
      <button onClick=${saving}>Save</button><${Files} />
      <${Copies} ...${COPIES} />
      <span class="count">${number(shown.length)} lines</span></div>
    ${state.problem && html`<p class="warn">${state.problem}</p>`}
    ${lost > 0 && html`<p
      class="warn">${number(lost)} lines came faster than the page has read them, and are no longer kept.</p>`}
    <${Lines} lines=${shown} pattern=${pattern} current=${current} follow=${follow && !pattern}
      stopFollowing=${() => setFollow(false)} />
    <p class="quiet small">Nodes keep the last 64 KiB of each stream. Lines stand by stream, and those that come later in
      the order in which they come.</p>`;
}
