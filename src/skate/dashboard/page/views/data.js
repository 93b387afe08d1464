// Data: datasets that run or have run; their operators as a pipeline, and what holds each back.
import { html, useState } from "../dom.js";
import { bytes, clock, number, seconds } from "../format.js";
import { Chart } from "../parts/chart.js";
import { Table } from "../parts/table.js";
import { usePoll } from "../poll.js";
import { link, setQuery } from "../router.js";
import { Back, Figure, Figures, rate, State, Where } from "./library/figures.js";
import { Pipeline } from "./library/pipeline.js";

const DATASETS = [
  { key: "dataset", title: "Dataset", show: (row) => html`<a href=${link("data", [row.key])}>${row.dataset}</a>` },
  { key: "state", title: "State", show: (row) => html`<${State} state=${row.state} />` },
  { key: "rows", title: "Rows", numeric: true, show: (row) => number(row.rows) },
  { key: "rows_per_s", title: "Rows/s", numeric: true, value: (row) => lastOf(row)?.rows_per_s ?? lastOf(row)?.rows_per_s_average,
    show: (row) => rate(lastOf(row)?.rows_per_s ?? lastOf(row)?.rows_per_s_average, "rows").replace(" rows/s", "") },
  { key: "held", title: "Results held", numeric: true, value: held, show: (row) => bytes(held(row)) },
  { key: "why", title: "Held back", value: (row) => reasonsOf(row).join(" ") || row.error, tip: true,
    show: (row) => (row.error ? html`<span class="bad">${row.error}</span>` : reasonsOf(row)[0] || "") },
  { key: "operators", title: "Operators", numeric: true, hidden: true, value: (row) => row.operators.length },
  { key: "seconds", title: "Time", numeric: true, show: (row) => seconds(row.seconds) },
  { key: "began", title: "Began", show: (row) => clock(row.began * 1000) },
];

const lastOf = (row) => row.operators.at(-1);
function held(row) { return row.operators.reduce((sum, each) => sum + (each.held_bytes || 0), 0); }
const reasonsOf = (row) => (row.state === "running"
  ? row.operators.filter((each) => !["", "done", "input"].includes(each.rule)).map((each) => `${each.name}: ${each.why}`) : []);

const OPERATORS = [
  { key: "name", title: "Operator" },
  { key: "state", title: "State", show: (row) => html`<${State} state=${row.state} />` },
  { key: "rows_out", title: "Rows out", numeric: true, show: (row) => number(row.rows_out) },
  { key: "rate", title: "Rows/s", numeric: true, value: (row) => row.rows_per_s ?? row.rows_per_s_average,
    show: (row) => rate(row.rows_per_s ?? row.rows_per_s_average, "").replace(" /s", "") },
  { key: "running", title: "Tasks running", numeric: true },
  { key: "queued", title: "Queued", numeric: true },
  { key: "tasks_done", title: "Done", numeric: true, show: (row) => number(row.tasks_done) },
  { key: "tasks_failed", title: "Failed", numeric: true },
  { key: "held_bytes", title: "Held", numeric: true, show: (row) => bytes(row.held_bytes) },
  { key: "share_bytes", title: "May hold", numeric: true, show: (row) => bytes(row.share_bytes) },
  { key: "block", title: "Rows of a block", value: (row) => row.rows_of_a_block?.join(" to ") },
  { key: "work_s", title: "Time of tasks", numeric: true, show: (row) => seconds(row.work_s) },
  { key: "held_back_s", title: "Held back for", numeric: true, show: (row) => seconds(row.held_back_s) },
  { key: "why", title: "Why it starts no more work", tip: true },
  { key: "bytes_out", title: "Bytes out", numeric: true, hidden: true, show: (row) => bytes(row.bytes_out) },
];

