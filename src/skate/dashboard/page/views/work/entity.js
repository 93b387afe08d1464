// The pages of an actor, a placement group, a job, a node, a worker: facts, and links to what belongs to them.
import { html, useMemo } from "../../dom.js";
import { moment, resource } from "../../format.js";
import { useAsked } from "../../parts/asked.js";
import { Copies } from "../../parts/copies.js";
import { Entity as Link, State } from "../../parts/states.js";
import { Table } from "../../parts/table.js";
import { link } from "../../router.js";
import { model } from "../now/model.js";
import { useNow } from "./functions.js";
import { amounts, KINDS } from "./rows.js";
import { rowsOf } from "./tasks.js";

// By the singular in the address.
export const ENTITIES = Object.fromEntries(Object.entries(KINDS).map(([name, kind]) => [kind.one, { ...kind, name }]));
const TITLES = { actor: "Actor", group: "Placement group", job: "Job", node: "Node", worker: "Worker" };
const nameOf = (kind, row) => ({
  actor: row.name ? `${row.class_name} “${row.name}”` : row.class_name, group: row.name || row.placement_group_id?.slice(0, 12),
    job: row.entrypoint || row.job_id,
  node: row.node_ip, worker: `pid ${row.pid}`,
})[kind];

function shown(key, value) {
  if (value === null || value === undefined || value === "") return null;
  if (key === "state" || key === "status") return html`<${State} state=${value} />`;
  if (key === "node_id" || key === "driver_node_id") return html`<${Link} kind="node" id=${value} />`;
  if (key === "job_id") return html`<${Link} kind="job" id=${value} name=${value} />`;
  if (key === "placement_group_id") return html`<${Link} kind="group" id=${value} />`;
  if (/(_ms|_time)$/.test(key) && typeof value === "number") return moment(value);
  if (/resources/.test(key)) return amounts(value) || "none";
  if (typeof value === "object") return Object.keys(value).length ? html`<pre>${JSON.stringify(value, null, 1)}</pre>` : null;
  return String(value);
}

function Facts({ row, left = [] }) {
  const facts = Object.entries(row).filter(([key]) => !left.includes(key)).map(([key, value]) => [key,
    shown(key, value)]).filter(([, value]) => value !== null);
  return html`<section class="card wide" aria-labelledby="facts"><h2 id="facts">Facts</h2>
    <dl class="facts">${facts.map(([key, value]) => html`<dt key=${key}>${key.replaceAll("_", " ")}</dt><dd>${value}</dd>`)}</dl>
      </section>`;
}

const TASKS = [
  { key: "name", title: "Call", show: (row) => html`<a href=${link("work", ["task", row.task_id])}>${row.name}</a>` },
  { key: "state", title: "State", show: (row) => html`<${State} state=${row.state} />` },
  { key: "error", title: "Error" }, { key: "pid", title: "Worker", numeric: true },
  { key: "end", title: "Ended", show: (row) => (row.end ? moment(row.end * 1000).slice(11) : "") },
];

function Calls({ id }) {
  const [answer, problem, again] = useAsked("api/skate/tasks", { actor: id, limit: 1000 }, `calls ${id}`);
  const rows = useMemo(() => (answer ? rowsOf(answer) : []), [answer]);
  return html`<section class="card wide" aria-labelledby="calls"><h2 id="calls">Calls</h2>
    ${problem && html`<p class="bad">${problem}</p>`}<div class="tools"><button onClick=${again}>Ask again</button></div>
    <${Table} name="calls" rows=${rows} columns=${TASKS} order=${{ key: "end", down: true }} open=${(row) => link("work",
      ["task", row.task_id])} nothing="It has no calls." /></section>`;
}

const Process = ({ pid }) => html`<p>${pid
  ? html`<a href=${link("logs", [], { stream: `${pid}.out` })}>Output of process ${pid}</a>, ${" "}
  <a href=${link("stacks", [], { pid })}>its stack</a>` : ""}</p>`;

