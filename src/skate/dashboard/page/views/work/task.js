// The page of a task: its states, attempts, error with the lines of the program, what it waits for, its output.
import { html, useEffect } from "../../dom.js";
import { moment, seconds } from "../../format.js";
import { useAsked } from "../../parts/asked.js";
import { Copies } from "../../parts/copies.js";
import { Entity, groupOf, State } from "../../parts/states.js";
import { link } from "../../router.js";
import { Arguments } from "./arguments.js";
import { amounts } from "./rows.js";

//: How often an unfinished task is asked for again, in milliseconds.
const AGAIN_MS = 2000;

// A bar with the time in the queue and the time of the run.
function Times({ attempt, until }) {
  const { creation_time_ms: created, start_time_ms: start, end_time_ms: end } = attempt;
  if (!created) return "";
  const last = end || until;
  const whole = Math.max(1, last - created);
  const queued = Math.max(0, (start || last) - created);
  const ran = start ? Math.max(0, last - start) : 0;
  const text = `${seconds(queued / 1000)} in the queue${start ? `, ${seconds(ran / 1000)} running` : ""}`;
  return html`<div class="times"><span class="bar split" role="img" aria-label=${text}>
    <span class="queued" style=${{ width: `${(100 * queued) / whole}%` }}></span>
    <span class="ran" style=${{ width: `${(100 * ran) / whole}%` }}></span></span><span>${text}</span></div>`;
}

function Failure({ attempt }) {
  const { place, frames, error_message: message, error_type: type } = attempt;
  if (!type) return "";
  const own = frames.filter((frame) => frame.own);
  return html`<section class="card wide" aria-label=${`Error of attempt ${attempt.attempt_number + 1}`}>
    <h2 class="bad">${place.text || type}</h2>
    ${place.file && html`<p>Raised at <code>${place.file}:${place.line}</code> in <code>${place.function}</code>.</p>`}
    ${own.length > 0 && html`<h3>Lines of the program, the last call at the end</h3>
      <ol class="frames">${own.map((frame, at) => html`<li key=${at} class=${at === own.length - 1 ? "own" : ""}>
        <code>${frame.file}:${frame.line}</code> in <code>${frame.function}</code></li>`)}</ol>`}
    ${message && html`<details><summary>The whole message</summary><pre class="trace">${message}</pre></details>`}
  </section>`;
}

function Chain({ chain }) {
  if (!chain.length || chain.every((each) => groupOf(each.state) === "running" && !each.why)) return "";
  return html`<section class="card wide" aria-labelledby="chain"><h2 id="chain">${groupOf(chain[0].state) === "running"
    ? "What it does" : "Why it waits"}</h2>
    <ol class="chain">${chain.map((each, at) => html`<li key=${each.task_id}>
      ${at === 0 ? html`<strong>${each.name}</strong>` : html`<${Entity} kind="task" id=${each.task_id} name=${each.name}
        />`} ${" "}
      <${State} state=${each.state} /> ${" "}<span>${each.why}</span></li>`)}</ol></section>`;
}

function Lines({ id, attempt }) {
  const [answer] = useAsked(`api/skate/task/${id}/lines`, { attempt: attempt.attempt_number },
    `${id} ${attempt.attempt_number} ${attempt.state}`);
  const streams = Object.entries(answer || {}).filter(([, lines]) => lines.length);
  return html`<section class="card wide" aria-labelledby="lines"><h2 id="lines">What it has printed</h2>
    ${streams.length === 0 && html`<p class="quiet">${answer ? "Nothing that is still kept." : "Asking …"}</p>`}
    ${streams.map(([stream, lines]) => html`<div key=${stream}><h3>${stream === "out" ? "standard output" : "standard error"}</h3>
      <pre class="trace" tabindex="0" aria-label=${`standard ${stream === "out" ? "output" : "error"}`}>${lines.join("\n")}</pre>
        </div>`)}
    ${attempt.worker_pid && html`<p>
      <a href=${link("logs", [], { stream: `${attempt.worker_pid}.out` })}>All output of worker ${attempt.worker_pid}</a></p>`}
  </section>`;
}

