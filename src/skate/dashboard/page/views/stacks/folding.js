// Equal stacks of several threads as one, and profiles as a tree.

//: Folders of Skate and of Python: their frames are not the program's.
const SKATE = /\/skate\/(?:client|node|worker|wire|core|fabric|protocol|dashboard|util\/http)\//;
const PYTHON = /\/lib\/python3[.\d]*\/(?!site-packages)|^<frozen/;
const CALLERS = /\/skate\/worker\//;

const isOwn = (frame) => !SKATE.test(frame.file) && !PYTHON.test(frame.file);

// Returns the frames of the program and of what it has called: those after the last one of the worker that calls it.
function ofProgram(frames) {
  let from = 0;
  frames.forEach((frame, at) => { if (CALLERS.test(frame.file)) from = at + 1; });
  return frames.slice(from);
}

// Returns groups of threads with the same stack, the largest last: {key, frames, threads, idle}.
export function foldedStacks(processes, everything) {
  const groups = new Map();
  for (const process of processes) {
    for (const thread of process.threads) {
      const frames = (everything ? thread.frames : ofProgram(thread.frames)).map((frame) => ({ ...frame, own: isOwn(frame) }));
      const idle = !frames.some((frame) => frame.own);
      if (idle && !everything) continue;
      const key = frames.map((frame) => `${frame.file}:${frame.line}:${frame.function}`).join("\n");
      const group = groups.get(key) || { key, frames, threads: [], idle };
      group.threads.push({ pid: process.pid, name: everything && thread.name ? `${process.name} ${thread.name}` : process.name });
      groups.set(key, group);
    }
  }
  return [...groups.values()].sort((a, b) => a.idle - b.idle || b.threads.length - a.threads.length);
}

// Returns the tree of a profile: {name, weight, own, below: Map}. The first level has the processes, if `apart`.
export function treeOf({ processes, frames, stacks }, apart) {
  const root = { name: "all", weight: 0, own: 0, below: new Map() };
  for (const [process, numbers, weight] of stacks) {
    const names = numbers.map((at) => frames[at]);
    if (apart) names.unshift(`${processes[process].name} pid ${processes[process].pid}`);
    let here = root;
    here.weight += weight;
    for (const name of names) {
      let next = here.below.get(name);
      if (!next) here.below.set(name, (next = { name, weight: 0, own: 0, below: new Map() }));
      next.weight += weight;
      here = next;
    }
    here.own += weight;
  }
  return root;
}

// Returns one row for each frame: its own weight, and the weight with calls, each stack counted once.
export function tableOf({ frames, stacks }) {
  const rows = frames.map((name, at) => ({ id: at, name, own: 0, whole: 0 }));
  for (const [, numbers, weight] of stacks) {
    if (numbers.length) rows[numbers[numbers.length - 1]].own += weight;
    for (const at of new Set(numbers)) rows[at].whole += weight;
  }
  return rows;
}
