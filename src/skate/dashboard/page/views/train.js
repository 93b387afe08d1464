// Train: runs with their state, curves, ranks and the late ones, checkpoints, attempts and failures.
import { html, useMemo, useState } from "../dom.js";
import { bytes, clock, number, seconds } from "../format.js";
import { Chart } from "../parts/chart.js";
import { Table } from "../parts/table.js";
import { usePoll } from "../poll.js";
import { link, setQuery } from "../router.js";
import { Back, Figure, Figures, shown, State, Where } from "./library/figures.js";
import { smoothed } from "./library/smoothing.js";

const metricsOf = (last) => Object.entries(last || {}).map(([name, value]) => `${name} ${shown(value)}`).join("  ");
const RUNS = [
  { key: "name", title: "Run", show: (row) => html`<a href=${link("train", [row.key])}>${row.name}</a>` },
  { key: "state", title: "State", show: (row) => html`<${State} state=${row.state} />` },
  { key: "workers", title: "Workers", numeric: true, value: (row) => shown(row.workers) },
  { key: "reports", title: "Reports", numeric: true },
  { key: "last", title: "Last metrics", value: (row) => metricsOf(row.last), tip: true },
  { key: "late", title: "Late ranks", value: (row) => row.late.join(", "),
    show: (row) => (row.late.length ? html`<span class="warn">rank ${row.late.join(", ")}</span>` : "") },
  { key: "attempt", title: "Attempt", numeric: true },
  { key: "failures_count", title: "Failures", numeric: true },
  { key: "checkpoints_count", title: "Checkpoints", numeric: true },
  { key: "began", title: "Began", show: (row) => clock(row.began * 1000) },
];

function Runs({ query }) {
  const [rows, setRows] = useState(null);
  usePoll("api/skate/train", { take: ({ runs }) => setRows(runs.map((each) => ({ ...each, id: each.key }))) });
  const running = rows?.filter((each) => ["RUNNING", "SCHEDULING", "RESTARTING", "RESIZING"].includes(each.state)).length;
  return html`<h1>Train</h1>
    <p class="sentence">${!rows ? "Asking the session …" : running
      ? `${number(running)} of ${number(rows.length)} runs in progress.` : rows.length ? "No run is in progress."
        : "No run has begun."}</p>
    ${rows && html`<${Table} name="Training runs" rows=${rows} columns=${RUNS} filter=${query.filter}
      changed=${(filter) => setQuery({ filter })}
      open=${(row) => link("train", [row.key])} nothing="A run appears here when a trainer's fit() begins." />`}`;
}

function Curves({ curves, query }) {
  const weight = Number(query.smoothing || 0);
  const byTime = query.x === "time";
  const plotted = useMemo(() => Object.entries(curves.metrics).map(([name, values]) => [name, smoothed(values, weight)]),
    [curves, weight]);
  const x = byTime ? curves.at : curves.x;
  return html`<section class="card wide" aria-labelledby="curves"><header><h2 id="curves">Reported metrics</h2>
    <span class="tools">
      <label>Smoothing <input type="range" min="0" max="0.95" step="0.05" value=${weight}
        onInput=${(event) => setQuery({ smoothing: event.target.value === "0" ? "" : event.target.value })} /></label>
      <button aria-pressed=${byTime} onClick=${() => setQuery({ x: byTime ? "" : "time" })}>By time</button></span></header>
    <div class="charts">${plotted.map(([name, values]) => html`<${Chart} key=${`${name}${byTime}`} title=${name} x=${x}
      plain=${!byTime} xTitle=${byTime ? "time" : "report"}
      series=${[{ label: name, values, format: shown }]} sync="train" height=${180} />`)}</div>
    ${plotted.length === 0 && html`<p class="quiet">No number has been reported yet.</p>`}</section>`;
}

const RANKS = [
  { key: "rank", title: "Rank", numeric: true },
  { key: "state", title: "Now", value: (row) => (row.late ? "late" : row.waits_for_others ? "waits for others" : row.last_at
    ? "works" : "no report yet"),
    show: (row) => (row.late ? html`<span class="warn">▲ others wait for it</span>` : row.waits_for_others ? "waits for others"
      : row.last_at ? "works" : "no report yet") },
  { key: "lag_s", title: "Since its last report", numeric: true, show: (row) => seconds(row.lag_s) },
  { key: "last_number", title: "Reports", numeric: true, value: (row) => row.last_number + 1 },
  { key: "report_total_blocked_time_s", title: "In reports", numeric: true,
    show: (row) => seconds(row.report_total_blocked_time_s) },
  { key: "checkpoint_sync_total_time_s", title: "Waiting for others", numeric: true,
    show: (row) => seconds(row.checkpoint_sync_total_time_s) },
  { key: "checkpoint_transfer_total_time_s", title: "Writing checkpoints", numeric: true,
    show: (row) => seconds(row.checkpoint_transfer_total_time_s) },
  { key: "pid", title: "Process",
    show: (row) => html`<a href=${link("stacks", [], { pid: row.pid })}>stack of pid ${row.pid}</a>` },
  { key: "ip", title: "Node", hidden: true },
];