function Facts({ attempt, site, count }) {
  const facts = [
    ["State", html`<${State} state=${attempt.state} />`],
    ["Attempt", count > 1 ? `${attempt.attempt_number + 1}, of ${count} so far` : attempt.attempt_number + 1],
    ["Submitted at", site ? html`<code>${site}</code>`
      : html`<span class="quiet">not known: no process holds a reference to its value any more</span>`],
    ["Submitted", moment(attempt.creation_time_ms)], ["Started", moment(attempt.start_time_ms)],
      ["Ended", moment(attempt.end_time_ms)],
    ["Worker", attempt.worker_pid && html`<${Entity} kind="worker" id=${attempt.worker_id} name=${`pid ${attempt.worker_pid}`}
      />, ${" "}
      <a href=${link("stacks", [], { pid: attempt.worker_pid })}>stack</a>`],
    ["Node", attempt.node_id && html`<${Entity} kind="node" id=${attempt.node_id} />`],
    ["Actor", attempt.actor_id && html`<${Entity} kind="actor" id=${attempt.actor_id} />`],
    ["Submitted by", /^f{8}/.test(attempt.parent_task_id) ? html`the program, job <${Entity} kind="job" id=${attempt.job_id}
      name=${attempt.job_id} />`
      : html`<${Entity} kind="task" id=${attempt.parent_task_id} />`],
    ["Placement group", attempt.placement_group_id && html`<${Entity} kind="group" id=${attempt.placement_group_id} />`],
    ["Resources", amounts(attempt.required_resources) || "none"], ["Id", html`<code>${attempt.task_id}</code>`],
  ].filter(([, value]) => value !== null && value !== undefined && value !== "");
  return html`<section class="card wide" aria-labelledby="facts"><h2 id="facts">The task</h2>
    <${Times} attempt=${attempt} until=${Date.now()} />
    <dl class="facts">${facts.map(([name, value]) => html`<dt key=${name}>${name}</dt><dd>${value}</dd>`)}</dl></section>`;
}

function Attempts({ attempts }) {
  if (attempts.length < 2) return "";
  return html`<section class="card wide" aria-labelledby="attempts"><h2 id="attempts">Attempts</h2>
    <ul class="plain">${attempts.map((each) => html`
    <li key=${each.attempt_number}>${each.attempt_number + 1}: <${State} state=${each.state} /> ${" "}${each.worker_pid
      ? `at pid ${each.worker_pid} ` : ""}
      ${each.place ? html`<span class="bad">${each.place.text}</span>` : ""} <${Times} attempt=${each} until=${Date.now()} />
        </li>`)}</ul></section>`;
}

const copiesOf = (id) => ({
  python: `from skate.util.state import get_task\n\nprint(get_task(${JSON.stringify(id)}))`,
  path: `api/v0/tasks?detail=1&filter_keys=task_id&filter_predicates=%3D&filter_values=${id}`, cli: `skate get tasks ${id}`,
});

export function Task({ id }) {
  const [answer, problem, again] = useAsked(`api/skate/task/${id}`);
  const attempts = answer?.attempts || [];
  const last = attempts[attempts.length - 1];
  const open = last && !["FINISHED", "FAILED"].includes(last.state);
  useEffect(() => {
    if (!open) return undefined;
    const timer = setTimeout(() => !document.hidden && again(), AGAIN_MS);
    return () => clearTimeout(timer);
  }, [answer, open]);
  return html`<p><a href=${link("work", ["tasks"], last ? { name: last.name } : {})}>Tasks</a></p>
    <h1>${last ? last.name : "Task"}</h1>
    <div class="tools"><${Copies} ...${copiesOf(id)} /><button onClick=${again}>Ask again</button></div>
    ${problem && html`<p class="bad">${problem}</p>`}
    ${last && html`<div class="cards">
      <${Failure} attempt=${last} />
      <${Chain} chain=${answer.chain} />
      ${open && html`<${Arguments} id=${id} open=${open} />`}
      <${Facts} attempt=${last} site=${answer.site} count=${attempts.length} />
      <${Attempts} attempts=${attempts} />
      <${Lines} id=${id} attempt=${last} />
    </div>
    ${last.waits_for && !answer.chain.length && html`<p>It waits: ${last.waits_for}</p>`}`}
    ${!last && !problem && html`<p class="quiet">Asking …</p>`}`;
}