function Actor({ row }) {
  const death = row.death_cause?.actor_died_error_context;
  useNow();
  const worker = model.last?.nodes.flatMap((node) => node.workers).find((each) => each.pid === row.pid && each.actor);
  return html`<${Process} pid=${row.pid} />
    ${worker && html`<p>${worker.task
      ? html`It runs <a href=${link("work",
        ["task", worker.task_id])}>${worker.task}</a>, with ${worker.tasks} calls in its queue.` : "It has nothing to do."}</p>`}
    ${death && html`<section class="card wide" aria-label="Cause of death"><h2 class="bad">${death.reason || death.error}</h2>
      <pre class="trace" tabindex="0">${death.message}</pre></section>`}
    <${Facts} row=${row} left=${["death_cause", "call_site", "label_selector", "fallback_strategy"]} />
      <${Calls} id=${row.actor_id} />`;
}

function Group({ row }) {
  const bundles = row.bundles || [];
  return html`${row.state !== "CREATED" && html`<section class="card wide" aria-label="Why it waits"><h2>Why it waits</h2>
    <p>${row.stats?.scheduling_state}</p></section>`}
    <section class="card wide" aria-labelledby="bundles"><h2 id="bundles">Bundles</h2>
      <ul class="bundles">${bundles.map((each) => html`
      <li key=${each.bundle_id.bundle_index} class=${each.node_id ? "placed" : ""}>
        <strong>${each.bundle_id.bundle_index}</strong> ${amounts(each.unit_resources)}
        <br />${each.node_id ? html`on <${Link} kind="node" id=${each.node_id} />`
          : html`<span class="warn">not placed</span>`}</li>`)}</ul></section>
    <${Facts} row=${row} left=${["bundles", "stats"]} />`;
}

const WORKERS = [
  { key: "pid", title: "Process", numeric: true,
    show: (row) => html`<a href=${link("stacks", [], { pid: row.pid })}>${row.pid}</a>` },
  { key: "actor", title: "Actor" },
  { key: "task", title: "Runs", show: (row) => (row.task ? html`<a href=${link("work", ["task", row.task_id])}>${row.task}</a>`
    : "") },
  { key: "tasks", title: "Tasks there", numeric: true },
];

function Node({ row }) {
  useNow();
  const node = model.last?.nodes.find((each) => each.id === row.node_id);
  return html`${node && html`<section class="card wide" aria-labelledby="there"><h2 id="there">Workers</h2>
      <p>${node.resources.map((each) => `${resource(each.name, each.total - each.free)} of ${resource(each.name,
        each.total)} ${each.name}`).join(", ")} in use.</p>
      <${Table} simple name="workers" rows=${node.workers.map((each) => ({ ...each, id: each.worker }))} columns=${WORKERS} />
        </section>`}
    <${Facts} row=${row} />`;
}

const BODIES = {
  actor: Actor, group: Group, node: Node,
  job: ({ row }) => html`<${Process} pid=${row.driver_info?.pid} /><${Facts} row=${row} />`,
  worker: ({ row }) => html`<${Process} pid=${row.pid} /><${Facts} row=${row} />`,
};

export function Entity({ kind, id }) {
  const { kind: asked, name, title } = ENTITIES[kind];
  const [answer, problem, again] = useAsked(`api/skate/rows/${asked}/${encodeURIComponent(id)}`);
  const Body = BODIES[kind];
  const row = answer?.row;
  const singular = asked.replace(/s$/, "");
  const copies = {
    python: `from skate.util.state import get_${singular}\n\nprint(get_${singular}(${JSON.stringify(id)}))`,
    path: `api/v0/${asked}?detail=1&filter_keys=${KINDS[name].id}&filter_predicates=%3D&filter_values=${encodeURIComponent(id)}`,
      cli: `skate get ${asked.replaceAll("_", "-")} ${id}`,
  };
  return html`<p><a href=${link("work", [name])}>${title}</a></p>
    <h1>${TITLES[kind]} ${row ? nameOf(kind, row) : ""}</h1>
    <div class="tools"><${Copies} ...${copies} /><button onClick=${again}>Ask again</button></div>
    ${problem && html`<p class="bad">${problem}</p>`}
    ${row && html`<div class="cards one"><${Body} row=${row} /></div>`}`;
}
