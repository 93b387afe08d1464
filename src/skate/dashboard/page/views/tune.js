// Tune: searches, their trials with configurations and results, parallel coordinates, curves, and why each trial ended.
import { html, useMemo, useState } from "../dom.js";
import { clock, number, seconds } from "../format.js";
import { Chart } from "../parts/chart.js";
import { Table } from "../parts/table.js";
import { usePoll } from "../poll.js";
import { link, setQuery } from "../router.js";
import { Coordinates } from "./library/coordinates.js";
import { Back, Choice, Figure, Figures, shown, State, Where } from "./library/figures.js";

const CURVES = 12;
const countsOf = (states) => Object.entries(states).map(([name, count]) => `${count} ${name.toLowerCase()}`).join(", ");

const SEARCHES = [
  { key: "name", title: "Search", show: (row) => html`<a href=${link("tune", [row.key])}>${row.name}</a>` },
  { key: "state", title: "State", show: (row) => html`<${State} state=${row.state} />` },
  { key: "states", title: "Trials", value: (row) => countsOf(row.states) },
  { key: "samples", title: "Of", numeric: true },
  { key: "best", title: "Best", value: (row) => row.best?.value,
    show: (row) => (row.best ? `${row.metric} ${shown(row.best.value)}` : "") },
  { key: "scheduler", title: "Scheduler" },
  { key: "searcher", title: "Searcher" },
  { key: "began", title: "Began", show: (row) => clock(row.began * 1000) },
];

function Searches({ query }) {
  const [rows, setRows] = useState(null);
  usePoll("api/skate/tune", { seconds: 2, take: ({ searches }) => setRows(searches.map((each) => ({ ...each, id: each.key }))) });
  const running = rows?.filter((each) => each.state === "running").length;
  return html`<h1>Tune</h1>
    <p class="sentence">${!rows ? "Asking the session …" : running
      ? `${number(running)} of ${number(rows.length)} searches in progress.` : rows.length ? "No search is in progress."
        : "No search has begun."}</p>
    ${rows && html`<${Table} name="Searches" rows=${rows} columns=${SEARCHES} filter=${query.filter}
      changed=${(filter) => setQuery({ filter })}
      open=${(row) => link("tune", [row.key])} nothing="A search appears here when Tuner.fit() begins." />`}`;
}

const whyOf = (row) => (row.error && row.state === "ERROR" ? row.error.trim().split("\n").pop() : row.why);

function columnsOf(trials, hover) {
  const names = (kind) => [...new Set(trials.flatMap((each) => Object.keys(each[kind])))];
  const of = (kind, name) => ({
    key: `${kind}/${name}`, title: name, numeric: trials.every((each) => [null, undefined].includes(each[kind][name])
      || typeof each[kind][name] === "number"),
    value: (row) => row[kind][name], show: (row) => shown(row[kind][name]), hidden: names(kind).indexOf(name) > 7,
  });
  return [
    { key: "name", title: "Trial", show: (row) => html`<span onPointerEnter=${() => hover(row.id)}
      onPointerLeave=${() => hover("")}>${row.name}</span>` },
    { key: "state", title: "State", show: (row) => html`<${State} state=${row.state} />` },
    { key: "why", title: "Why it ended", value: whyOf, tip: true },
    ...names("last").map((name) => of("last", name)),
    ...names("config").map((name) => of("config", name)),
    { key: "iterations", title: "Iterations", numeric: true },
    { key: "seconds", title: "Time", numeric: true, show: (row) => seconds(row.seconds) },
    { key: "failures", title: "Failures", numeric: true, hidden: true },
    { key: "exploits", title: "Continued from", hidden: true, value: (row) => row.exploits.join(", ") },
  ];
}

// Curves of different trials have points at different places: one axis with all of them, and gaps.
function joined(curves) {
  const x = [...new Set(curves.flatMap((each) => each.x))].sort((a, b) => a - b);
  const place = new Map(x.map((value, at) => [value, at]));
  const series = curves.map((each) => {
    const values = new Array(x.length).fill(null);
    each.x.forEach((value, at) => { values[place.get(value)] = each.value[at]; });
    return { label: each.id.split("_").pop(), values, format: shown };
  });
  return { x, series };
}

