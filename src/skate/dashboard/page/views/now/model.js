// What the view Now keeps between answers: spans, rates by second, failures. It stays while other views are shown.
import { signal } from "../../dom.js";
import { Spans } from "../../parts/spans.js";

//: How long rates are kept, in seconds.
const KEPT = 900;
//: The least seconds that a chart shows.
const SHORTEST = 30;
const FAILURES_MAX = 2000;
//: The answers that are kept, to look back: so many, at least so many seconds apart.
const [PAST_MAX, PAST_SECONDS] = [450, 2];

export const model = {
  cursor: "",
  session: "",
  spans: new Spans(),
  //: By second since 1970: {ended, failed, waits, runs, arena, spilled, running, waiting}.
  seconds: new Map(),
  failures: [],
  //: Earlier answers without the ended tasks, the oldest first.
  past: [],
  //: The last answer, and a number that grows with each.
  last: null,
  offset: 0,
  turn: signal(0),
};

const RUNNING = ["RUNNING", "RUNNING_IN_RAY_GET"];
const ENDED = ["FINISHED", "FAILED"];

//: The moment that is looked at, in seconds since 1970; null for the present, or the end of a kept session.
export const moment = signal(null);

// Forgets what earlier answers said: for another moment of a kept session.
export function forget() {
  model.spans = new Spans();
  model.seconds.clear();
  Object.assign(model, { cursor: "", failures: [], past: [], last: null });
}

// Returns the answer of a moment: the latest one before it, or the first one.
export function answerAt(at) {
  if (at === null) return model.last;
  return model.past.findLast((each) => each.now <= at) || model.past[0] || model.last;
}

export function secondOf(time) {
  const key = Math.floor(time);
  let found = model.seconds.get(key);
  if (!found) {
    found = { ended: 0, failed: 0, waits: [], runs: [], arena: null, spilled: null, running: null, waiting: null };
    model.seconds.set(key, found);
  }
  return found;
}

// Returns the numbers of running and waiting tasks of an answer.
export function countsOf(functions) {
  const counts = { running: 0, waiting: 0, finished: 0, failed: 0 };
  for (const { states } of functions) {
    for (const [state, number] of Object.entries(states)) {
      if (RUNNING.includes(state)) counts.running += number;
      else if (state === "FINISHED") counts.finished += number;
      else if (state === "FAILED") counts.failed += number;
      else if (!ENDED.includes(state)) counts.waiting += number;
    }
  }
  return counts;
}

function takeEnded(answer) {
  // Of many tasks there is a sample; each then counts as several.
  const weight = answer.ended.length ? Math.max(1, answer.ended_count / answer.ended.length) : 1;
  for (const [name, id, pid, begin, end, status, , waited] of answer.ended) {
    model.spans.add(name, `pid ${pid}`, begin, end, status === "FAILED", { name, id, waited });
    const second = secondOf(end);
    second.ended += weight;
    if (status === "FAILED") second.failed += weight;
    second.waits.push(waited);
    second.runs.push(end - begin);
  }
}

export function take(answer) {
  const first = !model.cursor;
  model.cursor = answer.cursor;
  model.offset = answer.now - Date.now() / 1000;
  takeEnded(answer);
  model.failures.push(...answer.failed);
  if (model.failures.length > FAILURES_MAX) model.failures.splice(0, model.failures.length - FAILURES_MAX);
  const counts = countsOf(answer.functions);
  const second = secondOf(answer.now);
  second.arena = answer.nodes.reduce((sum, node) => sum + node.arena_used, 0);
  second.spilled = answer.nodes.reduce((sum, node) => sum + node.spilled, 0);
  second.running = counts.running;
  second.waiting = counts.waiting;
  for (const key of model.seconds.keys()) if (key < answer.now - KEPT) model.seconds.delete(key);
  model.last = { ...answer, counts, first };
  const { length } = model.past;
  if (!length || answer.now - model.past[length - 1].now >= PAST_SECONDS) {
    model.past.push({ ...model.last, ended: [], failed: [] });
    if (length >= PAST_MAX) model.past.shift();
  }
  model.turn.value += 1;
}

// Returns what runs now, for the stream: [{name, row, begin}].
export function running(last = model.last) {
  if (!last) return [];
  return last.nodes.flatMap((node) => node.workers).filter((each) => each.task).map((each) => ({
    name: each.task, row: model.spans.rowOf(`pid ${each.pid}`), begin: last.now - each.seconds,
  }));
}

export function quantile(values, share) {
  if (!values.length) return null;
  const sorted = Float64Array.from(values).sort();
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
}

// Returns the series of the charts, second by second up to the last whole one.
export function series(length, until = null) {
  const to = Math.floor((until ?? model.last?.now ?? 0) - 1);
  const known = Math.min(...model.seconds.keys());
  const first = Math.max(to - length + 1, Math.min(known, to - SHORTEST));
  const keys = Array.from({ length: to - first + 1 }, (_, at) => first + at);
  const of = (make) => keys.map((key) => (key < known ? null : make(model.seconds.get(key))));
  return {
    x: keys,
    ended: of((second) => second?.ended || 0),
    failed: of((second) => second?.failed || 0),
    half: of((second) => quantile(second?.waits || [], 0.5)),
    most: of((second) => quantile(second?.waits || [], 0.95)),
    arena: of((second) => second?.arena ?? null),
    spilled: of((second) => second?.spilled ?? null),
  };
}

// Returns failures by kind and line of the program, the latest group first.
export function failureGroups(until = null) {
  const groups = new Map();
  for (const each of model.failures) {
    if (until !== null && each.at > until) continue;
    const key = `${each.kind}\n${each.file}:${each.line}\n${each.name}`;
    const group = groups.get(key) || { id: key, ...each, number: 0, first: each.at };
    groups.set(key, { ...group, ...each, id: key, number: group.number + 1, first: group.first });
  }
  return [...groups.values()].sort((a, b) => b.at - a.at);
}