function Charts({ row }) {
  const readings = row.readings || [];
  const x = readings[0]?.at || [];
  if (x.length < 2) return html`<section class="card wide">
    <p class="quiet">Charts begin when somebody looks at a running dataset.</p></section>`;
  const made = (values) => values.map((value, at) => (at && value !== null && values[at - 1] !== null
    ? Math.max(0, value - values[at - 1]) / (x[at] - x[at - 1]) : null));
  const series = (name, change, format) => readings.map((each, at) => ({ label: row.operators[at].name,
    values: change(each[name]), format }));
  const same = (values) => values;
  return [["Rows per second", series("rows", made)], ["Results that wait for their consumer", series("held_bytes", same, bytes)],
    ["Tasks in progress", series("running", same)]]
    .map(([title, lines]) => html`<section class="card" key=${title} aria-label=${title}><${Chart} title=${title} x=${x}
      series=${lines} sync="data" /></section>`);
}

function Dataset({ id }) {
  const [row, setRow] = useState(null);
  const [gone, setGone] = useState(false);
  usePoll("api/skate/data", { key: id, params: () => ({ key: id }),
    take: ({ datasets }) => { setRow(datasets[0] || null); setGone(!datasets.length); } });
  if (!row) return html`<${Back} view="data" title="All datasets" /><h1>Data</h1><p class="quiet">${gone
    ? "This dataset is not known any more." : "Asking the session …"}</p>`;
  const operators = row.operators.map((each, at) => ({ ...each, id: at }));
  return html`<${Back} view="data" title="All datasets" /><h1>${row.dataset} <${State} state=${row.state} /></h1>
    ${row.error && html`<pre class="trace bad">${row.error}</pre>`}
    <${Figures}>
      <${Figure} name="Rows" value=${number(row.rows)} />
      <${Figure} name="Time" value=${seconds(row.seconds)} />
      <${Figure} name="Budget of results" value=${bytes(row.budget_bytes) || "all in this process"} note=${row.slots
        ? `${row.slots} tasks at once` : ""} />
      <${Figure} name="Skipped pieces" value=${number(row.errors)} />
    <//>
    <div class="cards">
      <section class="card wide" aria-labelledby="pipeline"><h2 id="pipeline">Operators, in order</h2>
        <${Pipeline} operators=${operators} running=${row.state === "running"} /></section>
      <${Charts} row=${row} />
      <section class="card wide" aria-labelledby="operators"><h2 id="operators">The same as a table</h2>
        <${Table} simple name="Operators" rows=${operators} columns=${OPERATORS} /></section>
    </div>
    <${Where} row=${row} />`;
}

function Datasets({ query }) {
  const [rows, setRows] = useState(null);
  usePoll("api/skate/data", { take: ({ datasets }) => setRows(datasets.map((each) => ({ ...each, id: each.key }))) });
  const running = rows?.filter((each) => each.state === "running") || [];
  const nothing = "No dataset has run while its program was connected. `ray.data.range(1000).map(...).materialize()` makes one.";
  return html`<h1>Data</h1>
    <p class="sentence">${!rows ? "Asking the session …" : running.length
      ? `${number(running.length)} running, ${number(rows.length - running.length)} ended.`
        : `No dataset runs now; ${number(rows.length)} have ended.`}</p>
    ${running.slice(0, 5).map((row) => html`<section class="card wide spaced" key=${row.key} aria-label=${row.dataset}>
      <h2><a href=${link("data", [row.key])}>${row.dataset}</a></h2><${Pipeline} operators=${row.operators} running=${true} />
        </section>`)}
    ${rows && html`<${Table} name="Datasets" rows=${rows} columns=${DATASETS} filter=${query.filter}
      changed=${(filter) => setQuery({ filter })}
      open=${(row) => link("data", [row.key])} nothing=${nothing} />`}`;
}

export const View = ({ parts, query }) => (parts[0] ? html`<${Dataset} key=${parts[0]} id=${parts[0]} />`
  : html`<${Datasets} query=${query} />`);