function Charts({ search, metric }) {
  const found = useMemo(() => joined(search.curves.slice(0, CURVES)), [search.curves]);
  const best = search.best_so_far;
  return html`<section class="card wide" aria-label="Curves"><div class="charts broad">
    <${Chart} key=${metric} title=${`${metric} of the ${Math.min(CURVES, search.curves.length)} best trials, by iteration`} plain
      xTitle="iteration" x=${found.x} series=${found.series} height=${220} />
    ${best?.at?.length > 0 && html`<${Chart} key=${`best${metric}`} title=${`Best ${metric} so far`} x=${best.at}
      series=${[{ label: metric, values: best.value, format: shown }]} height=${220} />`}</div></section>`;
}

function Search({ id, query }) {
  const [search, setSearch] = useState(null);
  const [gone, setGone] = useState(false);
  const [hovered, hover] = useState("");
  const take = ({ searches }) => {
    setGone(!searches.length);
    // The trials are only sent when they have changed.
    if (searches.length) setSearch((old) => ({ ...(searches[0].trials ? {} : { trials: old?.trials, curves: old?.curves,
      best_so_far: old?.best_so_far }), ...searches[0] }));
  };
  usePoll("api/skate/tune", { key: `${id} ${query.metric || ""}`,
    params: () => ({ key: id, metric: query.metric, version: search?.version }), take });
  const columns = useMemo(() => columnsOf(search?.trials || [], hover), [search?.trials]);
  if (!search) return html`<${Back} view="tune" title="All searches" /><h1>Tune</h1><p class="quiet">${gone
    ? "This search is not known any more." : "Asking the session …"}</p>`;
  const trials = search.trials || [];
  const best = search.best && trials.find((each) => each.id === search.best.id);
  return html`<${Back} view="tune" title="All searches" /><h1>${search.name} <${State} state=${search.state} /></h1>
    <${Figures}>
      <${Figure} name="Trials" value=${countsOf(search.states) || "none yet"} note=${search.samples
        ? `of ${number(search.samples)}` : ""} />
      <${Figure} name=${`Best ${search.metric}`} value=${search.best ? shown(search.best.value) : ""} note=${best ? best.name
        : ""} />
      <${Figure} name="Scheduler" value=${search.scheduler} />
      <${Figure} name="Searcher" value=${search.searcher} />
    <//>
    ${search.why && html`<p>The search has ended: ${search.why}.</p>`}
    ${best && html`<p>Best configuration: <code>${JSON.stringify(best.config)}</code></p>`}
    ${!search.has_journal
      && html`<p class="warn">The journal of this search is at ${search.path}, which is not a folder of this machine,
        so there are no trials here.</p>`}
    ${search.metrics.length > 1 && html`<p><${Choice} label="Metric" value=${search.metric} options=${search.metrics}
      change=${(metric) => setQuery({ metric })} /></p>`}
    <div class="cards">
      ${trials.length > 1 && html`<section class="card wide" aria-labelledby="coordinates">
        <h2 id="coordinates">Configurations and results</h2>
        <${Coordinates} trials=${trials} metric=${search.metric} mode=${search.mode} hovered=${hovered} hover=${hover} />
          </section>`}
      ${search.curves?.length > 0 && html`<${Charts} search=${search} metric=${search.metric} />`}
      <section class="card wide" aria-labelledby="trials"><h2 id="trials">Trials</h2>
        ${trials.length > 0 ? html`<${Table} key=${columns.map((each) => each.key).join()} name="Trials" rows=${trials}
          columns=${columns} filter=${query.filter} changed=${(filter) => setQuery({ filter })}
            order=${{ key: `last/${search.metric}`, down: search.mode === "max" }} />`
          : html`<p class="quiet">No trial has begun.</p>`}</section>
    </div>
    <p class="quiet small">Results are in <code>${search.path}</code>.</p><${Where} row=${search} />`;
}

export const View = ({ parts, query }) => (parts[0] ? html`<${Search} key=${parts[0]} id=${parts[0]} query=${query} />`
  : html`<${Searches} query=${query} />`);
