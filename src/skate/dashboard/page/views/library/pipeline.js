// The operators of a dataset from left to right: rows per second, what each holds of its share, and why it starts no more.
import { html } from "../../dom.js";
import { bytes, number, plural } from "../../format.js";
import { rate, State } from "./figures.js";

function Operator({ row, running }) {
  const filled = row.share_bytes ? Math.min(100, Math.round((100 * row.held_bytes) / row.share_bytes)) : 0;
  const held = row.share_bytes ? `${bytes(row.held_bytes)} of ${bytes(row.share_bytes)} held` : row.held_bytes
    ? `${bytes(row.held_bytes)} held` : "";
  const names = row.name.split("->");
  const speed = rate(row.rows_per_s ?? row.rows_per_s_average, "rows");
  const blocked = running && !["", "done", "input"].includes(row.rule);
  return html`<li class=${`operator ${blocked ? "blocked" : ""}`}>
    <strong>${names.map((name, at) => html`<span key=${at}>${at ? html`<span class="quiet"> → </span>`
      : ""}${name}</span>`)}</strong>
    <div class="line"><${State} state=${row.state} /><span class="quiet small">${row.running ? plural(row.running, row.in_actors
      ? "call" : "task") : ""}${row.queued ? `, ${number(row.queued)} queued` : ""}</span></div>
    <div>${number(row.rows_out)} rows <span class="quiet small">${row.rows_per_s === null && running ? "" : speed}</span></div>
    ${row.share_bytes ? html`<span class="bar" role="img" aria-label=${held}><span style=${{ width: `${filled}%` }}></span>
      </span>` : ""}
    <div class="small quiet">${held}</div>
    ${running && row.why && html`<p class=${`small ${blocked ? "warn" : "quiet"}`}>${row.why}</p>`}
  </li>`;
}

export function Pipeline({ operators, running }) {
  const targets = new Set(operators.map((each) => each.target).filter((each) => each !== null));
  const joins = operators.some((each, at) => each.target !== null && each.target !== at + 1) && targets.size > 0;
  return html`<ol class="pipeline">${operators.map((row, at) => html`<${Operator} key=${at} row=${row} running=${running}
    />`)}</ol>
    ${joins && html`<p class="small quiet">${operators.map((each, at) => (each.target === null || each.target === at + 1 ? ""
      : `${each.name} goes to ${operators[each.target]?.name}. `))}</p>`}`;
}
