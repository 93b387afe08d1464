// Work: functions with their times, tables of tasks, actors, groups, jobs, nodes and workers, and a page for each of them.
import { html } from "../dom.js";
import { link } from "../router.js";
import { Functions } from "./work/functions.js";
import { Rows, KINDS } from "./work/rows.js";
import { Tasks } from "./work/tasks.js";
import { Task } from "./work/task.js";
import { Entity, ENTITIES } from "./work/entity.js";

const TABS = [["functions", "Functions"], ["tasks", "Tasks"], ...Object.entries(KINDS).map(([name, { title }]) => [name, title])];

function Tabs({ current }) {
  return html`<nav aria-label="Kinds of work"><ul class="tabs">${TABS.map(([name, title]) => html`<li key=${name}>
    <a href=${link("work", [name])} aria-current=${name === current ? "page" : undefined}>${title}</a></li>`)}</ul></nav>`;
}

export function View({ parts, query }) {
  const [kind = "functions", id] = parts;
  if (kind === "task" && id) return html`<${Task} key=${id} id=${id} />`;
  if (id && ENTITIES[kind]) return html`<${Entity} key=${`${kind} ${id}`} kind=${kind} id=${id} />`;
  return html`<h1>Work</h1><${Tabs} current=${kind} />
    ${kind === "tasks" ? html`<${Tasks} query=${query} />`
      : KINDS[kind] ? html`<${Rows} key=${kind} kind=${kind} query=${query} />`
        : html`<${Functions} query=${query} />`}`;
}
