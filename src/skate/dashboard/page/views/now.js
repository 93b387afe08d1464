// Now: the state in a sentence, what waits and why, who holds resources, the live stream, rates, failures.
import { html, useEffect, useMemo, useState } from "../dom.js";
import { amount, bytes, clock, number, resource, seconds } from "../format.js";
import { Chart } from "../parts/chart.js";
import { Stream } from "../parts/stream.js";
import { Table } from "../parts/table.js";
import { usePoll } from "../poll.js";
import { link } from "../router.js";
import { kept, scope } from "../session.js";
import { answerAt, failureGroups, model, moment, running, series, take } from "./now/model.js";
import { Moment } from "./now/moment.js";
import { causeOf, sentence } from "./now/sentence.js";

//: The seconds that the charts show.
const SHOWN = 180;
const WINDOWS = [10, 30, 120];
//: How often screen readers hear the sentence, in milliseconds.
const SPOKEN_MS = 15_000;

function Sentence({ last }) {
  const text = last ? sentence(last) : "Asking the session …";
  const [spoken, setSpoken] = useState({ text: "", at: 0 });
  useEffect(() => {
    if (last && Date.now() - spoken.at > SPOKEN_MS) setSpoken({ text, at: Date.now() });
  }, [text]);
  return html`<p class="sentence" data-sentence>${text}</p><p class="unseen" aria-live="polite">${spoken.text}</p>`;
}

function Resource({ name, total, free, holders }) {
  const used = total - free;
  const share = total ? Math.round((100 * used) / total) : 0;
  const text = `${resource(name, used)} of ${resource(name, total)}`;
  return html`<li>
    <div class="line"><span>${name.replaceAll("_", " ")}</span><span class="quiet">${text} in use</span></div>
    <span class="bar" role="img" aria-label=${`${name}: ${text} in use`}><span style=${{ width: `${share}%` }}></span></span>
    ${holders.length > 0 && html`<p class="small quiet">held by ${holders.map((each, at) => html`${at ? ", " : ""}<span
      key=${each.who}>${each.who}${
      each.number > 1 ? ` ×${each.number}` : ""} (${resource(name, each.amount)})</span>`)}</p>`}
  </li>`;
}

function Resources({ last }) {
  return html`<section class="card" aria-labelledby="resources"><h2 id="resources">Resources, and who holds them</h2>
    ${last.nodes.map((node) => html`<div key=${node.id}>
      ${last.nodes.length > 1 && html`<h3><a href=${link("work", ["node", node.id])}>${node.ip}</a> ${node.head ? "head"
        : ""}</h3>`}
      <ul class="plain resources">${resourcesOf(node).map((each) => html`<${Resource} key=${each.name} ...${each} />`)}</ul>
        </div>`)}
  </section>`;
}

function resourcesOf(node) {
  return node.resources.map((each) => ({
    ...each,
    free: each.name === "object_store_memory" ? each.total - node.arena_used : each.free,
    holders: node.holders.filter((holder) => holder.resource === each.name),
  }));
}

const WAITS = [
  { key: "number", title: "Tasks", numeric: true, show: (row) => number(row.number) },
  { key: "name", title: "Function",
    show: (row) => html`<a href=${link("work", ["tasks"], { filter: `name:${row.name}` })}>${row.name}</a>` },
  { key: "cause", title: "Waits", value: causeOf },
  { key: "why", title: "Why, as far as it can be followed" },
];

function Waits({ waits }) {
  return html`<section class="card wide" aria-labelledby="waits"><h2 id="waits">What waits, and why</h2>
    ${waits.length === 0 ? html`<p class="quiet">Nothing waits.</p>` : html`<div class="scroll wrap" role="region"
      aria-label="What waits" tabindex="0"><table>
      <thead><tr>${WAITS.map((each) => html`<th key=${each.key} scope="col" class=${each.numeric ? "n"
        : ""}>${each.title}</th>`)}</tr></thead>
      <tbody>${waits.slice(0,
        20).map((row, at) => html`<tr key=${at}>${WAITS.map((each) => html`<td key=${each.key} class=${each.numeric ? "n" : ""}>
        ${each.show ? each.show(row) : each.value ? each.value(row) : row[each.key]}</td>`)}</tr>`)}</tbody></table></div>`}
  </section>`;
}

