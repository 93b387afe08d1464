// The sentence about the session: "37 running, 1,204 waiting: 1,180 for CPU, 24 for arguments of tokenize".
import { number, plural } from "../../format.js";

// Returns in a few words what a group of tasks waits for.
export function causeOf({ state, why, name }) {
  if (state === "PENDING_ARGS_AVAIL") return `for arguments of ${name}`;
  const short = /(?:^|: )no ([^:]+): /.exec(why);
  if (short) return `for ${short[1]}`;
  if (/placement group/.test(why) || state === "PENDING") return "for a placement group";
  if (/memory is short/.test(why)) return "for memory";
  if (/autoscaler|more than any node/.test(why)) return "for a larger node";
  if (/worker is being started/.test(why)) return "for a worker that starts";
  if (state === "PENDING_ACTOR_TASK_ORDERING_OR_CONCURRENCY") return `for their turn in ${name}`;
  if (state === "SUBMITTED_TO_WORKER") return "at a worker, behind others";
  if (/crashed/.test(why)) return "for another attempt";
  return "to be placed";
}

export function causes(waits) {
  const counted = new Map();
  for (const row of waits) counted.set(causeOf(row), (counted.get(causeOf(row)) || 0) + row.number);
  return [...counted].sort((a, b) => b[1] - a[1]);
}

export function sentence({ counts, waits }) {
  const parts = causes(waits).slice(0, 4).map(([cause, count]) => `${number(count)} ${cause}`);
  const waiting = waits.reduce((sum, row) => sum + row.number, 0);
  if (!counts.running && !waiting) {
    return counts.finished || counts.failed
      ? `Nothing runs: ${plural(counts.finished, "task")} finished, ${number(counts.failed)} failed.` : "Nothing has run yet.";
  }
  return `${number(counts.running)} running, ${number(waiting)} waiting${parts.length ? `: ${parts.join(", ")}` : ""}.`;
}
