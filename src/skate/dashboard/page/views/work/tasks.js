// The table of tasks: many at once when it opens, and then the changes of each second.
import { html, useEffect, useMemo, useRef, useState } from "../../dom.js";
import { clock, number, seconds } from "../../format.js";
import { Entity, State, textOf } from "../../parts/states.js";
import { Table } from "../../parts/table.js";
import { useAsked } from "../../parts/asked.js";
import { usePoll } from "../../poll.js";
import { link, setQuery } from "../../router.js";
import { model } from "../now/model.js";
import { useNow } from "./functions.js";

//: Tasks in progress are asked for again this often, and at most so many.
const PROGRESS_SECONDS = 3;
const PROGRESS_MAX = 2000;
const ENDED = ["FINISHED", "FAILED"];
const LIMITS = [1000, 10_000, 100_000];
const STATES = ["", "FAILED", "RUNNING", "PENDING_ARGS_AVAIL", "PENDING_NODE_ASSIGNMENT", "SUBMITTED_TO_WORKER", "FINISHED"];

const COLUMNS = [
  { key: "name", title: "Function", show: (row) => html`<a href=${link("work", ["task", row.task_id])}>${row.name}</a>` },
  { key: "state", title: "State", show: (row) => html`<${State} state=${row.state} />` },
  { key: "attempt", title: "Attempt", numeric: true, value: (row) => row.attempt + 1 },
  { key: "run", title: "Run time", numeric: true, value: (row) => (row.end && row.start ? row.end - row.start : null),
    show: (row) => row.end && row.start ? seconds(row.end - row.start) : "" },
  { key: "waited", title: "Queue time", numeric: true, value: (row) => (row.start && row.created ? Math.max(0,
    row.start - row.created) : null),
    show: (row) => row.start && row.created ? seconds(Math.max(0, row.start - row.created)) : "" },
  { key: "created", title: "Submitted", show: (row) => clock(row.created * 1000) },
  { key: "end", title: "Ended", show: (row) => (row.end ? clock(row.end * 1000) : "") },
  { key: "error", title: "Error", tip: true, show: (row) => (row.error ? html`<span class="bad">${row.error}</span>` : "") },
  { key: "pid", title: "Worker", numeric: true },
  { key: "actor_id", title: "Actor", show: (row) => html`<${Entity} kind="actor" id=${row.actor_id} />` },
  { key: "node", title: "Node", hidden: true, show: (row) => html`<${Entity} kind="node" id=${row.node} />` },
  { key: "type", title: "Type", hidden: true },
  { key: "task_id", title: "Task id", hidden: true, show: (row) => html`<code>${row.task_id}</code>` },
];

const idOf = (taskId, attempt) => `${taskId}:${attempt}`;

export function rowsOf({ columns, rows }) {
  return rows.map((values) => {
    const row = Object.fromEntries(columns.map((name, at) => [name, values[at]]));
    row.id = idOf(row.task_id, row.attempt);
    return row;
  });
}

// Returns rows with the changes of the last answers of "now" applied: ended tasks, and what the workers run.
function withChanges(rows, known, answer, where) {
  let changed = false;
  const next = rows.slice();
  const put = (row) => {
    const at = known.get(row.id);
    if (at === undefined) {
      if ((where.name && where.name !== row.name) || (where.state && where.state !== row.state) || where.actor) return;
      known.set(row.id, next.length);
      next.push(row);
    } else if (next[at].state !== row.state) next[at] = { ...next[at], ...row };
    else return;
    changed = true;
  };
  for (const [name, task_id, pid, start, end, status, attempt, waited] of answer.ended) {
    put({ id: idOf(task_id, attempt), task_id, attempt, name, pid, start, end, created: start - waited,
      state: status === "FINISHED" ? status : "FAILED" });
  }
  for (const { task_id, attempt, name, at, text, kind } of answer.failed) {
    const error = text || kind;
    const known_at = known.get(idOf(task_id, attempt));
    if (known_at === undefined) put({ id: idOf(task_id, attempt), task_id, attempt, name, end: at, error, state: "FAILED" });
    else if (!next[known_at].error) { next[known_at] = { ...next[known_at], state: "FAILED", error }; changed = true; }
  }
  for (const worker of answer.nodes.flatMap((node) => node.workers.map((each) => ({ ...each, node: node.id })))) {
    const at = worker.task_id && known.get(idOf(worker.task_id, 0));
    if (at !== undefined && at !== "" && /^(PENDING|SUBMITTED)/.test(next[at].state)) {
      next[at] = { ...next[at], state: "RUNNING", pid: worker.pid, node: worker.node, start: answer.now - worker.seconds };
      changed = true;
    }
  }
  return changed ? next : rows;
}

