// LLM: the replicas of models: tokens in and out, time to the first token split into engine and rest, slots, cache and queue.
import { html, useState } from "../dom.js";
import { amount, clock, number, seconds } from "../format.js";
import { Chart } from "../parts/chart.js";
import { Table } from "../parts/table.js";
import { usePoll } from "../poll.js";
import { link } from "../router.js";
import { Back, Figure, Figures, rate, share, State, Where } from "./library/figures.js";

const plainRate = (value) => rate(value, "").replace(" /s", "");
const stateOf = (row) => (row.is_reachable ? "running" : "lost");
const MODELS = [
  { key: "model", title: "Model", show: (row) => html`<a href=${link("llm", [row.key])}>${row.model}</a>` },
  { key: "state", title: "State", value: stateOf, show: (row) => html`<${State} state=${stateOf(row)} />` },
  { key: "engine_name", title: "Engine" },
  { key: "tokens_out_per_s", title: "Tokens out/s", numeric: true, show: (row) => plainRate(row.tokens_out_per_s) },
  { key: "tokens_in_per_s", title: "Tokens in/s", numeric: true, show: (row) => plainRate(row.tokens_in_per_s) },
  { key: "running", title: "Running", numeric: true, show: (row) => amount(row.running) },
  { key: "waiting", title: "Waiting", numeric: true, show: (row) => amount(row.waiting) },
  { key: "ttft_p50_s", title: "First token p50", numeric: true, show: (row) => seconds(row.ttft_p50_s) },
  { key: "ttft_p95_s", title: "p95", numeric: true, show: (row) => seconds(row.ttft_p95_s) },
  { key: "cache_share", title: "Cache in use", numeric: true, show: (row) => share(row.cache_share) },
  { key: "pid", title: "Process", show: (row) => html`<a href=${link("stacks", [], { pid: row.pid })}>pid ${row.pid}</a>` },
  { key: "began", title: "Ready since", show: (row) => clock(row.began * 1000) },
];

function Models() {
  const [rows, setRows] = useState(null);
  usePoll("api/skate/llm", { take: ({ models }) => setRows(models.map((each) => ({ ...each, id: each.key }))) });
  const live = rows?.filter((each) => each.is_reachable) || [];
  const sum = (name) => live.reduce((total, each) => total + (each[name] || 0), 0);
  return html`<h1>LLM</h1>
    ${!rows ? html`<p class="sentence">Asking the session …</p>` : rows.length === 0
      ? html`<p class="sentence">No model is served.</p>
      <p class="quiet">A model appears here when a replica of <code>serve.llm.build_openai_app</code> is ready.</p>`
      : html`<${Figures}>
          <${Figure} name="Tokens out" value=${rate(sum("tokens_out_per_s"), "")} />
          <${Figure} name="Tokens in" value=${rate(sum("tokens_in_per_s"), "")} />
          <${Figure} name="Running" value=${amount(sum("running"))} />
          <${Figure} name="Waiting" value=${amount(sum("waiting"))} />
        <//>
        <${Table} simple name="Models" rows=${rows} columns=${MODELS} open=${(row) => link("llm", [row.key])} />`}`;
}

const TIMES = [
  ["ttft_engine_seconds", "First token: in the engine", seconds],
  ["ttft_framework_seconds", "First token: outside of the engine", seconds],
  ["tokens_per_second", "Tokens/s of one request", amount],
];

function Times({ times }) {
  return html`<div class="scroll" role="region" aria-label="Quantiles of times" tabindex="0"><table>
    <thead><tr><th scope="col">In the last minute with requests</th><th scope="col" class="n">p50</th>
      <th scope="col" class="n">p95</th><th scope="col" class="n">p99</th></tr></thead>
    <tbody>${TIMES.map(([name, title, format]) => html`<tr key=${name}><th scope="row">${title}</th>${["p50", "p95",
      "p99"].map((each) => html`<td key=${each} class="n">${format(times[name]?.[each]) || "–"}</td>`)}</tr>`)}</tbody></table>
        </div>`;
}

function chartsOf(readings) {
  const line = (name, label, format) => ({ label, values: readings[name], format });
  return [
    ["Tokens per second", [line("tokens_out_per_s", "out"), line("tokens_in_per_s", "in")]],
    ["Requests", [line("running", "running"), line("waiting", "waiting")]],
    ["Time to the first token, in the engine", [line("ttft_p50_s", "p50", seconds), line("ttft_p95_s", "p95", seconds)]],
    ["Cache in use", [line("cache_share", "share", share)]],
  ];
}

function Model({ id }) {
  const [row, setRow] = useState(null);
  const [gone, setGone] = useState(false);
  usePoll("api/skate/llm", { key: id, params: () => ({ key: id }),
    take: ({ models }) => { setRow(models[0] || null); setGone(!models.length); } });
  if (!row) return html`<${Back} view="llm" title="All models" /><h1>LLM</h1><p class="quiet">${gone
    ? "This replica is not known any more." : "Asking the session …"}</p>`;
  const figures = row.figures;
  return html`<${Back} view="llm" title="All models" /><h1>${row.model} <${State} state=${stateOf(row)} /></h1>
    <${Figures}>
      <${Figure} name="Tokens out" value=${rate(row.tokens_out_per_s, "")} note=${`${number(row.tokens_out)} in all`} />
      <${Figure} name="Tokens in" value=${rate(row.tokens_in_per_s, "")} note=${`${number(row.tokens_in)} in all`} />
      <${Figure} name="Running, waiting" value=${`${amount(row.running)}, ${amount(row.waiting)}`} note=${figures.slots
        ? `${figures.slots_used} of ${figures.slots} slots` : ""} />
      <${Figure} name="Prompts found in the cache" value=${share(row.prompts_found_in_cache) || "unknown"} />
      ${row.steps_per_s ? html`<${Figure} name="Tokens of a step" value=${amount((row.tokens_out_per_s || 0) / row.steps_per_s)}
        note=${rate(row.steps_per_s, "steps")} />` : ""}
    <//>
    <div class="cards">
      ${chartsOf(row.readings).map(([title, series]) => html`<section class="card" key=${title} aria-label=${title}>
        <${Chart} title=${title} x=${row.readings.at} series=${series} sync="llm" /></section>`)}
      <section class="card wide" aria-labelledby="times"><h2 id="times">Times</h2><${Times} times=${row.times} /></section>
      <section class="card wide" aria-labelledby="facts"><h2 id="facts">Engine</h2><dl class="facts">
        <dt>Engine</dt><dd>${row.engine_name}</dd><dt>Weights</dt><dd>${row.weights}</dd><dt>Context</dt>
          <dd>${number(row.max_model_len)} tokens</dd>
        <dt>Requests by their end</dt>
          <dd>${Object.entries(row.request_ends).map(([name, count]) => `${name}: ${number(count)}`).join("   ")
            || "none yet"}</dd>
        ${Object.entries(figures).map(([name, value]) => html`<dt key=${name}>${name.replaceAll("_", " ")}</dt>
          <dd>${amount(value)}</dd>`)}</dl></section>
    </div>
    <${Where} row=${row} />`;
}

export const View = ({ parts }) => (parts[0] ? html`<${Model} key=${parts[0]} id=${parts[0]} />` : html`<${Models} />`);