const CHECKPOINTS = [
  { key: "name", title: "Checkpoint", tip: true },
  { key: "index", title: "Report", numeric: true },
  { key: "time", title: "Written", show: (row) => clock(row.time * 1000) },
  { key: "upload_s", title: "Took", numeric: true, show: (row) => seconds(row.upload_s) },
  { key: "bytes", title: "Size", numeric: true, show: (row) => (row.deleted ? "" : bytes(row.bytes)) },
  { key: "kept", title: "Kept", value: (row) => (row.deleted ? "deleted" : "kept") },
  { key: "metrics", title: "Metrics", value: (row) => metricsOf({ ...row.metrics, ...row.validated }), tip: true },
];

function Attempts({ run }) {
  return html`<section class="card wide" aria-labelledby="attempts"><h2 id="attempts">Attempts and failures</h2>
    <ul class="plain">${run.attempts.map((each) => html`<li key=${each.attempt}>
      <strong>Attempt ${each.attempt}</strong> with ${shown(each.workers)} workers, ${clock(each.began * 1000)}${
      each.ended ? ` to ${clock(each.ended * 1000)}` : ""} <span class="quiet">${each.reason}</span>
      ${run.failures.filter((failure) => failure.attempt === each.attempt).map((failure, at) => html`<div key=${at}>
        <p class="bad">Rank ${failure.ranks?.[0]} failed first${
        failure.ranks?.length > 1 ? `; then ${failure.ranks.slice(1).join(", ")}` : ""}.</p>
          <pre class="trace">${failure.error}</pre></div>`)}</li>`)}</ul>
    ${run.attempts.length === 0 && html`<p class="quiet">The workers have not started yet.</p>`}</section>`;
}

function Run({ id, query }) {
  const [run, setRun] = useState(null);
  const [gone, setGone] = useState(false);
  usePoll("api/skate/train", { key: id, params: () => ({ key: id }),
    take: ({ runs }) => { setRun(runs[0] || null); setGone(!runs.length); } });
  if (!run) return html`<${Back} view="train" title="All runs" /><h1>Train</h1><p class="quiet">${gone
    ? "This run is not known any more." : "Asking the session …"}</p>`;
  const ranks = run.ranks.map((each) => ({ ...each, id: each.rank, late: run.late.includes(each.rank) }));
  const checkpoints = (run.checkpoints || []).map((each) => ({ ...each, id: each.name })).reverse();
  return html`<${Back} view="train" title="All runs" /><h1>${run.name} <${State} state=${run.state} /></h1>
    <${Figures}>
      <${Figure} name="Reports" value=${number(run.reports)} note=${run.last_at ? `last at ${clock(run.last_at * 1000)}` : ""} />
      <${Figure} name="Workers" value=${shown(run.workers)} />
      <${Figure} name="Attempt" value=${shown(run.attempt)} note=${run.max_failures ? `may fail ${run.max_failures < 0
        ? "without limit" : `${run.max_failures} times`}` : ""} />
      <${Figure} name="Checkpoints kept" value=${number(run.checkpoints_count)} />
    <//>
    ${!run.has_journal && html`<p
      class="warn">The journal of this run is at ${run.path}, which is not a folder of this machine,
      so there are no curves here.</p>`}
    <div class="cards">
      ${run.curves && html`<${Curves} curves=${run.curves} query=${query} />`}
      ${ranks.length > 0 && html`<section class="card wide" aria-labelledby="ranks"><h2 id="ranks">Ranks</h2>
        <${Table} simple name="Ranks" rows=${ranks} columns=${RANKS} /></section>`}
      ${run.attempts && html`<${Attempts} run=${run} />`}
      ${run.checkpoints && html`<section class="card wide" aria-labelledby="checkpoints"><h2 id="checkpoints">Checkpoints</h2>
        <${Table} simple name="Checkpoints" rows=${checkpoints} columns=${CHECKPOINTS} nothing="No checkpoint has been reported."
          /></section>`}
    </div>
    <p class="quiet small">Results are in <code>${run.path}</code>.</p><${Where} row=${run} />`;
}

export const View = ({ parts, query }) => (parts[0] ? html`<${Run} key=${parts[0]} id=${parts[0]} query=${query} />`
  : html`<${Runs} query=${query} />`);
