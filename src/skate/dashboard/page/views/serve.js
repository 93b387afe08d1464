// Serve: applications, their deployments and replicas, rates, errors, latencies, the decisions of autoscaling, and a form to try
// one.
import { html, useState } from "../dom.js";
import { amount, clock, number } from "../format.js";
import { Chart } from "../parts/chart.js";
import { Table } from "../parts/table.js";
import { usePoll } from "../poll.js";
import { link } from "../router.js";
import { Back, Figure, Figures, ms, rate, State } from "./library/figures.js";
import { Heat } from "./library/heat.js";
import { TryIt } from "./library/trial_form.js";

const plainRate = (value) => rate(value, "").replace(" /s", "");
//: From this many on, a limit of ongoing requests is none.
const NO_LIMIT = 100_000;
function ongoingOf(row) {
  const most = (row.max_ongoing_requests || 0) * row.replicas_running;
  return most > 0 && most < NO_LIMIT ? `${amount(row.ongoing)} of ${number(most)}` : amount(row.ongoing);
}
const DEPLOYMENTS = [
  { key: "name", title: "Deployment", show: (row) => html`<a href=${link("serve", [row.app, row.name])}>${row.name}</a>` },
  { key: "status", title: "State", show: (row) => html`<${State} state=${row.status} />` },
  { key: "replicas_running", title: "Replicas", value: (row) => `${amount(row.replicas_running)} of ${row.target_num_replicas}` },
  { key: "requests_per_s", title: "Requests/s", numeric: true, show: (row) => plainRate(row.requests_per_s) },
  { key: "errors_per_s", title: "Errors/s", numeric: true,
    show: (row) => (row.errors_per_s ? html`<span class="bad">${plainRate(row.errors_per_s)}</span>`
      : plainRate(row.errors_per_s)) },
  { key: "p50_ms", title: "p50", numeric: true, show: (row) => ms(row.p50_ms) },
  { key: "p95_ms", title: "p95", numeric: true, show: (row) => ms(row.p95_ms) },
  { key: "p99_ms", title: "p99", numeric: true, show: (row) => ms(row.p99_ms) },
  { key: "ongoing", title: "Ongoing", numeric: true, value: (row) => row.ongoing, show: (row) => ongoingOf(row) },
  { key: "queued", title: "Queued", numeric: true, show: (row) => amount(row.queued) },
  { key: "requests", title: "Requests", numeric: true, show: (row) => number(row.requests) },
  { key: "errors", title: "Errors", numeric: true, show: (row) => number(row.errors) },
];

const codes = (http) => {
  const found = {};
  for (const each of http) found[each.status_code] = (found[each.status_code] || 0) + each.count;
  return Object.entries(found).sort().map(([code, count]) => `${code}: ${number(count)}`).join("   ");
};

function Application({ app }) {
  const [tries, setTries] = useState(false);
  const rows = app.deployments.map((each) => ({ ...each, id: each.key, app: app.name }));
  return html`<section class="card wide" aria-labelledby=${`app-${app.name}`}>
    <header><h2 id=${`app-${app.name}`}>${app.name} <${State} state=${app.status} /></h2><span class="tools">
      ${app.route_prefix && html`<button aria-pressed=${tries} onClick=${() => setTries(!tries)}>Try it<span
        class="unseen">: ${app.name}</span></button>`}</span></header>
    <p class="quiet small">${app.route_prefix ? html`At <code>${app.route_prefix}</code>. `
      : "Without a route. "}Deployed ${clock(app.last_deployed_time_s * 1000)}.
      ${app.http.length ? ` Answers: ${codes(app.http)}.` : ""}</p>
    ${app.message && html`<p class="bad">${app.message}</p>`}
    ${tries && html`<${TryIt} app=${app.name} route=${app.route_prefix} />`}
    ${rows.filter((each) => each.message).map((each) => html`<p key=${each.name}>
      <strong>${each.name}</strong>: ${each.message}</p>`)}
    <${Table} simple name=${`Deployments of ${app.name}`} rows=${rows} columns=${DEPLOYMENTS} open=${(row) => link("serve",
      [row.app, row.name])} />
  </section>`;
}

function Applications() {
  const [answer, setAnswer] = useState(null);
  usePoll("api/skate/serve", { take: setAnswer });
  const apps = answer?.applications || [];
  const all = apps.flatMap((app) => app.deployments);
  const sum = (name) => all.reduce((total, each) => total + (each[name] || 0), 0);
  return html`<h1>Serve</h1>
    ${!answer ? html`<p class="sentence">Asking the session …</p>` : apps.length === 0
      ? html`<p class="sentence">No application is deployed.</p>
      <p class="quiet">An application appears here after <code>serve.run(app)</code> or <code>serve deploy</code>.</p>`
      : html`<${Figures}>
          <${Figure} name="Address" value=${html`<code>${answer.address || "no HTTP"}</code>`} />
          <${Figure} name="Replicas" value=${amount(sum("replicas_running"))} />
          <${Figure} name="Queued" value=${amount(sum("queued"))} />
          <${Figure} name="Ongoing" value=${amount(sum("ongoing"))} />
        <//>
        <div class="cards">${apps.map((app) => html`<${Application} key=${app.name} app=${app} />`)}</div>
        <p class="quiet small">Rates are those of the last seconds, latencies those of the last minute,
          or of all requests if it had none.</p>`}`;
}

