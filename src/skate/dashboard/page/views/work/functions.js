// Functions: how many tasks wait, run, have ended and failed, and how long they run and wait.
import { html } from "../../dom.js";
import { number, seconds } from "../../format.js";
import { usePoll } from "../../poll.js";
import { link, setQuery } from "../../router.js";
import { kept, scope } from "../../session.js";
import { Table } from "../../parts/table.js";
import { model, moment, quantile, take } from "../now/model.js";

const RUNNING = ["RUNNING", "RUNNING_IN_RAY_GET"];
//: The bounds of the bars of a histogram, in seconds.
const BOUNDS = [0.001, 0.01, 0.1, 1, 10, 100];
const [WIDTH, HEIGHT] = [9, 20];

export function Histogram({ values, title }) {
  if (!values.length) return "";
  const counts = new Array(BOUNDS.length + 1).fill(0);
  for (const value of values) counts[BOUNDS.findIndex((bound) => value < bound) < 0 ? BOUNDS.length
    : BOUNDS.findIndex((bound) => value < bound)] += 1;
  const most = Math.max(...counts);
  const text = counts.map((count, at) => `${at < BOUNDS.length ? `under ${seconds(BOUNDS[at])}`
    : "longer"}: ${number(count)}`).join(", ");
  return html`<svg class="histogram" width=${counts.length * WIDTH} height=${HEIGHT} role="img" aria-label=${`${title}: ${text}`}>
    <title>${text}</title>
    ${counts.map((count, at) => html`<rect key=${at} x=${at * WIDTH} width=${WIDTH - 2} height=${count
      ? Math.max(2, (HEIGHT * count) / most) : 1}
      y=${HEIGHT - (count ? Math.max(2, (HEIGHT * count) / most) : 1)} class=${count ? "" : "none"} />`)}</svg>`;
}

// Returns the run and queue times of the tasks that the page has seen end, by function.
function timesOf(spans) {
  const found = new Map();
  for (const ring of spans.rings) {
    for (let at = 0; at < ring.count; at += 1) {
      const { name, waited } = ring.facts[at];
      const times = found.get(name) || { runs: [], waits: [] };
      times.runs.push(ring.ends[at] - ring.begins[at]);
      times.waits.push(waited);
      found.set(name, times);
    }
  }
  return found;
}

function rowsOf(functions) {
  const times = timesOf(model.spans);
  return functions.map(({ name, type, states }) => {
    const sum = (test) => Object.entries(states).reduce((total, [state, count]) => total + (test(state) ? count : 0), 0);
    const { runs, waits } = times.get(name) || { runs: [], waits: [] };
    return {
      id: `${type} ${name}`, name, type, runs, waits,
      waiting: sum((state) => !RUNNING.includes(state) && state !== "FINISHED" && state !== "FAILED"),
      running: sum((state) => RUNNING.includes(state)), finished: states.FINISHED || 0, failed: states.FAILED || 0,
      run: quantile(runs, 0.5), run_most: quantile(runs, 0.95), wait: quantile(waits, 0.5), wait_most: quantile(waits, 0.95),
    };
  });
}

const count = (key, title, quiet) => ({
  key, title, numeric: true, show: (row) => html`<span class=${row[key] ? (key === "failed" ? "bad" : "")
    : "quiet"}>${number(row[key])}</span>`, quiet,
});
const time = (key, title, hidden) => ({ key, title, numeric: true, hidden, show: (row) => seconds(row[key]) });
const COLUMNS = [
  { key: "name", title: "Function", show: (row) => html`<a href=${link("work", ["tasks"], { name: row.name })}>${row.name}</a>` },
  { key: "type", title: "Type", hidden: true },
  count("waiting", "Waiting"), count("running", "Running"), count("finished", "Finished"), count("failed", "Failed"),
  time("run", "Run time, half"), time("run_most", "95 %"),
  { key: "runs", title: "Run times", value: (row) => row.run, show: (row) => html`<${Histogram} title="Run times"
    values=${row.runs} />` },
  time("wait", "Queue time, half"), time("wait_most", "95 % "),
  { key: "waits", title: "Queue times", value: (row) => row.wait, show: (row) => html`<${Histogram} title="Queue times"
    values=${row.waits} />` },
];

export function useNow() {
  usePoll("api/skate/now", {
    key: `now ${kept.value ? moment.value : null}`,
    params: () => ({ cursor: model.cursor, at: kept.value ? moment.value : null }),
    take: (answer) => { scope.value = answer.scope; take(answer); },
    problem: () => { model.cursor = ""; },
  });
  return model.turn.value;
}

export function Functions({ query }) {
  useNow();
  const rows = model.last ? rowsOf(model.last.functions) : [];
  return html`<p class="quiet">Numbers since the start of the session. Times are of the tasks that have ended recently; the
      bars are for under 1 ms, 10 ms,
      100 ms, 1 s, 10 s, 100 s, and longer.</p>
    <${Table} name="functions" rows=${rows} columns=${COLUMNS} filter=${query.filter} changed=${(filter) => setQuery({ filter })}
      open=${(row) => link("work", ["tasks"], { name: row.name })} order=${{ key: "running", down: true }}
      copies=${{ python: "from skate.util.state import summarize_tasks\n\nprint(summarize_tasks())",
        path: "api/v0/tasks/summarize", cli: "skate summary tasks" }}
      nothing="No task has been submitted yet." />`;
}