const placeOf = (row) => (row.file ? `${row.file.split("/").pop()}:${row.line}` : "");
const FAILURES = [
  { key: "number", title: "Times", numeric: true },
  { key: "kind", title: "Error", show: (row) => html`<span class="bad">${row.kind}</span>` },
  { key: "place", title: "Line", value: placeOf, show: (row) => html`<code title=${row.file}>${placeOf(row)}</code>` },
  { key: "name", title: "Function" },
  { key: "text", title: "Last message", tip: true, show: (row) => html`<a href=${link("work", ["task", row.task_id])}>${row.text
    || row.kind}</a>` },
  { key: "at", title: "Last", show: (row) => clock(row.at * 1000) },
];

function Failures({ groups }) {
  return html`<section class="card wide" aria-labelledby="failures"><h2 id="failures">Last failures, by error and line</h2>
    ${groups.length === 0 ? html`<p class="quiet">No task has failed.</p>`
      : html`<${Table} simple name="Failures" rows=${groups} columns=${FAILURES} open=${(row) => link("work",
        ["task", row.task_id])} />`}
  </section>`;
}

const STREAM = [
  { key: "name", title: "Function" },
  { key: "worker", title: "Worker", show: (row) => `pid ${row.worker}` },
  { key: "status", title: "State" },
  { key: "run", title: "Run time", numeric: true, show: (row) => seconds(row.run) },
  { key: "waited", title: "Queue time", numeric: true, show: (row) => seconds(row.waited) },
];

function StreamTable() {
  const rows = (model.last?.ended || []).map(([name, id, worker, begin, end, status, , waited]) => ({ id, name, worker, status,
    run: end - begin, waited }));
  return html`<p class="quiet">The tasks that ended in the last second.</p>
    <${Table} simple name="Ended tasks" rows=${rows.reverse()} columns=${STREAM} open=${(row) => link("work", ["task", row.id])}
      />`;
}

function Live({ at, last }) {
  const [length, setLength] = useState(30);
  const [asTable, setAsTable] = useState(false);
  const live = () => (at === null ? { running: running(), now: Date.now() / 1000 + model.offset - 0.2 }
    : { running: running(last), now: at });
  return html`<section class="card wide" aria-labelledby="stream">
    <header><h2 id="stream">Tasks by worker</h2><span class="tools">
      ${WINDOWS.map((each) => html`<button key=${each} aria-pressed=${length === each}
        onClick=${() => setLength(each)}>${each} s</button>`)}
      <button aria-pressed=${asTable} onClick=${() => setAsTable(!asTable)}>Table<span class="unseen"> of ended tasks</span>
        </button></span></header>
    ${asTable ? html`<${StreamTable} />` : html`<${Stream} spans=${model.spans} live=${live} window=${length}
      describe=${(fact) => fact.name} />`}
  </section>`;
}

function Charts({ turn, at }) {
  const found = useMemo(() => series(SHOWN, at), [at === null ? turn : at]);
  const charts = [
    ["Tasks per second", [{ label: "ended", values: found.ended }, { label: "failed", values: found.failed }]],
    ["Queue time", [{ label: "half within", values: found.half, format: seconds }, { label: "95 % within", values: found.most,
      format: seconds }]],
    ["Memory of values", [{ label: "in memory", values: found.arena, format: bytes },
      { label: "spilled to disk", values: found.spilled, format: bytes }]],
  ];
  return charts.map(([title, lines]) => html`<section class="card" key=${title} aria-label=${title}>
    <${Chart} title=${title} x=${found.x} series=${lines} sync="now" /></section>`);
}

export function View() {
  const turn = model.turn.value;
  // A live session is looked back at in what the page has seen; of a kept one the server knows every moment.
  const asked = kept.value ? moment.value : null;
  const at = kept.value ? null : moment.value;
  usePoll("api/skate/now", {
    key: `now ${asked}`,
    params: () => ({ cursor: model.cursor, at: asked }),
    take: (answer) => { scope.value = answer.scope; take(answer); },
    problem: () => { model.cursor = ""; },
  });
  const last = answerAt(at);
  return html`<h1>${moment.value === null ? "Now" : `Now, at ${clock(moment.value * 1000)}`}</h1>
    <${Moment} turn=${turn} />
    <${Sentence} last=${last} />
    ${last && html`<div class="cards">
      <${Waits} waits=${last.waits} />
      <${Live} at=${at} last=${last} />
      <${Resources} last=${last} />
      <${Charts} turn=${turn} at=${at} />
      <${Failures} groups=${failureGroups(at)} />
    </div>
    <p class="quiet small">${amount(last.nodes.reduce((sum, node) => sum + node.objects, 0))} objects known to the nodes,
      ${" "}${number(last.counts.finished)} tasks finished and ${number(last.counts.failed)} failed since the start.</p>`}`;
}
