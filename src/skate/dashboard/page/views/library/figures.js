// Small pieces that the views of libraries share: states, facts, tabs of choices, and the head of one thing.
import { html } from "../../dom.js";
import { moment, seconds } from "../../format.js";
import { link } from "../../router.js";

const KINDS = {
  running: "running", RUNNING: "running", HEALTHY: "running", DEPLOYING: "waiting", UPDATING: "waiting", UPSCALING: "waiting",
    DOWNSCALING: "waiting",
  ended: "finished", done: "finished", FINISHED: "finished", TERMINATED: "finished",
  failed: "failed", lost: "failed", LOST: "failed", ERRORED: "failed", ERROR: "failed", UNHEALTHY: "failed",
    DEPLOY_FAILED: "failed",
};
const WORDS = { lost: "process gone", LOST: "process gone" };

export const State = ({ state }) => html`<span class=${`state ${KINDS[state] || "waiting"}`}>${WORDS[state]
  || (state || "unknown").toLowerCase().replaceAll("_", " ")}</span>`;

// A number with its name, for a row of them at the top of a view.
export const Figure = ({ name, value, note }) => html`<div class="figurebox"><dt>${name}</dt>
  <dd>${value}${note ? html` <span class="quiet small">${note}</span>` : ""}</dd></div>`;
export const Figures = ({ children }) => html`<dl class="figures">${children}</dl>`;

// The facts of an announcement: where it runs, since when.
export function Where({ row }) {
  const process = row.pid ? html`<a href=${link("stacks", [], { pid: row.pid })}>pid ${row.pid}</a>` : "";
  return html`<p class="quiet small">Announced by ${process}${row.is_reachable ? ""
    : ", which has ended"}, ${" "}began ${moment(row.began * 1000)}${
    row.ended ? `, ended after ${seconds(row.ended - row.began)}` : ""}.${row.problem
      ? html` <span class="bad">${row.problem}</span>` : ""}</p>`;
}

export const Back = ({ view, title }) => html`<p><a href=${link(view)}>← ${title}</a></p>`;

// A choice of one among several, as a labelled select.
export const Choice = ({ label, value, options, change }) => html`<label class="choice">${label} <select value=${value}
  onChange=${(event) => change(event.target.value)}>${options.map((each) => html`<option key=${each} value=${each}
    selected=${each === value}>${each}</option>`)}</select></label>`;

export const share = (part) => (part === null || part === undefined ? "" : `${Math.round(100 * part)} %`);
export const rate = (value, unit) => (value === null || value === undefined ? ""
  : `${value >= 100 ? Math.round(value).toLocaleString("en-US") : Number(value.toPrecision(3))} ${unit}/s`);
export const ms = (value) => seconds(value === null || value === undefined ? null : value / 1000);
export const shown = (value) => (value === null || value === undefined ? "" : typeof value === "number"
  ? String(Number(value.toPrecision(5)))
  : typeof value === "object" ? JSON.stringify(value) : String(value));