// Returns the rows without the oldest ended ones, if there are many more than wanted.
function bounded(rows, known, limit) {
  if (rows.length < 1.2 * limit + 1000) return rows;
  const ended = rows.filter((row) => ENDED.includes(row.state)).sort((a, b) => b.end - a.end).slice(0, limit);
  const next = [...ended, ...rows.filter((row) => !ENDED.includes(row.state))];
  known.clear();
  next.forEach((row, at) => known.set(row.id, at));
  return next;
}

// Returns rows with the tasks in progress as they are now; those that are in progress no more go, if all were listed.
function withProgress(rows, known, answer) {
  const listed = rowsOf(answer);
  const ids = new Set(listed.map((row) => row.id));
  const whole = listed.length < answer.limit;
  const next = rows.filter((row) => !whole || ENDED.includes(row.state) || ids.has(row.id));
  known.clear();
  next.forEach((row, at) => known.set(row.id, at));
  for (const row of listed) {
    const at = known.get(row.id);
    if (at === undefined) { known.set(row.id,
      next.length); next.push(row); } else if (!ENDED.includes(next[at].state)) next[at] = row;
  }
  return next;
}

function useRows(query, limit) {
  const where = { name: query.name, state: query.state, actor: query.actor };
  const [answer, problem, again, busy] = useAsked("api/skate/tasks", { ...where, limit },
    `tasks ${JSON.stringify(where)} ${limit}`);
  const turn = useNow();
  const [rows, setRows] = useState([]);
  const known = useRef(new Map());
  useEffect(() => {
    if (!answer) return;
    const first = rowsOf(answer);
    known.current = new Map(first.map((row, at) => [row.id, at]));
    setRows(first);
  }, [answer]);
  useEffect(() => {
    if (answer && model.last) setRows((old) => bounded(withChanges(old, known.current, model.last, where), known.current, limit));
  }, [turn]);
  usePoll("api/skate/tasks", {
    key: `progress ${JSON.stringify(where)} ${Boolean(answer)}`, seconds: PROGRESS_SECONDS, params: () => ({ ...where,
      limit: PROGRESS_MAX, progress: 1 }),
    take: (found) => answer && setRows((old) => withProgress(old, known.current, found)),
  });
  return { rows, problem, again, busy, missing: answer?.missing || [] };
}

const quoted = (value) => JSON.stringify(value);

function copiesOf({ name, state }) {
  const filters = [...(name ? [["name", "=", name]] : []), ...(state ? [["state", "=", state]] : [])];
  const python = filters.map((each) => `(${each.map(quoted).join(", ")})`).join(", ");
  const query = filters.map(([key, ,
    value]) => `filter_keys=${key}&filter_predicates=%3D&filter_values=${encodeURIComponent(value)}`).join("&");
  return {
    python: `from skate.util.state import list_tasks\n\nprint(list_tasks(filters=[${python}], detail=True, limit=10_000))`,
    path: `api/v0/tasks?detail=1&limit=10000${query ? `&${query}` : ""}`,
    cli: `skate list tasks --detail --limit 10000${filters.map(([key, , value]) => ` --filter '${key}=${value}'`).join("")}`,
  };
}

export function Tasks({ query }) {
  const [limit, setLimit] = useState(10_000);
  const { rows, problem, again, busy, missing } = useRows(query, limit);
  const copies = useMemo(() => copiesOf(query), [query.name, query.state]);
  return html`<div class="tools">
      ${query.name && html`<span>of <strong>${query.name}</strong> <button
        onClick=${() => setQuery({ name: "" })}>all functions</button></span>`}
      ${query.actor && html`<span>of an actor <button onClick=${() => setQuery({ actor: "" })}>all</button></span>`}
      <label>State <select value=${query.state || ""} onChange=${(event) => setQuery({ state: event.target.value })}>
        ${STATES.map((state) => html`<option key=${state} value=${state} selected=${(query.state || "") === state}>${textOf(state)
          || "any"}</option>`)}</select></label>
      <label>At most <select value=${limit} onChange=${(event) => setLimit(Number(event.target.value))}>
        ${LIMITS.map((each) => html`<option key=${each} value=${each}
          selected=${each === limit}>${number(each)}</option>`)}</select></label>
      <button onClick=${again} disabled=${busy}>${busy ? "Asking …" : "Ask again"}</button>
    </div>
    ${problem && html`<p class="bad">${problem}</p>`}
    ${missing.length > 0 && html`<p class="warn">These processes have not answered: ${missing.join(", ")}</p>`}
    <${Table} name="tasks" rows=${rows} columns=${COLUMNS} filter=${query.filter} changed=${(filter) => setQuery({ filter })}
      copies=${copies}
      open=${(row) => link("work", ["task", row.task_id])} order=${{ key: "created", down: true }}
      nothing=${busy ? "Asking …" : "No task is known. Nodes remember the last 10,000 that have ended."} />`;
}