const REPLICAS = [
  { key: "replica_id", title: "Replica",
    show: (row) => html`<a href=${link("work", ["actor", row.actor_id])}>${row.replica_id}</a>` },
  { key: "state", title: "State", show: (row) => html`<${State} state=${row.state} />` },
  { key: "ongoing", title: "Ongoing", numeric: true },
  { key: "waiting", title: "Waiting", numeric: true },
  { key: "requests", title: "Requests", numeric: true, show: (row) => number(row.requests) },
  { key: "errors", title: "Errors", numeric: true },
  { key: "healthy", title: "Health check", value: (row) => (row.healthy === null ? "" : row.healthy ? "passed" : "failed"),
    show: (row) => (row.healthy === 0 ? html`<span class="bad">failed</span>` : row.healthy ? "passed" : "") },
  { key: "start_time_s", title: "Since", show: (row) => clock(row.start_time_s * 1000) },
  { key: "pid", title: "Process",
    show: (row) => (row.pid ? html`<a href=${link("stacks", [], { pid: row.pid })}>stack of pid ${row.pid}</a>` : "") },
  { key: "node_ip", title: "Node" },
];

function Decisions({ found }) {
  const config = found.autoscaling_config || {};
  const decisions = (found.autoscaling?.decisions || []).slice().reverse();
  return html`<section class="card wide" aria-labelledby="scaling"><h2 id="scaling">Autoscaling</h2>
    <p>From ${amount(config.min_replicas)} to ${amount(config.max_replicas)} replicas,
      for ${amount(config.target_ongoing_requests)} ongoing requests each.
      ${" "}Now ${amount(found.autoscaling?.metrics?.total_num_requests)} requests.
      ${" "}${found.autoscaling?.scaling_status?.toLowerCase()}</p>
    ${(found.autoscaling?.errors || []).map((each) => html`<p key=${each} class="bad">${each}</p>`)}
    <ul class="plain">${decisions.map((each, at) => html`<li
      key=${at}>${clock(each.timestamp_s * 1000)} <strong>${each.prev_num_replicas} → ${each.curr_num_replicas}</strong> <span
        class="quiet">${each.reason}</span></li>`)}</ul>
    ${decisions.length === 0 && html`<p class="quiet">It has not decided to change the number yet.</p>`}</section>`;
}

function chartsOf(readings) {
  const line = (name, label, format) => ({ label, values: readings[name], format });
  return [
    ["Requests per second", [line("requests_per_s", "requests"), line("errors_per_s", "errors")]],
    ["Latency", [line("p50_ms", "p50", ms), line("p95_ms", "p95", ms), line("p99_ms", "p99", ms)]],
    ["Requests at work", [line("ongoing", "ongoing"), line("queued", "queued"), line("replicas", "replicas")]],
  ];
}

function Deployment({ app, name }) {
  const [answer, setAnswer] = useState(null);
  const key = `${app}/${name}`;
  usePoll("api/skate/serve", { key, params: () => ({ key }), take: setAnswer });
  const found = answer?.applications.find((each) => each.name === app)?.deployments.find((each) => each.name === name);
  if (!found) return html`<${Back} view="serve" title="All applications" /><h1>${name}</h1><p class="quiet">${answer
    ? "There is no such deployment any more." : "Asking the session …"}</p>`;
  return html`<${Back} view="serve" title="All applications" /><h1>${app} / ${name} <${State} state=${found.status} /></h1>
    ${found.message && html`<p>${found.message}</p>`}
    <${Figures}>
      <${Figure} name="Replicas" value=${`${amount(found.replicas_running)} of ${found.target_num_replicas}`} />
      <${Figure} name="Requests" value=${rate(found.requests_per_s, "")} note=${`${number(found.requests)} in all`} />
      <${Figure} name="Errors" value=${number(found.errors)} />
      <${Figure} name="p50, p95, p99" value=${[found.p50_ms, found.p95_ms, found.p99_ms].map(ms).join(", ")} />
    <//>
    <div class="cards">
      ${chartsOf(answer.readings).map(([title, series]) => html`<section class="card" key=${title} aria-label=${title}>
        <${Chart} title=${title} x=${answer.readings.at} series=${series} sync="serve" /></section>`)}
      <section class="card" aria-label="Latencies of requests"><${Heat} heat=${answer.heat} /></section>
      ${found.autoscaling_config && html`<${Decisions} found=${found} />`}
      <section class="card wide" aria-labelledby="replicas"><h2 id="replicas">Replicas</h2><${Table} simple name="Replicas"
        rows=${found.replicas.map((each) => ({ ...each, id: each.replica_id }))} columns=${REPLICAS} /></section>
    </div>`;
}

export const View = ({ parts }) => (parts.length > 1 ? html`<${Deployment} key=${parts.join("/")} app=${parts[0]} name=${parts[1]}
  />` : html`<${Applications} />`);
