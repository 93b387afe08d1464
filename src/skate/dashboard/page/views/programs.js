// Programs: what a user's own programs announce with `skate.util.announcements`: last values, and curves of the numbers.
import { html, useState } from "../dom.js";
import { amount, clock, plural } from "../format.js";
import { Chart } from "../parts/chart.js";
import { Table } from "../parts/table.js";
import { usePoll } from "../poll.js";
import { link } from "../router.js";
import { Back, shown, State, Where } from "./library/figures.js";

//: How many values of a program the list shows.
const LISTED = 6;
const textOf = (value) => (typeof value === "number" ? amount(value) : shown(value));
const valuesOf = ({ values }) => Object.entries(values).slice(0, LISTED)
  .map(([name, value]) => `${name} ${textOf(value)}`).join(", ");

const COLUMNS = [
  { key: "kind", title: "Kind" },
  { key: "name", title: "Name", show: (row) => html`<a href=${link("programs", [row.key])}>${row.name}</a>` },
  { key: "state", title: "State", show: (row) => html`<${State} state=${row.state} />` },
  { key: "values", title: "Last values", value: valuesOf, tip: true },
  { key: "began", title: "Began", show: (row) => clock(row.began * 1000) },
  { key: "pid", title: "Process", show: (row) => html`<a href=${link("stacks", [], { pid: row.pid })}>pid ${row.pid}</a>` },
];

function Programs() {
  const [rows, setRows] = useState(null);
  usePoll("api/skate/programs", { take: ({ programs }) => setRows(programs.map((each) => ({ ...each, id: each.key }))) });
  const running = rows?.filter((row) => row.state === "running").length || 0;
  return html`<h1>Programs</h1>
    ${!rows ? html`<p class="sentence">Asking the session …</p>` : rows.length === 0
      ? html`<p class="sentence">No program announces anything.</p>
        <p class="quiet">What a program says with <code>skate.util.announcements.announce("kind", "name", read=...)</code> appears
          here.</p>`
      : html`<p class="sentence">${plural(rows.length, "announcement")}, ${running} of them running.</p>
        <${Table} name="announcements" rows=${rows} columns=${COLUMNS} open=${(row) => link("programs", [row.key])} />`}`;
}

const VALUES = [
  { key: "name", title: "Name" },
  { key: "value", title: "Last value", value: (row) => textOf(row.value) },
];
const rowsOf = (values) => Object.entries(values).map(([name, value]) => ({ id: name, name, value }));

function Program({ id }) {
  const [row, setRow] = useState(null);
  const [gone, setGone] = useState(false);
  usePoll("api/skate/programs", { key: id, params: () => ({ key: id }),
    take: ({ programs }) => { setRow(programs[0] || null); setGone(!programs.length); } });
  if (!row) return html`<${Back} view="programs" title="All programs" /><h1>Programs</h1><p class="quiet">${gone
    ? "This announcement is not known any more." : "Asking the session …"}</p>`;
  const { at, ...curves } = row.readings;
  const facts = Object.entries(row.facts);
  return html`<${Back} view="programs" title="All programs" />
    <h1>${row.kind}: ${row.name} <${State} state=${row.state} /></h1>
    <div class="cards">
      <section class="card wide" aria-labelledby="values"><h2 id="values">Last values</h2>
        <${Table} simple name="Last values" rows=${rowsOf(row.values)} columns=${VALUES}
          nothing="It says no figures." /></section>
      ${Object.entries(curves).map(([name, values]) => html`<section class="card" key=${name} aria-label=${name}>
        <${Chart} title=${name} x=${at} series=${[{ label: name, values }]} sync="programs" /></section>`)}
      ${facts.length > 0 && html`<section class="card wide" aria-labelledby="facts"><h2 id="facts">Facts</h2>
        <dl class="facts">${facts.map(([name, value]) => html`<dt key=${name}>${name}</dt><dd>${textOf(value)}</dd>`)}</dl>
        </section>`}
    </div>
    <${Where} row=${row} />`;
}

export const View = ({ parts }) => (parts[0] ? html`<${Program} key=${parts[0]} id=${parts[0]} />` : html`<${Programs} />`);
