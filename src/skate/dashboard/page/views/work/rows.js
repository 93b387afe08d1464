// The tables of actors, placement groups, jobs, nodes and workers.
import { html } from "../../dom.js";
import { amount, clock } from "../../format.js";
import { useAsked } from "../../parts/asked.js";
import { Entity, State } from "../../parts/states.js";
import { Table } from "../../parts/table.js";
import { link, setQuery } from "../../router.js";

export const amounts = (found) => Object.entries(found || {}).filter(([name]) => !name.startsWith("node:")).map(([name, value]) =>
  `${/memory/.test(name) ? `${amount(value / 2 ** 30)} GiB` : amount(value)} ${name}`).join(", ");

const state = { key: "state", title: "State", show: (row) => html`<${State} state=${row.state} />` };
const node = { key: "node_id", title: "Node", show: (row) => html`<${Entity} kind="node" id=${row.node_id} />` };
const job = { key: "job_id", title: "Job", show: (row) => html`<${Entity} kind="job" id=${row.job_id} name=${row.job_id} />` };

// By the name in the address: the kind on the server, the singular for the address of one, and the columns.
export const KINDS = {
  actors: {
    title: "Actors", kind: "actors", one: "actor", id: "actor_id",
    columns: [
      { key: "class_name", title: "Class",
        show: (row) => html`<a href=${link("work", ["actor", row.actor_id])}>${row.class_name}</a>` },
      { key: "name", title: "Name" }, state, { key: "pid", title: "Worker", numeric: true },
      { key: "num_restarts", title: "Restarts", numeric: true }, { key: "resources", title: "Resources",
        value: (row) => amounts(row.required_resources) },
      { key: "death", title: "Cause of death", tip: true, value: (row) => row.death_cause?.actor_died_error_context?.reason
        || row.death_cause?.actor_died_error_context?.error },
      node, job, { key: "is_detached", title: "Detached", hidden: true }, { key: "actor_id", title: "Actor id", hidden: true },
    ],
  },
  groups: {
    title: "Placement groups", kind: "placement_groups", one: "group", id: "placement_group_id",
    columns: [
      { key: "name", title: "Name", show: (row) => html`<a href=${link("work", ["group", row.placement_group_id])}>${row.name
        || row.placement_group_id.slice(0, 12)}</a>` },
      state, { key: "bundles", title: "Bundles", numeric: true, value: (row) => (row.bundles || []).length },
      { key: "requested", title: "Requested",
        value: (row) => (row.bundles || []).map((each) => amounts(each.unit_resources)).join(" | ") },
      { key: "why", title: "Why it waits", tip: true, value: (row) => (row.state === "CREATED" ? ""
        : row.stats?.scheduling_state) },
      { key: "is_detached", title: "Detached", hidden: true },
    ],
  },
  jobs: {
    title: "Jobs", kind: "jobs", one: "job", id: "job_id",
    columns: [
      { key: "entrypoint", title: "Program", tip: true,
        show: (row) => html`<a href=${link("work", ["job", row.job_id || row.submission_id])}>${row.entrypoint
          || row.job_id}</a>` },
      { key: "status", title: "Status", show: (row) => html`<${State} state=${row.status} />` },
      { key: "start_time", title: "Started", show: (row) => clock(row.start_time) }, { key: "job_id", title: "Job id" },
      { key: "submission_id", title: "Submission id" }, { key: "message", title: "Message", tip: true },
    ],
  },
  nodes: {
    title: "Nodes", kind: "nodes", one: "node", id: "node_id",
    columns: [
      { key: "node_ip", title: "Address",
        show: (row) => html`<a href=${link("work", ["node", row.node_id])}>${row.node_ip}</a>` },
      state, { key: "is_head_node", title: "Head", value: (row) => (row.is_head_node ? "head" : "") },
      { key: "resources", title: "Resources", value: (row) => amounts(row.resources_total) },
        { key: "state_message", title: "Message", tip: true },
      { key: "node_id", title: "Node id", hidden: true },
    ],
  },
  workers: {
    title: "Workers", kind: "workers", one: "worker", id: "worker_id",
    columns: [
      { key: "pid", title: "Process", numeric: true,
        show: (row) => html`<a href=${link("work", ["worker", row.worker_id])}>${row.pid}</a>` },
      { key: "worker_type", title: "Type" }, { key: "alive", title: "State", value: (row) => (row.is_alive ? "ALIVE" : "ENDED"),
        show: (row) => html`<${State} state=${row.is_alive ? "ALIVE" : row.exit_type === "SYSTEM_ERROR" ? "DEAD" : "STOPPED"}
          />` },
      { key: "exit_detail", title: "End", tip: true }, { key: "end_time_ms", title: "Ended",
        show: (row) => clock(row.end_time_ms) }, node,
      { key: "worker_id", title: "Worker id", hidden: true },
    ],
  },
};

export function Rows({ kind, query }) {
  const { kind: asked, columns, one, id } = KINDS[kind];
  const [answer, problem, again, busy] = useAsked(`api/skate/rows/${asked}`);
  const rows = (answer?.rows || []).map((row) => ({ ...row, id: row[id] || row.submission_id }));
  const copies = {
    python: `from skate.util.state import list_${asked}\n\nprint(list_${asked}(detail=True, limit=10_000))`,
      path: `api/v0/${asked}?detail=1&limit=10000`,
    cli: `skate list ${asked.replaceAll("_", "-")} --detail --limit 10000`,
  };
  return html`<div class="tools"><button onClick=${again} disabled=${busy}>${busy ? "Asking …" : "Ask again"}</button></div>
    ${problem && html`<p class="bad">${problem}</p>`}
    <${Table} name=${kind} rows=${rows} columns=${columns} filter=${query.filter} changed=${(filter) => setQuery({ filter })}
      copies=${copies}
      open=${(row) => link("work", [one, row.id])} nothing=${busy ? "Asking …"
        : `There are no ${KINDS[kind].title.toLowerCase()}.`} />`;
}
