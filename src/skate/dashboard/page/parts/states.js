// States of tasks, actors and others, shown with a sign and a colour.
import { html } from "../dom.js";
import { link } from "../router.js";
import { short } from "../format.js";

const RUNNING = ["RUNNING", "RUNNING_IN_RAY_GET", "ALIVE", "CREATED"];
const FINISHED = ["FINISHED", "SUCCEEDED", "REMOVED", "STOPPED"];
const FAILED = ["FAILED", "DEAD"];

export function groupOf(state) {
  if (RUNNING.includes(state)) return "running";
  if (FINISHED.includes(state)) return "finished";
  return FAILED.includes(state) ? "failed" : "waiting";
}

const TEXTS = {
  PENDING_ARGS_AVAIL: "waits for arguments",
  PENDING_NODE_ASSIGNMENT: "waits for resources",
  PENDING_ACTOR_TASK_ORDERING_OR_CONCURRENCY: "waits for its turn",
  SUBMITTED_TO_WORKER: "sent to a worker",
  RUNNING_IN_RAY_GET: "running, in get",
  DEPENDENCIES_UNREADY: "waits for arguments",
  PENDING_CREATION: "waits to be created",
};
export const textOf = (state) => TEXTS[state] || (state || "").toLowerCase().replaceAll("_", " ");

// The state in words; the title has its name in the API.
export const State = ({ state }) => html`<span class=${`state ${groupOf(state)}`} title=${state}>${textOf(state)}</span>`;

// A link to the page of an entity; its text is the name, or the beginning of the id.
export const Entity = ({ kind, id, name }) => (id ? html`<a href=${link("work", [kind, id])} title=${id}>${name
  || html`<code>${short(id)}</code>`}</a>` : "");
