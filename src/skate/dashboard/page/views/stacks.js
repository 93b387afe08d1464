// Stacks and profiles: the line at which each process is, equal stacks together; and flame graphs of some seconds.
import { html, useEffect, useState } from "../dom.js";
import { link, setQuery } from "../router.js";
import { post } from "../session.js";
import { Flame } from "./stacks/flame.js";
import { foldedStacks } from "./stacks/folding.js";

const SECONDS = [5, 10, 30];
const MODES = [["cpu", "CPU time"], ["wall", "time that passes"], ["memory", "memory held"]];

function useAction() {
  const [state, setState] = useState({ answer: null, problem: "", busy: false });
  const start = async (path, body) => {
    setState((old) => ({ ...old, busy: true, problem: "" }));
    try {
      setState({ answer: await post(path, body), problem: "", busy: false });
    } catch (error) {
      setState((old) => ({ answer: old.answer, problem: error.message, busy: false }));
    }
  };
  return [state, start];
}

function Stack({ group, everything }) {
  const frames = everything ? group.frames : group.frames.filter((frame) => frame.own);
  return html`<li class="card">
    <h3>${group.threads.length === 1 ? "1 thread" : `${group.threads.length} threads`} ${group.idle
      ? html`<span class="quiet">idle</span>` : ""}</h3>
    <p class="small">${group.threads.slice(0, 30).map((thread, at) => html`${at ? ", " : ""}<a key=${at} href=${link("logs", [],
      { stream: `${thread.pid}.out` })}>${thread.name} pid ${thread.pid}</a>`)}
      ${group.threads.length > 30 && ` and ${group.threads.length - 30} more`}</p>
    ${frames.length > 0 && html`<ol class="frames" aria-label="The last call first">${frames.slice().reverse().map((frame,
      at) => html`<li key=${at} class=${frame.own ? (at === 0 ? "own" : "") : "quiet"}>
      <code>${frame.file}:${frame.line}</code> in <code>${frame.function}</code></li>`)}</ol>`}</li>`;
}

function Stacks({ query }) {
  const [state, start] = useAction();
  const [everything, setEverything] = useState(false);
  const look = () => start("api/skate/stacks", {});
  useEffect(() => { look(); }, []);
  const processes = (state.answer?.processes || []).filter((each) => !query.pid || String(each.pid) === query.pid);
  const groups = foldedStacks(processes, everything);
  const silent = processes.filter((each) => each.problem);
  return html`<section class="card wide" aria-labelledby="stacks"><header><h2 id="stacks">Where each process is</h2>
    <span class="tools">
      ${query.pid && html`<span>process ${query.pid} <button onClick=${() => setQuery({ pid: "" })}>all</button></span>`}
      <label><input type="checkbox" checked=${everything} onChange=${(event) => setEverything(event.target.checked)}
        /> also Skate and threads that idle</label>
      <button onClick=${look} disabled=${state.busy}>${state.busy ? "Looking …" : "Look now"}</button></span></header>
    ${state.problem && html`<p class="bad">${state.problem}</p>`}
    ${silent.map((each) => html`<p key=${each.pid} class="warn">${each.name} pid ${each.pid}: ${each.problem}</p>`)}
    ${state.answer && !groups.length && html`<p class="quiet">${processes.length ? "All idle." : "No process has answered."}</p>`}
    <ul class="stacks">${groups.map((group) => html`<${Stack} key=${group.key} group=${group} everything=${everything} />`)}</ul>
      </section>`;
}

function Profile({ query }) {
  const [state, start] = useAction();
  const [seconds, setSeconds] = useState(5);
  const [mode, setMode] = useState("cpu");
  const take = () => start("api/skate/profile", { seconds, mode, pids: query.pid ? [Number(query.pid)] : [] });
  const choose = (event) => setMode(event.target.value);
  return html`<section class="card wide" aria-labelledby="profile"><header><h2 id="profile">Where the time goes</h2>
    <span class="tools">
      <label>of <select value=${mode} onChange=${choose}>${MODES.map(([name, text]) => html`<option key=${name} value=${name}
        selected=${name === mode}>${text}</option>`)}</select></label>
      ${SECONDS.map((each) => html`<button key=${each} aria-pressed=${seconds === each}
        onClick=${() => setSeconds(each)}>${each} s</button>`)}
      <button onClick=${take} disabled=${state.busy}>${state.busy ? "Profiling …" : `Profile ${query.pid ? `process ${query.pid}`
        : "all processes"}`}</button></span></header>
    <p class="quiet small">A thread in each process looks at the stacks 100 times a second, which takes about 1 % of a
      core.${mode === "memory"
      ? " Profiles of memory make a program several times slower meanwhile." : ""}</p>
    ${state.problem && html`<p class="bad">${state.problem}</p>`}
    ${(state.answer?.missing || []).map((text) => html`<p class="warn" key=${text}>${text}</p>`)}
    ${state.answer && html`<${Flame} profile=${state.answer} />`}</section>`;
}

export function View({ query }) {
  return html`<h1>Stacks and profiles</h1><div class="cards"><${Stacks} query=${query} /><${Profile} query=${query} /></div>`;
}
